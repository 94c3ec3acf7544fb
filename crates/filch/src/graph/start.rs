//! How a run begins and ends: in the stack frame of a waiting worker, or on the heap.
#![expect(unsafe_code, reason = "runs in the heap, that end themselves")]

use super::{
    context::TaskContext,
    control::RunControl,
    error::{RunError, RunOutcome},
    node::Release,
    plan::{Plan, PlanSlot, SequentialHint},
    report::RunReport,
    run::{GraphRun, HeapRun, OuterRun},
};
use crate::{
    base::{padded::Padded, sync::AtomicBool, unwind},
    engine::Placement,
    pool::{
        Inner, Pool, context::WorkerContext, latch::WaitTarget, on_current, pending_group::NO_OWNER,
    },
};
use std::{ptr, sync::Arc};

/// Runs `plan` as a worker of a pool, and returns when it is done.
pub(super) fn run(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
) -> Result<RunReport, RunError> {
    if plan.shape.is_special {
        let control = RunControl::new(context.pool(), context.worker());
        return run_with(plan, context, &control).into_result();
    }
    forget_values(plan, context.pool());
    let stop = Padded::new(AtomicBool::new(false));
    let mut run = GraphRun::new(context.pool(), context.worker(), plan, &stop);
    run.isolated = context.is_isolated();
    run.isolated_wait = context.may_isolate_waits();
    let began = context.mark();
    let feed = || {
        run.pending.add_here();
        run.feed(context);
        run.remove_pending(context);
    };
    let work = || {
        run.nodes[0].set_run(ptr::from_ref(&run).cast());
        context.with_wait_target(&run.pending, feed);
        if !run.pending.happened() {
            match run.isolated_wait {
                true => context.wait(&run, began),
                false => context.wait(&run.pending, began),
            }
        }
    };
    // An unwind must not leave this frame: the strands point into it.
    unwind::or_abort(|| match run.shape.sequential_hint {
        Some(hint) => context.spared(hint == SequentialHint::TinyTasks, work),
        None => work(),
    });
    if let Some(ran) = run.success() {
        return Ok(RunReport { ran });
    }
    let outcome = run.outcome(plan);
    plan.reset();
    outcome.into_result()
}

impl Plan<'_> {
    /// Runs the graph on the pool whose worker the caller is, otherwise on the global one, and
    /// returns when all of it is done. The calling thread works on it too.
    ///
    /// ```
    /// let mut numbers = [1, 2, 3, 4];
    /// let graph = filch::Graph::new();
    /// for n in &mut numbers {
    ///     graph.task("square", || *n *= *n);
    /// }
    /// let mut plan = graph.plan()?;
    /// assert_eq!(plan.run()?.ran(), 4);
    /// drop(plan);
    /// assert_eq!(numbers, [1, 4, 9, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when tasks panic. No more tasks are released then, and the error
    /// contains all the panics once the running tasks are done. The plan can be run again.
    pub fn run(&mut self) -> Result<RunReport, RunError> {
        on_current(|context| run(self, context))
    }

    /// Like [`run`](Self::run), on the given pool.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// assert_eq!(graph.plan()?.run_on(&pool)?.ran(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&mut self, pool: &Pool) -> Result<RunReport, RunError> {
        pool.enter_worker(|context| run(self, context))
    }

    /// Runs the graph `times` times, one run after the other.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let mut runs = 0;
    /// let graph = Graph::new();
    /// graph.task("count", || runs += 1);
    /// graph.plan()?.run_n(10)?;
    /// assert_eq!(runs, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_n(&mut self, times: u64) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            for _ in 0..times {
                ran = add_ran(run(self, context), ran)?.ran;
            }
            Ok(RunReport { ran })
        })
    }

    /// Runs the graph until `stop` returns true; `stop` is called after every run.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let left = AtomicU32::new(10);
    /// let graph = filch::Graph::new();
    /// graph.task("improve", || { left.fetch_sub(3, Ordering::Relaxed); });
    /// let report = graph.plan()?.run_until(|| left.load(Ordering::Relaxed) < 3)?;
    /// assert_eq!(report.ran(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_until(&mut self, mut stop: impl FnMut() -> bool) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            loop {
                ran = add_ran(run(self, context), ran)?.ran;
                if stop() {
                    return Ok(RunReport { ran });
                }
            }
        })
    }
}

/// Adds the number of tasks that earlier runs have run to the result of a run.
#[inline]
pub(super) fn add_ran(
    mut result: Result<RunReport, RunError>,
    earlier: u64,
) -> Result<RunReport, RunError> {
    match &mut result {
        Ok(report) => report.ran += earlier,
        Err(error) => error.ran += earlier,
    }
    result
}

/// Drops the values of the previous run: a task that does not run in this one has no value.
#[inline]
fn forget_values(plan: &Plan<'_>, pool: &Inner) {
    plan.parts.values.clear(|payload| pool.panicked(payload));
}

/// Like `run` with an existing `control`, whose owner is this worker.
pub(super) fn run_with(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
    control: &Arc<RunControl>,
) -> RunOutcome {
    forget_values(plan, context.pool());
    let mut run = GraphRun::new(context.pool(), context.worker(), plan, &control.stop);
    run.isolated = context.is_isolated();
    run.isolated_wait = context.has_isolated_waits();
    run.control = Some(control.clone());
    let began = context.mark();
    // As in `run`: the strands point into this frame.
    unwind::or_abort(|| {
        run.nodes[0].set_run(ptr::from_ref(&run).cast());
        run.pending.add_here();
        run.feed(context);
        run.remove_pending(context);
        context.wait(&run, began);
    });
    let outcome = run.outcome(plan);
    plan.reset_after_run(outcome.stopped);
    outcome
}

/// Starts a run on the heap: `on_end` is called with the plan when it is over. `context` is the
/// calling worker, or `None` if the caller is not a worker.
///
/// What the plan borrows must live until then. For runs inside tasks it does because the outer run
/// counts the task as pending; all other plans borrow nothing.
pub(super) fn start(
    plan: Plan<'static>,
    control: &Arc<RunControl>,
    context: Option<&WorkerContext<'_, '_>>,
    isolated: bool,
    on_end: impl FnOnce(Plan<'static>, RunOutcome, &WorkerContext<'_, '_>) -> Option<OuterRun>
    + Send
    + 'static,
) {
    forget_values(&plan, control.pool());
    let plan = Box::into_raw(Box::new(plan));
    let stop = &raw const control.stop;
    // SAFETY: the run has a share of the control, and lives no longer.
    let stop = unsafe { &*stop };
    // SAFETY: the box is freed by `finish`, after the run.
    let borrowed = unsafe { &*plan };
    let mut run = GraphRun::new(control.pool(), NO_OWNER, borrowed, stop);
    run.isolated = isolated;
    run.control = Some(control.clone());
    run.pending.add_elsewhere();
    // As if the owner slept: the worker that ends the last strand learns that it was the last.
    let asleep = run.pending.register_sleeper(NO_OWNER);
    debug_assert!(asleep);
    let run = Box::into_raw(Box::new(run));
    let heap = HeapRun {
        run,
        plan,
        on_end: Box::new(on_end),
    };
    // SAFETY: no job of the run is queued yet, so this is the only pointer to it.
    unsafe { (*run).heap = Some(heap) };
    // SAFETY: it has one pending job, the feeder, which is not queued yet.
    let run = unsafe { &*run };
    run.nodes[0].set_run(ptr::from_ref(run).cast());
    let feeder = run.feeder_job();
    match context {
        Some(context) if !context.is_guest() || run.stays_until_end(context) => {
            context.push_detached(feeder, Placement::Local);
        }
        _ => control.send(feeder, false),
    }
}

/// Runs `plan` inside the running task. If it is `joined`, the task is done when the plan is done;
/// otherwise only the whole run waits for it. Afterwards the plan is stored in `slot`, or dropped.
pub(super) fn run_inside<'env>(
    cx: &TaskContext<'_, '_, '_>,
    plan: Plan<'env>,
    joined: bool,
    name: String,
    slot: Option<PlanSlot>,
) -> Release {
    // What the plan borrows outlives the outer plan, whose run does not end before this run.
    let plan = plan.forget_env();
    if plan.is_empty() {
        store(slot, plan, cx.context);
        return Release::All;
    }
    let index = cx.index();
    cx.run.add_pending(cx.context);
    let outer = OuterRun(ptr::from_ref(cx.run).cast());
    let on_end =
        move |plan: Plan<'static>, outcome: RunOutcome, context: &WorkerContext<'_, '_>| {
            store(slot, plan, context);
            let pointer = outer.get();
            // SAFETY: the outer run counts this run as pending, so it is alive.
            let outer = unsafe { &*pointer };
            let unfinished = outcome.incomplete || outcome.has_failed();
            outer.add_inner(&name, outcome);
            if joined && unfinished {
                outer.abandon(index);
            } else if joined {
                outer.complete(context, index);
            }
            // SAFETY: the outer run counts this run as pending until this call.
            let over = unsafe { GraphRun::done(pointer, context) };
            over.then_some(OuterRun(pointer))
        };
    let start_inner = move |cx: &TaskContext<'_, '_, '_>| {
        start(
            plan,
            cx.control(),
            Some(cx.context),
            cx.run.isolated,
            on_end,
        );
    };
    if joined {
        cx.after_return(start_inner);
        return Release::Deferred;
    }
    start_inner(cx);
    Release::All
}

/// Stores a plan in its slot, or drops it, which runs the user's code.
fn store(slot: Option<PlanSlot>, plan: Plan<'static>, context: &WorkerContext<'_, '_>) {
    let old = match slot {
        Some(slot) => slot.put(plan),
        None => Some(plan),
    };
    if let Err(payload) = unwind::contain(|| drop(old)) {
        context.pool().panicked(payload);
    }
}
