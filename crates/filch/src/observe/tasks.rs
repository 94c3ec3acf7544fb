//! Counters of submitted tasks.

use super::histogram::{Histogram, TimeRecorder};
use crate::{
    base::{
        Instant,
        padded::Padded,
        sync::{AtomicU64, Ordering},
        thread,
    },
    engine::Priority,
};
use std::{fmt, ops::AddAssign};

/// An event of a submitted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    Submitted,
    Finished,
    Panicked,
    Refused,
    Cancelled,
    Expired,
    Inlined,
    Stopped,
}

const EVENTS: usize = 8;

/// The counters of the tasks of one priority, or of all.
///
/// When nothing is queued or running, `submitted == finished + panicked + cancelled + expired`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// Tasks that were accepted.
    pub submitted: u64,
    /// Tasks that returned.
    pub finished: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks that were refused, because the pool was full or closed.
    pub refused: u64,
    /// Tasks that were cancelled before they started.
    pub cancelled: u64,
    /// Tasks that did not start before their deadline.
    pub expired: u64,
    /// Tasks that the thread that joined or submitted them ran itself; they count above as well.
    pub inlined: u64,
    /// Tasks that were cancelled, or whose deadline passed, while they ran; they count as finished
    /// or panicked as well.
    pub stopped: u64,
}

impl AddAssign for TaskCounts {
    fn add_assign(&mut self, other: Self) {
        self.submitted += other.submitted;
        self.finished += other.finished;
        self.panicked += other.panicked;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.inlined += other.inlined;
        self.stopped += other.stopped;
    }
}

/// The counters of the tasks that were submitted to a pool.
///
/// ```
/// use filch::{Pool, Priority};
///
/// let pool = Pool::builder().workers(2).task_latencies(true).build()?;
/// let handles: Vec<_> = (0..100).map(|n| pool.submit(move || n)).collect();
/// handles.into_iter().for_each(|handle| { handle.join().unwrap(); });
///
/// let metrics = pool.task_metrics();
/// assert_eq!(metrics.of(Priority::Normal).finished, 100);
/// assert_eq!(metrics.total().submitted, 100);
/// assert_eq!(metrics.run_time.as_ref().unwrap().count(), 100);
/// println!("{metrics}");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskMetrics {
    levels: [TaskCounts; 4],
    /// How long tasks were queued before they started, if the pool measures it.
    pub queue_wait: Option<Histogram>,
    /// How long they ran, if the pool measures it.
    pub run_time: Option<Histogram>,
}

impl TaskMetrics {
    /// The tasks of one priority. An event counts for the priority that the task has at that
    /// moment.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// pool.task(|| ()).priority(Priority::High).submit().unwrap().join().unwrap();
    /// assert_eq!(pool.task_metrics().of(Priority::High).finished, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn of(&self, priority: Priority) -> TaskCounts {
        self.levels[priority as usize]
    }

    /// The sum of all priorities.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// pool.submit(|| ()).join().unwrap();
    /// assert_eq!(pool.task_metrics().total().finished, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> TaskCounts {
        let mut total = TaskCounts::default();
        self.levels.into_iter().for_each(|level| total += level);
        total
    }
}

/// A table: a line for all tasks, a line for each priority, and one for each measured time.
impl fmt::Display for TaskMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8}",
            "priority",
            "submitted",
            "finished",
            "panicked",
            "refused",
            "cancelled",
            "expired",
            "inlined",
            "stopped"
        )?;
        let mut line = |name: &str, n: TaskCounts| {
            writeln!(
                f,
                "{name:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8}",
                n.submitted,
                n.finished,
                n.panicked,
                n.refused,
                n.cancelled,
                n.expired,
                n.inlined,
                n.stopped
            )
        };
        line("all", self.total())?;
        for level in Priority::ALL {
            line(&format!("{level:?}").to_lowercase(), self.of(level))?;
        }
        for (what, times) in [("queued", &self.queue_wait), ("ran", &self.run_time)] {
            if let Some(times) = times {
                writeln!(f, "{what:>8} {times}")?;
            }
        }
        Ok(())
    }
}

/// The cells of one worker slot, or of the threads that share them.
#[derive(Default)]
struct TaskCells {
    events: [[AtomicU64; EVENTS]; 4],
    /// Tickets that became stale, and stale ones that were removed from a queue.
    became_stale: AtomicU64,
    removed_stale: AtomicU64,
}

/// The number of stale tickets of a thread between two checks whether there are too many. A check
/// reads a cache line of every other slot, so this makes its cost a few nanoseconds a ticket.
const STALE_TICKETS_BETWEEN_CHECKS: u64 = 1024;

/// The number of sets of cells that threads from outside share.
const OUTSIDE_CELLS: usize = 8;

/// Counts the events of tasks: each worker slot of a pool in cells of its own, threads from outside
/// in a few shared ones.
pub(crate) struct TaskCounters {
    places: Box<[Padded<TaskCells>]>,
    outside: [Padded<TaskCells>; OUTSIDE_CELLS],
    times: Option<Times>,
}

/// The clock of a pool that measures its tasks.
struct Times {
    start: Instant,
    /// Several, to reduce contention.
    shards: Box<[Padded<TimeShard>]>,
}

struct TimeShard {
    queue_wait: TimeRecorder,
    run_time: TimeRecorder,
}

/// A reading of a pool's clock, or `None` if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Option<u64>);

impl TaskCounters {
    /// Creates the counters of `places` worker slots; with a clock if `measured`.
    pub(crate) fn new(places: usize, workers: usize, measured: bool) -> Self {
        let shard = |_| {
            Padded::new(TimeShard {
                queue_wait: TimeRecorder::new(),
                run_time: TimeRecorder::new(),
            })
        };
        let times = measured.then(|| Times {
            start: Instant::now(),
            shards: (0..=workers.min(64)).map(shard).collect(),
        });
        Self {
            places: (0..places).map(|_| Padded::default()).collect(),
            outside: Default::default(),
            times,
        }
    }

    /// Counts `event`. `place` is the caller's worker slot in the pool, which no other thread has
    /// at this time.
    #[inline]
    pub(crate) fn count(&self, place: Option<usize>, level: Priority, event: TaskEvent) {
        let (level, event) = (level as usize, event as usize);
        self.add(place, 1, |cells| &cells.events[level][event]);
    }

    /// Counts a ticket that became stale. Returns whether a check for too many of them is due.
    pub(crate) fn count_stale(&self, place: Option<usize>) -> bool {
        self.add(place, 1, |cells| &cells.became_stale) % STALE_TICKETS_BETWEEN_CHECKS
            == STALE_TICKETS_BETWEEN_CHECKS - 1
    }

    /// Counts stale tickets that were removed from a queue.
    pub(crate) fn count_removed_stale(&self, place: Option<usize>, tickets: u64) {
        self.add(place, tickets, |cells| &cells.removed_stale);
    }

    /// The approximate number of stale tickets in all queues.
    pub(crate) fn stale(&self) -> usize {
        let (mut became_stale, mut removed) = (0_u64, 0);
        for cells in self.places.iter().chain(&self.outside) {
            // Relaxed: an estimate.
            became_stale += cells.became_stale.load(Ordering::Relaxed);
            removed += cells.removed_stale.load(Ordering::Relaxed);
        }
        became_stale.saturating_sub(removed) as usize
    }

    /// Adds to the caller's cell, and returns its previous value.
    #[inline]
    fn add(
        &self,
        place: Option<usize>,
        more: u64,
        cell: impl FnOnce(&TaskCells) -> &AtomicU64,
    ) -> u64 {
        match place {
            Some(place) => {
                let cell = cell(&self.places[place]);
                // Relaxed, and no read-modify-write: there is one writer at a time, and the
                // handover of a slot to another thread has its own synchronization.
                let before = cell.load(Ordering::Relaxed);
                cell.store(before + more, Ordering::Relaxed);
                before
            }
            // Relaxed: an independent number. A read-modify-write, because threads share the cell.
            None => cell(&self.outside[thread::number() % OUTSIDE_CELLS])
                .fetch_add(more, Ordering::Relaxed),
        }
    }

    /// The current values.
    pub(crate) fn metrics(&self) -> TaskMetrics {
        let mut metrics = TaskMetrics::default();
        for cells in self.places.iter().chain(&self.outside) {
            for (level, cells) in metrics.levels.iter_mut().zip(&cells.events) {
                // Relaxed: an approximate snapshot.
                let read = |event: TaskEvent| cells[event as usize].load(Ordering::Relaxed);
                *level += TaskCounts {
                    submitted: read(TaskEvent::Submitted),
                    finished: read(TaskEvent::Finished),
                    panicked: read(TaskEvent::Panicked),
                    refused: read(TaskEvent::Refused),
                    cancelled: read(TaskEvent::Cancelled),
                    expired: read(TaskEvent::Expired),
                    inlined: read(TaskEvent::Inlined),
                    stopped: read(TaskEvent::Stopped),
                };
            }
        }
        if let Some(times) = &self.times {
            let (mut queue_wait, mut run_time) = (Histogram::new(), Histogram::new());
            for shard in &times.shards {
                queue_wait.add_recorded(&shard.queue_wait);
                run_time.add_recorded(&shard.run_time);
            }
            (metrics.queue_wait, metrics.run_time) = (Some(queue_wait), Some(run_time));
        }
        metrics
    }

    /// The current time in nanoseconds since the pool was created, if there is a clock.
    #[inline(always)]
    pub(crate) fn now(&self) -> Moment {
        Moment(self.times.as_ref().map(Times::now))
    }

    /// Records a task that was queued at `queued`, started at `started`, and has ended now.
    #[inline(always)]
    pub(crate) fn ran(&self, place: Option<usize>, queued: u64, started: Moment) {
        if let (Some(times), Some(started)) = (&self.times, started.0) {
            times.ran(place, queued, started);
        }
    }
}

impl Times {
    fn now(&self) -> u64 {
        let nanos = self.start.elapsed().as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    #[cold]
    fn ran(&self, place: Option<usize>, queued: u64, started: u64) {
        let shard = match place {
            Some(place) => place % self.shards.len(),
            None => self.shards.len() - 1,
        };
        let shard = &self.shards[shard];
        shard.queue_wait.record(started.saturating_sub(queued));
        shard.run_time.record(self.now().saturating_sub(started));
    }
}

impl Moment {
    /// The nanoseconds, or zero without a clock, for fields that cannot store an option.
    #[inline(always)]
    pub(crate) fn nanos(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{TaskCounters, TaskEvent};
    use crate::engine::Priority;

    #[test]
    fn what_was_counted_adds_up() {
        let counters = TaskCounters::new(2, 1, true);
        counters.count(Some(0), Priority::Low, TaskEvent::Submitted);
        counters.count(Some(1), Priority::Low, TaskEvent::Expired);
        counters.count(None, Priority::High, TaskEvent::Refused);
        let started = counters.now();
        counters.ran(Some(1), 0, started);
        let metrics = counters.metrics();
        let (low, high) = (metrics.of(Priority::Low), metrics.of(Priority::High));
        assert_eq!((low.submitted, low.expired, low.refused), (1, 1, 0));
        assert_eq!((high.refused, metrics.total().refused), (1, 1));
        assert_eq!(metrics.run_time.as_ref().unwrap().count(), 1);
        assert_eq!(metrics.to_string().lines().count(), 1 + 1 + 4 + 2);
    }

    #[test]
    fn without_a_clock_nothing_is_measured() {
        let counters = TaskCounters::new(1, 1, false);
        let started = counters.now();
        counters.ran(None, started.nanos(), started);
        assert_eq!(counters.metrics().queue_wait, None);
    }
}
