//! How a worker enqueues a job. [`Placement`] has the table of queues; this module adds what only
//! the pool knows: whether the current task may wait for the job.
//!
//! | call | for a job that | in addition to `RunningWorker::spawn` |
//! |---|---|---|
//! | `push` | the current task may wait for | in isolated waits, a shared queue means `Local` |
//! | `push_at` | the same, where there is room | its position is known before; no call |
//! | `push_detached` | the task does not wait for | at checkpoints, `Local` means `Injector` |
//! | `push_marked` (`retract.rs`) | its producer may take back | returns the position |
//! | `push_part` | is the second half of a join | its position is known before; may run other work |
//! | `push_for_dedicated` (`dedicated.rs`) | polls a future | wakes a dedicated worker |

use super::{context::WorkerContext, job::Job};
use crate::{
    base::unwind,
    engine::{Event, Mark, Observer, Placement},
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

    /// [`push`](Self::push) to this worker's own queue, at the position that
    /// [`part_mark`](Self::part_mark) has returned. The worker runs a task and does not search. If
    /// it returns true, [`notify_pushed`](Self::notify_pushed) must follow.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push_at(&self, mark: Mark, job: Job) -> bool {
        let mut running = self.running();
        let worker = running.id();
        running.core().observer().event(worker, Event::SpawnedLocal);
        // A part is not counted, and this job is.
        running.declare_part();
        running.push_part(mark, job)
    }

    /// Notifies sleepers of a job that was pushed.
    #[cold]
    #[inline(never)]
    pub(crate) fn notify_pushed(&self) {
        self.running().notify_part();
    }

    fn push_shared(&self, job: Job, placement: Placement) {
        let pinned = matches!(placement, Placement::Pinned(_));
        let placement = match !pinned && self.has_restricted_waits() {
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

    /// Returns the position of the next part that is pushed here: its latch must know it before a
    /// thief can take the part. Returns `None` if there is no room: then call
    /// [`make_room_for_part`](Self::make_room_for_part).
    #[inline(always)]
    pub(crate) fn part_mark(&self) -> Option<Mark> {
        self.running().next_part_mark()
    }

    /// [`part_mark`](Self::part_mark) after the queue has grown. Runs other work first if pushes
    /// are watched because of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room_for_part(&self) -> Mark {
        if self.batch_below.get().is_some() {
            unwind::or_abort(|| self.ensure_current(|| self.preempt()));
            self.repeat_alert();
        }
        self.running().make_room_for_part();
        let mark = self.running().next_part_mark();
        mark.expect("a queue grows as long as there is memory")
    }

    /// Pushes a part of the current task, which it will wait for. `mark` is that of
    /// [`part_mark`](Self::part_mark). If it returns true, [`after_push`](Self::after_push) must
    /// follow.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push_part(&self, mark: Mark, job: Job) -> bool {
        self.running().push_part(mark, job)
    }

    /// Notifies sleepers of a part that was pushed, and runs other work first if this worker is
    /// requested to serve it.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_push(&self) {
        self.running().notify_part();
        unwind::or_abort(|| self.ensure_current(|| self.preempt()));
        self.repeat_alert();
    }
}
