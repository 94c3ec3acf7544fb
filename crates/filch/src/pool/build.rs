//! How a pool starts, on its own threads or on those of the program.

use super::{
    GLOBAL, Pool,
    builder::PoolBuilder,
    dedicated_workers::DedicatedWorkers,
    guest_slots::{GUESTS, GuestSlots},
    inner::{Inner, Job, PoolOwner, PoolWorker, WorkerContext, report_panic},
    registry,
    residents::Residents,
    slab::{Slab, SlabReserve},
    substitutes::Substitutes,
    tasks::SubmittedTasks,
};
use crate::{
    base::{error::BuildError, padded::Padded, thread, unwind},
    engine::{Capacity, Core, PerWorker, PerWorkerSpec, RunningWorker},
    observe::{Counters, TaskCounters},
    threads::{Parkers, PoolThread, SharedDriver, ThreadConfig, ThreadGroup, Work, WorkerStates},
    topology::Pinning,
};
use std::{
    io, mem,
    sync::{Arc, Mutex, OnceLock},
    task::Waker,
    thread::Builder,
};

impl PoolBuilder {
    /// Starts the pool.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// assert_eq!(pool.workers(), 2);
    ///
    /// let error = Pool::builder().workers(usize::MAX).build().unwrap_err();
    /// assert!(error.is_config());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// When a setting or the variable `FILCH_WORKERS` is invalid, a thread cannot be started or
    /// [pinned](Self::pin), or a start hook or the [name](Self::name) function panics; with
    /// [`with_current_thread`](Self::with_current_thread) also when this thread is a worker
    /// already.
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
        self.assemble(|config, inner, work| {
            let dedicated = inner.start_dedicated(config)?;
            let (core, parkers) = (&inner.core, &inner.parkers);
            match ThreadGroup::start(0..inner.live_workers(), config, core, parkers, work) {
                Ok(mut thread_group) => {
                    dedicated
                        .into_iter()
                        .for_each(|dedicated| thread_group.add(dedicated));
                    Ok(thread_group)
                }
                Err(error) => {
                    inner.end_other_threads();
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
    /// When a setting is invalid ([dedicated workers](Self::future_workers) and
    /// [pinning](Self::pin) among them), or when `start` fails or panics: then the threads that it
    /// has started before return.
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
        if self.common.pinning != Pinning::None {
            return Err(BuildError::config(
                "workers are pinned only in pools that start all their threads; leave the pinning \
                 out, and pin the threads yourself, or build the pool with `build` and without the \
                 current thread",
            ));
        }
        if let Some(most) = self.common.threads.max_workers {
            return Err(BuildError::config(format!(
                "only a pool that starts all its threads can be resized; leave out the maximum of \
                 {most} workers, or build the pool with `build` and without the current thread"
            )));
        }
        if current && WorkerContext::with(|context| context.is_some()) {
            return Err(BuildError::config(
                "this thread is a worker of a pool already; build the pool on another thread",
            ));
        }
        if let Some(hook) = self.common.threads.hooks.on_start.take() {
            self.common.threads.hooks.on_start = Some(Arc::new(move |worker| {
                if let Err(payload) = unwind::contain(|| hook(worker)) {
                    report_panic(handler.as_ref(), payload);
                }
            }));
        }
        self.external_threads = true;
        let pool = self.assemble(|config, inner, work| {
            let (core, parkers) = (&inner.core, &inner.parkers);
            let workers = usize::from(current)..inner.live_workers();
            ThreadGroup::start_with(workers, config, core, parkers, work, start)
        })?;
        if current {
            pool.inner().make_current_thread_worker();
        }
        Ok(pool)
    }

    /// Makes the calling thread, which has been a worker of `before`, the only worker of a pool
    /// that has no handle.
    pub(super) fn move_to_own_pool(before: &Inner) {
        let mut builder = Self::new().with_handlers_of(before).workers(1);
        builder.external_threads = true;
        let pool = builder
            .assemble(|_, _, _| Ok(ThreadGroup::without_threads()))
            .expect("there is nothing to start");
        pool.inner().make_current_thread_worker();
        // The pool never ends.
        mem::forget(pool);
    }

    /// Checks the settings that depend on the number of threads.
    fn check_for(&self, threads: usize) -> Result<(), BuildError> {
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
        if self.on_work.is_some() && threads > 0 {
            return Err(BuildError::config(
                "the hook for queued work is only for pools without threads, whose callers do the \
                 work; leave it out, or ask for no workers",
            ));
        }
        Ok(())
    }

    /// Builds the pool; `start_threads` starts its threads.
    fn assemble(
        self,
        start_threads: impl FnOnce(
            &ThreadConfig,
            &Arc<Inner>,
            &Arc<Jobs>,
        ) -> Result<ThreadGroup<()>, BuildError>,
    ) -> Result<Pool, BuildError> {
        let (config, inner) = self.assemble_inner()?;
        let work = Arc::new(Jobs(inner.clone()));
        let thread_group = start_threads(&config, &inner, &work)?;
        let owned = Arc::new(PoolOwner {
            inner,
            thread_group: Mutex::new(Some(thread_group)),
        });
        let _ = owned.inner.handle.set(Arc::downgrade(&owned));
        Ok(Pool { owned })
    }

    /// Builds everything but the threads and the handle.
    fn assemble_inner(mut self) -> Result<(ThreadConfig, Arc<Inner>), BuildError> {
        let (threads, max_threads) = self.common.decide(Pool::MAX_WORKERS)?;
        let config = self.common.threads.clone();
        self.check_for(threads)?;
        let mut driver = self.driver.take().map(SharedDriver::new);
        let dedicated = DedicatedWorkers::new(self.future_workers, threads, &mut driver)?;
        let slots = max_threads + GUESTS + dedicated.as_ref().map_or(0, DedicatedWorkers::workers);
        self.common.engine.polls = driver.is_some();
        let parkers = Arc::new(Parkers::with_driver(slots, driver));
        if threads == 0 {
            // Guest slots are held briefly: a job that a guest takes in a batch and does not run
            // would be queued behind later ones.
            self.common.engine.inject_batch = 1;
        }
        let spec = PerWorkerSpec {
            capacity: Capacity::growable(self.capacity),
            batch_from: PerWorkerSpec::POOL_BATCH_FROM,
            ..PerWorkerSpec::default()
        };
        let substitutes =
            (threads > 0 && !self.external_threads).then(|| Substitutes::new(&self.common.threads));
        let settings = self.common.connect(slots, &parkers);
        let core = Core::new(settings, &spec, Counters::new(slots))?;
        // From now on `Low` tasks age by the clock.
        core.observe_time(thread::nanos());
        let inner = Arc::new_cyclic(|this| Inner {
            core: Arc::new(core),
            has_driver: parkers.has_driver(),
            parkers,
            guests: GuestSlots::new(),
            slabs: (0..slots).map(|_| Padded::new(Slab::new())).collect(),
            reserve: SlabReserve::default(),
            members: WorkerStates::new(threads, max_threads),
            absent: self.external_threads.then(Mutex::default),
            tasks: SubmittedTasks::new(
                self.task_capacity,
                self.overflow,
                TaskCounters::new(slots, max_threads, self.task_latencies),
            ),
            number: registry::new_number(),
            residents: Residents::new(max_threads),
            dedicated,
            substitutes,
            on_panic: self.on_panic,
            on_work: self.on_work,
            clock: self.clock,
            stands_for: self.stands_for,
            handle: OnceLock::new(),
            base: OnceLock::new(),
            this: this.clone(),
        });
        inner.publish();
        Ok((config, inner))
    }

    /// Starts the pool that [`Pool::global`] returns.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// // At the start of the program, before anything uses the global pool:
    /// let pool = Pool::builder().workers(3).build_global()?;
    /// assert_eq!(pool.workers(), 3);
    /// assert_eq!(Pool::global().workers(), 3);
    /// assert!(Pool::builder().build_global().is_err()); // only once
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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

impl Inner {
    /// Makes the dedicated workers and the substitutes exit, because the workers do.
    fn end_other_threads(&self) {
        if let Some(dedicated) = self.dedicated() {
            dedicated.close();
        }
        if let Some(substitutes) = &self.substitutes {
            substitutes.close();
        }
    }
}

/// Runs the jobs of a pool on its threads.
pub(super) struct Jobs(pub(super) Arc<Inner>);

impl Work<Job, (), PerWorker, Counters> for Jobs {
    const MAY_LEAVE: bool = true;

    fn init(&self, _worker: usize) {}

    #[inline(always)]
    fn run(&self, job: Job, running: RunningWorker<'_, '_, Job, PerWorker, Counters>, (): &mut ()) {
        WorkerContext::enter(running, &self.0, |context| job.run(context));
    }

    fn wake(
        &self,
        ready: &mut Vec<Waker>,
        first: bool,
        running: RunningWorker<'_, '_, Job, PerWorker, Counters>,
    ) {
        WorkerContext::enter(running, &self.0, |context| context.wake_ready(ready, first));
    }

    fn entered(&self, worker: usize) {
        self.0.members.state(worker).enter();
    }

    #[inline]
    fn is_asked_to_leave(&self, worker: usize) -> bool {
        self.0.members.is_leaving(worker)
    }

    #[inline(always)]
    fn should_leave(&self, worker: &mut PoolWorker<'_>) -> bool {
        self.0.members.is_leaving(worker.id()) && self.0.try_leave(worker)
    }

    fn end(&self, worker: usize) -> bool {
        let left = self.0.end_leave(worker);
        if !left {
            self.0.end_other_threads();
        }
        left
    }

    fn worker_unstarted(&self) {
        self.0.count_departed_worker();
    }
}
