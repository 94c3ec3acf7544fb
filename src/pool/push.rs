//! Where the jobs of a worker go.

use super::{context::WorkerContext, job::Job};
use crate::{
    base::unwind,
    engine::{Level, Mark},
};

impl WorkerContext<'_, '_> {
    /// Queues a job on this worker.
    #[inline(always)]
    pub(crate) fn push(&self, job: Job) {
        if let Err(job) = self.running().spawn_local(job) {
            // The pool's queues grow as long as there is memory; the limit is out of reach.
            self.running().spawn_global(job);
        }
    }

    /// Queues a job behind everything that came to the pool from outside before, so that what is queued on this
    /// worker comes first. Where waits run only what was queued here, it is queued here.
    pub(crate) fn push_last(&self, job: Job) {
        if self.has_isolated_waits() {
            self.push(job);
        } else {
            self.running().spawn_global(job);
        }
    }

    /// Queues a job on this worker, behind all that are there.
    #[inline]
    pub(crate) fn push_behind(&self, job: Job) {
        if let Err(job) = self.running().spawn_behind(job) {
            // As in `push`.
            self.running().spawn_global(job);
        }
    }

    /// Queues a job that this worker takes next: if it is the only one, nobody is woken for it, as long as this worker
    /// starts nothing else before.
    #[inline]
    pub(crate) fn push_next(&self, job: Job) {
        if let Err(job) = self.running().spawn_next(job) {
            // As in `push`.
            self.running().spawn_global(job);
        }
    }

    /// Queues a job of a future that the driver has woken. The worker looks for others to help with it
    /// when it has queued all.
    pub(crate) fn push_woken(&self, job: Job) {
        if let Err(job) = self.running().spawn_unnotified(job) {
            // As in `push`.
            self.running().spawn_global(job);
        }
    }

    /// Queues a job of some level. Where waits run only what was queued here, it is queued here.
    pub(crate) fn push_at(&self, level: Level, job: Job) {
        let level = if self.has_isolated_waits() {
            Level::Normal
        } else {
            level
        };
        if let Err(job) = self.running().spawn_at(level, job) {
            // As in `push`.
            self.running().spawn_global(job);
        }
    }

    /// Queues a job that `worker` should run if it is free soon, and else anybody. Where waits run only what was
    /// queued here, it is queued here.
    pub(crate) fn push_for(&self, worker: usize, job: Job) {
        if self.has_isolated_waits() || worker >= self.pool().threads() {
            self.push(job); // a guest would be gone before long
        } else {
            self.running().spawn_for(worker, job);
        }
    }

    /// Queues a job of some level, or for `worker`, that is no part of what runs here: waits in an isolated task do
    /// not run it.
    pub(crate) fn push_elsewhere(&self, worker: Option<usize>, level: Level, job: Job) {
        match (worker, level) {
            (Some(worker), _) if worker < self.pool().threads() => {
                self.running().spawn_for(worker, job);
            }
            (_, Level::Normal) => self.running().spawn_global(job),
            (_, level) => {
                if let Err(job) = self.running().spawn_at(level, job) {
                    self.running().spawn_global(job);
                }
            }
        }
    }

    /// Queues a job that only `worker` may run.
    pub(crate) fn send(&self, worker: usize, job: Job) {
        self.running().send(worker, job);
    }

    /// Queues a part of the present task, which it will wait for. Says where it is, for `retract`.
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

    /// Notifies sleepers of a part that was pushed, and lets other work run first if this worker is
    /// asked for attention.
    #[cold]
    #[inline(never)]
    fn after_push(&self) {
        self.running().notify();
        unwind::or_abort(|| self.preempt());
    }

    /// Queues a job that the present task does not wait for. At a checkpoint of another task it goes
    /// to the injector: see `WorkerContext::serve`.
    #[inline(always)]
    pub(crate) fn push_detached(&self, job: Job) {
        if self.is_serving() {
            self.running().spawn_global(job);
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
                // As in `push`. Whoever runs the part makes up for the count.
                self.running().spawn_global(job);
                self.running().took_back();
                self.mark().nowhere()
            }
        }
    }
}
