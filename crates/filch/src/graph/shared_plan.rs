//! Plans that several callers launch: their runs queue up.

use super::{
    error::{RunError, RunOutcome},
    heap_run,
    launched::Launched,
    options::RunOptions,
    plan::Plan,
    report::RunReport,
};
use crate::pool::{Pool, active_jobs};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A plan that several callers can launch. Its runs queue up: one at a time, in the order in which
/// they were launched.
///
/// ```
/// use filch::{Graph, Pool, graph::SharedPlan};
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// let count = Arc::new(AtomicU32::new(0));
/// let graph = Graph::new();
/// let inside = count.clone();
/// graph.task("count", move || { inside.fetch_add(1, Ordering::Relaxed); });
/// let plan = SharedPlan::from(graph.plan()?);
///
/// let pool = Pool::builder().workers(2).build()?;
/// let runs: Vec<_> = (0..5).map(|_| pool.launch(&plan)).collect();
/// for run in runs {
///     run.join()?;
/// }
/// assert_eq!(count.load(Ordering::Relaxed), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedPlan {
    shared: Arc<Mutex<RunQueue>>,
}

/// The queue of the runs of a shared plan.
struct RunQueue {
    /// `None` while the plan runs.
    plan: Option<Plan<'static>>,
    waiting: VecDeque<Arc<Launched>>,
}

impl From<Plan<'static>> for SharedPlan {
    fn from(plan: Plan<'static>) -> Self {
        let queue = RunQueue {
            plan: Some(plan),
            waiting: VecDeque::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(queue)),
        }
    }
}

impl From<&Self> for SharedPlan {
    fn from(plan: &Self) -> Self {
        plan.clone()
    }
}

impl SharedPlan {
    /// Returns the plan, if there is no other clone of this handle and the plan is not running.
    ///
    /// ```
    /// use filch::{Graph, Pool, graph::SharedPlan};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let plan = SharedPlan::from(graph.plan()?);
    /// pool.launch(&plan).join()?;
    /// let plan = plan.into_plan().expect("no other handle, and no run");
    /// assert_eq!(plan.edit().len(), 1); // and it can be changed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_plan(self) -> Option<Plan<'static>> {
        let queue = Arc::into_inner(self.shared)?;
        queue
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .plan
    }

    /// Launches a run on the [current pool](crate::Pool#the-current-pool), and waits for it. The
    /// calling thread works on it too.
    ///
    /// ```
    /// use filch::{Graph, graph::SharedPlan};
    ///
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let plan = SharedPlan::from(graph.plan()?);
    /// let (here, there) = filch::join(|| plan.run(), || plan.run()); // one after the other
    /// assert_eq!(here?.ran() + there?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::run`]. In a task of the plan itself the run would wait for its own end, so
    /// nothing is launched: [`RunError::is_recursive`]. If a task of the current run waits for the
    /// caller, directly or through others, the run would wait for ever as well, so it is stopped:
    /// [`RunError::is_deadlock`]. An example is the half of a `join` in such a task that another
    /// worker runs. If the caller sleeps first, a join that then closes the cycle is the
    /// [error](crate::TaskError::is_deadlock) instead.
    pub fn run(&self) -> Result<RunReport, RunError> {
        self.run_here(|pool| pool.launch(self).join_or_stop())
    }

    /// Like [`run`](Self::run), `times` times, one run after the other. Runs that others launch
    /// come before or after all of them.
    ///
    /// ```
    /// use filch::{Graph, graph::SharedPlan};
    ///
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let plan = SharedPlan::from(graph.plan()?);
    /// assert_eq!(plan.run_n(5)?.ran(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_n(&self, times: u64) -> Result<RunReport, RunError> {
        self.run_here(|pool| pool.launch_n(self, times).join_or_stop())
    }

    /// Like [`run`](Self::run), until `stop` returns true. It is called before every run, as by
    /// [`Pool::launch_until`].
    ///
    /// ```
    /// use filch::{Graph, graph::SharedPlan};
    ///
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let plan = SharedPlan::from(graph.plan()?);
    /// assert_eq!(plan.run_until(|| true)?.ran(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); it returns after the first run that fails.
    pub fn run_until(
        &self,
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> Result<RunReport, RunError> {
        self.run_here(|pool| pool.launch_until(self, stop).join_or_stop())
    }

    /// Like [`run`](Self::run) with options.
    ///
    /// ```
    /// use filch::{Graph, Pool, graph::{RunOptions, SharedPlan}};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let plan = SharedPlan::from(graph.plan()?);
    /// assert_eq!(plan.run_with(&RunOptions::new().on(&pool).times(2))?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); also when it was cancelled before all tasks had run.
    pub fn run_with(&self, options: &RunOptions) -> Result<RunReport, RunError> {
        self.run_here(|pool| {
            let pool = options.pool().unwrap_or(pool);
            pool.launch_with(self, options).join_or_stop()
        })
    }

    /// Calls `run` with the caller's pool, except in a task of the plan itself.
    fn run_here(
        &self,
        run: impl FnOnce(&Pool) -> Result<RunReport, RunError>,
    ) -> Result<RunReport, RunError> {
        if active_jobs::is_plan_active(self.id()) {
            return Err(RunError::recursive());
        }
        let pool = Pool::current();
        run(pool.as_ref().unwrap_or_else(|| Pool::global()))
    }

    /// Returns the address of the queue, which identifies the plan as long as a clone of this
    /// handle exists.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn lock(&self) -> MutexGuard<'_, RunQueue> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run. The caller keeps no share of this handle: the last one is dropped with the
    /// plan, which runs the user's destructors.
    pub(super) fn add(self, launched: &Arc<Launched>) {
        let mut queue = self.lock();
        match queue.plan.take() {
            Some(plan) => {
                drop(queue);
                self.proceed(plan, launched.clone(), None);
            }
            None => {
                queue.waiting.push_back(launched.clone());
                drop(queue);
                launched.contain(move || drop(self));
            }
        }
    }

    /// Starts the next run of `launched`, whose last run had the outcome `last`. If there is none,
    /// starts the first run of what waits, or stores the plan.
    fn proceed(
        self,
        plan: Plan<'static>,
        mut launched: Arc<Launched>,
        mut last: Option<RunOutcome>,
    ) {
        let mut finished = Vec::new();
        // `None` if the next run has it.
        let this = loop {
            let outcome = match plan.is_empty() {
                true => Some(RunOutcome::default()),
                false => launched.after_run(last.take()),
            };
            let Some(outcome) = outcome else {
                let again = launched.clone();
                heap_run::launch(plan, launched, move |plan, outcome| {
                    self.proceed(plan, again, Some(outcome));
                });
                break None;
            };
            launched.set_over();
            finished.push((launched, outcome));
            let mut queue = self.lock();
            let Some(next) = queue.waiting.pop_front() else {
                queue.plan = Some(plan);
                drop(queue);
                break Some(self);
            };
            drop(queue);
            launched = next;
        };
        let Some((first, _)) = finished.first() else {
            return;
        };
        // If this was the last handle of the plan, the plan is dropped before the result is
        // published. That runs the user's destructors.
        first.contain(move || drop(this));
        for (launched, outcome) in finished {
            launched.finish(outcome);
        }
    }
}

impl fmt::Debug for SharedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.lock();
        f.debug_struct("SharedPlan")
            .field("plan", &queue.plan)
            .field("waiting", &queue.waiting.len())
            .finish()
    }
}
