//! Workers that lost their thread, or never get one, while their pool continues to run.
//!
//! This happens only in pools whose threads the program provides: a
//! [`PoolThread`](crate::PoolThread) may be dropped before it has run, and a thread that [became a
//! worker](crate::PoolBuilder::with_current_thread) may end. Such a worker leaves the engine, so
//! the jobs that were sent to it go to other workers. After the last worker has left, callers that
//! wait for a worker run their jobs themselves.
//!
//! The count is under a lock, and callers enqueue their jobs while they hold it. So a job is either
//! enqueued before the last worker has left, or its caller learns that no worker is left.

use super::{
    context::CURRENT,
    current_task,
    inner::{Inner, Job, WorkerContext},
};
use crate::{base::error::Refused, threads::stay};
use std::{ptr, sync::PoisonError};

impl Inner {
    /// Enqueues, through `queue`, a job that the caller waits for. Runs the job on the calling
    /// thread if `queue` refuses it, or if no worker of the pool has a thread or will get one.
    pub(crate) fn queue_or_run(
        &self,
        job: Job,
        queue: impl FnOnce(Job) -> Result<(), Refused<Job>>,
    ) {
        let queued = match &self.absent {
            None => queue(job).map_err(Refused::into_inner),
            Some(absent) => {
                let absent = absent.lock().unwrap_or_else(PoisonError::into_inner);
                if *absent < self.threads {
                    queue(job).map_err(Refused::into_inner)
                } else {
                    Err(job)
                }
            }
        };
        if let Err(job) = queued {
            // The job is not part of the task that the caller runs.
            let _aside = current_task::set_aside();
            self.as_guest(|context| job.run(context));
        }
    }

    /// Whether every worker has a thread as long as the pool is open, because the pool has started
    /// them itself.
    pub(crate) fn has_all_threads(&self) -> bool {
        self.absent.is_none() && self.threads > 0 && self.core().is_open()
    }

    /// Counts a worker that has left permanently. Returns whether it was the last one.
    fn lose_worker(&self) -> bool {
        let Some(absent) = &self.absent else {
            return false;
        };
        let mut absent = absent.lock().unwrap_or_else(PoisonError::into_inner);
        *absent += 1;
        *absent == self.threads
    }

    /// Counts a worker that left before it had a thread. If it was the last one, the queued jobs
    /// run on the calling thread, because callers may wait for them.
    pub(super) fn lose_unstarted(&self) {
        if self.lose_worker() {
            let queued = self.core.shared_len();
            self.enter_worker(|context| context.help(queued));
        }
    }
}

/// Ends the membership of a thread that [became a worker](crate::PoolBuilder::with_current_thread).
/// Other workers take over its remaining jobs.
pub(super) fn end_stay() {
    WorkerContext::with(|context| {
        let Some(context) = context.filter(|context| context.stays_in(context.pool())) else {
            return;
        };
        context.running().leave();
        context.pool().lose_worker();
        // From now on this thread is not a worker.
        CURRENT.set(ptr::null());
        stay(0, None);
    });
}
