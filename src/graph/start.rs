//! How a run begins and ends: in the frame of somebody who waits, or in the heap.
#![expect(unsafe_code, reason = "runs in the heap, that end themselves")]

use super::{
    context::Context,
    error::{Outcome, RunError},
    flow::Place,
    node::Then,
    plan::{Alone, Plan, RunReport},
    remote::{NOBODY, Remote},
    run::Run,
};
use crate::{
    base::{padded::Padded, sync::AtomicBool, unwind},
    pool::{Inner, context::WorkerContext, latch::Awaited},
};
use std::{ptr, sync::Arc};

/// What is done when a run in the heap is over. The plan comes back, ready to be run again.
pub(super) struct End {
    /// The run itself, as `Box::into_raw` gave it. The jobs reach the run through shared
    /// references, and memory must not be freed through a pointer that comes from one.
    run: *mut Run<'static>,
    plan: *mut Plan<'static>,
    then: Ending,
}

/// Gives back the run around it, when that is over too.
type Ending =
    Box<dyn FnOnce(Plan<'static>, Outcome, &WorkerContext<'_, '_>) -> Option<Outer> + Send>;

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
    // The strands point into this frame.
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

/// What the tasks make is of one run: a task that does not come to its turn has made nothing.
#[inline]
fn forget_values(plan: &Plan<'_>, pool: &Inner) {
    plan.parts.values.clear(|payload| pool.panicked(payload));
}

/// The same with `remote`, whose owner is the worker.
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
    // As above.
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

/// Starts a run that nobody waits for in a frame: `then` is called when it is over, with the plan. On a worker, which is
/// `context`, or from outside.
///
/// What the plan borrows must live until then: for runs inside of tasks that is so because the outer run is held, all
/// others are of plans that borrow nothing.
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
    let mut run = Run::new(remote.pool(), NOBODY, borrowed, stop);
    run.isolated = isolated;
    run.remote = Some(remote.clone());
    run.pending.add_elsewhere();
    // As if the owner slept: whoever ends the last strand is told.
    let asleep = run.pending.sleep(NOBODY);
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
        Some(context) if !context.is_guest() || run.keeps(context) => context.push_detached(feeder),
        _ => remote.send(feeder, false),
    }
}

/// Ends a run in the heap, and the one around it if this was the last of it, and so on: runs inside of runs may be
/// thousands deep, so the stack is not for them.
///
/// # Safety
/// It was made by `start`, and `Run::done` has told that it is over: to the caller alone.
pub(super) unsafe fn finish(run: *const Run<'static>, context: &WorkerContext<'_, '_>) {
    unwind::or_abort(|| {
        let mut over = Some(Outer(run));
        while let Some(Outer(run)) = over {
            // SAFETY: the caller is the only one left that has it, as is this loop for those around
            // it.
            let end = unsafe { &(*run).end };
            let run = end.as_ref().expect("runs in the heap have an end").run;
            // SAFETY: `start` leaked it, and this is the pointer that it got.
            let mut run = unsafe { Box::from_raw(run) };
            let end = run.end.take().expect("it was there a moment ago");
            // SAFETY: `start` leaked it.
            let mut plan = unsafe { Box::from_raw(end.plan) };
            let outcome = run.outcome(&plan);
            drop(run);
            plan.settle(outcome.stopped);
            over = (end.then)(*plan, outcome, context);
        }
    });
}

/// A run, in the hands of one inside of it.
pub(super) struct Outer(*const Run<'static>);

// SAFETY: `Run` is `Sync`.
unsafe impl Send for Outer {}

impl Outer {
    fn get(&self) -> *const Run<'static> {
        self.0
    }
}

/// Runs `plan` inside of the task that is running; the task is done when the plan is, if it is `joined`; otherwise
/// only the whole run waits for it. Then the plan goes to `place`, or is dropped.
pub(super) fn run_inside<'env>(
    cx: &Context<'_, '_, '_>,
    plan: Plan<'env>,
    joined: bool,
    name: String,
    place: Option<Place>,
) -> Then {
    // What it borrows outlives the outer plan, whose run is held until it is over.
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
            outer.abandon(context, index);
        } else if joined {
            outer.complete(context, index);
        }
        // SAFETY: as above.
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

/// Puts a plan back, or drops it, which is the user's code.
fn put(place: Option<Place>, plan: Plan<'static>, context: &WorkerContext<'_, '_>) {
    let old = match place {
        Some(place) => place.put(plan),
        None => Some(plan),
    };
    if let Err(payload) = unwind::contain(|| drop(old)) {
        context.pool().panicked(payload);
    }
}
