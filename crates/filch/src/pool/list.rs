//! Jobs that are in no worker's queue.

use super::job::Job;
use crate::base::sync::{AtomicUsize, Ordering};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Jobs in FIFO order, for the worker that waits for them and for any worker that takes one.
#[derive(Default)]
pub(crate) struct JobList {
    jobs: Mutex<VecDeque<Job>>,
    length: AtomicUsize,
}

impl JobList {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Job) {
        let mut jobs = self.lock();
        jobs.push_back(job);
        // Release: pairs with the acquire in `is_empty`.
        self.length.store(jobs.len(), Ordering::Release);
    }

    pub(crate) fn pop(&self) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        let mut jobs = self.lock();
        let job = jobs.pop_front();
        // Release: as in `push`.
        self.length.store(jobs.len(), Ordering::Release);
        job
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: pairs with the release in `push`.
        self.length.load(Ordering::Acquire) == 0
    }
}
