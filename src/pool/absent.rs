//! Workers that have no thread any more, or never get one, while their pool goes on.
//!
//! Only pools on threads of others have them: a [`PoolThread`](crate::PoolThread) may be dropped
//! before it has run, and a thread that [became a
//! worker](crate::PoolBuilder::with_current_thread) may end. Such a worker leaves the engine, so
//! what was sent to it goes to any other worker. When the last one has left, callers that wait for
//! a worker run their jobs themselves.
//!
//! The number is under a lock, and callers queue their jobs while they hold it. So a job is queued
//! before the last worker has left, or its caller learns that there is none.

use super::{
    Inner,
    context::{CURRENT, WorkerContext},
    job::Job,
    task,
};
use crate::{base::error::Refused, threads::stay};
use std::{
    ptr,
    sync::{Mutex, PoisonError},
};

/// How many workers of a pool have left for good.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<usize>);

impl Inner {
    /// Has `queue` queue a job that the caller waits for. Runs it here if that is refused, or if no
    /// worker of the pool has a thread, or will have one.
    pub(crate) fn queue_or_run(
        &self,
        job: Job,
        queue: impl FnOnce(Job) -> Result<(), Refused<Job>>,
    ) {
        let queued = match &self.absent {
            None => queue(job).map_err(Refused::into_inner),
            Some(absent) => {
                let absent = absent.0.lock().unwrap_or_else(PoisonError::into_inner);
                if *absent < self.threads {
                    queue(job).map_err(Refused::into_inner)
                } else {
                    Err(job)
                }
            }
        };
        if let Err(job) = queued {
            // Not part of the task that the caller is in.
            let _aside = task::set_aside();
            self.as_guest(|context| job.run(context));
        }
    }

    /// A worker has left for good. True when it was the last one.
    fn lose_worker(&self) -> bool {
        let Some(absent) = &self.absent else {
            return false;
        };
        let mut absent = absent.0.lock().unwrap_or_else(PoisonError::into_inner);
        *absent += 1;
        *absent == self.threads
    }

    /// A worker has left before it had a thread. If it was the last one, what is queued runs here:
    /// callers may wait for it.
    pub(super) fn lose_unstarted(&self) {
        if self.lose_worker() {
            let queued = self.core.shared_len();
            self.enter_worker(|context| context.help(queued));
        }
    }
}

/// A thread that [became a worker](crate::PoolBuilder::with_current_thread) ends. Other workers
/// take over what it has left.
pub(super) fn end_stay() {
    WorkerContext::with(|context| {
        let Some(context) = context.filter(|context| context.stays_in(context.pool())) else {
            return;
        };
        context.running().leave();
        context.pool().lose_worker();
        // From now on this is a thread like any other.
        CURRENT.set(ptr::null());
        stay(0, None);
    });
}
