//! Records which task ran when, and on which worker.

use super::{plan::Plan, svg};
use crate::{
    base::{
        padded::Padded,
        sync::{AtomicUsize, Ordering},
    },
    pool::context::WorkerContext,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Number of separately locked lists of spans; workers beyond that share them.
const LANES: usize = 64;

/// Records when tasks run, while a plan [records](Plan::record).
pub(super) struct Recorder {
    lanes: Box<[Padded<Mutex<Vec<Span>>>]>,
    events: Mutex<Events>,
    /// The number of threads of the pool.
    threads: AtomicUsize,
}

/// Events that are rarer than spans.
#[derive(Default)]
struct Events {
    /// The starts of runs.
    runs: Vec<Instant>,
    /// Tasks that were done later than their closures returned, and when.
    completed: Vec<(u32, Instant)>,
}

struct Span {
    task: u32,
    worker: usize,
    start: Instant,
    end: Instant,
}

/// A task that is running. It ends when this is dropped, also by a panic.
pub(super) struct Running<'a> {
    recorder: &'a Recorder,
    task: u32,
    worker: usize,
    start: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    fn new() -> Self {
        Self {
            lanes: (0..LANES).map(|_| Padded::default()).collect(),
            events: Mutex::default(),
            threads: AtomicUsize::new(0),
        }
    }

    /// Records the begin of a run.
    pub(super) fn run(&self) {
        lock(&self.events).runs.push(Instant::now());
    }

    /// Records the begin of a task.
    pub(super) fn begin(&self, context: &WorkerContext<'_, '_>, task: u32) -> Running<'_> {
        // Relaxed: always the same number in one run, read when it is over.
        self.threads
            .store(context.pool().threads(), Ordering::Relaxed);
        Running {
            recorder: self,
            task,
            worker: context.worker(),
            start: Instant::now(),
        }
    }

    /// Records that a held task is done, whose closure returned before.
    pub(super) fn complete(&self, task: u32) {
        lock(&self.events).completed.push((task, Instant::now()));
    }

    /// Takes what has been recorded since the last call.
    fn take(&self) -> (Vec<Span>, Events) {
        let lanes = self.lanes.iter();
        let spans = lanes.flat_map(|lane| std::mem::take(&mut *lock(lane)));
        (spans.collect(), std::mem::take(&mut *lock(&self.events)))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let span = Span {
            task: self.task,
            worker: self.worker,
            start: self.start,
            end: Instant::now(),
        };
        lock(&self.recorder.lanes[self.worker % LANES]).push(span);
    }
}

/// Which tasks of a plan ran when, and on which worker, since it began to [record](Plan::record) or
/// since the last [`timeline`](Plan::timeline).
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
/// println!("{timeline}");
/// let picture = timeline.to_svg();
/// assert!(picture.starts_with("<svg"));
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
    run: usize,
    worker: usize,
    start: Duration,
    end: Duration,
    /// When the task was done; for most tasks that is their end.
    done: Duration,
    critical: bool,
}

impl TaskTime {
    /// Returns the task's number in its graph.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the task's name, or its number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the run among those that were recorded: 0 is the first one.
    #[must_use]
    pub fn run(&self) -> usize {
        self.run
    }

    /// Returns the worker that ran the task. Numbers from the pool's count of workers upwards are
    /// calling threads that worked on the run.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns when the task began, relative to the start of the first task.
    #[must_use]
    pub fn start(&self) -> Duration {
        self.start
    }

    /// Returns how long the task ran. If its worker waited inside of it, the tasks that the worker
    /// ran meanwhile count for both.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Whether the task is on the critical path.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.critical
    }

    pub(super) fn end(&self) -> Duration {
        self.end
    }

    /// Returns the time from its start until it was done.
    fn took(&self) -> Duration {
        self.done.saturating_sub(self.start)
    }
}

impl Timeline {
    fn new(
        (mut spans, events): (Vec<Span>, Events),
        threads: usize,
        name: impl Fn(u32) -> String,
        edges: impl Iterator<Item = (u32, u32)>,
    ) -> Self {
        // Sorted, so that the result does not depend on the order in which the lanes were written.
        spans.sort_by_key(|span| (span.start, span.end, span.task));
        let mut done_later: HashMap<u32, Vec<Instant>> = HashMap::new();
        for (task, when) in events.completed {
            done_later.entry(task).or_default().push(when);
        }
        done_later
            .values_mut()
            .for_each(|times| times.sort_unstable());
        let Some(zero) = spans.first().map(|span| span.start) else {
            return Self {
                tasks: Vec::new(),
                critical: Vec::new(),
                threads,
            };
        };
        let tasks = spans.into_iter().map(|span| {
            let done = done_later.get(&span.task).and_then(|times| {
                let next = times.partition_point(|when| *when < span.end);
                times.get(next)
            });
            TaskTime {
                index: span.task,
                name: name(span.task),
                run: events
                    .runs
                    .partition_point(|run| *run <= span.start)
                    .saturating_sub(1),
                worker: span.worker,
                start: span.start - zero,
                end: span.end - zero,
                done: *done.unwrap_or(&span.end) - zero,
                critical: false,
            }
        });
        let mut tasks: Vec<_> = tasks.collect();
        let critical = critical(&tasks, edges);
        for &place in &critical {
            tasks[place].critical = true;
        }
        Self {
            tasks,
            critical,
            threads,
        }
    }

    /// Returns what ran, sorted by start; a task that ran twice is listed twice.
    #[must_use]
    pub fn tasks(&self) -> &[TaskTime] {
        &self.tasks
    }

    /// Returns the chain of tasks of one run, each a successor of the previous one, that took
    /// longest. No number of workers would have been faster.
    pub fn critical_path(&self) -> impl Iterator<Item = &TaskTime> {
        self.critical.iter().map(|&place| &self.tasks[place])
    }

    /// Returns how long the tasks of the critical path took together.
    #[must_use]
    pub fn critical_time(&self) -> Duration {
        self.critical_path().map(TaskTime::took).sum()
    }

    /// Returns the time from the first task's start to the last one's end.
    #[must_use]
    pub fn wall(&self) -> Duration {
        let ends = self.tasks.iter().map(|task| task.end.max(task.done));
        ends.max().unwrap_or_default()
    }

    /// Returns how long the workers were busy with tasks, together.
    #[must_use]
    pub fn work(&self) -> Duration {
        let workers = self.workers();
        workers.iter().map(|&worker| self.busy(worker)).sum()
    }

    /// Returns the workers that ran at least one task.
    #[must_use]
    pub fn workers(&self) -> Vec<usize> {
        let mut workers: Vec<_> = self.tasks.iter().map(|task| task.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// Returns how long a worker was busy with tasks.
    #[must_use]
    pub fn busy(&self, worker: usize) -> Duration {
        let (mut sum, mut until) = (Duration::ZERO, Duration::ZERO);
        for task in self.tasks.iter().filter(|task| task.worker == worker) {
            // Tasks that ran inside of others count once.
            sum += task.end.saturating_sub(until.max(task.start));
            until = until.max(task.end);
        }
        sum
    }

    /// Returns the fraction of the time in which the workers of the pool, and the calling threads
    /// that worked on the run, were busy: from 0 to 1.
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

    /// Returns the display name of a worker.
    pub(super) fn lane_name(&self, worker: usize) -> String {
        if worker < self.threads {
            format!("worker {worker}")
        } else {
            format!("caller {}", worker - self.threads)
        }
    }

    /// Draws the timeline as SVG: a lane for each worker, a rectangle for each task, the critical
    /// path in another colour. Rectangles show their name and times as tooltips.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::draw(self)
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
    for (place, task) in tasks.iter().enumerate() {
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
        ran.entry(task.index).or_default().push(place);
    }
    // Of chains that took the same time, the one that ends last: it contains all tasks that took no
    // time.
    let mut at = (0..chains.len()).max_by_key(|&place| (chains[place].0, place));
    let mut path = Vec::new();
    while let Some(place) = at {
        path.push(place);
        at = chains[place].1;
    }
    path.reverse();
    path
}

impl Plan<'_> {
    /// Starts or stops recording runs. Recording costs some 100 ns a task, and memory until the
    /// [`timeline`](Self::timeline) is taken; while it is off it costs nothing.
    ///
    /// Graphs inside of tasks are recorded as their task.
    pub fn record(&mut self, on: bool) {
        let special = self.parts.nodes.iter().any(|node| node.kind.is_special());
        self.shape.special = on || special || !self.shape.needs.is_empty();
        self.shape.recorder = on.then(|| Recorder::new().into());
    }

    /// Returns what was recorded since the last call; nothing if the plan does not
    /// [`record`](Self::record).
    #[must_use]
    pub fn timeline(&mut self) -> Timeline {
        let (spans, threads) = match &self.shape.recorder {
            // Relaxed: as in `begin`.
            Some(recorder) => (recorder.take(), recorder.threads.load(Ordering::Relaxed)),
            None => Default::default(),
        };
        let name = |index| self.parts.names.of(index);
        Timeline::new(spans, threads, name, self.edges())
    }
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

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a timeline of tasks, each with its number, worker, start and end in milliseconds.
    fn timeline(
        threads: usize,
        tasks: &[(u32, usize, u64, u64)],
        completed: &[(u32, u64)],
        edges: &[(u32, u32)],
    ) -> Timeline {
        let zero = Instant::now();
        let at = |millis| zero + Duration::from_millis(millis);
        let spans = tasks.iter().rev().map(|&(task, worker, start, end)| Span {
            task,
            worker,
            start: at(start),
            end: at(end),
        });
        let completed = completed.iter().map(|&(task, when)| (task, at(when)));
        let events = Events {
            runs: vec![at(0), at(1000)],
            completed: completed.collect(),
        };
        Timeline::new(
            (spans.collect(), events),
            threads,
            |index| format!("task {index}"),
            edges.iter().copied(),
        )
    }

    fn path(timeline: &Timeline) -> Vec<u32> {
        timeline.critical_path().map(TaskTime::index).collect()
    }

    #[test]
    fn the_critical_path_is_the_longest_chain() {
        // 1 → 2 → 4, 1 → 3 → 4: 3 takes longer than 2 but 5 longer than all of them.
        let mut tasks = vec![
            (1, 0, 10, 12),
            (2, 0, 12, 15),
            (3, 1, 12, 18),
            (4, 1, 18, 20),
        ];
        let edges = [(1, 2), (1, 3), (2, 4), (3, 4)];
        let first = timeline(2, &tasks, &[], &edges);
        assert_eq!(path(&first), [1, 3, 4]);
        assert_eq!(first.critical_time(), Duration::from_millis(10));
        assert_eq!(first.wall(), Duration::from_millis(10));
        assert_eq!(first.work(), Duration::from_millis(13));
        assert!((first.busy_share() - 0.65).abs() < 1e-9);
        assert_eq!(first.tasks()[0].start(), Duration::ZERO);
        tasks.push((5, 2, 10, 21));
        let second = timeline(2, &tasks, &[], &edges);
        assert_eq!(path(&second), [5]);
        // A calling thread counts like a worker.
        assert!((second.busy_share() - 24.0 / 33.0).abs() < 1e-9);
        assert_eq!(second.lane_name(2), "caller 0");
    }

    #[test]
    fn laps_of_a_loop_follow_each_other() {
        // 1 → 2 ⇢ 1: three iterations, as of a condition.
        let tasks: Vec<_> = (0..3)
            .flat_map(|lap| {
                [
                    (1, 0, 10 * lap, 10 * lap + 4),
                    (2, 0, 10 * lap + 4, 10 * lap + 5),
                ]
            })
            .collect();
        let loops = timeline(1, &tasks, &[], &[(1, 2), (2, 1)]);
        assert_eq!(path(&loops), [1, 2, 1, 2, 1, 2]);
        assert_eq!(loops.critical_time(), Duration::from_millis(15));
    }

    #[test]
    fn a_path_stays_in_its_run() {
        let tasks = [
            (1, 0, 0, 3),
            (2, 0, 3, 5),
            (1, 0, 1000, 1001),
            (2, 0, 1001, 1007),
        ];
        let two = timeline(1, &tasks, &[], &[(1, 2), (2, 1)]);
        assert_eq!(path(&two), [1, 2]);
        assert_eq!(two.critical_time(), Duration::from_millis(7));
        let runs: Vec<_> = two.tasks().iter().map(TaskTime::run).collect();
        assert_eq!(runs, [0, 0, 1, 1]);
    }

    #[test]
    fn a_task_that_is_done_later_counts_until_then() {
        let tasks = [(1, 0, 0, 1), (2, 0, 8, 9), (3, 1, 0, 5)];
        let late = timeline(2, &tasks, &[(1, 8)], &[(1, 2)]);
        assert_eq!(path(&late), [1, 2]);
        assert_eq!(late.critical_time(), Duration::from_millis(9));
    }

    #[test]
    fn tasks_inside_of_others_count_once() {
        let nested = timeline(1, &[(1, 0, 0, 10), (2, 0, 2, 4), (3, 0, 12, 14)], &[], &[]);
        assert_eq!(nested.busy(0), Duration::from_millis(12));
        assert!((nested.busy_share() - 12.0 / 14.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_timeline_can_be_drawn() {
        let nothing = timeline(0, &[], &[], &[(1, 2)]);
        assert_eq!(
            (nothing.wall(), nothing.busy_share()),
            (Duration::ZERO, 0.0)
        );
        assert!(nothing.to_svg().ends_with("</svg>\n"));
        assert!(nothing.to_string().starts_with("0 tasks on 0 workers"));
    }

    #[test]
    fn narrow_rectangles_are_merged() {
        let tasks: Vec<_> = (0..20_000)
            .map(|n| (n + 1, 0, u64::from(n), u64::from(n) + 1))
            .collect();
        let picture = timeline(1, &tasks, &[], &[]).to_svg();
        assert!(picture.len() < 20_000, "{} bytes", picture.len());
        assert!(picture.contains("short tasks"));
    }
}
