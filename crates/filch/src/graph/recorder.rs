//! Records which task ran when, and on which worker, and how it ended.

use super::{
    task_time::{NotRun, TaskEnding, TaskTime},
    timeline::Timeline,
};
use crate::{
    base::{
        Instant,
        padded::Padded,
        sync::{AtomicUsize, Ordering},
    },
    pool::context::WorkerContext,
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    fmt,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Number of separately locked lists of spans; workers beyond that share them.
const SHARDS: usize = 64;

thread_local! {
    /// The waits of the innermost recorded task on this thread; `None` if there is none.
    static WAITS: RefCell<Option<Vec<Range<Instant>>>> = const { RefCell::new(None) };
}

/// Calls `f`, in which the running task of a graph only waits: for a child process, a file, a
/// server. The [timeline](super::Timeline) of a recorded run does not count this time as busy.
///
/// The wait occupies the worker all the same. Outside of recorded tasks this only calls `f`.
///
/// ```
/// use filch::{Graph, graph};
/// use std::{thread, time::Duration};
///
/// let graph = Graph::new();
/// graph.task("cc main.c", || {
///     // For example `graph::waiting(|| child.wait())`.
///     graph::waiting(|| thread::sleep(Duration::from_millis(20)));
/// });
/// let mut plan = graph.plan()?;
/// plan.record(true);
/// plan.run()?;
/// let timeline = plan.timeline();
/// assert!(timeline.wall() >= Duration::from_millis(20));
/// assert!(timeline.work() <= timeline.wall() - Duration::from_millis(20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "block_in_place")]
pub fn waiting<R>(f: impl FnOnce() -> R) -> R {
    let is_recorded = WAITS.try_with(|waits| waits.borrow().is_some());
    let _wait = is_recorded
        .unwrap_or(false)
        .then(|| RecordedWait(Instant::now()));
    f()
}

/// A wait that has begun. It ends when this is dropped, also by a panic.
struct RecordedWait(Instant);

impl Drop for RecordedWait {
    fn drop(&mut self) {
        let wait = self.0..Instant::now();
        // Not at the end of the thread, when no task runs.
        let _ = WAITS.try_with(|waits| waits.borrow_mut().as_mut().map(|waits| waits.push(wait)));
    }
}

/// Makes a list the one that waits on this thread are added to. Returns the previous one.
fn replace_waits(waits: Option<Vec<Range<Instant>>>) -> Option<Vec<Range<Instant>>> {
    WAITS
        .try_with(|current| current.replace(waits))
        .unwrap_or_default()
}

/// Records when tasks run, while a plan [records](super::Plan::record).
pub(super) struct RunRecorder {
    shards: Box<[Padded<Mutex<Vec<Span>>>]>,
    events: Mutex<Events>,
    /// The number of threads of the pool.
    threads: AtomicUsize,
}

/// Events that are rarer than spans.
#[derive(Default)]
struct Events {
    runs: Vec<RecordedRun>,
    /// Tasks that did not end when their closures returned, how they ended, and when.
    endings: Vec<(u32, TaskEnding, Instant)>,
}

struct RecordedRun {
    start: Instant,
    /// What happened to the tasks that did not run, if the run did not finish.
    not_run: Option<TaskEnding>,
}

struct Span {
    task: u32,
    worker: usize,
    start: Instant,
    end: Instant,
    waits: Vec<Range<Instant>>,
}

/// A task that is running. It ends when this is dropped, also by a panic.
pub(super) struct Running<'a> {
    recorder: &'a RunRecorder,
    task: u32,
    worker: usize,
    start: Instant,
    /// The waits of the task that this one runs inside of.
    outer_waits: Option<Vec<Range<Instant>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunRecorder {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            events: Mutex::default(),
            threads: AtomicUsize::new(0),
        }
    }

    /// Records the begin of a run.
    pub(super) fn run(&self) {
        // Relaxed: as in `begin`, which no task of the run has reached yet.
        self.threads.store(0, Ordering::Relaxed);
        lock(&self.events).runs.push(RecordedRun {
            start: Instant::now(),
            not_run: None,
        });
    }

    /// Records that the run has ended early, and what that means for the tasks that did not run.
    pub(super) fn run_ended_early(&self, not_run: TaskEnding) {
        if let Some(run) = lock(&self.events).runs.last_mut() {
            run.not_run = Some(not_run);
        }
    }

    /// Records the begin of a task.
    pub(super) fn begin(&self, context: &WorkerContext<'_, '_>, task: u32) -> Running<'_> {
        // Relaxed, twice: the number changes only if the pool is resized, and is read when the run
        // is over.
        let threads = context.pool().live_workers();
        if self.threads.load(Ordering::Relaxed) < threads {
            self.threads.store(threads, Ordering::Relaxed);
        }
        Running {
            recorder: self,
            task,
            worker: context.worker(),
            outer_waits: replace_waits(Some(Vec::new())),
            start: Instant::now(),
        }
    }

    /// Records how a task has ended, if it did not just return: it failed, or was suspended.
    pub(super) fn end(&self, task: u32, ending: TaskEnding) {
        let when = Instant::now();
        lock(&self.events).endings.push((task, ending, when));
    }

    /// Takes what has been recorded since the last call.
    fn take(&self) -> (Vec<Span>, Events) {
        let shards = self.shards.iter();
        let spans = shards.flat_map(|shard| std::mem::take(&mut *lock(shard)));
        (spans.collect(), std::mem::take(&mut *lock(&self.events)))
    }

    /// Makes a timeline of what was recorded since the last call, of a plan with tasks of these
    /// numbers.
    pub(super) fn timeline(
        &self,
        tasks: Vec<u32>,
        name: impl Fn(u32) -> String,
        edges: impl Iterator<Item = (u32, u32)>,
    ) -> Timeline {
        // Relaxed: as in `begin`.
        let threads = self.threads.load(Ordering::Relaxed);
        let (spans, events) = self.take();
        timeline(spans, events, tasks, threads, name, edges)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let end = Instant::now();
        let span = Span {
            task: self.task,
            worker: self.worker,
            start: self.start,
            end,
            waits: replace_waits(self.outer_waits.take()).unwrap_or_default(),
        };
        lock(&self.recorder.shards[self.worker % SHARDS]).push(span);
    }
}

impl fmt::Debug for RunRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRecorder").finish_non_exhaustive()
    }
}

impl Events {
    /// Returns the number of the run that was the last to begin at this time.
    fn run_at(&self, when: Instant) -> usize {
        let begun = self.runs.partition_point(|run| run.start <= when);
        begun.saturating_sub(1)
    }
}

/// Makes a timeline of what was recorded, of a plan with the tasks of these numbers.
fn timeline(
    mut spans: Vec<Span>,
    events: Events,
    task_numbers: Vec<u32>,
    threads: usize,
    name: impl Fn(u32) -> String,
    edges: impl Iterator<Item = (u32, u32)>,
) -> Timeline {
    let first_run = events.runs.first().map(|run| run.start);
    let first_task = spans.iter().map(|span| span.start).min();
    let Some(zero) = first_task.or(first_run) else {
        return Timeline::new(threads, [], []);
    };
    spans.sort_unstable_by_key(|span| (span.task, span.start));
    let mut tasks: Vec<_> = spans
        .iter()
        .map(|span| {
            let time = span.start - zero..span.end - zero;
            let mut task = TaskTime::new(span.task, name(span.task), span.worker, time);
            task.run = events.run_at(span.start);
            if let Some(run) = events.runs.get(task.run) {
                task.ready = run.start.saturating_duration_since(zero);
            }
            for wait in &span.waits {
                task = task.with_wait(wait.start - zero..wait.end - zero);
            }
            task
        })
        .collect();
    let mut not_run = add_endings(&mut tasks, &spans, &events, zero);
    let started: HashSet<_> = tasks.iter().map(|task| (task.run, task.index)).collect();
    for (run, recorded) in events.runs.iter().enumerate() {
        let Some(ending) = recorded.not_run else {
            continue;
        };
        for &index in &task_numbers {
            if !started.contains(&(run, index)) {
                not_run.entry((run, index)).or_insert(ending);
            }
        }
    }
    let not_run = not_run.into_iter().map(|((run, index), ending)| NotRun {
        run,
        ..NotRun::new(index, name(index), ending)
    });
    Timeline::new(threads, tasks, edges).with_not_run(not_run)
}

/// Adds the recorded endings to the tasks, which are in the order of the spans. Returns those of
/// tasks that did not run, by their run and number: a semaphore has refused them.
fn add_endings(
    tasks: &mut [TaskTime],
    spans: &[Span],
    events: &Events,
    zero: Instant,
) -> HashMap<(usize, u32), TaskEnding> {
    let mut refused = HashMap::new();
    for &(index, ending, when) in &events.endings {
        let run = events.run_at(when);
        // The last time that the task was started before.
        let at = spans.partition_point(|span| (span.task, span.start) <= (index, when));
        let started = at.checked_sub(1).map(|at| &mut tasks[at]);
        let Some(task) = started.filter(|task| task.index == index && task.run == run) else {
            refused.entry((run, index)).or_insert(ending);
            continue;
        };
        // A future that has panicked is given up next: the first ending counts.
        if task.ending == TaskEnding::Done {
            task.ending = ending;
        }
        // A closure that has panicked was done when it returned.
        if ending != TaskEnding::Failed {
            task.completed = (when - zero).max(task.end);
        }
    }
    refused
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

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
            waits: Vec::new(),
        });
        let endings = completed
            .iter()
            .map(|&(task, when)| (task, TaskEnding::Done, at(when)));
        let run = |start| RecordedRun {
            start: at(start),
            not_run: None,
        };
        let events = Events {
            runs: vec![run(0), run(1000)],
            endings: endings.collect(),
        };
        super::timeline(
            spans.collect(),
            events,
            (1..=5).collect(),
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
        assert_eq!((second.threads(), second.workers()), (2, vec![0, 1, 2]));
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
    fn an_empty_timeline_has_no_time() {
        let nothing = timeline(0, &[], &[], &[(1, 2)]);
        assert_eq!(
            (nothing.wall(), nothing.busy_share()),
            (Duration::ZERO, 0.0)
        );
        assert!(nothing.to_string().starts_with("0 tasks on 0 workers"));
    }
}
