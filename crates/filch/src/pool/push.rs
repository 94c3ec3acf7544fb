//! The ways for a worker to enqueue a job.

use super::{context::WorkerContext, job::Job};
use crate::{
    base::unwind,
    engine::{Level, Mark, Placement},
};

impl WorkerContext<'_, '_> {
    /// Pushes a job to this worker's queue.
    #[inline(always)]
    pub(crate) fn push(&self, job: Job) {
        if let Err(job) = self.running().try_spawn(job, Placement::Local) {
            // The pool's queues grow as long as there is memory; the limit is out of reach.
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes a job to the injector, behind everything that came from outside before, so that what
    /// is queued on this worker runs first. Where waits are isolated, the job is pushed to this
    /// worker's queue.
    pub(crate) fn push_last(&self, job: Job) {
        if self.has_isolated_waits() {
            self.push(job);
        } else {
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes a job to this worker's queue, behind all jobs there.
    #[inline]
    pub(crate) fn push_behind(&self, job: Job) {
        if let Err(job) = self.running().try_spawn(job, Placement::LocalLast) {
            // As in `push`.
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes a job that this worker takes next. If it is the only one, no worker is woken for it,
    /// as long as this worker starts nothing else before.
    #[inline]
    pub(crate) fn push_next(&self, job: Job) {
        if let Err(job) = self.running().try_spawn(job, Placement::Next) {
            // As in `push`.
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes the job of a future that the driver has woken. The worker notifies others after it
    /// has pushed all such jobs.
    pub(crate) fn push_woken(&self, job: Job) {
        if let Err(job) = self.running().try_spawn(job, Placement::LocalUnnotified) {
            // As in `push`.
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes a job of some level. Where waits are isolated, it is pushed to this worker's queue.
    pub(crate) fn push_at(&self, level: Level, job: Job) {
        let level = if self.has_isolated_waits() {
            Level::Normal
        } else {
            level
        };
        if let Err(job) = self.running().try_spawn(job, Placement::Lane(level)) {
            // As in `push`.
            self.running().spawn(job, Placement::Injector);
        }
    }

    /// Pushes a job that `worker` should run if it is free soon, and any other worker otherwise.
    /// Where waits are isolated, it is pushed to this worker's queue.
    pub(crate) fn push_for(&self, worker: usize, job: Job) {
        if self.has_isolated_waits() || worker >= self.pool().threads() {
            self.push(job); // a guest leaves soon
        } else {
            self.running().spawn(job, Placement::Affine(worker));
        }
    }

    /// Pushes a job of some level, or for `worker`, that is not part of what runs here: waits in an
    /// isolated task do not run it.
    pub(crate) fn push_elsewhere(&self, worker: Option<usize>, level: Level, job: Job) {
        match (worker, level) {
            (Some(worker), _) if worker < self.pool().threads() => {
                self.running().spawn(job, Placement::Affine(worker));
            }
            (_, Level::Normal) => self.running().spawn(job, Placement::Injector),
            (_, level) => {
                if let Err(job) = self.running().try_spawn(job, Placement::Lane(level)) {
                    self.running().spawn(job, Placement::Injector);
                }
            }
        }
    }

    /// Sends a pinned job to the mailbox of `worker`, which alone may run it.
    pub(crate) fn send(&self, worker: usize, job: Job) {
        self.running().spawn(job, Placement::Pinned(worker));
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
        self.running().notify();
        unwind::or_abort(|| self.preempt());
    }

    /// Pushes a job that the current task does not wait for. At a checkpoint of another task it
    /// goes to the injector: see `WorkerContext::serve`.
    #[inline(always)]
    pub(crate) fn push_detached(&self, job: Job) {
        if self.is_serving() {
            self.running().spawn(job, Placement::Injector);
        } else {
            self.push(job);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_part_slowly(&self, job: Job) -> Mark {
        match self.running().push_part_slowly(job) {
            Ok(mark) => mark,
            Err(job) => {
                // As in `push`. The worker that runs the part corrects the count.
                self.running().spawn(job, Placement::Injector);
                self.running().took_back();
                self.mark().nowhere()
            }
        }
    }
}
