//! Records which task ran when, and on which worker.

use super::timeline::{TaskTime, Timeline};
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
    time::Instant,
};

/// Number of separately locked lists of spans; workers beyond that share them.
const SHARDS: usize = 64;

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
    recorder: &'a RunRecorder,
    task: u32,
    worker: usize,
    start: Instant,
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

    /// Records that a suspended task is done, whose closure returned before.
    pub(super) fn complete(&self, task: u32) {
        lock(&self.events).completed.push((task, Instant::now()));
    }

    /// Takes what has been recorded since the last call.
    fn take(&self) -> (Vec<Span>, Events) {
        let shards = self.shards.iter();
        let spans = shards.flat_map(|shard| std::mem::take(&mut *lock(shard)));
        (spans.collect(), std::mem::take(&mut *lock(&self.events)))
    }

    /// Makes a timeline of what was recorded since the last call.
    pub(super) fn timeline(
        &self,
        name: impl Fn(u32) -> String,
        edges: impl Iterator<Item = (u32, u32)>,
    ) -> Timeline {
        // Relaxed: as in `begin`.
        let threads = self.threads.load(Ordering::Relaxed);
        timeline(self.take(), threads, name, edges)
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
        lock(&self.recorder.shards[self.worker % SHARDS]).push(span);
    }
}

impl fmt::Debug for RunRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRecorder").finish_non_exhaustive()
    }
}

/// Makes a timeline of what was recorded.
fn timeline(
    (spans, events): (Vec<Span>, Events),
    threads: usize,
    name: impl Fn(u32) -> String,
    edges: impl Iterator<Item = (u32, u32)>,
) -> Timeline {
    let mut done_later: HashMap<u32, Vec<Instant>> = HashMap::new();
    for (task, when) in events.completed {
        done_later.entry(task).or_default().push(when);
    }
    done_later
        .values_mut()
        .for_each(|times| times.sort_unstable());
    let Some(zero) = spans.iter().map(|span| span.start).min() else {
        return Timeline::new(threads, [], []);
    };
    let tasks = spans.into_iter().map(|span| {
        let done = done_later.get(&span.task).and_then(|times| {
            let next = times.partition_point(|when| *when < span.end);
            times.get(next)
        });
        let runs = events.runs.partition_point(|run| *run <= span.start);
        let time = span.start - zero..span.end - zero;
        let mut task = TaskTime::new(span.task, name(span.task), span.worker, time);
        task.run = runs.saturating_sub(1);
        task.done = *done.unwrap_or(&span.end) - zero;
        task
    });
    Timeline::new(threads, tasks, edges)
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
        });
        let completed = completed.iter().map(|&(task, when)| (task, at(when)));
        let events = Events {
            runs: vec![at(0), at(1000)],
            completed: completed.collect(),
        };
        super::timeline(
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
