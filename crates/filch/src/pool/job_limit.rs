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
/// free. A job that ends queues one parked job, which either has its place
/// ([`pass_on`](Self::pass_on)) or asks again ([`leave`](Self::leave)). So as long as jobs are
/// parked, one is active or such a job is queued, also when a run is stopped.
pub(crate) struct JobLimit<J = Job> {
    max: usize,
    state: Mutex<LimitState<J>>,
}

struct LimitState<J> {
    active: usize,
    parked: VecDeque<J>,
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
}

impl<J> JobLimit<J> {
    pub(crate) fn new(max: usize) -> Self {
        let state = LimitState {
            active: 0,
            parked: VecDeque::new(),
        };
        Self {
            max,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LimitState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for the job, and returns it; or parks the job.
    #[must_use]
    pub(crate) fn enter(&self, job: J) -> Option<J> {
        let mut state = self.lock();
        if state.active < self.max {
            state.active += 1;
            return Some(job);
        }
        state.parked.push_back(job);
        None
    }

    /// Gives a place to the oldest parked job, and returns that job, which the caller queues; or
    /// gives the place back. No job that enters later comes before one that was parked, so jobs get
    /// places in the order in which they entered.
    #[must_use]
    pub(crate) fn pass_on(&self) -> Option<J> {
        let mut state = self.lock();
        let next = state.parked.pop_front();
        if next.is_none() {
            state.active -= 1;
        }
        next
    }

    /// Gives a place back. Returns a parked job, which the caller queues: it must
    /// [enter](Self::enter) again, behind those that have entered meanwhile.
    #[must_use]
    pub(crate) fn leave(&self) -> Option<J> {
        let mut state = self.lock();
        state.active -= 1;
        state.parked.pop_front()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    /// A job that enters between the end of another one and the start of a parked one.
    #[test]
    fn a_place_that_is_passed_on_goes_to_the_oldest_job() {
        let limit = JobLimit::new(1);
        assert_eq!(limit.enter(1), Some(1));
        assert!(limit.enter(2).is_none() && limit.enter(3).is_none());
        assert_eq!(limit.pass_on(), Some(2)); // the first one ends
        assert_eq!(limit.enter(4), None, "the second has the place");
        assert_eq!([limit.pass_on(), limit.pass_on()], [Some(3), Some(4)]);
        assert_eq!(limit.pass_on(), None);
        assert_eq!(limit.enter(5), Some(5));
    }

    #[test]
    fn a_place_that_is_given_back_is_free() {
        let limit = JobLimit::new(1);
        assert_eq!((limit.enter(1), limit.enter(2)), (Some(1), None));
        assert_eq!(limit.leave(), Some(2));
        assert_eq!((limit.enter(2), limit.leave()), (Some(2), None));
    }
}
