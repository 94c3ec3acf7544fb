//! The configuration of a pool.

use super::{
    GLOBAL, Pool,
    dedicated_workers::DedicatedWorkers,
    guest_slots::{GUESTS, GuestSlots},
    inner::{Inner, Job, Owned, PanicHandler, WorkerContext, report_panic},
    registry,
    residents::Residents,
    slab::{Reserve, Slab},
    tasks::{TaskOverflow, Tasks},
};
use crate::{
    base::{Driver, error::BuildError, padded::Padded, thread, unwind},
    clock::Clock,
    engine::{Capacity, Core, PerWorker, PerWorkerSpec, RunningWorker, Settings, Tiered, Topology},
    observe::{Counters, TaskCounters},
    threads::{
        Parkers, PoolThread, SharedDriver, ThreadConfig, ThreadGroup, Work, thread_settings,
    },
};
use std::{
    any::Any,
    io, mem,
    sync::{Arc, Mutex, OnceLock},
    task::Waker,
    thread::Builder,
};

/// Thieves take more than one job only from queues that are longer than this, in jobs. Recursive
/// joins rarely have that many halves pending; a loop that spawns does.
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
    thread_config: ThreadConfig,
    settings: Settings,
    idle: Tiered,
    capacity: usize,
    task_capacity: Option<usize>,
    overflow: TaskOverflow,
    task_latencies: bool,
    on_panic: Option<PanicHandler>,
    current_thread: bool,
    /// The pool does not start its threads itself.
    external_threads: bool,
    clock: Clock,
    driver: Option<Arc<dyn Driver>>,
    future_workers: usize,
    stands_for: Option<Arc<Inner>>,
}

impl Pool {
    /// Returns a builder for a pool.
    #[must_use]
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }
}

impl PoolBuilder {
    fn new() -> Self {
        Self {
            thread_config: ThreadConfig::default(),
            settings: Settings::new(0),
            idle: Tiered::default(),
            capacity: 128,
            task_capacity: None,
            overflow: TaskOverflow::default(),
            task_latencies: false,
            on_panic: None,
            current_thread: false,
            external_threads: false,
            clock: Clock::real(),
            driver: None,
            future_workers: 0,
            stands_for: None,
        }
    }

    /// Sets the number of worker threads. The default is the environment variable `FILCH_WORKERS`,
    /// or else one for each core that the process may use. With zero the callers do the work: a
    /// call to `join` or `scope` runs everything on its own thread, and spawned tasks run in later
    /// calls, when [`Pool::tick`] or [`Pool::run_until_stalled`] is called, or when the pool is
    /// dropped.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let alone = Pool::builder().workers(0).build().unwrap();
    /// assert_eq!(alone.join(|| 1, || 2), (1, 2));
    /// ```
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.thread_config.workers = Some(workers);
        self
    }

    thread_settings!();

    /// Configures a pool for a caller that finds no free guest slot in `other`. Panics are reported
    /// to the handler of `other`, whose clock is used as well.
    pub(super) fn instead_of(mut self, other: &Inner) -> Self {
        self.stands_for = Some(other.share());
        self.like(other)
    }

    fn like(mut self, other: &Inner) -> Self {
        self.on_panic.clone_from(&other.on_panic);
        self.clock.clone_from(&other.clock);
        self
    }

    /// Sets the handler for panics that no waiter receives: the task has no waiter, or its waiter
    /// already receives another panic. The handler is called with the panic's payload.
    #[must_use]
    pub fn on_panic(
        mut self,
        handler: impl Fn(&Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.on_panic = Some(Arc::new(handler));
        self
    }

    /// Sets the initial capacity of a worker's queue, in jobs (128). The queue grows.
    #[must_use]
    pub fn queue_capacity(mut self, jobs: usize) -> Self {
        self.capacity = jobs;
        self
    }

    /// Limits the number of [submitted](Pool::submit) tasks that may be queued at the same time; no
    /// limit by default. A task counts from its submission until it starts or is cancelled. Spawned
    /// tasks do not count.
    ///
    /// ```
    /// use filch::{Pool, TaskOverflow};
    ///
    /// let pool = Pool::builder()
    ///     .workers(0) // no worker dequeues tasks
    ///     .task_capacity(1)
    ///     .overflow(TaskOverflow::Refuse)
    ///     .build()?;
    /// let first = pool.task(|| "a").submit().unwrap();
    /// let refused = pool.task(|| "b").submit().unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_inner()(), "b"); // the closure is returned
    /// assert_eq!(first.join().unwrap(), "a");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn task_capacity(mut self, tasks: usize) -> Self {
        self.task_capacity = Some(tasks);
        self
    }

    /// Sets what a submission does when the limit is reached; by default it
    /// [waits](TaskOverflow::Block).
    #[must_use]
    pub fn overflow(mut self, policy: TaskOverflow) -> Self {
        self.overflow = policy;
        self
    }

    /// Whether to measure how long submitted tasks wait and run, for [`Pool::task_metrics`]. Off by
    /// default; then no clock is read. When on, it is read three times per task.
    #[must_use]
    pub fn task_latencies(mut self, measured: bool) -> Self {
        self.task_latencies = measured;
        self
    }

    /// Sets the clock of this pool, for [`time::sleep`](crate::time::sleep) and similar functions:
    /// a [`PausedClock`](crate::time::PausedClock) in tests. The default is the system's clock.
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

    /// Sets the driver in which the workers wait for I/O: see [`Driver`]. None by default: then I/O
    /// needs a thread of its own, such as that of `async-io` or tokio, and every event has to be
    /// handed to a worker.
    ///
    /// An idle worker waits in the driver, and busy workers poll it. On a pool [without
    /// workers](Self::workers) the callers do so while they wait. In a pool with [dedicated
    /// workers](Self::future_workers) one of those waits in the driver, and the ordinary workers do
    /// not poll it: so events are found at once, whatever the ordinary workers compute.
    ///
    /// The crate `filch-io` has a driver, and TCP types that use it.
    #[must_use]
    pub fn driver(mut self, driver: impl Driver) -> Self {
        self.driver = Some(Arc::new(driver));
        self
    }

    /// Sets the number of dedicated workers: threads that only poll futures, in addition to the
    /// ordinary workers (none). They are for programs in which futures must be polled soon, while
    /// tasks may be long and have no [checkpoints](crate::checkpoint). As long as a dedicated
    /// worker is free, a future that is spawned or woken is polled at once, whatever the ordinary
    /// workers do.
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
    /// - Each is an additional thread, which sleeps while no future is woken. Dedicated workers
    ///   don't count as [`workers`](Pool::workers), have no [number](crate::current_worker()), and
    ///   take no ordinary work: a job that a future enqueues there, by [`submit`](crate::submit())
    ///   for example, goes to the ordinary workers. But while a future *blocks* a dedicated worker,
    ///   in [`join`](crate::join) or [`block_on`](crate::block_on()), that worker helps as any
    ///   other does, and is not free.
    /// - Ordinary workers poll futures as well, and before all ordinary tasks: in such a pool every
    ///   future that is spawned or woken is as urgent as a task of
    ///   [`Priority::High`](crate::Priority::High). One that [yields](crate::future::yield_now) on
    ///   an ordinary worker is queued behind the tasks of that worker, as in any pool.
    /// - Tasks of that priority, and [`Critical`](crate::Priority::Critical) ones, are in the same
    ///   queue, so a dedicated worker may take them too; but it is not woken for them.
    /// - Futures that are tasks of a [graph](mod@crate::graph) are scheduled with the graph, as
    ///   ordinary work.
    /// - A wake costs more: a read-modify-write of a shared word and, if a dedicated worker sleeps,
    ///   waking it. Futures that wake each other all the time are faster without dedicated workers.
    /// - Names and hooks are called for them with the numbers after those of the workers, so with
    ///   `workers` and above; without a [`name`](Self::name) they are `filch-future-0` and so on.
    /// - A pool [without workers](Self::workers) cannot have any: there the callers decide what
    ///   runs when. Nor can a pool on threads that the program provides
    ///   ([`build_on`](Self::build_on), [`with_current_thread`](Self::with_current_thread)),
    ///   because the pool does not join those threads.
    #[must_use]
    pub fn future_workers(mut self, workers: usize) -> Self {
        self.future_workers = workers;
        self
    }

    /// The number of dedicated workers, which are threads but not workers of the engine.
    #[cfg(all(feature = "rehearse", not(filch_loom)))]
    pub(crate) fn dedicated(&self) -> usize {
        self.future_workers
    }

    /// Sets the maximum number of unsuccessful searches after which a worker sleeps (200). A worker
    /// whose sleeps are usually longer than about 200 µs searches less often.
    #[must_use]
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.idle.spin_rounds = rounds;
        self
    }

    /// Sets the number of unsuccessful searches after which a worker yields its core to another
    /// thread before it searches again (16); zero for never. Small values suit workers that work
    /// for threads which then need a core themselves.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).spin_rounds(20).yield_every(4).build()?;
    /// assert_eq!(pool.on_worker(|| 1), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn yield_every(mut self, rounds: u32) -> Self {
        self.idle.yield_every = rounds;
        self
    }

    /// Sets the seed of the workers' random generators.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Makes the calling thread worker 0 of the pool, permanently. The thread runs no worker loop:
    /// it runs tasks while it waits in a call, such as [`join`](crate::join()) or
    /// [`scope`](crate::scope()), and in [`yield_now`](crate::yield_now()). Hooks do not run on it.
    /// Such a pool is never freed, and its other threads end only if its last handle is dropped on
    /// this thread, outside of any task, or after the thread has ended. From then on the thread is
    /// the only worker of a separate pool. When the thread ends before that, the pool continues
    /// with one worker less, as with a [`PoolThread`] that was dropped.
    ///
    /// ```
    /// # std::thread::spawn(|| {
    /// let pool = filch::Pool::builder().workers(2).with_current_thread().build()?;
    /// assert_eq!(filch::current_worker(), Some(0));
    /// assert_eq!(filch::join(|| 1, || 2), (1, 2)); // on this pool, whether it is named or not
    /// # Ok::<(), filch::BuildError>(()) }).join().unwrap()?;
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_current_thread(mut self) -> Self {
        self.current_thread = true;
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// When a setting is invalid, a thread cannot be started, or a start hook or the
    /// [name](Self::name) function panics; with [`with_current_thread`](Self::with_current_thread)
    /// also when this thread is a worker already.
    pub fn build(self) -> Result<Pool, BuildError> {
        if self.current_thread {
            // The threads are never joined, since the pool does not end.
            return self.build_on(|thread| {
                let mut builder = Builder::new().name(thread.name().to_owned());
                if let Some(bytes) = thread.stack_size() {
                    builder = builder.stack_size(bytes);
                }
                builder.spawn(|| thread.run()).map(drop)
            });
        }
        let config = self.thread_config.clone();
        self.assemble(|inner, work| {
            let dedicated = inner.start_dedicated(&config)?;
            let (core, parkers) = (&inner.core, &inner.parkers);
            match ThreadGroup::start(inner.threads, &config, core, parkers, work) {
                Ok(mut thread_group) => {
                    dedicated
                        .into_iter()
                        .for_each(|dedicated| thread_group.add(dedicated));
                    Ok(thread_group)
                }
                Err(error) => {
                    work.end();
                    dedicated.map(ThreadGroup::join);
                    Err(error)
                }
            }
        })
    }

    /// Starts the pool on threads that the caller provides: `start` is called with one
    /// [`PoolThread`] after the other, and must run each on a separate thread, now or later. For
    /// threads that are pinned, scoped, or come from elsewhere.
    ///
    /// These threads are not joined, neither here nor when the pool is dropped: then they run what
    /// is queued, and return. A start hook that panics does not stop its worker; the panic is
    /// reported to the pool's [`on_panic`](Self::on_panic).
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let names = ["a".to_owned(), "b".to_owned()]; // borrowed by the threads
    /// std::thread::scope(|s| {
    ///     let pool = Pool::builder().workers(2).build_on(|thread| {
    ///         let name = &names[thread.worker()];
    ///         s.spawn(move || {
    ///             println!("this is {name}");
    ///             thread.run();
    ///         });
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(pool.join(|| 1, || 2), (1, 2));
    ///     Ok::<(), filch::BuildError>(())
    /// })?;
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// When a setting is invalid ([dedicated workers](Self::future_workers) among them), or when
    /// `start` fails or panics: then the threads that it has started before return.
    pub fn build_on(
        mut self,
        start: impl FnMut(PoolThread) -> io::Result<()>,
    ) -> Result<Pool, BuildError> {
        let (current, handler) = (self.current_thread, self.on_panic.clone());
        if self.future_workers > 0 {
            return Err(BuildError::config(
                "workers that are dedicated to futures are only for pools that start all their threads; \
                 ask for none, or build the pool with `build` and without the current thread",
            ));
        }
        if current && WorkerContext::with(|context| context.is_some()) {
            return Err(BuildError::config(
                "this thread is a worker of a pool already; build the pool on another thread",
            ));
        }
        if let Some(hook) = self.thread_config.hooks.on_start.take() {
            self.thread_config.hooks.on_start = Some(Arc::new(move |worker| {
                if let Err(payload) = unwind::contain(|| hook(worker)) {
                    report_panic(handler.as_ref(), payload);
                }
            }));
        }
        let config = self.thread_config.clone();
        self.external_threads = true;
        let pool = self.assemble(|inner, work| {
            let (core, parkers) = (&inner.core, &inner.parkers);
            let workers = usize::from(current)..inner.threads;
            ThreadGroup::start_with(workers, &config, core, parkers, work, start)
        })?;
        if current {
            pool.inner().adopt_current_thread();
        }
        Ok(pool)
    }

    /// Makes the calling thread, which has been a worker of `before`, the only worker of a pool
    /// that has no handle.
    pub(super) fn stand_alone(before: &Inner) {
        let mut builder = Self::new().like(before).workers(1);
        builder.external_threads = true;
        let pool = builder
            .assemble(|_, _| Ok(ThreadGroup::without_threads()))
            .expect("there is nothing to start");
        pool.inner().adopt_current_thread();
        // The pool never ends.
        mem::forget(pool);
    }

    /// Builds everything but the threads, which `start_threads` starts.
    fn assemble(
        mut self,
        start_threads: impl FnOnce(&Arc<Inner>, &Arc<Jobs>) -> Result<ThreadGroup<()>, BuildError>,
    ) -> Result<Pool, BuildError> {
        let threads = self.thread_config.workers()?;
        if self.current_thread && threads == 0 {
            return Err(BuildError::config(
                "there must be at least one worker for the current thread to be",
            ));
        }
        if self.task_capacity == Some(0) {
            return Err(BuildError::config(
                "a pool without room for tasks would refuse every one; set its task capacity to 1 or more",
            ));
        }
        let mut driver = self.driver.take().map(SharedDriver::new);
        let dedicated = DedicatedWorkers::new(self.future_workers, threads, &mut driver)?;
        let places = threads + GUESTS + dedicated.as_ref().map_or(0, DedicatedWorkers::workers);
        self.settings.polls = driver.is_some();
        let parkers = Arc::new(Parkers::with_driver(places, driver));
        self.settings.workers = places;
        if threads == 0 {
            // Guest slots are held briefly: a job that a guest takes in a batch and does not run
            // would be queued behind later ones.
            self.settings.inject_batch = 1;
        }
        self.settings.topology = Topology::flat(places);
        self.settings.idle = Box::new(self.idle);
        self.settings.unpark = Box::new(parkers.clone());
        self.settings.current_core = Box::new(thread::core);
        self.settings.is_pinned = Box::new(thread::is_pinned);
        let spec = PerWorkerSpec {
            capacity: Capacity::growable(self.capacity),
            batch_from: BATCH_FROM,
            ..PerWorkerSpec::default()
        };
        let core = Core::new(self.settings, &spec, Counters::new(places))?;
        // From now on `Low` tasks age by the clock.
        core.observe_time(thread::nanos());
        let inner = Arc::new_cyclic(|this| Inner {
            core: Arc::new(core),
            has_driver: parkers.has_driver(),
            parkers,
            guests: GuestSlots::new(),
            slabs: (0..places).map(|_| Padded::new(Slab::new())).collect(),
            reserve: Reserve::default(),
            threads,
            absent: self.external_threads.then(Mutex::default),
            tasks: Tasks::new(
                self.task_capacity,
                self.overflow,
                TaskCounters::new(places, threads, self.task_latencies),
            ),
            number: registry::new_number(),
            residents: Residents::new(threads),
            dedicated,
            on_panic: self.on_panic,
            clock: self.clock,
            stands_for: self.stands_for,
            handle: OnceLock::new(),
            base: OnceLock::new(),
            this: this.clone(),
        });
        inner.publish();
        let work = Arc::new(Jobs(inner.clone()));
        let thread_group = start_threads(&inner, &work)?;
        let owned = Arc::new(Owned {
            inner,
            thread_group: Mutex::new(Some(thread_group)),
        });
        let _ = owned.inner.handle.set(Arc::downgrade(&owned));
        Ok(Pool { owned })
    }

    /// Starts the pool that [`Pool::global`] returns.
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
            .field("threads", &self.thread_config)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

/// Runs the jobs of a pool on its threads.
pub(super) struct Jobs(pub(super) Arc<Inner>);

impl Work<Job, (), PerWorker, Counters> for Jobs {
    fn init(&self, _worker: usize) {}

    #[inline(always)]
    fn run(&self, job: Job, running: RunningWorker<'_, '_, Job, PerWorker, Counters>, (): &mut ()) {
        WorkerContext::enter(running, &self.0, |context| job.run(context));
    }

    fn wake(
        &self,
        ready: &mut Vec<Waker>,
        running: RunningWorker<'_, '_, Job, PerWorker, Counters>,
    ) {
        WorkerContext::enter(running, &self.0, |context| context.wake_ready(ready));
    }

    fn end(&self) {
        if let Some(dedicated) = self.0.dedicated() {
            dedicated.end();
        }
    }

    fn lose(&self) {
        self.0.lose_unstarted();
    }
}
