//! Errors of a graph, and of a run of it.

use super::{report::RunReport, skipped::SkippedTasks, task_failure::TaskFailure};
use crate::{
    base::unwind::{self, Payload},
    pool::Cycle,
    semaphore::AcquireError,
};
use std::{any::Any, error::Error, fmt, mem};

/// Why a graph cannot be run.
///
/// ```
/// use filch::Graph;
///
/// let graph = Graph::new();
/// let hen = graph.task("hen", || ());
/// let egg = graph.task("egg", || ());
/// hen.precede(egg);
/// egg.precede(hen);
/// let error = graph.plan().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "these tasks wait for each other: hen → egg → hen; remove one of the edges, or let a condition decide"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError {
    kind: GraphErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GraphErrorKind {
    Cycle(Vec<String>),
    NoSource,
    Moved(String),
    RemovedTask(u32),
    RemovedValue(String),
    Permits(String),
}

impl GraphError {
    pub(super) fn cycle(tasks: Vec<String>) -> Self {
        let kind = GraphErrorKind::Cycle(tasks);
        Self { kind }
    }

    pub(super) fn no_source() -> Self {
        let kind = GraphErrorKind::NoSource;
        Self { kind }
    }

    pub(super) fn moved(task: String) -> Self {
        let kind = GraphErrorKind::Moved(task);
        Self { kind }
    }

    pub(super) fn removed_task(number: u32) -> Self {
        let kind = GraphErrorKind::RemovedTask(number);
        Self { kind }
    }

    pub(super) fn removed_value(user: String) -> Self {
        let kind = GraphErrorKind::RemovedValue(user);
        Self { kind }
    }

    pub(super) fn permits(task: String) -> Self {
        let kind = GraphErrorKind::Permits(task);
        Self { kind }
    }

    /// Returns the tasks that wait for each other in a cycle; empty if there is another reason.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let (hen, egg) = (graph.task("hen", || ()), graph.task("egg", || ()));
    /// hen.precede(egg);
    /// egg.precede(hen);
    /// let error = graph.plan().unwrap_err();
    /// assert_eq!(error.cycle_tasks(), ["hen", "egg"]);
    /// ```
    #[must_use]
    pub fn cycle_tasks(&self) -> &[String] {
        match &self.kind {
            GraphErrorKind::Cycle(tasks) => tasks,
            _ => &[],
        }
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            GraphErrorKind::Cycle(tasks) => {
                f.write_str("these tasks wait for each other: ")?;
                for task in tasks {
                    write!(f, "{task} → ")?;
                }
                let first = tasks.first().map_or("", |task| task);
                write!(
                    f,
                    "{first}; remove one of the edges, or let a condition decide"
                )
            }
            GraphErrorKind::NoSource => f.write_str(
                "the graph has no source: every task has a predecessor; add a task without one",
            ),
            GraphErrorKind::Permits(task) => write!(
                f,
                "{task} needs more permits of a semaphore than there are; give the semaphore more"
            ),
            GraphErrorKind::RemovedTask(number) => write!(
                f,
                "an edge was added to task {number}, which had been removed or joined; do not use its handle"
            ),
            GraphErrorKind::RemovedValue(user) => write!(
                f,
                "{user} uses the value of a task that was removed; remove {user} as well"
            ),
            GraphErrorKind::Moved(task) => write!(
                f,
                "the value of {task} is moved to one task and used by another; let all of them borrow it"
            ),
        }
    }
}

impl Error for GraphError {}

/// The outcome of a run.
#[derive(Default)]
pub(super) struct RunOutcome {
    pub(super) ran: u64,
    pub(super) skipped: SkippedTasks,
    /// Whether the run was stopped.
    pub(super) stopped: bool,
    /// Whether tasks were skipped because of that.
    pub(super) incomplete: bool,
    pub(super) panics: Vec<TaskPanic>,
    pub(super) failures: Vec<TaskFailure>,
    pub(super) faults: Vec<(String, TaskFault)>,
}

/// Errors of a task other than panics and what it returns.
#[derive(Clone, Debug)]
pub(super) enum TaskFault {
    /// The task was released while it was running.
    Overlap,
    /// The graph that the task has built is invalid.
    Graph(GraphError),
    /// The task waits for a run of the plan that it belongs to.
    SelfWait,
    /// A task of the run waits for the thread that joins the run.
    Deadlock(Cycle),
    /// A semaphore that the task needs has been closed, or has become too small for it.
    Refused(AcquireError),
}

impl RunOutcome {
    /// The outcome of a run that has succeeded, with this number of tasks.
    pub(super) fn of_success(ran: u64) -> Self {
        Self {
            ran,
            ..Self::default()
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        !(self.panics.is_empty() && self.failures.is_empty() && self.faults.is_empty())
    }

    /// Adds the outcome of a run inside `task`.
    pub(super) fn add(&mut self, task: &str, inner: Self) {
        self.ran += inner.ran;
        self.skipped.add(task, inner.skipped);
        self.incomplete |= inner.incomplete;
        let full_name = |name: &str| format!("{task}/{name}");
        let panics = inner.panics.into_iter().map(|panic| TaskPanic {
            task: full_name(&panic.task),
            payload: panic.payload,
        });
        self.panics.extend(panics);
        let failures = inner.failures.into_iter().map(|failure| TaskFailure {
            task: full_name(&failure.task),
            error: failure.error,
        });
        self.failures.extend(failures);
        let faults = inner.faults.into_iter();
        self.faults
            .extend(faults.map(|(name, fault)| (full_name(&name), fault)));
    }

    pub(super) fn into_result(self) -> Result<RunReport, RunError> {
        if !self.has_failed() && !self.incomplete {
            return Ok(RunReport { ran: self.ran });
        }
        Err(RunError {
            panics: self.panics,
            failures: self.failures,
            faults: self.faults,
            ran: self.ran,
            skipped: Box::new(self.skipped),
        })
    }
}

/// Why a run of a graph did not finish.
///
/// It failed, because tasks panicked or returned errors, a semaphore refused the units that a task
/// needs, or the graph is invalid in a way that only a run can show; or it was cancelled.
///
/// Its [`source`](Error::source) is the first error that a task has returned.
pub struct RunError {
    pub(super) panics: Vec<TaskPanic>,
    pub(super) failures: Vec<TaskFailure>,
    pub(super) faults: Vec<(String, TaskFault)>,
    pub(super) ran: u64,
    /// In a box, because results of runs are moved through several calls.
    pub(super) skipped: Box<SkippedTasks>,
}

/// The panic of one task.
pub struct TaskPanic {
    pub(super) task: String,
    pub(super) payload: Payload,
}

impl TaskPanic {
    /// Returns the name of the task, or its number.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// graph.task("divide", || resume_unwind(Box::new("by zero"))); // `panic!` without its message
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.panics()[0].task(), "divide");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the payload of the panic.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// graph.task("divide", || resume_unwind(Box::new(42_u32)));
    /// let error = graph.plan()?.run().unwrap_err();
    /// let panic = error.into_panics().remove(0);
    /// assert_eq!(panic.into_payload().downcast_ref(), Some(&42_u32));
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl RunError {
    /// Creates the error of a task that waits for a run of its own plan.
    pub(super) fn recursive() -> Self {
        Self {
            panics: Vec::new(),
            failures: Vec::new(),
            faults: vec![(String::new(), TaskFault::SelfWait)],
            ran: 0,
            skipped: Box::default(),
        }
    }

    /// Creates the error of a join that can never end.
    pub(super) fn deadlock(cycle: Cycle) -> Self {
        Self {
            faults: vec![(String::new(), TaskFault::Deadlock(cycle))],
            ..Self::recursive()
        }
    }

    /// Whether the join would have waited for ever, because a task of the run, or of an earlier run
    /// of the same plan, waits for the caller, directly or through others. A launched run
    /// continues; its result is lost. A [run of a shared plan](super::SharedPlan::run) is stopped.
    ///
    /// ```
    /// use filch::{Graph, Pool, TaskHandle, graph::RunHandle};
    /// use std::sync::{Mutex, mpsc};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let (to_task, task) = mpsc::channel::<TaskHandle<bool>>();
    /// let (to_joiner, run) = mpsc::channel::<RunHandle>();
    /// let (graph, task) = (Graph::new(), Mutex::new(task));
    /// graph.task("waits", move || {
    ///     // Waits for the task, which waits for the run.
    ///     let task = task.lock().unwrap().recv().unwrap();
    ///     if task.join().is_err_and(|error| error.is_deadlock()) {
    ///         println!("the join of the task is the one that fails");
    ///     }
    /// });
    /// to_joiner.send(pool.launch(graph.plan()?))?;
    /// let joins = move || run.recv().unwrap().join().is_err_and(|error| error.is_deadlock());
    /// to_task.send(pool.submit(joins))?; // one of them gets the error, so both end
    /// pool.shutdown();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        self.cycle().is_some()
    }

    /// Returns what waits for each other, if this is a [deadlock](Self::is_deadlock). It is part of
    /// the error message as well.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.task("bad", || std::panic::resume_unwind(Box::new("no luck")));
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert!(!error.is_deadlock() && error.cycle().is_none()); // another error
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn cycle(&self) -> Option<&Cycle> {
        self.faults.iter().find_map(|(_, fault)| match fault {
            TaskFault::Deadlock(cycle) => Some(cycle),
            _ => None,
        })
    }

    /// Whether a task has waited for a run of its own [shared plan](super::SharedPlan), which
    /// cannot begin, or end, before that task has ended. If a part of the task on another thread
    /// waits, that is a [deadlock](Self::is_deadlock).
    ///
    /// ```
    /// use filch::{Graph, graph::SharedPlan};
    /// use std::sync::{Arc, OnceLock};
    ///
    /// let own = Arc::new(OnceLock::<SharedPlan>::new());
    /// let (graph, inside) = (Graph::new(), own.clone());
    /// graph.task("again", move || {
    ///     let plan = inside.get().unwrap();
    ///     assert!(plan.run().unwrap_err().is_recursive());
    /// });
    /// let plan = own.get_or_init(|| graph.plan().unwrap().into());
    /// plan.run()?;
    /// # Ok::<(), filch::graph::RunError>(())
    /// ```
    #[must_use]
    pub fn is_recursive(&self) -> bool {
        let itself = |(_, fault): &(String, TaskFault)| matches!(fault, TaskFault::SelfWait);
        self.faults.iter().any(itself)
    }

    /// Returns all panics of the run, in the order in which they were caught.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// let bad = graph.task("bad", || resume_unwind(Box::new("no luck")));
    /// bad.precede(graph.task("after", || unreachable!()));
    /// let error = graph.plan()?.run().unwrap_err();
    /// for panic in error.panics() {
    ///     assert_eq!(panic.to_string(), "bad panicked: no luck");
    /// }
    /// assert_eq!(error.panics().len(), 1);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn panics(&self) -> &[TaskPanic] {
        &self.panics
    }

    /// Returns all panics of the run, in the order in which they were caught.
    ///
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    ///
    /// let graph = filch::Graph::new();
    /// graph.task("bad", || resume_unwind(Box::new("no luck")));
    /// let error = graph.plan()?.run().unwrap_err();
    /// let first = error.into_panics().remove(0);
    /// // Propagate the panic, as a call of the closure would have.
    /// let caught = catch_unwind(AssertUnwindSafe(|| resume_unwind(first.into_payload())));
    /// assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"no luck"));
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn into_panics(self) -> Vec<TaskPanic> {
        self.panics
    }

    /// Returns the errors that tasks have returned, in the order in which they were returned.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.try_task("measure", || Err::<(), _>("no ruler"));
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.failures().len(), 1);
    /// assert_eq!(error.failures()[0].to_string(), "measure failed: no ruler");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn failures(&self) -> &[TaskFailure] {
        &self.failures
    }

    /// Returns the errors that tasks have returned, in the order in which they were returned.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.try_task("measure", || Err::<(), _>("no ruler"));
    /// let error = graph.plan()?.run().unwrap_err();
    /// let first = error.into_failures().remove(0);
    /// assert_eq!(first.into_error().to_string(), "no ruler");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn into_failures(self) -> Vec<TaskFailure> {
        self.failures
    }

    pub(super) fn take_failures(&mut self) -> Vec<TaskFailure> {
        mem::take(&mut self.failures)
    }

    /// Whether nothing failed: the run was stopped from outside.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, graph::RunOptions};
    ///
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let graph = Graph::new();
    /// graph.task("never", || unreachable!());
    /// let error = graph.plan()?.run_with(&RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled() && error.panics().is_empty());
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.panics.is_empty() && self.failures.is_empty() && self.faults.is_empty()
    }

    /// Returns the names of the tasks that did not run, or not to their end, without those that
    /// have failed. A task whose graph inside was not finished is listed, and what is missing of
    /// that graph, as `outer/inner`. In a graph with conditions the tasks that were not chosen are
    /// listed too.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// let bad = graph.task("bad", || resume_unwind(Box::new("no luck")));
    /// bad.precede([graph.task("a", || ()), graph.task("b", || ())]);
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.skipped().collect::<Vec<_>>(), ["a", "b"]);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    pub fn skipped(&self) -> impl Iterator<Item = String> {
        self.skipped.names()
    }

    /// Returns how many tasks ran; one that ran twice counts twice.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// let good = graph.task("good", || ());
    /// good.precede(graph.task("bad", || resume_unwind(Box::new("no luck"))));
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.ran(), 1);
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran
    }
}

impl fmt::Display for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} panicked: {}",
            self.task,
            unwind::message(&self.payload)
        )
    }
}

impl fmt::Debug for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_cancelled() {
            f.write_str("cancelled")?;
        }
        let mut comma = "";
        for panic in &self.panics {
            write!(f, "{comma}{panic}")?;
            comma = ", ";
        }
        for failure in &self.failures {
            write!(f, "{comma}{failure}")?;
            comma = ", ";
        }
        for (task, fault) in &self.faults {
            match fault {
                TaskFault::Overlap => write!(
                    f,
                    "{comma}{task} was released again while it was running; a loop must wait for all tasks that it repeats"
                )?,
                TaskFault::Graph(error) => {
                    write!(f, "{comma}the graph that {task} has built: {error}")?;
                }
                TaskFault::Refused(error) => write!(f, "{comma}{task} cannot run: {error}")?,
                TaskFault::SelfWait => write!(
                    f,
                    "{comma}a task waits for a run of its own plan, which waits for the task; launch it and do not wait"
                )?,
                TaskFault::Deadlock(cycle) => write!(
                    f,
                    "{comma}a run was joined that waits for its joiner: {cycle}; await it or join it elsewhere"
                )?,
            }
            comma = ", ";
        }
        match self.skipped.len() {
            0 => Ok(()),
            1 => f.write_str(" (1 task skipped)"),
            skipped => write!(f, " ({skipped} tasks skipped)"),
        }
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let first = self.failures.first()?;
        Some(&*first.error)
    }
}
