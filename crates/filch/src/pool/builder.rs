//! The configuration of a pool.

use super::{
    Pool,
    inner::{Inner, PanicHandler, WorkHook},
    tasks::TaskOverflow,
};
use crate::{
    base::Driver,
    clock::Clock,
    threads::WorkerSettings,
    topology::{PinOrder, Pinning, Topology},
};
use std::{any::Any, sync::Arc};

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
#[doc(alias("ThreadPoolBuilder", "runtime::Builder"))]
pub struct PoolBuilder {
    pub(super) common: WorkerSettings,
    pub(super) capacity: usize,
    pub(super) task_capacity: Option<usize>,
    pub(super) overflow: TaskOverflow,
    pub(super) task_latencies: bool,
    pub(super) on_panic: Option<PanicHandler>,
    pub(super) current_thread: bool,
    /// The pool does not start its threads itself.
    pub(super) external_threads: bool,
    pub(super) clock: Clock,
    pub(super) driver: Option<Arc<dyn Driver>>,
    pub(super) future_workers: usize,
    pub(super) on_work: Option<WorkHook>,
    pub(super) stands_for: Option<Arc<Inner>>,
}

impl Pool {
    /// Returns a builder for a pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.workers(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }
}

impl PoolBuilder {
    pub(super) fn new() -> Self {
        Self {
            common: WorkerSettings::default(),
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
            on_work: None,
            stands_for: None,
        }
    }

    /// Sets the number of worker threads. The default is the environment variable `FILCH_WORKERS`,
    /// or else as many as can run at the same time: one for each CPU that the process may use, or
    /// fewer if a control group limits its CPU time ([`Topology::parallelism`]). With zero the
    /// callers do the work: a call to `join` or `scope` runs everything on its own thread, and
    /// spawned tasks run in later calls, when [`Pool::tick`] or [`Pool::run_until_stalled`] is
    /// called, or when the pool is dropped.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let alone = Pool::builder().workers(0).build().unwrap();
    /// assert_eq!(alone.join(|| 1, || 2), (1, 2));
    /// ```
    #[doc(alias("num_threads", "worker_threads"))]
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.common.threads.workers = Some(workers);
        self
    }

    /// Sets how many workers [`Pool::resize`] may ask for; by default as many as there are at the
    /// start. Each takes some 1.4 kB of memory while it is not there.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(1).max_workers(3).build()?;
    /// assert_eq!((pool.workers(), pool.max_workers()), (1, 3));
    ///
    /// let error = Pool::builder().workers(4).max_workers(3).build().unwrap_err();
    /// assert!(error.is_config());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn max_workers(mut self, workers: usize) -> Self {
        self.common.threads.max_workers = Some(workers);
        self
    }

    /// Confines the threads of the workers to cores, L3 caches, NUMA nodes or single CPUs:
    /// [`Pinning::None`] by default. [`build`](Self::build) fails where the system does not pin
    /// threads (all but Linux), and when a CPU is not allowed.
    ///
    /// ```
    /// use filch::{Pool, topology::{Pinning, Topology}};
    ///
    /// # if cfg!(all(target_os = "linux", not(miri))) {
    /// let pool = Pool::builder().workers(2).pin(Pinning::Node).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    ///
    /// let allowed = Topology::detect().allowed().to_string();
    /// let error = Pool::builder().pin(Pinning::List(vec![9_999])).build().unwrap_err();
    /// assert!(error.to_string().contains("CPU 9999") && error.to_string().contains(&allowed));
    /// # }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// - Threads that tasks start inherit the CPUs of their worker; pools and executors that they
    ///   build do not.
    /// - [Dedicated workers](Self::future_workers) and callers from outside are not pinned.
    /// - A pool on threads that the program provides ([`build_on`](Self::build_on),
    ///   [`with_current_thread`](Self::with_current_thread)) cannot be pinned: pin those threads
    ///   before they run.
    #[must_use]
    pub fn pin(mut self, pinning: Pinning) -> Self {
        self.common.pinning = pinning;
        self
    }

    /// Sets the order in which pinned workers get cores: [`PinOrder::Compact`] by default. A
    /// [list](Pinning::List) has an order of its own.
    ///
    /// ```
    /// use filch::{Pool, topology::{PinOrder, Pinning}};
    ///
    /// # if cfg!(all(target_os = "linux", not(miri))) {
    /// // One worker on each of two L3 caches, if there are two.
    /// let pool = Pool::builder().workers(2).pin(Pinning::L3).pin_order(PinOrder::Spread).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    /// # }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn pin_order(mut self, order: PinOrder) -> Self {
        self.common.pin_order = order;
        self
    }

    /// Sets the description of the machine, which decides on the number of workers by default and
    /// on the CPUs of [pinned](Self::pin) ones. By default it is read from the system.
    ///
    /// ```
    /// use filch::{Pool, topology::Topology};
    ///
    /// let topology = Topology::detect(); // once, for several pools
    /// let pool = Pool::builder().topology(topology.clone()).build()?;
    /// # if std::env::var_os("FILCH_WORKERS").is_none() {
    /// assert_eq!(pool.workers(), topology.parallelism());
    /// # }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.common.topology = Some(topology);
        self
    }

    /// Sets the function that names the threads; `filch-0`, `filch-1` and so on by default. If it
    /// panics, or returns a name with a NUL character, [`build`](Self::build) fails.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).name(|worker| format!("io-{worker}")).build()?;
    /// let name = pool.on_worker(|| std::thread::current().name().map(str::to_owned));
    /// assert_eq!(name.as_deref(), Some("io-0"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        self.common.threads.name = Some(Arc::new(name));
        self
    }

    /// Sets the stack size of each thread, in bytes.
    ///
    /// ```
    /// fn depth(n: u32) -> u32 {
    ///     let frame = std::hint::black_box([n; 1024]); // 4 KiB
    ///     if n == 0 { 0 } else { 1 + depth(frame[0] - 1) }
    /// }
    ///
    /// let pool = filch::Pool::builder().workers(1).stack_size(64 << 20).build()?;
    /// assert_eq!(pool.on_worker(|| depth(2_000)), 2_000); // more than the default of 2 MiB
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.common.threads.stack_size = Some(bytes);
        self
    }

    /// Sets a hook that is called on each worker's thread before anything else. A panic in it makes
    /// [`build`](Self::build) fail.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });
    /// let pool = filch::Pool::builder().workers(1).on_start(|worker| NUMBER.set(worker + 100)).build()?;
    /// assert_eq!(pool.on_worker(|| NUMBER.get()), 100);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.common.threads.hooks.on_start = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is called on each worker's thread after its last task.
    ///
    /// A worker that has left a pool which is [resized](crate::Pool::resize) may have a successor
    /// with the same number before this hook has returned: so the start hook of the successor may
    /// come first. A resize does not wait for hooks, since a hook may wait for the caller.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    ///
    /// let exited = Arc::new(AtomicUsize::new(0));
    /// let count = exited.clone();
    /// let hook = move |_worker| drop(count.fetch_add(1, Ordering::Relaxed));
    /// let pool = filch::Pool::builder().workers(2).on_exit(hook).build()?;
    /// drop(pool); // joins the threads
    /// assert_eq!(exited.load(Ordering::Relaxed), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_exit(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.common.threads.hooks.on_exit = Some(Arc::new(hook));
        self
    }

    /// Configures a pool for a caller that finds no free guest slot in `other`. Panics are reported
    /// to the handler of `other`, whose clock is used as well.
    pub(super) fn substituting(mut self, other: &Inner) -> Self {
        self.stands_for = Some(other.share());
        self.with_handlers_of(other)
    }

    /// Takes the panic handler and the clock of `other`.
    pub(super) fn with_handlers_of(mut self, other: &Inner) -> Self {
        self.on_panic.clone_from(&other.on_panic);
        self.clock.clone_from(&other.clock);
        self
    }

    /// Sets the handler for panics that no waiter receives: the task has no waiter, or its waiter
    /// already receives another panic. The handler is called with the panic's payload.
    ///
    /// ```
    /// use filch::Pool;
    /// use std::sync::mpsc;
    ///
    /// let (report, reported) = mpsc::channel();
    /// let pool = Pool::builder()
    ///     .workers(1)
    ///     .on_panic(move |payload| {
    ///         let text = payload.downcast_ref::<&str>().copied();
    ///         report.send(text.unwrap_or("a panic without a text")).unwrap();
    ///     })
    ///     .build()?;
    /// pool.spawn(|| panic!("no such file")); // nothing waits for this task
    /// assert_eq!(reported.recv().unwrap(), "no such file");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_panic(
        mut self,
        handler: impl Fn(&Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.on_panic = Some(Arc::new(handler));
        self
    }

    /// Sets the initial capacity of a worker's queue, in jobs (128). The queue grows.
    ///
    /// ```
    /// // For a program that spawns thousands of tasks at once: no worker has to enlarge its queue.
    /// let pool = filch::Pool::builder().workers(1).queue_capacity(4096).build()?;
    /// pool.scope(|s| (0..4096).for_each(|_| s.spawn(|_| {})));
    ///
    /// // A capacity that does not fit into memory is an error.
    /// let error = filch::Pool::builder().workers(1).queue_capacity(usize::MAX).build().unwrap_err();
    /// assert!(error.is_config());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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
    ///
    /// ```
    /// use filch::{Pool, TaskOverflow};
    ///
    /// let pool = Pool::builder().workers(0).task_capacity(1).overflow(TaskOverflow::Refuse).build()?;
    /// let accepted = pool.task(|| 1).submit();
    /// assert!(accepted.is_ok());
    /// assert!(pool.task(|| 2).submit().is_err_and(|refused| refused.is_full()));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn overflow(mut self, policy: TaskOverflow) -> Self {
        self.overflow = policy;
        self
    }

    /// Whether to measure how long submitted tasks wait and run, for [`Pool::task_metrics`]. Off by
    /// default; then no clock is read. When on, it is read three times per task.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).task_latencies(true).build()?;
    /// pool.submit(|| 1 + 1).join().unwrap();
    /// assert!(pool.task_metrics().run_time.is_some());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn task_latencies(mut self, measured: bool) -> Self {
        self.task_latencies = measured;
        self
    }

    /// Sets a hook for a pool [without threads](Self::workers), which is called when the pool has
    /// work and no thread that is inside the pool is going to run it: a task was queued or woken
    /// from outside, or a caller has left and jobs remain. It should arrange for a later call of
    /// [`Pool::run_for`] or similar, for example by an event of an event loop.
    ///
    /// ```
    /// use filch::Pool;
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// // An event loop with one kind of event.
    /// let (events, loop_of_events) = mpsc::channel();
    /// let hook = move || drop(events.send("there is work"));
    /// let pool = Pool::builder().workers(0).on_work(hook).build()?;
    /// let answer = pool.spawn_future(async { 6 * 7 });
    /// while !answer.is_finished() {
    ///     loop_of_events.recv().unwrap();
    ///     pool.run_for(Duration::from_millis(5));
    /// }
    /// assert_eq!(answer.join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// It is called on the thread that queues the work, possibly inside of a task, and often: once
    /// for each task that is queued from outside. So it must be short, must not run jobs of the
    /// pool itself, and should remember a request that is still pending. A panic in it is
    /// passed to [`on_panic`](Self::on_panic). After a shutdown it is not called.
    #[must_use]
    pub fn on_work(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_work = Some(Arc::new(hook));
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
    ///
    /// ```
    /// use filch::{Driver, Pool};
    /// use std::{sync::mpsc, sync::Mutex, task::Waker, time::Duration};
    ///
    /// /// Without events: its only use is that a worker can wait in it, and be woken.
    /// struct NoEvents(mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>);
    ///
    /// impl Driver for NoEvents {
    ///     fn park(&self, timeout: Option<Duration>, _ready: &mut Vec<Waker>) {
    ///         let notified = self.1.lock().unwrap();
    ///         let _ = notified.recv_timeout(timeout.unwrap_or(Duration::from_secs(1)));
    ///     }
    ///
    ///     fn notify(&self) {
    ///         let _ = self.0.try_send(());
    ///     }
    /// }
    ///
    /// let (send, receive) = mpsc::sync_channel(1);
    /// let pool = Pool::builder().workers(1).driver(NoEvents(send, Mutex::new(receive))).build()?;
    /// assert_eq!(pool.spawn_future(async { 6 * 7 }).join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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
    ///   [`Priority::High`](crate::Priority::High), also one that
    ///   [yields](crate::future::yield_now).
    /// - Tasks of that priority, and [`Critical`](crate::Priority::Critical) ones, are in the same
    ///   queue, so a dedicated worker may take them too; but it is not woken for them.
    /// - Futures that are tasks of a [graph](mod@crate::graph) are scheduled with the graph, as
    ///   ordinary work.
    /// - A wake costs more: a read-modify-write of a shared word and, if a dedicated worker sleeps,
    ///   waking it. Futures that wake each other all the time are faster without dedicated workers.
    /// - Names and hooks are called for them with the numbers after those of the workers, so with
    ///   [`max_workers`](Pool::max_workers) and above; without a [`name`](Self::name) they are
    ///   `filch-future-0` and so on.
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
    ///
    /// ```
    /// // For a program that shares its machine with others: workers without tasks sleep at once.
    /// let pool = filch::Pool::builder().workers(2).spin_rounds(0).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.common.idle.spin_rounds = rounds;
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
        self.common.idle.yield_every = rounds;
        self
    }

    /// Sets the seed of the workers' random generators.
    ///
    /// ```
    /// // Other victims are tried first, so a test may see another order of steals.
    /// let pool = filch::Pool::builder().workers(2).seed(7).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.common.engine.seed = seed;
        self
    }

    /// Makes the calling thread worker 0 of the pool, permanently. The thread runs no worker loop:
    /// it runs tasks while it waits in a call, such as [`join`](crate::join()) or
    /// [`scope`](crate::scope()), and in [`yield_now`](crate::yield_now()). Hooks do not run on it.
    /// Such a pool is never freed, and its other threads end only if its last handle is dropped on
    /// this thread, outside of any task, or after the thread has ended. From then on the thread is
    /// the only worker of a separate pool. When the thread ends before that, the pool continues
    /// with one worker less, as with a [`PoolThread`](crate::PoolThread) that was dropped.
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
}

impl std::fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("threads", &self.common.threads)
            .field("idle", &self.common.idle)
            .finish_non_exhaustive()
    }
}
