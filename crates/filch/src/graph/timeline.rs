//! Which task ran when, and on which worker, as data.

use super::task_time::{NotRun, TaskEnding, TaskTime};
use std::{cmp::Reverse, collections::HashMap, fmt, time::Duration};

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
    /// Sorted by run, then by the tasks' numbers.
    not_run: Vec<NotRun>,
    /// The number of threads of the pool.
    threads: usize,
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
        let critical = critical(&mut tasks, edges.into_iter());
        for &at in &critical {
            tasks[at].critical = true;
        }
        Self {
            tasks,
            critical,
            not_run: Vec::new(),
            threads,
        }
    }

    /// Adds tasks that did not run.
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding, TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let task = TaskTime::new(1, "compile", 0, Duration::ZERO..Duration::from_millis(4));
    /// let timeline = Timeline::new(1, [task.with_ending(TaskEnding::Failed)], [(1, 2)])
    ///     .with_not_run([NotRun::new(2, "link", TaskEnding::Skipped)]);
    /// assert_eq!(timeline.not_run()[0].name(), "link");
    /// ```
    #[must_use]
    pub fn with_not_run(mut self, tasks: impl IntoIterator<Item = NotRun>) -> Self {
        self.not_run.extend(tasks);
        self.not_run.sort_by_key(|task| (task.run, task.index));
        self
    }

    /// Returns the tasks that did not run in a run that failed or was cancelled.
    ///
    /// If there are conditions, it includes the tasks that the run would not have reached anyway.
    ///
    /// ```
    /// use filch::{Graph, graph::TaskEnding};
    /// use std::panic::resume_unwind;
    ///
    /// let graph = Graph::new();
    /// let bad = graph.task("bad", || resume_unwind(Box::new("no luck"))); // `panic!`, silently
    /// bad.precede(graph.task("after", || unreachable!()));
    /// let mut plan = graph.plan()?;
    /// plan.record(true);
    /// plan.run().unwrap_err();
    ///
    /// let timeline = plan.timeline();
    /// assert_eq!(timeline.tasks()[0].ending(), TaskEnding::Failed);
    /// let after = &timeline.not_run()[0];
    /// assert_eq!((after.name(), after.ending()), ("after", TaskEnding::Skipped));
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn not_run(&self) -> &[NotRun] {
        &self.not_run
    }

    /// Returns how many tasks have ended in this way, whether they ran or not.
    ///
    /// ```
    /// use filch::graph::{NotRun, TaskEnding, Timeline};
    ///
    /// let late = |n| NotRun::new(n, format!("task {n}"), TaskEnding::Cancelled);
    /// let timeline = Timeline::new(1, [], []).with_not_run([late(1), late(2)]);
    /// assert_eq!(timeline.count(TaskEnding::Cancelled), 2);
    /// assert_eq!(timeline.count(TaskEnding::Failed), 0);
    /// ```
    #[must_use]
    pub fn count(&self, ending: TaskEnding) -> usize {
        let ran = self.tasks.iter().map(TaskTime::ending);
        let others = self.not_run.iter().map(NotRun::ending);
        ran.chain(others).filter(|other| *other == ending).count()
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
        let ends = self.tasks.iter().map(|task| task.end.max(task.completed));
        ends.max().unwrap_or_default()
    }

    /// Returns how long the workers were busy with tasks, together. Waits that the tasks have
    /// [declared](super::waiting()) do not count.
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

    /// Returns how long a worker was busy with tasks. Waits that the tasks have
    /// [declared](super::waiting()) do not count.
    ///
    /// ```
    /// use filch::graph::{TaskTime, Timeline};
    /// use std::time::Duration;
    ///
    /// let at = Duration::from_millis;
    /// let outer = TaskTime::new(1, "outer", 0, at(0)..at(5));
    /// let inner = TaskTime::new(2, "inner", 0, at(1)..at(2)); // while the outer one waited
    /// assert_eq!(Timeline::new(1, [outer.clone(), inner], []).busy(0), at(5));
    ///
    /// let outer = outer.with_wait(at(2)..at(4)); // for a child process
    /// assert_eq!(Timeline::new(1, [outer], []).busy(0), at(3));
    /// ```
    #[must_use]
    pub fn busy(&self, worker: usize) -> Duration {
        let tasks = self.tasks.iter().filter(|task| task.worker == worker);
        // Start, end, and whether the worker is busy from the start on. Of those that cover a
        // moment the one that began last decides: tasks run inside others, and waits inside tasks.
        let spans = tasks.flat_map(|task| {
            let waits = task.waits.iter().map(|wait| (wait.start, wait.end, false));
            [(task.start, task.end, true)].into_iter().chain(waits)
        });
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|&(start, end, busy)| (start, Reverse(end), !busy));
        let mut sweep = BusySweep::default();
        for (start, end, busy) in spans {
            sweep.advance(start);
            sweep.open.push((end, busy));
        }
        sweep.advance(Duration::MAX);
        sweep.busy
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

/// The time up to which the spans of a worker have been added up.
#[derive(Default)]
struct BusySweep {
    now: Duration,
    busy: Duration,
    /// The spans that have begun, with their ends; the last one began last.
    open: Vec<(Duration, bool)>,
}

impl BusySweep {
    fn advance(&mut self, until: Duration) {
        while let Some(&(end, busy)) = self.open.last() {
            let to = end.min(until).max(self.now);
            if busy {
                self.busy += to - self.now;
            }
            self.now = to;
            if end > until {
                return;
            }
            self.open.pop();
        }
        self.now = self.now.max(until);
    }
}

/// Returns the critical path: positions in `tasks`, which are sorted by their start. Sets when the
/// tasks became ready.
fn critical(tasks: &mut [TaskTime], edges: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
    let mut before: HashMap<u32, Vec<u32>> = HashMap::new();
    for (from, to) in edges {
        before.entry(to).or_default().push(from);
    }
    // The positions of the spans of each task so far, in their order.
    let mut ran: HashMap<u32, Vec<usize>> = HashMap::new();
    // For each span: how long the longest chain to its end takes, and which span precedes it.
    let mut chains: Vec<(Duration, Option<usize>)> = Vec::with_capacity(tasks.len());
    for at in 0..tasks.len() {
        let task = &tasks[at];
        let predecessors = before.get(&task.index).into_iter().flatten();
        let released_by = predecessors.filter_map(|other| {
            let times = ran.get(other)?;
            let done = times.partition_point(|&time| tasks[time].completed <= task.start);
            let last = times[done.checked_sub(1)?];
            (tasks[last].run == task.run).then_some(last)
        });
        let (mut longest, mut ready) = (None, None);
        for time in released_by {
            longest = longest.max(Some((chains[time].0, time)));
            ready = ready.max(Some(tasks[time].completed));
        }
        let (length, task) = (longest.unwrap_or_default().0, &mut tasks[at]);
        // The last predecessor has released it.
        task.ready = ready.unwrap_or(task.ready).min(task.start);
        chains.push((length + task.took(), longest.map(|(_, time)| time)));
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

/// A summary in two lines, the first with the numbers of tasks that failed or did not run.
impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_NAMES: usize = 12;
        let (wall, critical) = (self.wall(), self.critical_time());
        let count = |number: usize, what| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        write!(
            f,
            "{} on {} in {wall:.1?}, {:.0} % busy",
            count(self.tasks.len(), "task"),
            count(self.workers().len(), "worker"),
            self.busy_share() * 100.0
        )?;
        for ending in [
            TaskEnding::Failed,
            TaskEnding::Skipped,
            TaskEnding::Cancelled,
        ] {
            match self.count(ending) {
                0 => {}
                number => write!(f, ", {number} {ending}")?,
            }
        }
        writeln!(f)?;
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
