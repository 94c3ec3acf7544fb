//! Everything that can be set about a pool.

use super::{
    GLOBAL, Inner, Owned, PanicHandler, Pool, TaskOverflow, Tasks,
    guest::{GUESTS, Guests},
    job::Job,
    kept::Kept,
    registry,
    residents::Residents,
    site::Site,
    slab::{Reserve, Slab},
};
use crate::{
    clock::Clock,
    crew::{Crew, CrewConfig, Parkers, Work, thread_settings},
    engine::{Active, Capacity, Core, PerWorker, PerWorkerSpec, Settings, Tiered, Topology},
    ground::{error::BuildError, unwind::Payload},
    observe::{Counters, TaskCounters},
};
use std::sync::{Arc, Mutex, OnceLock};

/// Thieves take more than one job only from queues that are longer than this. Recursive joins rarely have as
/// many halves pending; a loop that spawns does.
const BATCH_FROM: usize = 64;

/// Builds a [`Pool`].
///
/// ```
/// use filch::Pool;
///
/// let pool = Pool::builder()
///     .workers(2)
///     .name(|worker| format!("render-{worker}"))
///     .stack_size(8 << 20)
///     .on_panic(|_| eprintln!("a spawned task panicked"))
///     .build()?;
/// # Ok::<(), filch::BuildError>(())
/// ```
pub struct PoolBuilder {
    crew: CrewConfig,
    settings: Settings,
    idle: Tiered,
    capacity: usize,
    task_capacity: Option<usize>,
    overflow: TaskOverflow,
    task_latencies: bool,
    on_panic: Option<PanicHandler>,
    clock: Clock,
    future_workers: usize,
    stands_for: Option<Arc<Inner>>,
}

impl PoolBuilder {
    pub(super) fn new() -> Self {
        Self {
            crew: CrewConfig::default(),
            settings: Settings::new(0),
            idle: Tiered::default(),
            capacity: 128,
            task_capacity: None,
            overflow: TaskOverflow::default(),
            task_latencies: false,
            on_panic: None,
            clock: Clock::real(),
            future_workers: 0,
            stands_for: None,
        }
    }

    /// How many threads. By default the environment variable `FILCH_WORKERS`, or else one for each core
    /// that the process may use. Zero means that the callers do the work: a call to `join` or `scope` runs
    /// everything on its own thread, and what is spawned runs in later calls, when [`Pool::tick`] or
    /// [`Pool::run_until_stalled`] is called, or when the pool is dropped.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let alone = Pool::builder().workers(0).build().unwrap();
    /// assert_eq!(alone.join(|| 1, || 2), (1, 2));
    /// ```
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.crew.workers = Some(workers);
        self
    }

    thread_settings!();

    /// For a caller that finds no place in `other`, which is told of panics, and has the clock.
    pub(super) fn instead_of(mut self, other: &Inner) -> Self {
        self.stands_for = Some(other.share());
        self.on_panic.clone_from(&other.on_panic);
        self.clock.clone_from(&other.clock);
        self
    }

    /// Called with what a panic carried when nobody waits for the task, or when somebody already gets
    /// another panic.
    #[must_use]
    pub fn on_panic(mut self, handler: impl Fn(&Payload) + Send + Sync + 'static) -> Self {
        self.on_panic = Some(Arc::new(handler));
        self
    }

    /// For how many jobs a worker's queue has room at the start (128); it grows.
    #[must_use]
    pub fn queue_capacity(mut self, jobs: usize) -> Self {
        self.capacity = jobs;
        self
    }

    /// How many [submitted](Pool::submit) tasks may be queued at the same time; no limit by default. A task counts
    /// from its submission until it starts or is cancelled. What is spawned does not count.
    ///
    /// ```
    /// use filch::{Pool, TaskOverflow};
    ///
    /// let pool = Pool::builder()
    ///     .workers(0) // nobody takes anything out
    ///     .task_capacity(1)
    ///     .overflow(TaskOverflow::Refuse)
    ///     .build()?;
    /// let first = pool.task(|| "a").submit().unwrap();
    /// let refused = pool.task(|| "b").submit().unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_inner()(), "b"); // the closure has come back
    /// assert_eq!(first.join().unwrap(), "a");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn task_capacity(mut self, tasks: usize) -> Self {
        self.task_capacity = Some(tasks);
        self
    }

    /// What a submission does when there is no room; by default it [waits](TaskOverflow::Block).
    #[must_use]
    pub fn overflow(mut self, policy: TaskOverflow) -> Self {
        self.overflow = policy;
        self
    }

    /// Whether to measure how long submitted tasks wait and run, for [`Pool::task_metrics`]. Off by default; then no
    /// clock is read. On, it is read three times a task.
    #[must_use]
    pub fn task_latencies(mut self, measured: bool) -> Self {
        self.task_latencies = measured;
        self
    }

    /// What time it is on this pool, for [`time::sleep`](crate::time::sleep) and its like: a
    /// [`PausedClock`](crate::time::PausedClock) in tests. That of the system by default.
    ///
    /// ```
    /// use filch::{Pool, time::{Clock, PausedClock}};
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// let pool = Pool::builder().workers(0).clock(&clock).build()?;
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(1));
    /// pool.install(|| assert_eq!(Clock::current().now(), start + Duration::from_secs(1)));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// How many workers to keep for futures, beside the others (none). They are for programs in which futures must be polled
    /// soon, and tasks may be long and have no [checkpoints](crate::checkpoint): as long as one of these workers is free, a
    /// future that is spawned or woken is polled at once, whatever the others do.
    ///
    /// ```
    /// use filch::Pool;
    /// use std::sync::mpsc;
    ///
    /// let pool = Pool::builder().workers(1).future_workers(1).build()?;
    /// let (send, receive) = mpsc::channel();
    /// // Takes the only other worker, and has no checkpoint.
    /// let long = pool.submit(move || receive.recv().unwrap());
    /// let quick = pool.spawn_future(async move { send.send("polled meanwhile").unwrap() });
    /// quick.join().unwrap();
    /// assert_eq!(long.join().unwrap(), "polled meanwhile");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// - Each is a thread more, which sleeps while no future is woken. They don't count as
    ///   [`workers`](Pool::workers), have no [number](crate::current_worker()), and take no ordinary work: what a future queues
    ///   there, by [`submit`](crate::submit()) for example, is for the others. But while a future *blocks* such a worker, in
    ///   [`join`](crate::join) or [`block_on`](crate::block_on()), the worker helps as any other does, and is not free.
    /// - The others poll futures as well, whoever comes first, and before all ordinary tasks: in such a pool every future that is
    ///   spawned or woken is as urgent as a task of [`Priority::High`](crate::Priority::High). One that
    ///   [yields](crate::future::yield_now) on one of the others comes behind the tasks of that worker, as ever.
    /// - Those tasks, and [`Critical`](crate::Priority::Critical) ones, wait in the same place, so one of these workers may
    ///   take them too; but it is not woken for them.
    /// - Futures that are tasks of a [graph](mod@crate::graph) go with the graph, as ordinary work.
    /// - A wake costs more: a step on a word that all share and, if one of these workers sleeps, waking it. Futures that wake each
    ///   other all the time are better off without.
    /// - Names and hooks are called for them with the numbers after those of the workers, so with `workers` and above; without
    ///   a [`name`](Self::name) they are `filch-future-0` and so on.
    /// - A pool [without workers](Self::workers) cannot have any: there the callers decide what runs when.
    #[must_use]
    pub fn future_workers(mut self, workers: usize) -> Self {
        self.future_workers = workers;
        self
    }

    /// How many threads it will have that are no workers.
    #[cfg(all(feature = "simulate", not(filch_loom)))]
    pub(crate) fn kept(&self) -> usize {
        self.future_workers
    }

    /// How often a worker looks around in vain before it sleeps (200).
    #[must_use]
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.idle.spin_rounds = rounds;
        self
    }

    /// Where the workers' random generators start.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// When a setting makes no sense, a thread cannot be started, or a start hook panics.
    pub fn build(mut self) -> Result<Pool, BuildError> {
        let threads = self.crew.workers()?;
        if self.task_capacity == Some(0) {
            return Err(BuildError::config(
                "a pool without room for tasks would refuse every one; set its task capacity to 1 or more",
            ));
        }
        let kept = Kept::new(self.future_workers, threads)?;
        let places = threads + GUESTS + kept.as_ref().map_or(0, Kept::workers);
        let parkers = Arc::new(Parkers::new(places));
        self.settings.workers = places;
        if threads == 0 {
            // Guests come and go: what one would take along and not run would go behind what came later.
            self.settings.inject_batch = 1;
        }
        self.settings.topology = Topology::flat(places);
        self.settings.idle = Box::new(self.idle);
        self.settings.unpark = Box::new(parkers.clone());
        let spec = PerWorkerSpec {
            capacity: Capacity::growable(self.capacity),
            batch_from: BATCH_FROM,
            ..PerWorkerSpec::default()
        };
        let core = Core::new(self.settings, &spec, Counters::new(places))?;
        let inner = Arc::new_cyclic(|this| Inner {
            core: Arc::new(core),
            parkers,
            guests: Guests::new(),
            slabs: (0..places).map(|_| Slab::new()).collect(),
            reserve: Reserve::default(),
            threads,
            tasks: Tasks::new(
                self.task_capacity,
                self.overflow,
                TaskCounters::new(places, threads, self.task_latencies),
            ),
            number: registry::Number::new(),
            residents: Residents::new(threads),
            kept,
            on_panic: self.on_panic,
            clock: self.clock,
            stands_for: self.stands_for,
            handle: OnceLock::new(),
            this: this.clone(),
        });
        inner.publish();
        let work = Arc::new(Jobs(inner.clone()));
        let kept = inner.keep(&self.crew)?;
        let crew = Crew::start(threads, &self.crew, &inner.core, &inner.parkers, &work);
        let crew = match (crew, kept) {
            (Ok(mut crew), Some(kept)) => {
                crew.add(kept);
                crew
            }
            (Ok(crew), None) => crew,
            (Err(error), kept) => {
                work.end();
                kept.map(Crew::join);
                return Err(error);
            }
        };
        let owned = Arc::new(Owned {
            inner,
            crew: Mutex::new(Some(crew)),
        });
        let _ = owned.inner.handle.set(Arc::downgrade(&owned));
        Ok(Pool { owned })
    }

    /// Starts the pool that [`Pool::global`] gives.
    ///
    /// # Errors
    /// As [`build`](Self::build); also when the global pool has been started already.
    pub fn build_global(self) -> Result<&'static Pool, BuildError> {
        let mut built = None;
        let started = || {
            BuildError::config(
                "the global pool has been started already; set it up before its first use",
            )
        };
        if GLOBAL.get().is_some() {
            return Err(started());
        }
        let pool = self.build()?;
        let global = GLOBAL.get_or_init(|| {
            built = Some(());
            pool
        });
        built.map(|()| global).ok_or_else(started)
    }
}

impl std::fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("crew", &self.crew)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

/// A pool's way to run a job.
pub(super) struct Jobs(pub(super) Arc<Inner>);

impl Work<Job, (), PerWorker, Counters> for Jobs {
    fn init(&self, _worker: usize) {}

    #[inline(always)]
    fn run(&self, job: Job, active: Active<'_, '_, Job, PerWorker, Counters>, (): &mut ()) {
        Site::enter(active, &self.0, |site| job.run(site));
    }

    fn end(&self) {
        if let Some(kept) = self.0.kept() {
            kept.end();
        }
    }
}
