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
///     "these tasks wait for each other: hen → egg → hen; take one of the edges away, or let a condition decide"
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
                    "{first}; take one of the edges away, or let a condition decide"
                )
            }
            GraphErrorKind::NoSource => f.write_str(
                "there is no task to start with: every one has a predecessor; add one that has none",
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
pub(super) struct Outcome {
    pub(super) ran: u64,
    pub(super) skipped: u64,
    /// Whether the run was stopped.
    pub(super) stopped: bool,
    /// Whether tasks were skipped because of that.
    pub(super) cut: bool,
    pub(super) panics: Vec<TaskPanic>,
    pub(super) broken: Vec<(String, Broken)>,
}

/// Errors of a task other than panics.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    /// The task was released while it was running.
    Overlap,
    /// The graph that the task has built is invalid.
    Graph(GraphError),
    /// The task waits for a run of the plan that it belongs to.
    Itself,
    /// A semaphore that the task needs has been closed, or has become too small for it.
    Refused(AcquireError),
}

impl Outcome {
    pub(super) fn has_failed(&self) -> bool {
        !self.panics.is_empty() || !self.broken.is_empty()
    }

    /// Adds the outcome of a run inside of `task`.
    pub(super) fn add(&mut self, task: &str, inner: Self) {
        self.ran += inner.ran;
        self.skipped += inner.skipped;
        self.cut |= inner.cut;
        let within = |name: &str| format!("{task}/{name}");
        let panics = inner.panics.into_iter().map(|panic| TaskPanic {
            task: within(&panic.task),
            payload: panic.payload,
        });
        self.panics.extend(panics);
        let broken = inner.broken.into_iter();
        self.broken
            .extend(broken.map(|(name, broken)| (within(&name), broken)));
    }

    pub(super) fn into_result(self) -> Result<RunReport, RunError> {
        if !self.has_failed() && !self.cut {
            return Ok(RunReport { ran: self.ran });
        }
        Err(RunError {
            panics: self.panics,
            broken: self.broken,
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
    pub(super) broken: Vec<(String, Broken)>,
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
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the payload of the panic.
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
            broken: vec![(String::new(), Broken::Itself)],
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
        let itself = |(_, broken): &(String, Broken)| matches!(broken, Broken::Itself);
        self.broken.iter().any(itself)
    }

    /// Returns all panics of the run, in the order in which they were caught.
    #[must_use]
    pub fn panics(&self) -> &[TaskPanic] {
        &self.panics
    }

    /// Returns all panics of the run, in the order in which they were caught.
    #[must_use]
    pub fn into_panics(self) -> Vec<TaskPanic> {
        self.panics
    }

    /// Whether nothing failed: the run was stopped from outside.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.panics.is_empty() && self.broken.is_empty()
    }

    /// Returns how many tasks did not run to their end. Tasks that ran several times, in a loop,
    /// count several times in [`ran`](Self::ran), so with loops this number may be too small.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns how many tasks ran; one that ran twice counts twice.
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
        for (task, broken) in &self.broken {
            match broken {
                Broken::Overlap => write!(
                    f,
                    "{comma}{task} was released again while it was running; a loop must wait for all that it repeats"
                )?,
                Broken::Graph(error) => {
                    write!(f, "{comma}the graph that {task} has built: {error}")?;
                }
                Broken::Refused(error) => write!(f, "{comma}{task} cannot run: {error}")?,
                Broken::Itself => write!(
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
