//! A walk: one job that runs strands of a run, of the runs inside its tasks, and of the runs around
//! it, as long as this worker has queued them itself.
//!
//! Without it, each run inside a task begins and ends in jobs of the pool. Most of them are small:
//! what the pool does between two jobs takes longer than a task.
//!
//! # The protocol
//!
//! A walk is in one run at a time, and owns some of its pending counts: one for each strand that
//! the run counts for it (`jobs`). It has at least one, so the run is alive. It gets one more when
//! it takes the newest job of the worker's queue, if that is a strand of the run. When its strands
//! have ended and the newest job is another one, it counts all of them as done at once.
//!
//! - When a task begins a run inside it, that run gets all jobs of the walk (`InnerRun::jobs`), and
//!   the walk continues in it, with the first task or with the sources that it takes from the
//!   cursor. If other work is due first, the walk queues that job too, and is over.
//! - When its jobs were the last of the run, the walk ends the run, gets the jobs back that the
//!   enclosing run counts for it, and continues there.
//!
//! A feeder or strand that runs several sources walks through the run inside one of them in its
//! middle (`walk_inside`). That walk has one job of the enclosing run, beside the caller's.
//!
//! So the counts of nested runs change only where another worker takes part: a worker that finds
//! that all pending jobs are its own need not count them down.
//!
//! A walk needs a worker on which the jobs of the run are found again, and which waits for nothing
//! but the outermost run (`may_walk`). It ends where other work is due first
//! (`WorkerContext::continue_with`).
#![expect(
    unsafe_code,
    reason = "runs on the heap, which may end in the middle of a walk"
)]

use super::{
    block::SingleTask,
    context::TaskEffects,
    heap_run,
    run::{GraphRun, PreparedRun},
};
use crate::{
    base::unwind,
    pool::{active_jobs, context::WorkerContext, pending_group::PendingGroup},
};

impl GraphRun<'_> {
    /// Whether a strand here may continue with runs inside and around this one.
    #[inline(always)]
    pub(super) fn may_walk(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.is_walkable
            && !self.isolated
            && !context.is_serving()
            && self.is_awaited_here(context)
            && !context.has_restricted_waits()
    }

    /// Whether this worker waits for the outermost run, or for nothing.
    #[inline(always)]
    fn is_awaited_here(&self, context: &WorkerContext<'_, '_>) -> bool {
        // A guest may leave before the end of a run that it does not wait for.
        context.is_outermost() && !context.is_temporary()
            || !self.waiter.is_null() && context.is_wait_target(self.waiter)
    }
}

impl GraphRun<'_> {
    /// Begins a run inside a task of this run, which counts one pending job for it. Runs what it
    /// can of it in the middle of the caller's strand or feeder, which is pending too.
    /// [`may_walk`](Self::may_walk) is true.
    pub(super) fn walk_inside(&self, inner: PreparedRun, context: &WorkerContext<'_, '_>) {
        let walk = || {
            let (inner, first) = heap_run::start_here(inner, 1, context)?;
            // SAFETY: `start_here` leaves one pending job of the run inside to this worker.
            unsafe { GraphRun::walk_on(inner, first, false, context) }
        };
        // As in `walk`.
        let over = active_jobs::enter(|| self.group(), true, || unwind::or_abort(walk));
        debug_assert!(over.is_none(), "the caller's job is pending");
    }
}

impl GraphRun<'static> {
    /// Runs a strand of a run, and what follows in that run and those inside and around it.
    ///
    /// # Safety
    /// The strand is pending, so that `this` lives, and [`may_walk`](Self::may_walk) is true. The
    /// run may be freed once the strand is done, so `this` is a pointer.
    pub(super) unsafe fn walk(
        this: *const Self,
        first: u32,
        admitted: bool,
        context: &WorkerContext<'_, '_>,
    ) {
        // SAFETY: the caller's strand is pending, so that `this` lives.
        let run = unsafe { &*this };
        // The runs inside and around this one have the same group. No worker waits for the inner
        // ones, so the walk counts as elsewhere in all of them.
        let group = run.group();
        // SAFETY: the caller's strand is pending, so that `this` lives.
        let walk = || unsafe { Self::walk_on(this, first, admitted, context) };
        // Panics of tasks are contained.
        let over = active_jobs::enter(|| group, true, || unwind::or_abort(walk));
        if let Some(over) = over {
            // SAFETY: the walk has ended the last pending job of this run.
            unsafe { heap_run::finish(over, context) };
        }
    }

    /// Returns the outermost run if it is over and was launched. The caller ends it when the walk
    /// is no active job any more, since that calls user code.
    ///
    /// # Safety
    /// As [`walk`](Self::walk).
    unsafe fn walk_on(
        mut this: *const Self,
        first: u32,
        mut admitted: bool,
        context: &WorkerContext<'_, '_>,
    ) -> Option<*const Self> {
        let (mut next, mut jobs, effects) = (Some(first), 1, TaskEffects::default());
        loop {
            // SAFETY: `jobs` strands of the run are pending, at least one.
            let run = unsafe { &*this };
            let permits = std::mem::take(&mut admitted);
            let inner = run.walk_here(context, next.take(), permits, &mut jobs, &effects);
            if let Some(inner) = inner {
                // The jobs pass on, and may end this run, so `run` is not used below.
                let (inner, first) = heap_run::start_here(inner, jobs, context)?;
                (this, next, jobs) = (inner, Some(first), 1);
                continue;
            }
            // SAFETY: the jobs are pending until this call, and `run` is not used below.
            if !unsafe { Self::done_many(this, context, jobs) } {
                return None;
            }
            // SAFETY: `done_many` returned true: these were the last pending jobs.
            if !unsafe { heap_run::is_inside(this) } {
                return Some(this);
            }
            // SAFETY: `done_many` returned true, and the run is not used below.
            let ended = unsafe { heap_run::finish_one(this, context) }?;
            // SAFETY: the enclosing run counts the run that has ended as pending.
            next = unsafe { ended.settle(context) };
            (this, jobs) = (ended.run, ended.jobs);
        }
    }

    /// Runs strands of this run. Returns the run inside the task with which they end, if there is
    /// one.
    #[inline(always)]
    fn walk_here(
        &self,
        context: &WorkerContext<'_, '_>,
        first: Option<u32>,
        admitted: bool,
        jobs: &mut u32,
        effects: &TaskEffects,
    ) -> Option<PreparedRun> {
        if self.begin_job(context) && self.shape.has_joins && !self.is_special {
            self.bias.revoke();
        }
        if self.is_special {
            return self.walk_special(context, first, admitted, jobs, effects);
        }
        if let Some(first) = first {
            *jobs += self.strands_counted(context, &SingleTask::new(first));
        }
        None
    }
}
