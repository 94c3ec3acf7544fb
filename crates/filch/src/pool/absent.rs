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
use crate::{base::error::Refused, threads::set_current_worker};
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
                if *absent < self.live_workers() {
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

    /// Whether the pool has not started its threads itself, so that a worker may have none.
    pub(crate) fn uses_external_threads(&self) -> bool {
        self.absent.is_some()
    }

    /// Whether every worker has a thread as long as the pool is open, because the pool has started
    /// them itself.
    pub(crate) fn has_all_threads(&self) -> bool {
        !self.uses_external_threads() && self.live_workers() > 0 && self.core().is_open()
    }

    /// Counts a worker that has left permanently, or will never have a thread. If it was the last
    /// one, the queued jobs run on the calling thread, because callers may wait for them.
    pub(super) fn count_departed_worker(&self) {
        let Some(absent) = &self.absent else {
            return;
        };
        let mut absent = absent.lock().unwrap_or_else(PoisonError::into_inner);
        *absent += 1;
        let was_last = *absent == self.live_workers();
        drop(absent);
        if was_last {
            let queued = self.core.shared_len();
            self.enter_worker(|context| context.help(queued));
        }
    }
}

/// Ends the membership of a thread that [became a worker](crate::PoolBuilder::with_current_thread).
/// Other workers take over its remaining jobs.
pub(super) fn end_stay() {
    WorkerContext::with(|context| {
        let Some(context) = context.filter(|context| context.is_permanent_in(context.pool()))
        else {
            return;
        };
        context.running().leave();
        // From now on this thread is not a worker.
        CURRENT.set(ptr::null());
        set_current_worker(0, None);
        context.pool().count_departed_worker();
    });
}
