//! The options of a run.

use super::{control::RunControl, error::RunError, plan::Plan, report::RunReport, start};
use crate::{
    cancel::{CancelToken, OnCancel, Watch},
    pool::{Pool, context::WorkerContext, on_current},
};
use std::sync::{Arc, Weak};

/// The options of a run: see [`Plan::run_with`] and
/// [`Pipeline::run_with`](super::Pipeline::run_with).
///
/// ```
/// use filch::{Graph, Pool, graph::RunOptions};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let mut runs = 0;
/// let graph = Graph::new();
/// graph.task("count", || runs += 1);
/// graph.plan()?.run_with(&RunOptions::new().on(&pool).times(3))?;
/// assert_eq!(runs, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RunOptions {
    pool: Option<Pool>,
    cancel: Option<CancelToken>,
    times: Option<u64>,
}

impl RunOptions {
    /// Returns the defaults: one run, on the pool whose worker the caller is, otherwise on the
    /// global one, without a token.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    ///
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// assert_eq!(graph.plan()?.run_with(&RunOptions::new())?.ran(), 1); // as `run`
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the pool.
    ///
    /// ```
    /// use filch::{Graph, Pool, graph::RunOptions};
    ///
    /// let pool = Pool::builder().workers(3).build()?;
    /// let graph = Graph::new();
    /// graph.task("where", || assert_eq!(Pool::current().unwrap().workers(), 3));
    /// graph.plan()?.run_with(&RunOptions::new().on(&pool))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(mut self, pool: &Pool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// Stops the run when this token is cancelled. Running tasks are not interrupted, but they may
    /// check the token. No other tasks are released, and futures that wait are dropped.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, graph::RunOptions};
    ///
    /// let token = CancelToken::new();
    /// let graph = Graph::new();
    /// let long = graph.task("long", || {
    ///     for step in 0..1_000_000 {
    ///         if token.is_cancelled() {
    ///             return;
    ///         }
    ///         if step == 10 {
    ///             token.cancel(); // or from any other thread
    ///         }
    ///     }
    /// });
    /// long.precede(graph.task("never", || unreachable!()));
    /// let error = graph.plan()?.run_with(&RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Sets the number of runs, one after the other.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    ///
    /// let mut frames = 0;
    /// let graph = Graph::new();
    /// graph.task("draw", || frames += 1);
    /// let report = graph.plan()?.run_with(&RunOptions::new().times(60))?;
    /// assert_eq!(report.ran(), 60);
    /// assert_eq!(frames, 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Returns the number of runs.
    pub(super) fn count(&self) -> u64 {
        self.times.unwrap_or(1)
    }

    /// Calls `f` on the pool.
    pub(super) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        match &self.pool {
            Some(pool) => pool.enter_worker(f),
            None => on_current(f),
        }
    }

    /// Lets the token, if there is one, stop `run` until the result is dropped.
    pub(super) fn register_cancel<T: OnCancel + 'static>(
        &self,
        run: &Arc<T>,
    ) -> Option<CancelRegistration> {
        Some(CancelRegistration::new(self.cancel.as_ref()?, run))
    }

    fn run(&self, plan: &mut Plan<'_>) -> Result<RunReport, RunError> {
        self.enter_worker(|context| {
            let mut ran = 0;
            for _ in 0..self.count() {
                ran = start::add_ran(self.run_once(plan, context), ran)?.ran;
            }
            Ok(RunReport { ran })
        })
    }

    fn run_once(
        &self,
        plan: &mut Plan<'_>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<RunReport, RunError> {
        if self.cancel.is_none() {
            return start::run(plan, context);
        }
        let control = RunControl::new(context.pool(), context.worker());
        let _registration = self.register_cancel(&control);
        start::run_with(plan, context, &control).into_result()
    }
}

impl Plan<'_> {
    /// Like [`run`](Self::run) with options: the pool, the number of runs, a token that cancels it.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, graph::RunOptions};
    ///
    /// let token = CancelToken::new();
    /// let graph = Graph::new();
    /// let first = graph.task("first", || { token.cancel(); });
    /// first.precede(graph.task("second", || unreachable!()));
    /// let mut plan = graph.plan()?;
    ///
    /// let error = plan.run_with(&RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled());
    /// assert_eq!(error.skipped(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); also when it was cancelled before all tasks had run.
    pub fn run_with(&mut self, options: &RunOptions) -> Result<RunReport, RunError> {
        options.run(self)
    }
}

/// Registers a run with a token. The token can cancel the run until this is dropped.
pub(super) struct CancelRegistration(Option<(CancelToken, Watch)>);

impl CancelRegistration {
    pub(super) fn new<T: OnCancel + 'static>(token: &CancelToken, run: &Arc<T>) -> Self {
        let weak: Weak<T> = Arc::downgrade(run);
        match token.watch(weak) {
            Ok(watch) => Self(Some((token.clone(), watch))),
            Err(reason) => {
                run.clone().on_cancel(reason);
                Self(None)
            }
        }
    }
}

impl Drop for CancelRegistration {
    fn drop(&mut self) {
        if let Some((token, watch)) = self.0.take() {
            // The token may be cancelled at this moment: then the run is stopped, which has no
            // effect since it is over.
            token.unwatch(watch);
        }
    }
}
