//! What a run did when and where.

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

/// Places to write to at the same time: workers beyond that share them.
const LANES: usize = 64;

/// Takes down what tasks run when, while a plan [records](Plan::record).
pub(super) struct Recorder {
    lanes: Box<[Padded<Mutex<Vec<Span>>>]>,
    events: Mutex<Events>,
    /// How many threads the pool has.
    threads: AtomicUsize,
}

/// What happens less often.
#[derive(Default)]
struct Events {
    /// The starts of runs.
    runs: Vec<Instant>,
    /// Tasks that were done later than they returned, and when.
    completed: Vec<(u32, Instant)>,
}

struct Span {
    task: u32,
    worker: usize,
    start: Instant,
    end: Instant,
}

/// A task that is running. Its end is when this is dropped, by a panic too.
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

    /// A run begins.
    pub(super) fn run(&self) {
        lock(&self.events).runs.push(Instant::now());
    }

    /// A task begins.
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

    /// A task that returned before it was done is done now.
    pub(super) fn complete(&self, task: u32) {
        lock(&self.events).completed.push((task, Instant::now()));
    }

    /// What has been taken down since the last time.
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

/// What the runs of a plan did when and where, since it began to [record](Plan::record) or was asked last.
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
    /// By their start.
    tasks: Vec<TaskTime>,
    /// Places in `tasks`.
    critical: Vec<usize>,
    /// How many threads the pool has.
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
    /// When it was done; for most tasks that is their end.
    done: Duration,
    critical: bool,
}

impl TaskTime {
    /// The task's number in its graph.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The task's name, or its number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the run, of those that were recorded: 0 is the first one.
    #[must_use]
    pub fn run(&self) -> usize {
        self.run
    }

    /// The worker that ran it. Numbers from the pool's count of workers up are threads from outside that helped.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// When it began, after the first task did.
    #[must_use]
    pub fn start(&self) -> Duration {
        self.start
    }

    /// How long it ran. If its worker waited inside of it, the tasks that it ran meanwhile count for both.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Whether it is on the critical path.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.critical
    }

    pub(super) fn end(&self) -> Duration {
        self.end
    }

    /// From its start until it was done.
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
        // The same for any order in which the lanes were written.
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

    /// What ran, by the time at which it began; a task that ran twice is there twice.
    #[must_use]
    pub fn tasks(&self) -> &[TaskTime] {
        &self.tasks
    }

    /// The chain of tasks of one run, each a successor of the one before, that took longest: no number of
    /// workers would have been faster.
    pub fn critical_path(&self) -> impl Iterator<Item = &TaskTime> {
        self.critical.iter().map(|&place| &self.tasks[place])
    }

    /// How long the tasks of the critical path took together.
    #[must_use]
    pub fn critical_time(&self) -> Duration {
        self.critical_path().map(TaskTime::took).sum()
    }

    /// From the first task's start to the last one's end.
    #[must_use]
    pub fn wall(&self) -> Duration {
        let ends = self.tasks.iter().map(|task| task.end.max(task.done));
        ends.max().unwrap_or_default()
    }

    /// How long the workers were busy with tasks, together.
    #[must_use]
    pub fn work(&self) -> Duration {
        let workers = self.workers();
        workers.iter().map(|&worker| self.busy(worker)).sum()
    }

    /// The workers that ran something.
    #[must_use]
    pub fn workers(&self) -> Vec<usize> {
        let mut workers: Vec<_> = self.tasks.iter().map(|task| task.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// How long a worker was busy with tasks.
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

    /// Which part of the time the workers of the pool, and the threads that helped, were busy: from 0 to 1.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        let workers = self.workers();
        let helpers = workers.iter().filter(|&&worker| worker >= self.threads);
        let hands = (self.threads + helpers.count()) as f64;
        let all = self.wall().as_secs_f64() * hands;
        if all > 0.0 {
            (self.work().as_secs_f64() / all).min(1.0)
        } else {
            0.0
        }
    }

    /// What a worker is called.
    pub(super) fn lane_name(&self, worker: usize) -> String {
        if worker < self.threads {
            format!("worker {worker}")
        } else {
            format!("caller {}", worker - self.threads)
        }
    }

    /// A picture: a lane for each worker, a box for each task, the critical path in another colour. Boxes tell
    /// their name and times when the mouse is over them.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::draw(self)
    }
}

/// The critical path: places in `tasks`, which are sorted by their start.
fn critical(tasks: &[TaskTime], edges: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
    let mut before: HashMap<u32, Vec<u32>> = HashMap::new();
    for (from, to) in edges {
        before.entry(to).or_default().push(from);
    }
    // The times of a task so far, in their order.
    let mut ran: HashMap<u32, Vec<usize>> = HashMap::new();
    // For each time: how long the longest chain to its end takes, and which time comes before it.
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
    // Of chains that took the same time, the one that ends last: it has all tasks that took no time.
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
    /// From now on runs are recorded, or no longer. It costs some 100 ns a task, and memory until the
    /// [`timeline`](Self::timeline) is taken; while it is off it costs nothing.
    ///
    /// Graphs inside of tasks count as their task.
    pub fn record(&mut self, on: bool) {
        let special = self.parts.nodes.iter().any(|node| node.kind.is_special());
        self.shape.special = on || special || !self.shape.needs.is_empty();
        self.shape.recorder = on.then(|| Recorder::new().into());
    }

    /// What was recorded since this was last called; nothing if it does not [`record`](Self::record).
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
        const MOST_NAMES: usize = 12;
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
        for (number, task) in self.critical_path().take(MOST_NAMES).enumerate() {
            let arrow = if number == 0 { "" } else { " → " };
            write!(f, "{arrow}{}", task.name())?;
        }
        match self.critical.len().checked_sub(MOST_NAMES) {
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

    /// A timeline of tasks, each with its number, worker, start and end in milliseconds.
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
        // A thread from outside counts among the hands.
        assert!((second.busy_share() - 24.0 / 33.0).abs() < 1e-9);
        assert_eq!(second.lane_name(2), "caller 0");
    }

    #[test]
    fn laps_of_a_loop_follow_each_other() {
        // 1 → 2 ⇢ 1: three laps, as of a condition.
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
    fn nothing_is_drawn_for_nothing() {
        let nothing = timeline(0, &[], &[], &[(1, 2)]);
        assert_eq!(
            (nothing.wall(), nothing.busy_share()),
            (Duration::ZERO, 0.0)
        );
        assert!(nothing.to_svg().ends_with("</svg>\n"));
        assert!(nothing.to_string().starts_with("0 tasks on 0 workers"));
    }

    #[test]
    fn a_million_thin_boxes_become_few() {
        let tasks: Vec<_> = (0..20_000)
            .map(|n| (n + 1, 0, u64::from(n), u64::from(n) + 1))
            .collect();
        let picture = timeline(1, &tasks, &[], &[]).to_svg();
        assert!(picture.len() < 20_000, "{} bytes", picture.len());
        assert!(picture.contains("short tasks"));
    }
}
