//! The settings of an executor.

use super::{Context, Executor, ExecutorState, Listeners, Panics, QueueOverflow};
use crate::{
    base::{error::BuildError, thread},
    engine::{
        Core, IdlePolicy, Observer, PerWorker, RunningWorker, Settings, Silent, Strategy, Tiered,
        Topology, WakePolicy,
    },
    observe::Counters,
    threads::{Parkers, ThreadConfig, ThreadGroup, Work, thread_settings},
};
use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Builds an [`Executor`].
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
pub struct ExecutorBuilder<T, Q: Strategy = PerWorker, O = Silent> {
    thread_config: ThreadConfig,
    settings: Settings,
    idle: Tiered,
    custom_idle: Option<Box<dyn IdlePolicy>>,
    topology: Option<Topology>,
    spec: Q::Spec,
    overflow: QueueOverflow,
    on_panic: Option<super::PanicHandler>,
    observer: O,
    tasks: PhantomData<fn(T)>,
}

impl<T> ExecutorBuilder<T> {
    pub(super) fn new() -> Self {
        Self {
            thread_config: ThreadConfig::default(),
            settings: Settings::new(0),
            idle: Tiered::default(),
            custom_idle: None,
            topology: None,
            spec: Default::default(),
            overflow: QueueOverflow::default(),
            on_panic: None,
            observer: Silent,
            tasks: PhantomData,
        }
    }
}

impl<T, Q: Strategy, O: Observer> ExecutorBuilder<T, Q, O> {
    /// The number of workers. By default the environment variable `FILCH_WORKERS`, or else one for
    /// each core that the process may use.
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
        self.thread_config.workers = Some(workers);
        self
    }

    thread_settings!();

    /// Called with the payload when a task panics, on the worker that ran it. The first payload is
    /// also returned by [`finish`](Executor::finish).
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
    /// [`Context::rng`].
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
        self.settings.seed = seed;
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
        self.settings.steal_tries = tries;
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
        self.idle.spin_rounds = rounds;
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
        self.idle.park_timeout = Some(timeout);
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
        self.custom_idle = Some(Box::new(policy));
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
        self.settings.wake = policy;
        self
    }

    /// The largest number of tasks in the injector; [`spawn`](Executor::spawn) refuses more.
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
        self.settings.inject_capacity = Some(tasks);
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
        self.settings.inject_interval = tasks;
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
        self.settings.inject_batch = tasks.max(1);
        self
    }

    /// The distances between workers; flat by default.
    ///
    /// ```
    /// use filch::{Executor, engine::Topology};
    ///
    /// let executor = Executor::builder().workers(2).topology(Topology::flat(2)).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn(1).unwrap();
    /// assert_eq!(executor.finish().metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
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
            thread_config: self.thread_config,
            settings: self.settings,
            idle: self.idle,
            custom_idle: self.custom_idle,
            topology: self.topology,
            spec,
            overflow: self.overflow,
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
            thread_config: self.thread_config,
            settings: self.settings,
            idle: self.idle,
            custom_idle: self.custom_idle,
            topology: self.topology,
            spec: self.spec,
            overflow: self.overflow,
            on_panic: self.on_panic,
            observer,
            tasks: PhantomData,
        }
    }

    /// Starts the workers: `scratch` creates the scratch value of each, on its own thread, and
    /// `runner` runs a task. Returns when all of them are ready.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(2).build(
    ///     |_worker| 0_u64,                     // the scratch value of each worker
    ///     |n: u64, cx| *cx.scratch() += n,     // what a task does
    /// )?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// assert_eq!(executor.finish().scratch.iter().sum::<u64>(), 6);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If a setting is invalid, a thread cannot be started, or a start hook or `scratch` panics.
    pub fn build<S, I, R>(
        mut self,
        scratch: I,
        runner: R,
    ) -> Result<Executor<T, S, Q, O>, BuildError>
    where
        T: Send + 'static,
        S: Send + 'static,
        O: Send + Sync + 'static,
        I: Fn(usize) -> S + Send + Sync + 'static,
        R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'static,
    {
        let workers = self.thread_config.workers()?;
        let parkers = Arc::new(Parkers::new(workers));
        self.settings.workers = workers;
        self.settings.unpark = Box::new(parkers.clone());
        self.settings.current_core = Box::new(thread::core);
        self.settings.is_pinned = Box::new(thread::is_pinned);
        self.settings.topology = self
            .topology
            .take()
            .unwrap_or_else(|| Topology::flat(workers));
        self.settings.idle = match self.custom_idle.take() {
            Some(policy) => policy,
            None => Box::new(self.idle),
        };
        let listeners = (Counters::new(workers), self.observer);
        let core = Arc::new(Core::new(self.settings, &self.spec, listeners)?);
        let inner = Arc::new(ExecutorState {
            core: core.clone(),
            panics: Mutex::new(Panics::default()),
            on_panic: self.on_panic,
        });
        let work = Arc::new(Runs {
            inner: inner.clone(),
            scratch,
            runner,
            overflow: self.overflow,
            tasks: PhantomData,
        });
        let thread_group =
            ThreadGroup::start(workers, &self.thread_config, &core, &parkers, &work)?;
        Ok(Executor {
            inner,
            thread_group: Some(thread_group),
        })
    }
}

impl<T, Q: Strategy, O> fmt::Debug for ExecutorBuilder<T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder")
            .field("threads", &self.thread_config)
            .field("idle", &self.idle)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}

/// Runs the tasks of an executor.
struct Runs<T: Send, Q: Strategy, O: Observer, I, R> {
    inner: Arc<ExecutorState<T, Q, O>>,
    scratch: I,
    runner: R,
    overflow: QueueOverflow,
    tasks: PhantomData<fn(T)>,
}

impl<T, S, Q, O, I, R> Work<T, S, Q, Listeners<O>> for Runs<T, Q, O, I, R>
where
    T: Send + 'static,
    S: 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    I: Fn(usize) -> S + Send + Sync + 'static,
    R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'static,
{
    fn init(&self, worker: usize) -> S {
        (self.scratch)(worker)
    }

    #[inline(always)]
    fn run(&self, task: T, running: RunningWorker<'_, '_, T, Q, Listeners<O>>, scratch: &mut S) {
        let mut context = Context {
            running,
            scratch,
            inner: &self.inner,
            runner: &self.runner,
            overflow: self.overflow,
            depth: 0,
        };
        context.run_with(task, &self.runner);
    }
}
