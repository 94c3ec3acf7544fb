//! The settings of an executor.

use super::QueueOverflow;
use crate::{
    cancel::CancelToken,
    engine::{Distances, IdlePolicy, NoObserver, Observer, PerWorker, Strategy, WakePolicy},
    threads::WorkerSettings,
    topology::{PinOrder, Pinning, Topology},
};
use std::{any::Any, fmt, marker::PhantomData, sync::Arc, time::Duration};

/// Builds an [`Executor`](super::Executor).
///
/// All settings are optional; [`build`](Self::build) validates them.
///
/// ```
/// use filch::{Executor, engine::WakePolicy};
/// use std::time::Duration;
///
/// let executor = Executor::builder()
///     .workers(2)
///     .name(|worker| format!("crawler-{worker}"))
///     .stack_size(512 * 1024)
///     .seed(42)
///     .spin_rounds(50)
///     .wake(WakePolicy::OnHoard(WakePolicy::HOARD))
///     .capacity(10_000)
///     .on_start(|worker| println!("worker {worker} starts"))
///     .on_exit(|worker| println!("worker {worker} ends"))
///     .on_panic(|worker, _| eprintln!("a task panicked on worker {worker}"))
///     .build(|_| (), |url: String, _| println!("{url}"))
///     .unwrap();
/// # drop(executor);
/// ```
pub struct ExecutorBuilder<T, Q: Strategy = PerWorker, O = NoObserver> {
    pub(super) common: WorkerSettings,
    pub(super) spec: Q::Spec,
    pub(super) overflow: QueueOverflow,
    pub(super) token: Option<CancelToken>,
    pub(super) on_panic: Option<super::TaskPanicHandler>,
    pub(super) observer: O,
    pub(super) tasks: PhantomData<fn(T)>,
}

impl<T> ExecutorBuilder<T> {
    /// Returns a builder, as [`Executor::builder`](super::Executor::builder) does: also for tasks
    /// that borrow, in a [`scope`](Self::scope).
    ///
    /// ```
    /// use filch::executor::ExecutorBuilder;
    ///
    /// let numbers = vec![1, 2, 3];
    /// let ((), summary) = ExecutorBuilder::new().workers(1).scope(
    ///     |_| 0,
    ///     |n: &u32, cx| *cx.scratch() += n,
    ///     |executor| numbers.iter().for_each(|n| executor.spawn(n).unwrap()),
    /// )?;
    /// assert_eq!(summary.scratch, [6]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            common: WorkerSettings::default(),
            spec: Default::default(),
            overflow: QueueOverflow::default(),
            token: None,
            on_panic: None,
            observer: NoObserver,
            tasks: PhantomData,
        }
    }
}

impl<T> Default for ExecutorBuilder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, Q: Strategy, O: Observer> ExecutorBuilder<T, Q, O> {
    /// The number of workers. By default the environment variable `FILCH_WORKERS`, or else as many
    /// as can run at the same time ([`Topology::parallelism`]).
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(3).build(|_| (), |_: u8, _| {})?;
    /// assert_eq!(executor.workers(), 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.common.threads.workers = Some(workers);
        self
    }

    /// Sets the most workers that [`Executor::resize`](super::Executor::resize) allows. By default
    /// as many as at the start.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let builder = Executor::builder().workers(1).max_workers(3);
    /// let executor = builder.build(|_| (), |_: u8, _| {})?;
    /// assert_eq!((executor.workers(), executor.max_workers()), (1, 3));
    ///
    /// let builder = Executor::builder().workers(4).max_workers(3);
    /// assert!(builder.build(|_| (), |_: u8, _| {}).unwrap_err().is_config());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// An executor of [`scope`](Self::scope) is not resized, and ignores it.
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
    /// use filch::{Executor, topology::Pinning};
    ///
    /// # if cfg!(all(target_os = "linux", not(miri))) {
    /// let executor = Executor::builder().workers(2).pin(Pinning::Core).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// Threads that tasks start inherit the CPUs of their worker; pools and executors that they
    /// build do not.
    #[must_use]
    pub fn pin(mut self, pinning: Pinning) -> Self {
        self.common.pinning = pinning;
        self
    }

    /// Sets the order in which pinned workers get cores: [`PinOrder::Compact`] by default. A
    /// [list](Pinning::List) has an order of its own.
    ///
    /// ```
    /// use filch::{Executor, topology::{PinOrder, Pinning}};
    ///
    /// # if cfg!(all(target_os = "linux", not(miri))) {
    /// let executor = Executor::builder()
    ///     .workers(2)
    ///     .pin(Pinning::Core)
    ///     .pin_order(PinOrder::Spread)
    ///     .build(|_| (), |_: u8, _| {})?;
    /// assert_eq!(executor.workers(), 2);
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
    /// use filch::{Executor, topology::Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::flat(3)).build(|_| (), |_: u8, _| {})?;
    /// # if std::env::var_os("FILCH_WORKERS").is_none() {
    /// assert_eq!(executor.workers(), 3);
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
    /// use filch::Executor;
    ///
    /// let name = || std::thread::current().name().map(str::to_owned);
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .name(|worker| format!("parser-{worker}"))
    ///     .build(move |_| name(), |_: u8, _| {})?;
    /// assert_eq!(executor.finish().scratch[0].as_deref(), Some("parser-0"));
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
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .stack_size(32 << 20)
    ///     .build(|_| 0, |_: u8, cx| {
    ///         let large = std::hint::black_box([1_u8; 8 << 20]); // more than the default of 2 MiB
    ///         *cx.scratch() = large.len();
    ///     })?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().scratch, [8 << 20]);
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
    /// use filch::Executor;
    /// use std::cell::Cell;
    ///
    /// thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });
    /// let executor = Executor::builder()
    ///     .workers(2)
    ///     .on_start(|worker| NUMBER.set(worker + 100))
    ///     .build(|_| NUMBER.get(), |_: u8, _| {})?; // the hook comes before the scratch value
    /// assert_eq!(executor.finish().scratch, [100, 101]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.common.threads.hooks.on_start = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is called on each worker's thread after its last task.
    ///
    /// ```
    /// use filch::Executor;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static EXITED: AtomicUsize = AtomicUsize::new(0);
    /// let executor = Executor::builder()
    ///     .workers(2)
    ///     .on_exit(|_worker| drop(EXITED.fetch_add(1, Ordering::Relaxed)))
    ///     .build(|_| (), |_: u8, _| {})?;
    /// executor.finish(); // joins the threads
    /// assert_eq!(EXITED.load(Ordering::Relaxed), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_exit(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.common.threads.hooks.on_exit = Some(Arc::new(hook));
        self
    }

    /// Called with the payload when a task panics, on the worker that ran it. The first payload is
    /// also returned by [`finish`](super::Executor::finish).
    ///
    /// ```
    /// use filch::Executor;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static PANICS: AtomicUsize = AtomicUsize::new(0);
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .on_panic(|_worker, _payload| {
    ///         PANICS.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build(|_| (), |n: u32, _| assert_ne!(n, 3))?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// assert!(executor.try_finish().is_err());
    /// assert_eq!(PANICS.load(Ordering::Relaxed), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on_panic(
        mut self,
        handler: impl Fn(usize, &Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.on_panic = Some(Box::new(handler));
        self
    }

    /// The seed of the random generators: of the order in which victims are visited, and of
    /// [`Context::rng`](super::Context::rng).
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .seed(42)
    ///     .build(|_| 0, |sides: usize, cx| *cx.scratch() = cx.rng().below(sides))?;
    /// executor.spawn(6).unwrap();
    /// assert!(executor.finish().scratch[0] < 6);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.common.engine.seed = seed;
        self
    }

    /// The largest number of victims that a worker tries before it pauses (32).
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(2).steal_tries(8).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn steal_tries(mut self, tries: usize) -> Self {
        self.common.engine.steal_tries = tries;
        self
    }

    /// The largest number of unsuccessful searches before a worker sleeps (200). More finds new
    /// work sooner, fewer uses less CPU time; a sleeping worker uses none. A worker whose sleeps
    /// are usually longer than some 200 µs searches less often.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(2).spin_rounds(0).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.common.idle.spin_rounds = rounds;
        self
    }

    /// Makes a sleeping worker search after this time without being woken. Not needed to find work;
    /// there is no timeout by default, and an idle executor uses no CPU.
    ///
    /// ```
    /// use filch::Executor;
    /// use std::time::Duration;
    ///
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .park_timeout(Duration::from_millis(10))
    ///     .build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn park_timeout(mut self, timeout: Duration) -> Self {
        self.common.idle.park_timeout = Some(timeout);
        self
    }

    /// Replaces spinning, yielding and parking by a custom policy.
    ///
    /// ```
    /// use filch::{Executor, engine::Tiered};
    ///
    /// let executor = Executor::builder().workers(1).idle(Tiered::default()).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn idle(mut self, policy: impl IdlePolicy) -> Self {
        self.common.custom_idle = Some(Box::new(policy));
        self
    }

    /// When a spawn by a worker wakes another worker.
    ///
    /// ```
    /// use filch::{Executor, engine::WakePolicy};
    ///
    /// let executor = Executor::builder().workers(2).wake(WakePolicy::OncePerBatch).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn wake(mut self, policy: WakePolicy) -> Self {
        self.common.engine.wake = policy;
        self
    }

    /// How many other workers a woken worker wakes in turn, if it sees as many more tasks (2): with
    /// zero they wake one after the other, with two in a tree.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(2).wake_fanout(0).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn wake_fanout(mut self, workers: usize) -> Self {
        self.common.engine.wake_fanout = workers;
        self
    }

    /// The largest number of tasks in the injector; [`spawn`](super::Executor::spawn) refuses more.
    /// Unlimited by default.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).capacity(2).build(|_| (), |_: u8, _| {})?;
    /// let refused = executor.spawn_batch([1, 2, 3]).unwrap_err();
    /// assert_eq!(refused.into_inner(), [1, 2, 3]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.common.engine.inject_capacity = Some(tasks);
        self
    }

    /// The number of tasks after which a worker checks the injector first (61), so that a worker
    /// that feeds itself does not starve injected tasks; zero disables this.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).inject_interval(16).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn inject_interval(mut self, tasks: u32) -> Self {
        self.common.engine.inject_interval = tasks;
        self
    }

    /// The largest number of tasks that a worker takes from the injector at once (64).
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).inject_batch(8).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn inject_batch(mut self, tasks: usize) -> Self {
        self.common.engine.inject_batch = tasks.max(1);
        self
    }

    /// The distances between workers. By default those of [pinned](Self::pin) workers are known,
    /// and others are equally near.
    ///
    /// ```
    /// use filch::{Executor, engine::Distances};
    ///
    /// let executor = Executor::builder().workers(2).distances(Distances::flat(2)).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn distances(mut self, distances: Distances) -> Self {
        self.common.distances = Some(distances);
        self
    }

    /// What a local spawn does when the worker's queue is bounded and full.
    ///
    /// ```
    /// use filch::{Executor, executor::QueueOverflow};
    ///
    /// let executor = Executor::builder().workers(1).overflow(QueueOverflow::Inline).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn overflow(mut self, overflow: QueueOverflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Shuts the executor down when `token` is cancelled, as
    /// [`shutdown_now`](super::Executor::shutdown_now) does. The executor gets a
    /// [child](CancelToken::child) of it, its [own](super::Executor::token).
    ///
    /// ```
    /// use filch::{CancelToken, Executor};
    ///
    /// let session = CancelToken::new();
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .token(&session)
    ///     .build(|_| (), |_: u8, cx| while !cx.is_cancelled() {})?;
    /// executor.spawn(1).unwrap();
    /// session.cancel();
    /// assert!(executor.spawn(2).unwrap_err().is_closed());
    /// executor.finish(); // the running task sees that it should stop
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// How the workers share their tasks: [`PerWorker`] (the default), [`Shared`], or your own
    /// strategy.
    ///
    /// [`Shared`]: crate::engine::Shared
    ///
    /// ```
    /// use filch::{Executor, engine::Shared};
    ///
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .strategy::<Shared>(Default::default())
    ///     .build(|_| vec![], |n: u32, cx| {
    ///         cx.scratch().push(n);
    ///         (0..n).for_each(|child| cx.spawn(child));
    ///     })?;
    /// executor.spawn(2).unwrap();
    /// assert_eq!(executor.finish().scratch, [[2, 0, 1, 0]]); // first in, first out
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn strategy<R: Strategy>(self, spec: R::Spec) -> ExecutorBuilder<T, R, O> {
        ExecutorBuilder {
            common: self.common,
            spec,
            overflow: self.overflow,
            token: self.token,
            on_panic: self.on_panic,
            observer: self.observer,
            tasks: PhantomData,
        }
    }

    /// Adds an observer of the engine's events, beside the counters.
    ///
    /// ```
    /// use filch::{Executor, engine::{Event, Observer}};
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static FINISHED: AtomicUsize = AtomicUsize::new(0);
    /// struct CountFinished;
    /// impl Observer for CountFinished {
    ///     fn event(&self, _worker: usize, event: Event) {
    ///         if matches!(event, Event::Finished) {
    ///             FINISHED.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     }
    /// }
    ///
    /// let executor = Executor::builder().observer(CountFinished).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// executor.finish();
    /// assert_eq!(FINISHED.load(Ordering::Relaxed), 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn observer<P: Observer>(self, observer: P) -> ExecutorBuilder<T, Q, P> {
        ExecutorBuilder {
            common: self.common,
            spec: self.spec,
            overflow: self.overflow,
            token: self.token,
            on_panic: self.on_panic,
            observer,
            tasks: PhantomData,
        }
    }
}

impl<T, Q: Strategy, O> fmt::Debug for ExecutorBuilder<T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder")
            .field("threads", &self.common.threads)
            .field("idle", &self.common.idle)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}
