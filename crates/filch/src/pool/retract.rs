//! Jobs that their producer may take back.

use super::{context::WorkerContext, job::Job};
use crate::engine::{Mark, Placement};

impl WorkerContext<'_, '_> {
    /// Pushes a job to this worker's queue, and wakes a sleeper for it if needed and `announce` is
    /// set. Returns its position, for [`retract_task`](Self::retract_task).
    pub(crate) fn push_marked(&self, job: Job, announce: bool) -> Option<Mark> {
        let pushed = if announce {
            self.running().try_spawn(job, Placement::Local)
        } else {
            self.running().try_spawn(job, Placement::LocalUnnotified)
        };
        match pushed {
            Ok(()) => Some(self.mark()),
            Err(job) => {
                // As in `push`.
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
            self.running().took_back();
        }
        back
    }
}
