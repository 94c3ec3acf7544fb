//! Errors of a graph, and of a run of it.

use super::report::RunReport;
use crate::{
    base::unwind::{self, Payload},
    semaphore::AcquireError,
};
use std::{any::Any, error::Error, fmt};

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
    pub(super) skipped: u64,
    /// Whether the run was stopped.
    pub(super) stopped: bool,
    /// Whether tasks were skipped because of that.
    pub(super) incomplete: bool,
    pub(super) panics: Vec<TaskPanic>,
    pub(super) faults: Vec<(String, TaskFault)>,
}

/// Errors of a task other than panics.
#[derive(Clone, Debug)]
pub(super) enum TaskFault {
    /// The task was released while it was running.
    Overlap,
    /// The graph that the task has built is invalid.
    Graph(GraphError),
    /// The task waits for a run of the plan that it belongs to.
    SelfWait,
    /// A semaphore that the task needs has been closed, or has become too small for it.
    Refused(AcquireError),
}

impl RunOutcome {
    pub(super) fn has_failed(&self) -> bool {
        !self.panics.is_empty() || !self.faults.is_empty()
    }

    /// Adds the outcome of a run inside `task`.
    pub(super) fn add(&mut self, task: &str, inner: Self) {
        self.ran += inner.ran;
        self.skipped += inner.skipped;
        self.incomplete |= inner.incomplete;
        let full_name = |name: &str| format!("{task}/{name}");
        let panics = inner.panics.into_iter().map(|panic| TaskPanic {
            task: full_name(&panic.task),
            payload: panic.payload,
        });
        self.panics.extend(panics);
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
            faults: self.faults,
            ran: self.ran,
            skipped: self.skipped as usize,
        })
    }
}

/// Why a run of a graph did not finish.
///
/// It failed, because tasks panicked, a semaphore refused the units that a task needs, or the graph
/// is invalid in a way that only a run can show; or it was cancelled.
pub struct RunError {
    pub(super) panics: Vec<TaskPanic>,
    pub(super) faults: Vec<(String, TaskFault)>,
    pub(super) ran: u64,
    pub(super) skipped: usize,
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
            faults: vec![(String::new(), TaskFault::SelfWait)],
            ran: 0,
            skipped: 0,
        }
    }

    /// Whether a task has waited for a run of its own [shared plan](super::SharedPlan), which
    /// cannot begin, or end, before that task has ended.
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
        self.panics.is_empty() && self.faults.is_empty()
    }

    /// Returns how many tasks did not run to their end. Tasks that ran several times, in a loop,
    /// count several times in [`ran`](Self::ran), so with loops this number may be too small.
    ///
    /// ```
    /// use std::panic::resume_unwind;
    ///
    /// let graph = filch::Graph::new();
    /// let bad = graph.task("bad", || resume_unwind(Box::new("no luck")));
    /// bad.precede([graph.task("a", || ()), graph.task("b", || ())]);
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.skipped(), 3); // the task that panicked counts too
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
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
            }
            comma = ", ";
        }
        write!(f, " ({} tasks skipped)", self.skipped)
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RunError {}
