//! Per-worker counters, in every build.

use crate::{
    base::{
        Instant,
        padded::Padded,
        sync::{AtomicU64, Ordering},
        thread,
    },
    engine::{Event, OUTSIDE, Observer, Priority, Source},
};
use std::{fmt, ops::AddAssign, time::Duration};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One worker's cells: written only by that worker, read by any thread.
        #[derive(Default)]
        struct WorkerCells {
            $($name: AtomicU64,)*
            busy_nanos: AtomicU64,
            idle_nanos: AtomicU64,
            /// When the current busy or idle interval began, in nanoseconds since the start.
            since: AtomicU64,
        }

        /// The counters of one worker, or the sum of all.
        ///
        /// `executed == local + injected + stolen + critical + high + low + affine_kept +
        /// affine_broken`, and `steal_attempts >= stolen >= stolen_far`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerMetrics {
            /// Tasks run, panicked ones included: the sum of the next eight, which count them by
            /// their source.
            pub executed: u64,
            $($(#[$doc])* pub $name: u64,)*
            /// Time with tasks to run.
            pub busy: Duration,
            /// Time without: searching or asleep.
            pub idle: Duration,
        }

        impl WorkerCells {
            fn read(&self) -> WorkerMetrics {
                // Relaxed: the cells are independent numbers; a sum over running workers is
                // approximate in any case.
                let mut read = WorkerMetrics {
                    executed: 0,
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    busy: Duration::from_nanos(self.busy_nanos.load(Ordering::Relaxed)),
                    idle: Duration::from_nanos(self.idle_nanos.load(Ordering::Relaxed)),
                };
                read.executed = read.sources().into_iter().sum();
                read
            }
        }

        impl AddAssign<&Self> for WorkerMetrics {
            fn add_assign(&mut self, other: &Self) {
                self.executed += other.executed;
                $(self.$name += other.$name;)*
                self.busy += other.busy;
                self.idle += other.idle;
            }
        }
    };
}

counters! {
    /// Tasks run that came from the worker's own queue.
    local,
    /// Tasks run that came straight from the injector.
    injected,
    /// Tasks run that came straight from another worker's queue.
    stolen,
    /// Tasks run that came from the lane of [`Priority::Critical`].
    critical,
    /// Tasks run that came from the lane of [`Priority::High`].
    high,
    /// Tasks run that came from the lane of [`Priority::Low`].
    low,
    /// Tasks run that had this worker or its node as their affinity, from the mailbox.
    affine_kept,
    /// Tasks run from the mailbox of another worker or node, which was busy. (Tasks with the
    /// affinity of a worker or node that has left are queued in the injector, and counted as
    /// injected.)
    affine_broken,
    /// Stolen tasks run that came from another node of the machine, or where all workers are on
    /// one, from a worker that shares no cache. Only counted if workers are pinned or have
    /// [distances](crate::engine::Distances).
    stolen_far,
    /// Tasks that were moved to the worker's own queue along with one that it took, to run after
    /// it.
    moved,
    /// Tasks it spawned into its own queue.
    spawned_local,
    /// Tasks it spawned into the injector.
    spawned_global,
    /// Tasks it spawned into a lane.
    spawned_lane,
    /// Tasks it spawned with the affinity of a worker or node.
    spawned_affine,
    /// Tasks it moved to the injector because its queue was full.
    spilled,
    /// Victims that it tried to steal from.
    steal_attempts,
    /// Races for a task that it lost, and retried.
    steal_retries,
    /// Times it fell asleep.
    parks,
    /// Times it woke another worker.
    wakes,
}

impl WorkerCells {
    #[inline(never)]
    fn lane(&self, level: Priority) -> &AtomicU64 {
        match level {
            Priority::Critical => &self.critical,
            Priority::High => &self.high,
            Priority::Low => &self.low,
            Priority::Normal => &self.injected,
        }
    }

    #[inline(never)]
    fn stolen(&self, far: bool) -> &AtomicU64 {
        if far {
            add(&self.stolen_far, 1);
        }
        &self.stolen
    }

    fn affine(&self, by_owner: bool) -> &AtomicU64 {
        if by_owner {
            &self.affine_kept
        } else {
            &self.affine_broken
        }
    }
}

impl WorkerMetrics {
    /// The tasks run, by source.
    fn sources(&self) -> [u64; 8] {
        [
            self.local,
            self.injected,
            self.stolen,
            self.critical,
            self.high,
            self.low,
            self.affine_kept,
            self.affine_broken,
        ]
    }
}

/// An addition by the only thread that writes the cell.
#[inline(always)]
fn add(cell: &AtomicU64, n: u64) {
    // Relaxed, and no read-modify-write: there is one writer. Readers see a recent value.
    cell.store(cell.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Counts the events of every worker.
///
/// A busy worker adds to cache lines of its own, without a locked instruction; the clock is read
/// only when it runs out of work or finds some.
///
/// ```
/// use filch::{engine::{Event, Observer, Source}, observe::Counters};
///
/// let counters = Counters::new(2);
/// counters.event(1, Event::Started { source: Source::Local });
/// let metrics = counters.metrics();
/// assert_eq!((metrics.workers[1].local, metrics.total().executed), (1, 1));
/// ```
pub struct Counters {
    cells: Box<[Padded<WorkerCells>]>,
    outside: Padded<WorkerCells>,
    start: Instant,
}

impl Counters {
    /// Creates the counters of `workers` workers, all zero.
    ///
    /// ```
    /// assert_eq!(filch::observe::Counters::new(4).metrics().workers.len(), 4);
    /// ```
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            cells: (0..workers).map(|_| Padded::default()).collect(),
            outside: Padded::default(),
            start: Instant::now(),
        }
    }

    /// The current values.
    ///
    /// ```
    /// use filch::{engine::{Event, Observer}, observe::Counters};
    ///
    /// let counters = Counters::new(2);
    /// counters.event(1, Event::SpawnedLocal);
    /// assert_eq!(counters.metrics().total().spawned_local, 1);
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            workers: self.cells.iter().map(|cells| cells.read()).collect(),
            // Relaxed: an independent number.
            outside_wakes: self.outside.wakes.load(Ordering::Relaxed),
            guests: 0,
        }
    }

    /// The current values of `worker`.
    ///
    /// ```
    /// use filch::{engine::{Event, Observer}, observe::Counters};
    ///
    /// let counters = Counters::new(2);
    /// counters.event(1, Event::SpawnedLocal);
    /// assert_eq!(counters.worker(1).spawned_local, 1);
    /// ```
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn worker(&self, worker: usize) -> WorkerMetrics {
        self.cells[worker].read()
    }

    #[cold]
    fn outside_event(&self, worker: usize, event: Event) {
        if worker == OUTSIDE && matches!(event, Event::Woke { .. } | Event::Called { .. }) {
            // Relaxed: an independent number. Threads from outside share this cell, so it is a
            // read-modify-write; a wake costs a thousand times as much.
            self.outside.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that don't occur for every task. Not inlined: the engine reports events in many
    /// places.
    #[inline(never)]
    fn rare_event(&self, cells: &WorkerCells, event: Event) {
        match event {
            Event::Moved { tasks } => add(&cells.moved, tasks as u64),
            Event::SpawnedLane { .. } => add(&cells.spawned_lane, 1),
            Event::SpawnedFor { .. } | Event::SpawnedForNode { .. } => {
                add(&cells.spawned_affine, 1);
            }
            Event::Spilled { tasks } => add(&cells.spilled, tasks as u64),
            Event::Searched { attempts, retries } => {
                add(&cells.steal_attempts, attempts as u64);
                add(&cells.steal_retries, retries as u64);
            }
            Event::Parked => add(&cells.parks, 1),
            Event::Woke { .. } | Event::Called { .. } => add(&cells.wakes, 1),
            // Relaxed: only this worker accesses it.
            Event::Entered => cells.since.store(self.now(), Ordering::Relaxed),
            Event::Busy => self.end_interval(cells, false),
            Event::Idle => self.end_interval(cells, true),
            Event::Left { .. } => self.end_interval(cells, false),
            Event::Started { .. }
            | Event::SpawnedLocal
            | Event::SpawnedGlobal
            | Event::Finished
            | Event::Unparked => {}
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Ends the current interval; `busy` is its kind.
    fn end_interval(&self, cells: &WorkerCells, busy: bool) {
        let now = self.now();
        // Relaxed: only this worker accesses it.
        let began = cells.since.load(Ordering::Relaxed);
        cells.since.store(now, Ordering::Relaxed);
        let sum = if busy {
            &cells.busy_nanos
        } else {
            &cells.idle_nanos
        };
        add(sum, now.saturating_sub(began));
    }
}

impl Observer for Counters {
    #[inline(always)]
    fn event(&self, worker: usize, event: Event) {
        thread::point();
        let Some(cells) = self.cells.get(worker) else {
            return self.outside_event(worker, event);
        };
        match event {
            Event::Started { source } => {
                add(
                    match source {
                        Source::Local => &cells.local,
                        Source::Injector => &cells.injected,
                        Source::Steal { far, .. } => cells.stolen(far),
                        Source::Lane(level) => cells.lane(level),
                        Source::Affine { worker: owner } => cells.affine(owner == worker),
                        Source::AffineNode { kept, .. } => cells.affine(kept),
                    },
                    1,
                );
            }
            Event::SpawnedLocal => add(&cells.spawned_local, 1),
            Event::SpawnedGlobal => add(&cells.spawned_global, 1),
            Event::Finished | Event::Unparked => {}
            _ => self.rare_event(cells, event),
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metrics().fmt(f)
    }
}

/// The counters of a group of workers.
///
/// ```
/// use filch::Executor;
///
/// let executor = Executor::builder().workers(2).build(|_| (), |_: u8, _| {}).unwrap();
/// executor.spawn_batch(vec![0; 100]).unwrap();
/// let total = executor.finish().metrics.total();
/// assert_eq!(total.executed, 100);
/// // Neither lanes nor mailboxes are used.
/// assert_eq!(total.executed, total.local + total.injected + total.stolen);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The counters of each worker.
    pub workers: Vec<WorkerMetrics>,
    /// Times that a thread from outside woke a worker.
    pub outside_wakes: u64,
    /// The number of guest slots, which are the last of `workers`: for threads that become workers
    /// for a call, or when a future is woken.
    pub guests: usize,
}

impl Metrics {
    /// The sum of all workers.
    ///
    /// ```
    /// use filch::{engine::{Event, Observer}, observe::Counters};
    ///
    /// let counters = Counters::new(2);
    /// counters.event(1, Event::SpawnedLocal);
    /// assert_eq!(counters.metrics().total().spawned_local, 1);
    /// ```
    #[must_use]
    pub fn total(&self) -> WorkerMetrics {
        let mut total = WorkerMetrics::default();
        for worker in &self.workers {
            total += worker;
        }
        total
    }
}

/// The name of a column, and its value for one worker.
type Column = (&'static str, fn(&WorkerMetrics) -> u64);

/// The columns that are shown only if one of their values is not zero.
const RARE: [Column; 6] = [
    ("far", |w| w.stolen_far),
    ("critical", |w| w.critical),
    ("high", |w| w.high),
    ("low", |w| w.low),
    ("kept", |w| w.affine_kept),
    ("broken", |w| w.affine_broken),
];

/// A table: a line for all workers, then a line for each; guest slots only if they were used. Far
/// steals, lanes and mailboxes have columns if they were used.
///
/// ```
/// use filch::{engine::{Event, Priority, Observer, Source}, observe::Counters};
///
/// let counters = Counters::new(3);
/// let table = counters.metrics().to_string();
/// assert_eq!(table.lines().count(), 1 + 1 + 3);
/// assert!(table.starts_with("worker") && !table.contains("high"));
///
/// counters.event(2, Event::Started { source: Source::Lane(Priority::High) });
/// assert!(counters.metrics().to_string().contains("high"));
/// ```
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let rare: Vec<_> = RARE.iter().filter(|(_, get)| get(&total) > 0).collect();
        write!(
            f,
            "{:>6} {:>9} {:>9} {:>8} {:>7} {:>8} {:>8} {:>6} {:>6} {:>6}",
            "worker",
            "executed",
            "local",
            "injected",
            "stolen",
            "moved",
            "attempts",
            "parks",
            "wakes",
            "busy"
        )?;
        for (name, _) in &rare {
            write!(f, " {name:>8}")?;
        }
        writeln!(f)?;
        let mut line = |name: &str, w: &WorkerMetrics| {
            let whole = (w.busy + w.idle).as_secs_f64();
            let busy = if whole > 0.0 {
                100.0 * w.busy.as_secs_f64() / whole
            } else {
                0.0
            };
            write!(
                f,
                "{name:>6} {:>9} {:>9} {:>8} {:>7} {:>8} {:>8} {:>6} {:>6} {busy:>5.1}%",
                w.executed,
                w.local,
                w.injected,
                w.stolen,
                w.moved,
                w.steal_attempts,
                w.parks,
                w.wakes,
            )?;
            for (_, get) in &rare {
                write!(f, " {:>8}", get(w))?;
            }
            writeln!(f)
        };
        line("all", &total)?;
        let threads = self.workers.len().saturating_sub(self.guests);
        let nothing = WorkerMetrics::default();
        for (id, worker) in self.workers.iter().enumerate() {
            if id < threads || *worker != nothing {
                line(&id.to_string(), worker)?;
            }
        }
        Ok(())
    }
}
