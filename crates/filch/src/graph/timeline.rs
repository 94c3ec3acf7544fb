//! Which task ran when, and on which worker, as data.

use std::{collections::HashMap, fmt, ops::Range, time::Duration};

/// Which tasks of a plan ran when, and on which worker, since it began to
/// [record](super::Plan::record) or since the last [`timeline`](super::Plan::timeline).
///
/// ```
/// use filch::Graph;
///
/// let graph = Graph::new();
/// let first = graph.task("first", || ());
/// first.precede(graph.task("second", || ()));
/// let mut plan = graph.plan()?;
/// plan.record(true);
/// plan.run()?;
///
/// let timeline = plan.timeline();
/// let names: Vec<_> = timeline.critical_path().map(|task| task.name()).collect();
/// assert_eq!(names, ["first", "second"]);
/// for task in timeline.tasks() {
///     println!("{} on worker {}: {:?}", task.name(), task.worker(), task.duration());
/// }
/// println!("{timeline}"); // the crate `filch-draw` draws it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Sorted by start.
    tasks: Vec<TaskTime>,
    /// Positions in `tasks`.
    critical: Vec<usize>,
    /// The number of threads of the pool.
    threads: usize,
}

/// When and where a task ran.
#[derive(Clone, Debug)]
pub struct TaskTime {
    index: u32,
    name: String,
    pub(super) run: usize,
    worker: usize,
    start: Duration,
    end: Duration,
    /// When the task was done; for most tasks that is their end.
    pub(super) done: Duration,
    critical: bool,
}

impl TaskTime {
    /// Creates the time of a task with this number and name, which ran on `worker` at `time`. With
    /// [`Timeline::new`] it stands for a run that was not recorded by a plan.
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
            start: time.start,
            end: time.end,
            done: time.end,
            critical: false,
        }
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

    /// Returns the time from its start until it was done.
    fn took(&self) -> Duration {
        self.done.saturating_sub(self.start)
    }
}

impl Timeline {
    /// Creates a timeline of these tasks, with these edges between their numbers, on a pool with
    /// `threads` threads.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "read", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "parse", 0, at(2)..at(5)),
    ///     TaskTime::new(3, "list", 1, at(0)..at(1)),
    /// ];
    /// let timeline = Timeline::new(2, tasks, [(1, 2)]);
    /// assert_eq!(timeline.critical_time(), at(5));
    /// assert_eq!(timeline.busy(1), at(1));
    /// ```
    #[must_use]
    pub fn new(
        threads: usize,
        tasks: impl IntoIterator<Item = TaskTime>,
        edges: impl IntoIterator<Item = (u32, u32)>,
    ) -> Self {
        let mut tasks: Vec<_> = tasks.into_iter().collect();
        // Sorted, so that the result does not depend on the order in which the lanes were written.
        tasks.sort_by_key(|task| (task.start, task.end, task.index));
        let critical = critical(&tasks, edges.into_iter());
        for &at in &critical {
            tasks[at].critical = true;
        }
        Self {
            tasks,
            critical,
            threads,
        }
    }

    /// Returns what ran, sorted by start; a task that ran twice is listed twice.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(2, "later", 0, at(4)..at(5)),
    ///     TaskTime::new(1, "first", 0, at(0)..at(3)),
    /// ];
    /// let timeline = Timeline::new(1, tasks, []);
    /// let names: Vec<_> = timeline.tasks().iter().map(|task| task.name()).collect();
    /// assert_eq!(names, ["first", "later"]);
    /// ```
    #[must_use]
    pub fn tasks(&self) -> &[TaskTime] {
        &self.tasks
    }

    /// Returns the chain of tasks of one run, each a successor of the previous one, that took
    /// longest. No number of workers would have been faster.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "read", 0, at(0)..at(2)),
    ///     TaskTime::new(2, "parse", 0, at(2)..at(9)),
    ///     TaskTime::new(3, "list", 1, at(2)..at(3)),
    /// ];
    /// let timeline = Timeline::new(2, tasks, [(1, 2), (1, 3)]);
    /// let path: Vec<_> = timeline.critical_path().map(|task| task.name()).collect();
    /// assert_eq!(path, ["read", "parse"]); // a faster `list` would not help
    /// ```
    pub fn critical_path(&self) -> impl Iterator<Item = &TaskTime> {
        self.critical.iter().map(|&at| &self.tasks[at])
    }

    /// Returns how long the tasks of the critical path took together.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "a", 0, at(0)..at(3)),
    ///     TaskTime::new(2, "b", 0, at(5)..at(6)),
    /// ];
    /// let timeline = Timeline::new(1, tasks, [(1, 2)]);
    /// assert_eq!((timeline.critical_time(), timeline.wall()), (at(4), at(6)));
    /// ```
    #[must_use]
    pub fn critical_time(&self) -> Duration {
        self.critical_path().map(TaskTime::took).sum()
    }

    /// Returns the time from the first task's start to the last one's end.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "a", 0, at(0)..at(3)),
    ///     TaskTime::new(2, "b", 1, at(1)..at(5)),
    /// ];
    /// assert_eq!(Timeline::new(2, tasks, []).wall(), at(5));
    /// ```
    #[must_use]
    pub fn wall(&self) -> Duration {
        let ends = self.tasks.iter().map(|task| task.end.max(task.done));
        ends.max().unwrap_or_default()
    }

    /// Returns how long the workers were busy with tasks, together.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "a", 0, at(0)..at(3)),
    ///     TaskTime::new(2, "b", 1, at(1)..at(5)),
    /// ];
    /// assert_eq!(Timeline::new(2, tasks, []).work(), at(3) + at(4));
    /// ```
    #[must_use]
    pub fn work(&self) -> Duration {
        let workers = self.workers();
        workers.iter().map(|&worker| self.busy(worker)).sum()
    }

    /// Returns the workers that ran at least one task.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let tasks = [
    ///     TaskTime::new(1, "a", 3, at(0)..at(3)),
    ///     TaskTime::new(2, "b", 1, at(1)..at(5)),
    /// ];
    /// assert_eq!(Timeline::new(4, tasks, []).workers(), [1, 3]);
    /// ```
    #[must_use]
    pub fn workers(&self) -> Vec<usize> {
        let mut workers: Vec<_> = self.tasks.iter().map(|task| task.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// Returns how long a worker was busy with tasks.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let outer = TaskTime::new(1, "outer", 0, at(0)..at(5));
    /// let inner = TaskTime::new(2, "inner", 0, at(1)..at(2)); // while the outer one waited
    /// assert_eq!(Timeline::new(1, [outer, inner], []).busy(0), at(5));
    /// ```
    #[must_use]
    pub fn busy(&self, worker: usize) -> Duration {
        let (mut sum, mut until) = (Duration::ZERO, Duration::ZERO);
        for task in self.tasks.iter().filter(|task| task.worker == worker) {
            // Tasks that ran inside others count once.
            sum += task.end.saturating_sub(until.max(task.start));
            until = until.max(task.end);
        }
        sum
    }

    /// Returns the fraction of the time in which the workers of the pool, and the calling threads
    /// that worked on the run, were busy: from 0 to 1.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "single", 0, Duration::ZERO..Duration::from_millis(4));
    /// let timeline = Timeline::new(2, [task], []);
    /// assert_eq!(timeline.busy_share(), 0.5); // one of two workers was idle
    /// ```
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        let workers = self.workers();
        let helpers = workers.iter().filter(|&&worker| worker >= self.threads);
        let thread_count = (self.threads + helpers.count()) as f64;
        let all = self.wall().as_secs_f64() * thread_count;
        if all > 0.0 {
            (self.work().as_secs_f64() / all).min(1.0)
        } else {
            0.0
        }
    }

    /// Returns how many threads the pool had. Workers with this number or a larger one are calling
    /// threads that worked on the run.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "read", 2, Duration::ZERO..Duration::from_millis(2));
    /// let timeline = Timeline::new(2, [task], []);
    /// let callers = timeline.workers().into_iter().filter(|&worker| worker >= timeline.threads());
    /// assert_eq!(callers.count(), 1);
    /// ```
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }
}

/// Returns the critical path: positions in `tasks`, which are sorted by their start.
fn critical(tasks: &[TaskTime], edges: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
    let mut before: HashMap<u32, Vec<u32>> = HashMap::new();
    for (from, to) in edges {
        before.entry(to).or_default().push(from);
    }
    // The positions of the spans of each task so far, in their order.
    let mut ran: HashMap<u32, Vec<usize>> = HashMap::new();
    // For each span: how long the longest chain to its end takes, and which span precedes it.
    let mut chains: Vec<(Duration, Option<usize>)> = Vec::with_capacity(tasks.len());
    for (at, task) in tasks.iter().enumerate() {
        let predecessors = before.get(&task.index).into_iter().flatten();
        let released_by = predecessors.filter_map(|other| {
            let times = ran.get(other)?;
            let done = times.partition_point(|&time| tasks[time].done <= task.start);
            let last = times[done.checked_sub(1)?];
            (tasks[last].run == task.run).then_some(last)
        });
        let longest = released_by.max_by_key(|&time| chains[time].0);
        let length = longest.map_or(Duration::ZERO, |time| chains[time].0);
        chains.push((length + task.took(), longest));
        ran.entry(task.index).or_default().push(at);
    }
    // Of chains that took the same time, the one that ends last: it contains all tasks that took no
    // time.
    let mut next = (0..chains.len()).max_by_key(|&at| (chains[at].0, at));
    let mut path = Vec::new();
    while let Some(at) = next {
        path.push(at);
        next = chains[at].1;
    }
    path.reverse();
    path
}

/// A summary in two lines.
impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_NAMES: usize = 12;
        let (wall, critical) = (self.wall(), self.critical_time());
        let count = |number: usize, what| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        writeln!(
            f,
            "{} on {} in {wall:.1?}, {:.0} % busy",
            count(self.tasks.len(), "task"),
            count(self.workers().len(), "worker"),
            self.busy_share() * 100.0
        )?;
        let share = critical.as_secs_f64() / wall.as_secs_f64().max(1e-12);
        write!(
            f,
            "critical path {critical:.1?}, {:.0} % of it: ",
            share * 100.0
        )?;
        for (number, task) in self.critical_path().take(MAX_NAMES).enumerate() {
            let arrow = if number == 0 { "" } else { " → " };
            write!(f, "{arrow}{}", task.name())?;
        }
        match self.critical.len().checked_sub(MAX_NAMES) {
            Some(more @ 1..) => write!(f, " → … ({more} more)"),
            _ => Ok(()),
        }
    }
}
