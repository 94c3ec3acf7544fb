//! When and where one task ran, and how it ended.

use std::{fmt, ops::Range, time::Duration};

/// How a task of a [`Timeline`](super::Timeline) ended.
///
/// ```
/// use filch::graph::TaskEnding;
///
/// assert_eq!(TaskEnding::Skipped.to_string(), "skipped");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskEnding {
    /// It returned.
    Done,
    /// It panicked or returned an error, a graph inside it failed, or a semaphore refused it.
    Failed,
    /// It did not run, because another task had failed.
    Skipped,
    /// The run was cancelled before the task started, or before its future, or the graph inside
    /// it, was done.
    Cancelled,
}

impl fmt::Display for TaskEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        })
    }
}

/// A task that did not run, of a [`Timeline`](super::Timeline).
///
/// ```
/// use filch::{CancelToken, Graph, graph::{RunOptions, TaskEnding}};
///
/// let token = CancelToken::new();
/// token.cancel();
/// let graph = Graph::new();
/// graph.task("late", || unreachable!());
/// let mut plan = graph.plan()?;
/// plan.record(true);
/// plan.run_with(&RunOptions::new().cancel(&token)).unwrap_err();
/// assert_eq!(plan.timeline().not_run()[0].ending(), TaskEnding::Cancelled);
/// # Ok::<(), filch::graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NotRun {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) run: usize,
    pub(super) ending: TaskEnding,
}

impl NotRun {
    /// Creates the entry of a task with this number and name, for [`Timeline::with_not_run`].
    ///
    /// [`Timeline::with_not_run`]: super::Timeline::with_not_run
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding};
    ///
    /// let task = NotRun::new(4, "link", TaskEnding::Skipped);
    /// assert_eq!((task.index(), task.run()), (4, 0));
    /// ```
    #[must_use]
    pub fn new(index: u32, name: impl Into<String>, ending: TaskEnding) -> Self {
        Self {
            index,
            name: name.into(),
            run: 0,
            ending,
        }
    }

    /// Returns the task's number in its graph.
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding};
    ///
    /// assert_eq!(NotRun::new(4, "link", TaskEnding::Skipped).index(), 4);
    /// ```
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the task's name, or its number.
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding};
    ///
    /// assert_eq!(NotRun::new(4, "link", TaskEnding::Skipped).name(), "link");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the run among those that were recorded, as [`TaskTime::run`].
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding};
    ///
    /// assert_eq!(NotRun::new(4, "link", TaskEnding::Skipped).run(), 0);
    /// ```
    #[must_use]
    pub fn run(&self) -> usize {
        self.run
    }

    /// Returns why it did not run: it was skipped or cancelled, or a semaphore refused it, which
    /// is [`Failed`](TaskEnding::Failed).
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding};
    ///
    /// let task = NotRun::new(4, "link", TaskEnding::Skipped);
    /// assert_eq!(task.ending(), TaskEnding::Skipped);
    /// ```
    #[must_use]
    pub fn ending(&self) -> TaskEnding {
        self.ending
    }
}

/// When and where a task ran.
#[derive(Clone, Debug)]
pub struct TaskTime {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) run: usize,
    pub(super) worker: usize,
    pub(super) ready: Duration,
    pub(super) start: Duration,
    pub(super) end: Duration,
    /// When the task was done; for most tasks that is their end.
    pub(super) completed: Duration,
    /// When it waited.
    pub(super) waits: Vec<Range<Duration>>,
    pub(super) ending: TaskEnding,
    pub(super) critical: bool,
}

impl TaskTime {
    /// Creates the time of a task with this number and name, which ran on `worker` at `time`. With
    /// [`Timeline::new`](super::Timeline::new) it stands for a run that was not recorded by a plan.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "read", 0, Duration::ZERO..Duration::from_millis(2));
    /// assert_eq!(task.duration().as_millis(), 2);
    /// ```
    #[must_use]
    pub fn new(index: u32, name: impl Into<String>, worker: usize, time: Range<Duration>) -> Self {
        Self {
            index,
            name: name.into(),
            run: 0,
            worker,
            ready: time.start,
            start: time.start,
            end: time.end,
            completed: time.end,
            waits: Vec::new(),
            ending: TaskEnding::Done,
            critical: false,
        }
    }

    /// Sets how the task ended.
    ///
    /// ```
    /// use filch::graph::{TaskEnding, TaskTime};
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "test", 0, Duration::ZERO..Duration::from_millis(2));
    /// assert_eq!(task.ending(), TaskEnding::Done);
    /// assert_eq!(task.with_ending(TaskEnding::Failed).ending(), TaskEnding::Failed);
    /// ```
    #[must_use]
    pub fn with_ending(mut self, ending: TaskEnding) -> Self {
        self.ending = ending;
        self
    }

    /// Sets when the task became ready. For a task with predecessors the timeline sets it.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let task = TaskTime::new(1, "test", 0, at(5)..at(9)).with_ready(at(2));
    /// assert_eq!(task.delay(), at(3));
    /// ```
    #[must_use]
    pub fn with_ready(mut self, ready: Duration) -> Self {
        self.ready = ready.min(self.start);
        self
    }

    /// Adds a time in which the task waited, as [`waiting`](super::waiting()) records it. What is
    /// not within the task's time is ignored.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let task = TaskTime::new(1, "cc", 0, at(5)..at(9)).with_wait(at(6)..at(20));
    /// assert_eq!(task.waits(), [at(6)..at(9)]);
    /// ```
    #[must_use]
    pub fn with_wait(mut self, wait: Range<Duration>) -> Self {
        let wait = wait.start.max(self.start)..wait.end.min(self.end);
        if wait.start < wait.end {
            self.waits.push(wait);
            self.waits.sort_by_key(|wait| wait.start);
        }
        self
    }

    /// Sets when the task was done, if that was later than its closure returned.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let task = TaskTime::new(1, "reply", 0, at(0)..at(1)).with_completed(at(8));
    /// assert_eq!((task.end(), task.completed()), (at(1), at(8)));
    /// ```
    #[must_use]
    pub fn with_completed(mut self, completed: Duration) -> Self {
        self.completed = completed.max(self.end);
        self
    }

    /// Returns the task's number in its graph.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(7, "read", 0, Duration::ZERO..Duration::from_millis(2));
    /// assert_eq!(task.index(), 7); // as of `Task::index`
    /// ```
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the task's name, or its number.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(7, "read", 0, Duration::ZERO..Duration::from_millis(2));
    /// assert_eq!(task.name(), "read");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the run among those that were recorded: 0 is the first one.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.task("work", || ());
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run_n(3)?;
    /// let runs: Vec<_> = plan.timeline().tasks().iter().map(|task| task.run()).collect();
    /// assert_eq!(runs, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn run(&self) -> usize {
        self.run
    }

    /// Returns the worker that ran the task. Numbers from the pool's count of workers upwards are
    /// calling threads that worked on the run.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run_on(&pool)?;
    /// let timeline = plan.timeline();
    /// assert_eq!(timeline.workers(), [timeline.tasks()[0].worker()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns when the task began, relative to the start of the first task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.linearize([graph.task("first", || ()), graph.task("second", || ())]);
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run()?;
    /// let timeline = plan.timeline();
    /// assert!(timeline.tasks()[0].start().is_zero());
    /// assert!(timeline.tasks()[1].start() >= timeline.tasks()[0].end());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn start(&self) -> Duration {
        self.start
    }

    /// Returns how long the task ran. If its worker waited inside it, the tasks that the worker
    /// ran meanwhile count for both.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "a", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "b", 0, at(2)..at(7)),
    /// ];
    /// let longest = tasks.iter().max_by_key(|task| task.duration()).unwrap();
    /// assert_eq!(longest.name(), "b");
    /// ```
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Whether the task is on the critical path.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "long", 0, at(0)..at(9)),
    ///     TaskTime::new(2, "short", 1, at(1)..at(2)),
    /// ];
    /// let timeline = Timeline::new(2, tasks, []);
    /// let critical: Vec<_> = timeline.tasks().iter().map(|task| task.is_critical()).collect();
    /// assert_eq!(critical, [true, false]);
    /// ```
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.critical
    }

    /// Returns when the task returned, relative to the start of the first task.
    ///
    /// ```
    /// use filch::graph::TaskTime;
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "read", 0, Duration::ZERO..Duration::from_millis(2));
    /// assert_eq!(task.end(), task.start() + task.duration());
    /// ```
    #[must_use]
    pub fn end(&self) -> Duration {
        self.end
    }

    /// Returns when the task was done. That is its [`end`](Self::end), except for a task that is
    /// done when a future or a graph inside it is: it occupies no worker in between.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let inner = filch::Graph::new();
    /// inner.task("inner", || ());
    /// graph.module("outer", inner.plan()?);
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run()?;
    /// let timeline = plan.timeline();
    /// assert!(timeline.tasks()[0].completed() >= timeline.tasks()[0].end());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn completed(&self) -> Duration {
        self.completed
    }

    /// Returns when the task could have started: when the last of its predecessors was done, or its
    /// run began.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "read", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "parse", 0, at(5)..at(9)),
    /// ];
    /// let timeline = Timeline::new(1, tasks, [(1, 2)]);
    /// assert_eq!(timeline.tasks()[1].ready(), at(2));
    /// ```
    #[must_use]
    pub fn ready(&self) -> Duration {
        self.ready
    }

    /// Returns the time from [`ready`](Self::ready) to the start, in which the task waited for a
    /// worker or for a semaphore.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "read", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "parse", 0, at(5)..at(9)),
    /// ];
    /// let timeline = Timeline::new(1, tasks, [(1, 2)]);
    /// assert_eq!(timeline.tasks()[1].delay(), at(3));
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.start.saturating_sub(self.ready)
    }

    /// Returns the times in which the task only waited, as it has [declared](super::waiting()), in
    /// their order.
    ///
    /// ```
    /// use filch::{Graph, graph};
    /// use std::{thread, time::Duration};
    ///
    /// let graph = Graph::new();
    /// graph.task("cc", || graph::waiting(|| thread::sleep(Duration::from_millis(5))));
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run()?;
    /// let timeline = plan.timeline();
    /// let wait = &timeline.tasks()[0].waits()[0];
    /// assert!(wait.end - wait.start >= Duration::from_millis(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waits(&self) -> &[Range<Duration>] {
        &self.waits
    }

    /// Returns how the task ended.
    ///
    /// ```
    /// use filch::{Graph, graph::TaskEnding};
    ///
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run()?;
    /// assert_eq!(plan.timeline().tasks()[0].ending(), TaskEnding::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ending(&self) -> TaskEnding {
        self.ending
    }

    /// Returns the time from its start until it was done.
    pub(super) fn took(&self) -> Duration {
        self.completed.saturating_sub(self.start)
    }
}
