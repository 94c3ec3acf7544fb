//! The options of a run.

use super::{
    control::RunControl,
    error::RunError,
    plan::Plan,
    progress::{OnProgress, ProgressReporter, RunProgress},
    report::RunReport,
    settings::RunSettings,
    start,
};
use crate::{
    cancel::{CancelToken, OnCancel, TaskBatch, Watch},
    engine::Priority,
    pool::{Pool, context::WorkerContext, job_limit::JobLimit, on_current},
};
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// The options of a run: see [`Plan::run_with`], [`Pool::launch_with`] and
/// [`Pipeline::run_with`](super::Pipeline::run_with). Pipelines use the pool, the token and the
/// number of runs; the other options are for graphs.
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
#[derive(Clone, Default)]
#[must_use]
pub struct RunOptions {
    pool: Option<Pool>,
    cancel: Option<CancelToken>,
    times: Option<u64>,
    keep_going: bool,
    priority: Priority,
    jobs: Option<usize>,
    on_progress: Option<OnProgress>,
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

    /// Decides what a task that fails stops: false, the default, means everything, true only the
    /// tasks that depend on it. A task fails when it [returns an error](super::Graph::try_task) or
    /// panics; the run has failed in either case, and its error lists all failures.
    ///
    /// A graph inside a task that has failed makes that task fail too. A task counts arrivals, and
    /// not which predecessors they come from: where a condition repeats one predecessor, the task
    /// may run although another one has failed.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    ///
    /// let mut tested = false;
    /// let graph = Graph::new();
    /// let compile = graph.try_task("compile", || Err::<(), _>("a typo"));
    /// compile.precede(graph.task("link", || unreachable!()));
    /// graph.task("test the rest", || tested = true);
    /// let error = graph.plan()?.run_with(&RunOptions::new().keep_going(true)).unwrap_err();
    /// assert_eq!(error.to_string(), "compile failed: a typo (1 task skipped)");
    /// assert!(tested);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    pub fn keep_going(mut self, on: bool) -> Self {
        self.keep_going = on;
        self
    }

    /// Sets the priority of the whole run among all work of the pool. The tasks of an urgent run,
    /// and of the graphs inside its tasks, come before other work on every worker, and those of a
    /// [`Low`](Priority::Low) one when there is no other. Tasks that have started are not
    /// interrupted.
    ///
    /// A run with a priority costs more for each task: all workers take its tasks from one queue.
    ///
    /// ```
    /// use filch::{Graph, Pool, Priority, graph::RunOptions};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let pool = Pool::builder().workers(0).build()?; // nothing runs before the last line
    /// let order = Arc::new(Mutex::new(vec![]));
    /// let launch = |name: &'static str, priority| {
    ///     let (graph, order) = (Graph::new(), order.clone());
    ///     graph.task(name, move || order.lock().unwrap().push(name));
    ///     let options = RunOptions::new().priority(priority);
    ///     pool.launch_with(graph.plan().unwrap(), &options)
    /// };
    /// let runs = [
    ///     launch("report", Priority::Low),
    ///     launch("index", Priority::Normal),
    ///     launch("answer", Priority::High),
    /// ];
    /// runs.into_iter().for_each(|run| assert_eq!(run.join().unwrap().ran(), 1));
    /// assert_eq!(*order.lock().unwrap(), ["answer", "index", "report"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Limits the run to `n` tasks at the same time, those that the calling thread runs included:
    /// `jobs(1)` runs one task after the other. Without it a run uses all workers of the pool, and
    /// the caller.
    ///
    /// The tasks of graphs inside tasks count as well. A future or a graph inside a task does not
    /// count while it waits. What a task does in parallel itself, with a loop, a join, or a run of
    /// another plan, is not limited. A task must not wait for another one of the same run.
    ///
    /// ```
    /// use filch::{Graph, Pool, graph::RunOptions};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let pool = Pool::builder().workers(3).build()?;
    /// let running = AtomicU32::new(0);
    /// let graph = Graph::new();
    /// for _ in 0..20 {
    ///     graph.task("", || {
    ///         assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
    ///         running.fetch_sub(1, Ordering::SeqCst);
    ///     });
    /// }
    /// graph.plan()?.run_with(&RunOptions::new().on(&pool).jobs(2))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn jobs(mut self, n: usize) -> Self {
        JobLimit::check(n, "jobs of a run");
        self.jobs = Some(n);
        self
    }

    /// Calls `f` as tasks of the run are done, on the workers that run them. There is one call at a
    /// time, and the numbers grow. Tasks that are done while `f` runs are reported together by the
    /// next call, and the last call comes before the end of the run. Each of several runs starts
    /// again at 0.
    ///
    /// ```
    /// use filch::{Graph, graph::RunOptions};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let graph = Graph::new();
    /// graph.linearize((0..4).map(|_| graph.task("", || ())));
    /// let seen = Arc::new(Mutex::new(vec![]));
    /// let inside = seen.clone();
    /// let options = RunOptions::new().on_progress(move |progress| {
    ///     inside.lock().unwrap().push((progress.done(), progress.total()));
    /// });
    /// graph.plan()?.run_with(&options)?;
    /// assert_eq!(*seen.lock().unwrap(), [(1, 4), (2, 4), (3, 4), (4, 4)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A panic of `f` goes to [`on_panic`](crate::PoolBuilder::on_panic).
    pub fn on_progress(mut self, f: impl Fn(RunProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(f));
        self
    }

    pub(super) fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Returns what has to be known while the tasks run.
    pub(super) fn settings(&self) -> RunSettings {
        RunSettings {
            keep_going: self.keep_going,
            level: self.priority,
            job_limit: self.jobs.map(JobLimit::new),
            progress: self.on_progress.clone().map(ProgressReporter::new),
        }
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
        let settings = self.settings();
        if self.cancel.is_none() && !settings.are_special() {
            return start::run(plan, context);
        }
        let control = RunControl::with_settings(context.pool(), context.worker(), 0, settings);
        let _registration = self.register_cancel(&control);
        start::run_with(plan, context, &control).into_result()
    }
}

impl Plan<'_> {
    /// Like [`run`](Self::run) with options: the pool, the number of runs, a token that cancels it,
    /// and so on.
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
    /// assert_eq!(error.skipped().collect::<Vec<_>>(), ["second"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); also when it was cancelled before all tasks had run.
    pub fn run_with(&mut self, options: &RunOptions) -> Result<RunReport, RunError> {
        options.run(self)
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("pool", &self.pool)
            .field("cancel", &self.cancel)
            .field("times", &self.count())
            .field("keep_going", &self.keep_going)
            .field("priority", &self.priority)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
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
                run.clone().on_cancel(reason, &mut TaskBatch::default());
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
