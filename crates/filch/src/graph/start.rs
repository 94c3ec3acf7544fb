//! How a run begins and ends in the stack frame of a waiting worker.

use super::{
    control::RunControl,
    error::{RunError, RunOutcome},
    plan::{Plan, SequentialHint},
    report::RunReport,
    run::GraphRun,
};
use crate::{
    base::{padded::Padded, sync::AtomicBool, unwind},
    pool::{Inner, Pool, context::WorkerContext, latch::WaitTarget, on_current},
};
use std::{mem, ptr, sync::Arc};

/// Runs `plan` as a worker of a pool, and returns when it is done.
pub(super) fn run(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
) -> Result<RunReport, RunError> {
    let mut is_first = true;
    run_while(plan, context, || mem::take(&mut is_first))
}

/// Runs `plan` as long as `again` returns true, which is called before every run, and until a run
/// fails.
fn run_while(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
    mut again: impl FnMut() -> bool,
) -> Result<RunReport, RunError> {
    let mut ran = 0;
    if plan.shape.is_special {
        while again() {
            let control = RunControl::new(context.pool(), context.worker());
            ran = add_ran(run_with(plan, context, &control).into_result(), ran)?.ran;
        }
        return Ok(RunReport { ran });
    }
    let stop = Padded::new(AtomicBool::new(false));
    let mut run = GraphRun::new(context.pool(), context.worker(), plan, &stop);
    let may_isolate = context.may_restrict_waits();
    while again() {
        forget_values(plan, context.pool());
        run.isolated = context.is_isolated();
        run.isolated_wait = may_isolate || run.isolated;
        run_plain(&run, context);
        let Some(more) = run.success() else {
            let mut outcome = run.outcome(plan);
            plan.reset_after_run(&mut outcome);
            return add_ran(outcome.into_result(), ran);
        };
        ran += more;
        run.rearm();
    }
    Ok(RunReport { ran })
}

/// Runs a plan that is not special, in the frame of the caller.
#[inline(always)]
fn run_plain(run: &GraphRun<'_>, context: &WorkerContext<'_, '_>) {
    let began = context.mark();
    let feed = || {
        run.pending.add_by_owner();
        run.feed(context);
        run.remove_pending(context);
    };
    let work = || {
        run.nodes[0].set_run(ptr::from_ref(run).cast());
        // Otherwise the wait would take strands that are left for unrelated jobs.
        context.keep_job_mark(began, || context.with_wait_target(&run.pending, feed));
        if !run.pending.has_happened() {
            match run.isolated_wait {
                true => context.wait(run, began),
                false => context.wait(&run.pending, began),
            }
        }
    };
    // An unwind must not leave this frame: the strands point into the caller's.
    unwind::or_abort(|| match run.shape.sequential_hint {
        Some(hint) => context.hold_off_thieves(hint == SequentialHint::TinyTasks, work),
        None => work(),
    });
}

impl Plan<'_> {
    /// Runs the graph on the [current pool](crate::Pool#the-current-pool), and returns when all of
    /// it is done. The calling thread works on it too.
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
    #[doc(alias("Executor::run", "corun"))]
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
        let mut left = times;
        let again = || {
            let is_left = left > 0;
            left = left.saturating_sub(1);
            is_left
        };
        on_current(|context| run_while(self, context, again))
    }

    /// Runs the graph until `stop` returns true; `stop` is called before every run. So the graph
    /// does not run at all if it returns true at once.
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
        on_current(|context| run_while(self, context, || !stop()))
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
pub(super) fn forget_values(plan: &Plan<'_>, pool: &Inner) {
    // A subflow that has joined runs once: its values are of the tasks that were joined.
    if !plan.parts.rare.is_allocated() || plan.parts.rare.joined > 0 {
        return;
    }
    plan.parts
        .rare
        .values
        .clear(|payload| pool.panicked(payload));
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
    run.isolated_wait = context.has_restricted_waits();
    run.set_control(control);
    run.waiter = (&raw const run).cast();
    let began = context.mark();
    // As in `run_plain`: the strands point into this frame.
    unwind::or_abort(|| {
        run.nodes[0].set_run(ptr::from_ref(&run).cast());
        run.pending.add_by_owner();
        // As in the wait below, so that walks may begin here. There are none at a checkpoint, where
        // `is_served` compares with the count.
        let feed = || match context.is_serving() {
            true => context.with_wait_target(&run.pending, || run.feed(context)),
            false => context.with_wait_target(&run, || run.feed(context)),
        };
        // As in `run_plain`.
        context.keep_job_mark(began, feed);
        run.remove_pending(context);
        context.wait(&run, began);
    });
    let mut outcome = run.outcome(plan);
    plan.reset_after_run(&mut outcome);
    outcome
}

/// Runs a plan inside a running task of `enclosing`, which waits for it. It is stopped when the
/// enclosing run is.
pub(super) fn run_in_task(
    plan: &mut Plan<'_>,
    context: &WorkerContext<'_, '_>,
    enclosing: &RunControl,
) -> RunOutcome {
    let settings = enclosing.settings().inside_call();
    let (pool, worker) = (context.pool(), context.worker());
    let control = RunControl::with_settings(pool, worker, enclosing.plan_id(), settings);
    let key = enclosing.register_on_stop(control.clone());
    if key.is_none() {
        control.stop();
    }
    let outcome = run_with(plan, context, &control);
    if let Some(key) = key {
        enclosing.unregister_on_stop(key);
    }
    outcome
}
