//! The jobs of a run: strands and feeders, and the end of a run on the heap; see `run`.
#![expect(
    unsafe_code,
    reason = "jobs that point to the records of a graph, and to runs in frames and in the heap"
)]

use super::{
    active_plans,
    block::SingleTask,
    node::TaskNode,
    run::{GraphRun, OuterRun},
};
use crate::{
    base::unwind,
    pool::{
        context::WorkerContext,
        job::Job,
        pending_group::{NO_OWNER, PendingGroup},
    },
};
use std::ptr;

/// Runs a strand that begins with a task. `ADMITTED`: the task has acquired its semaphores.
///
/// # Safety
/// `data` points to a node of a run that is not over.
unsafe fn run_strand<const ADMITTED: bool>(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes a node of a run that is not over.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: the strand is pending, so the run is alive.
    let over = unsafe {
        GraphRun::as_job(run, context, |run, context| {
            run.strand(context, index, ADMITTED);
        })
    };
    if over {
        // SAFETY: `as_job` returned true: this was the last pending job.
        unsafe { finish(run, context) };
    }
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
    // SAFETY: the caller passes a run that is not over; the feeder is pending.
    let over = unsafe { GraphRun::as_job(run, context, GraphRun::feed) };
    if over {
        // SAFETY: `as_job` returned true: this was the last pending job.
        unsafe { finish(run, context) };
    }
}

/// Ends a run on the heap, then the outer run if this was the last job of it, and so on. It is a
/// loop and not a recursion, since runs may be nested thousands deep.
///
/// # Safety
/// The run was made by `start`, and `GraphRun::done` has returned true to the caller, which happens
/// once.
pub(super) unsafe fn finish(run: *const GraphRun<'static>, context: &WorkerContext<'_, '_>) {
    unwind::or_abort(|| {
        let mut over = Some(OuterRun(run));
        while let Some(OuterRun(run)) = over {
            // SAFETY: no other worker uses the run any more. The same holds for the outer runs that
            // this loop gets from `on_end`.
            let heap = unsafe { &(*run).heap };
            let run = heap.as_ref().expect("the run is on the heap").run;
            // SAFETY: `start` leaked it, and this is the pointer that `start` got.
            let mut run = unsafe { Box::from_raw(run) };
            let heap = run.heap.take().expect("it was there a moment ago");
            // SAFETY: `start` leaked the box of the plan. No job of the run is left, and the run is
            // dropped before the plan is changed.
            let mut plan = unsafe { Box::from_raw(heap.plan) };
            let outcome = run.outcome(&plan);
            drop(run);
            plan.reset_after_run(outcome.stopped);
            over = (heap.on_end)(*plan, outcome, context);
        }
    });
}

impl GraphRun<'_> {
    /// Runs `f` as a job of the pool. Returns true if the run is on the heap and this was its last
    /// job.
    ///
    /// # Safety
    /// The job is pending, so that `this` lives. The run may be freed once the job is done, so
    /// `this` is a pointer.
    #[inline(always)]
    unsafe fn as_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        f: impl FnOnce(&Self, &WorkerContext<'_, '_>),
    ) -> bool {
        // SAFETY: the caller's job is pending, so `this` lives.
        let run = unsafe { &*this };
        if run.begin_job(context) && run.shape.has_joins && !run.is_special {
            run.bias.revoke();
        }
        let call = || context.isolate_if(run.isolated, || f(run, context));
        if run.owner == NO_OWNER {
            active_plans::enter(run.plan_id(), call);
        } else {
            call();
        }
        // SAFETY: the caller's job is still pending, and `run` is not used below.
        unsafe { Self::done(this, context) }
    }

    /// Runs a task and the tasks that it releases. `admitted`: the task has acquired its
    /// semaphores.
    #[inline(always)]
    pub(super) fn strand(&self, context: &WorkerContext<'_, '_>, first: u32, admitted: bool) {
        if self.is_special {
            self.strand_special(context, first, admitted);
        } else {
            self.strands(context, &SingleTask::new(first));
        }
    }

    pub(super) fn feeder_job(&self) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(ptr::from_ref(self), run_feeder) }
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
