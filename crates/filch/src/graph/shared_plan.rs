//! Plans that several callers launch: their runs queue up.

use super::{
    active_plans,
    error::{RunError, RunOutcome},
    launched::Launched,
    plan::Plan,
    report::RunReport,
    start::start,
};
use crate::pool::{Pool, context::WorkerContext};
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

    /// Launches a run on the pool whose worker the caller is, otherwise on the global one, and
    /// waits for it. The calling thread works on it too.
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
    /// nothing is launched: [`RunError::is_recursive`].
    pub fn run(&self) -> Result<RunReport, RunError> {
        if active_plans::is_active(self.id()) {
            return Err(RunError::recursive());
        }
        let pool = Pool::current();
        pool.as_ref()
            .unwrap_or_else(|| Pool::global())
            .launch(self)
            .join()
    }

    /// Returns the address of the queue, which identifies the plan as long as a clone of this
    /// handle exists.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn lock(&self) -> MutexGuard<'_, RunQueue> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, launched: Arc<Launched>) {
        let mut queue = self.lock();
        match queue.plan.take() {
            Some(plan) => {
                drop(queue);
                self.begin(plan, launched);
            }
            None => queue.waiting.push_back(launched),
        }
    }

    fn begin(&self, plan: Plan<'static>, launched: Arc<Launched>) {
        let (this, control) = (self.clone(), launched.control.clone());
        let then = move |plan: Plan<'static>, outcome: RunOutcome| {
            this.next(plan);
            // If this was the last handle of the plan, the plan is dropped before the result is
            // published. That runs the user's destructors.
            launched.contain(move || drop(this));
            launched.finish(outcome);
        };
        if plan.is_empty() {
            return then(plan, RunOutcome::default());
        }
        let then = move |plan, outcome, _: &WorkerContext<'_, '_>| {
            then(plan, outcome);
            None
        };
        start(plan, &control, None, false, then);
    }

    /// Stores the plan of a finished run, or starts the next run with it.
    fn next(&self, plan: Plan<'static>) {
        let mut queue = self.lock();
        match queue.waiting.pop_front() {
            Some(launched) => {
                drop(queue);
                self.begin(plan, launched);
            }
            None => queue.plan = Some(plan),
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
