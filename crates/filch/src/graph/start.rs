//! How a run begins and ends: in the stack frame of a waiting worker, or on the heap.
#![expect(unsafe_code, reason = "runs in the heap, that end themselves")]

use super::{
    context::Context,
    error::{Outcome, RunError},
    node::Then,
    plan::{Alone, Place, Plan},
    remote::Remote,
    report::RunReport,
    run::{End, Outer, Run},
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
    if plan.shape.special {
        let remote = Remote::new(context.pool(), context.worker());
        return run_with(plan, context, &remote).into_result();
    }
    forget_values(plan, context.pool());
    let stop = Padded::new(AtomicBool::new(false));
    let mut run = Run::new(context.pool(), context.worker(), plan, &stop);
    run.isolated = context.is_isolated();
    run.alone = context.may_isolate_waits();
    let began = context.mark();
    let feed = || {
        run.pending.add_here();
        run.feed(context);
        run.unhold(context);
    };
    let work = || {
        run.nodes[0].lead_to(ptr::from_ref(&run).cast());
        context.with_wait_target(&run.pending, feed);
        if !run.pending.happened() {
            match run.alone {
                true => context.wait(&run, began),
                false => context.wait(&run.pending, began),
            }
        }
    };
    // An unwind must not leave this frame: the strands point into it.
    unwind::or_abort(|| match run.shape.alone {
        Some(alone) => context.spared(alone == Alone::IfTiny, work),
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
    /// # Errors
    /// Returns an error when tasks panic. Then no more tasks are released, and the error contains
    /// all the panics once the running tasks are done. The plan can be run again.
    pub fn run(&mut self) -> Result<RunReport, RunError> {
        on_current(|context| run(self, context))
    }

    /// Like [`run`](Self::run), on the given pool.
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
                ran = run(self, context).plus(ran)?.ran;
            }
            Ok(RunReport { ran })
        })
    }

    /// Runs the graph until `stop` returns true; `stop` is called after every run.
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_until(&mut self, mut stop: impl FnMut() -> bool) -> Result<RunReport, RunError> {
        on_current(|context| {
            let mut ran = 0;
            loop {
                ran = run(self, context).plus(ran)?.ran;
                if stop() {
                    return Ok(RunReport { ran });
                }
            }
        })
    }
}

/// Sums up the results of several runs.
pub(super) trait Plus {
    /// Returns the same result with `ran` tasks of earlier runs added.
    fn plus(self, ran: u64) -> Self;
}

impl Plus for Result<RunReport, RunError> {
    #[inline]
    fn plus(mut self, before: u64) -> Self {
        match &mut self {
            Ok(report) => report.ran += before,
            Err(error) => error.ran += before,
        }
        self
    }
}

/// Drops the values of the previous run: a task that does not run in this one has no value.
#[inline]
fn forget_values(plan: &Plan<'_>, pool: &Inner) {
    plan.parts.values.clear(|payload| pool.panicked(payload));
}

/// Like `run` with an existing `remote`, whose owner is this worker.
pub(super) fn run_with(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
    remote: &Arc<Remote>,
) -> Outcome {
    forget_values(plan, context.pool());
    let mut run = Run::new(context.pool(), context.worker(), plan, &remote.stop);
    run.isolated = context.is_isolated();
    run.alone = context.has_isolated_waits();
    run.remote = Some(remote.clone());
    let began = context.mark();
    // As in `run`: the strands point into this frame.
    unwind::or_abort(|| {
        run.nodes[0].lead_to(ptr::from_ref(&run).cast());
        run.pending.add_here();
        run.feed(context);
        run.unhold(context);
        context.wait(&run, began);
    });
    let outcome = run.outcome(plan);
    plan.settle(outcome.stopped);
    outcome
}

/// Starts a run on the heap: `then` is called with the plan when it is over. `context` is the
/// calling worker, or `None` if the caller is not a worker.
///
/// What the plan borrows must live until then. For runs inside of tasks it does because the outer
/// run is held; all other plans borrow nothing.
pub(super) fn start(
    plan: Plan<'static>,
    remote: &Arc<Remote>,
    context: Option<&WorkerContext<'_, '_>>,
    isolated: bool,
    then: impl FnOnce(Plan<'static>, Outcome, &WorkerContext<'_, '_>) -> Option<Outer> + Send + 'static,
) {
    forget_values(&plan, remote.pool());
    let plan = Box::into_raw(Box::new(plan));
    let stop = &raw const remote.stop;
    // SAFETY: the run has a share of the remote, and lives no longer.
    let stop = unsafe { &*stop };
    // SAFETY: the box is freed by `finish`, after the run.
    let borrowed = unsafe { &*plan };
    let mut run = Run::new(remote.pool(), NO_OWNER, borrowed, stop);
    run.isolated = isolated;
    run.remote = Some(remote.clone());
    run.pending.add_elsewhere();
    // As if the owner slept: the worker that ends the last strand learns that it was the last.
    let asleep = run.pending.register_sleeper(NO_OWNER);
    debug_assert!(asleep);
    let run = Box::into_raw(Box::new(run));
    let end = End {
        run,
        plan,
        then: Box::new(then),
    };
    // SAFETY: no job of the run is queued yet, so this is the only pointer to it.
    unsafe { (*run).end = Some(end) };
    // SAFETY: it has one pending job, the feeder, which is not queued yet.
    let run = unsafe { &*run };
    run.nodes[0].lead_to(ptr::from_ref(run).cast());
    let feeder = run.feeder_job();
    match context {
        Some(context) if !context.is_guest() || run.keeps(context) => {
            context.push_detached(feeder, Placement::Local);
        }
        _ => remote.send(feeder, false),
    }
}

/// Runs `plan` inside of the running task. If it is `joined`, the task is done when the plan is
/// done; otherwise only the whole run waits for it. Afterwards the plan is stored in `place`, or
/// dropped.
pub(super) fn run_inside<'env>(
    cx: &Context<'_, '_, '_>,
    plan: Plan<'env>,
    joined: bool,
    name: String,
    place: Option<Place>,
) -> Then {
    // What the plan borrows outlives the outer plan, whose run is held until this run is over.
    let plan = plan.forget_env();
    if plan.is_empty() {
        put(place, plan, cx.context);
        return Then::All;
    }
    let index = cx.index();
    cx.run.hold(cx.context);
    let outer = Outer(ptr::from_ref(cx.run).cast());
    let then = move |plan: Plan<'static>, outcome: Outcome, context: &WorkerContext<'_, '_>| {
        put(place, plan, context);
        let pointer = outer.get();
        // SAFETY: the outer run is held, so it is alive.
        let outer = unsafe { &*pointer };
        let unfinished = outcome.cut || outcome.has_failed();
        outer.absorb(&name, outcome);
        if joined && unfinished {
            outer.abandon(index);
        } else if joined {
            outer.complete(context, index);
        }
        // SAFETY: the outer run is held until this call.
        let over = unsafe { Run::done(pointer, context) };
        over.then_some(Outer(pointer))
    };
    let go = move |cx: &Context<'_, '_, '_>| {
        start(plan, cx.remote(), Some(cx.context), cx.run.isolated, then);
    };
    if joined {
        cx.later(go);
        return Then::Later;
    }
    go(cx);
    Then::All
}

/// Stores a plan in its place, or drops it, which runs the user's code.
fn put(place: Option<Place>, plan: Plan<'static>, context: &WorkerContext<'_, '_>) {
    let old = match place {
        Some(place) => place.put(plan),
        None => Some(plan),
    };
    if let Err(payload) = unwind::contain(|| drop(old)) {
        context.pool().panicked(payload);
    }
}
