//! How a worker enqueues a job. [`Placement`] has the table of queues; this module adds what only
//! the pool knows: whether the current task may wait for the job. (The worker's own queue grows as
//! long as there is memory, so the fallback of `RunningWorker::spawn` is out of reach.)
//!
//! | call | for a job that | in addition to `RunningWorker::spawn` |
//! |---|---|---|
//! | `push` | the current task may wait for | in isolated waits, a shared queue means `Local` |
//! | `push_detached` | the task does not wait for | at checkpoints, `Local` means `Injector` |
//! | `push_marked` | its producer may take back | returns the position |
//! | `push_part` | is the second half of a join | returns the position; may run other work |
//! | `push_for_dedicated` | polls a future | wakes a dedicated worker |

use super::{context::WorkerContext, job::Job};
use crate::{
    base::unwind,
    engine::{Mark, Placement},
};

impl WorkerContext<'_, '_> {
    /// Enqueues a job that the current task may wait for. Where waits are isolated, a job for a
    /// shared queue goes to this worker's own queue, because an isolated wait takes jobs only from
    /// there and from the mailboxes of pinned jobs. The same holds for an affine job.
    #[inline(always)]
    pub(crate) fn push(&self, job: Job, placement: Placement) {
        if placement.is_own() {
            self.running().spawn(job, placement);
        } else {
            self.push_shared(job, placement);
        }
    }

    fn push_shared(&self, job: Job, placement: Placement) {
        let pinned = matches!(placement, Placement::Pinned(_));
        let placement = match !pinned && self.has_isolated_waits() {
            true => Placement::Local,
            false => placement,
        };
        self.running().spawn(job, placement);
    }

    /// Enqueues a job that the current task does not wait for. At a checkpoint of another task a
    /// job for this worker's own queue goes to the injector: see `WorkerContext::serve`. A job for
    /// a shared queue goes there also where waits are isolated, and those waits do not run it.
    #[inline(always)]
    pub(crate) fn push_detached(&self, job: Job, placement: Placement) {
        if placement.is_own() && self.is_serving() {
            self.running().spawn(job, Placement::Injector);
        } else {
            self.running().spawn(job, placement);
        }
    }

    /// Pushes a part of the current task, which it will wait for. Returns its position, for
    /// `retract`.
    #[inline(always)]
    pub(crate) fn push_part(&self, job: Job) -> Mark {
        match self.running().push_part(job) {
            Ok((mark, notify)) => {
                if notify {
                    self.after_push();
                }
                mark
            }
            Err(job) => self.push_part_slowly(job),
        }
    }

    /// Notifies sleepers of a part that was pushed, and runs other work first if this worker is
    /// requested to serve it.
    #[cold]
    #[inline(never)]
    fn after_push(&self) {
        self.running().notify_part();
        unwind::or_abort(|| self.preempt());
    }

    #[cold]
    #[inline(never)]
    fn push_part_slowly(&self, job: Job) -> Mark {
        match self.running().push_part_slowly(job) {
            Ok(mark) => mark,
            Err(job) => {
                // It counts as run by this worker, as every part does; the worker that runs it
                // counts it again.
                self.running().spawn(job, Placement::Injector);
                self.running().record_merged();
                self.mark().nowhere()
            }
        }
    }
}
