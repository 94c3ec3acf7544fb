//! How many tasks of a scope or of a run of a graph may run at the same time.

use super::job::Job;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Limits the tasks of a scope that are queued or run at the same time, or the strands of a run,
/// and of the runs inside its tasks, that are active.
///
/// A job that finds no place is *parked*: it waits here, counted as pending, and the worker is
/// free. A job that ends queues one parked job, which asks again. So as long as jobs are parked,
/// one is active or such a job is queued, also when a run is stopped.
pub(crate) struct JobLimit {
    max: usize,
    state: Mutex<LimitState>,
}

#[derive(Default)]
struct LimitState {
    active: usize,
    parked: VecDeque<Job>,
}

impl JobLimit {
    /// `what` names what is limited, and must have a place for one job.
    ///
    /// # Panics
    /// If `max` is zero.
    #[track_caller]
    pub(crate) fn check(max: usize, what: &str) {
        assert!(
            max > 0,
            "{max} at a time are too few for {what}: allow at least one"
        );
    }

    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for the job, and returns it; or parks the job.
    #[must_use]
    pub(crate) fn enter(&self, job: Job) -> Option<Job> {
        let mut state = self.lock();
        if state.active < self.max {
            state.active += 1;
            return Some(job);
        }
        state.parked.push_back(job);
        None
    }

    /// Gives a place back. Returns a parked job, which the caller queues.
    #[must_use]
    pub(crate) fn leave(&self) -> Option<Job> {
        let mut state = self.lock();
        state.active -= 1;
        state.parked.pop_front()
    }
}
