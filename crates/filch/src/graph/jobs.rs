//! The jobs of a run: strands and feeders, and the end of a run on the heap; see `run`.
#![expect(
    unsafe_code,
    reason = "jobs that point to the records of a graph, and to runs in frames and in the heap"
)]

use super::{
    block::SingleTask,
    heap_run,
    node::TaskNode,
    run::{GraphRun, PreparedRun},
};
use crate::pool::{active_jobs, context::WorkerContext, job::Job, pending_group::PendingGroup};
use std::ptr;

/// Runs a strand that begins with a task. `ADMITTED`: the task has acquired its semaphores.
///
/// # Safety
/// `data` points to a node of a run that is not over.
unsafe fn run_strand<const ADMITTED: bool>(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes a node of a run that is not over.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: the strand is pending, so the run is alive.
    if unsafe { &*run }.may_walk(context) {
        // SAFETY: the strand is pending, and the run allows a walk.
        return unsafe { GraphRun::walk(run, index, ADMITTED, context) };
    }
    let strand = |run: &GraphRun<'_>, context: &WorkerContext<'_, '_>| {
        if run.is_special {
            return run.strand_special(context, index, ADMITTED, true);
        }
        run.strands(context, &SingleTask::new(index));
        None
    };
    // SAFETY: the strand is pending, so the run is alive.
    unsafe { GraphRun::as_job(run, context, strand) };
}

/// Returns the run that a node belongs to, and the node's number.
///
/// # Safety
/// As [`run_strand`].
unsafe fn run_of(data: *const ()) -> (*const GraphRun<'static>, u32) {
    let node = data.cast::<TaskNode>();
    // SAFETY: the caller passes a node of a run that is not over.
    let index = unsafe { (*node).index() };
    // SAFETY: the nodes of a run are one array, and this is number `index` of it.
    let first = unsafe { node.sub(index as usize) };
    // SAFETY: it is the first record of the array, which points to the run.
    let first = unsafe { &*first };
    (first.run_pointer().cast(), index)
}

/// Runs a feeder.
///
/// # Safety
/// `data` points to a run that is not over.
unsafe fn run_feeder(data: *const (), context: &WorkerContext<'_, '_>) {
    let run = data.cast::<GraphRun<'static>>();
    let feed = |run: &GraphRun<'_>, context: &WorkerContext<'_, '_>| {
        run.feed(context);
        None
    };
    // SAFETY: the caller passes a run that is not over; the feeder is pending.
    unsafe { GraphRun::as_job(run, context, feed) };
}

/// Runs the best of the ready tasks of a run whose plan has an order.
///
/// # Safety
/// As [`run_feeder`].
unsafe fn run_best(data: *const (), context: &WorkerContext<'_, '_>) {
    let run = data.cast::<GraphRun<'static>>();
    let best = |run: &GraphRun<'_>, context: &WorkerContext<'_, '_>| run.run_best(context, true);
    // SAFETY: the caller passes a run that is not over; the job is pending.
    unsafe { GraphRun::as_job(run, context, best) };
}

impl GraphRun<'static> {
    /// Runs `f` as a job of the pool, and ends a run on the heap if this was its last job. If `f`
    /// returns a run inside a task, this is counted in the place of the job.
    ///
    /// # Safety
    /// The job is pending, so that `this` lives. The run may be freed once the job is done, so
    /// `this` is a pointer.
    #[inline(always)]
    unsafe fn as_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        f: impl FnOnce(&Self, &WorkerContext<'_, '_>) -> Option<PreparedRun>,
    ) {
        // SAFETY: the caller's job is pending, so `this` lives.
        let run = unsafe { &*this };
        let is_elsewhere = run.begin_job(context);
        if is_elsewhere && run.shape.has_joins && !run.is_special {
            run.bias.revoke();
        }
        let call = || context.isolate_if(run.isolated, || f(run, context));
        let inner = active_jobs::enter(|| run.group(), is_elsewhere, call);
        if let Some(inner) = inner {
            // It may end this run, so `run` is not used below.
            return heap_run::start(inner, Some(context));
        }
        // SAFETY: the caller's job is still pending, and `run` is not used below.
        if unsafe { Self::done(this, context) } {
            // SAFETY: `done` returned true: this was the last pending job.
            unsafe { heap_run::finish(this, context) };
        }
    }
}

impl GraphRun<'_> {
    /// Runs a task and the tasks that it releases. `admitted`: the task has acquired its
    /// semaphores.
    #[inline(always)]
    pub(super) fn strand(&self, context: &WorkerContext<'_, '_>, first: u32, admitted: bool) {
        if self.is_special {
            let inner = self.strand_special(context, first, admitted, false);
            debug_assert!(inner.is_none(), "the strand has started it");
        } else {
            self.strands(context, &SingleTask::new(first));
        }
    }

    pub(super) fn feeder_job(&self) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(ptr::from_ref(self), run_feeder) }
    }

    /// Returns the job that runs the best of the ready tasks.
    pub(super) fn best_job(&self) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(ptr::from_ref(self), run_best) }
    }

    /// Returns the job that runs the strand of a task.
    #[inline(always)]
    pub(super) fn strand_job(&self, index: u32) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(self.node_at(index), run_strand::<false>) }
    }

    /// Returns the same for a task that has acquired its semaphores.
    pub(super) fn admitted_job(&self, index: u32) -> Job {
        // SAFETY: as in `strand_job`: the job is pending, so the run is not over before it has run.
        unsafe { Job::new(self.node_at(index), run_strand::<true>) }
    }

    #[inline(always)]
    fn node_at(&self, index: u32) -> *const TaskNode {
        debug_assert!((index as usize) < self.nodes.len());
        // SAFETY: the plan contains only numbers of its own tasks. The pointer is derived from the
        // whole array, in which `run_of` moves back to the first record.
        unsafe { self.nodes.as_ptr().add(index as usize) }
    }
}
