//! Jobs that their producer may take back.

use super::{context::WorkerContext, job::Job};
use crate::engine::{Mark, Placement};

impl WorkerContext<'_, '_> {
    /// Enqueues a job in this worker's own queue. Returns its position, for
    /// [`retract_task`](Self::retract_task), unless the queue was full.
    pub(crate) fn push_marked(&self, job: Job, placement: Placement) -> Option<Mark> {
        debug_assert!(placement.is_own(), "there is no mark of another queue");
        match self.running().try_spawn(job, placement) {
            Ok(()) => Some(self.mark()),
            Err(job) => {
                self.running().spawn(job, Placement::Injector);
                None
            }
        }
    }

    /// Takes back the job that was [pushed](Self::push_marked) before `mark` and points to `data`,
    /// if it is still queued and the newest. The caller knows that this worker has not popped it,
    /// and does the job's work itself.
    pub(crate) fn retract_task<T>(&self, mark: Mark, data: *const T) -> bool {
        let back = self.retract(mark, data);
        if back {
            self.running().record_merged();
        }
        back
    }
}
