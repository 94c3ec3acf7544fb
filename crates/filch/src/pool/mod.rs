//! The pool: workers that run jobs of any kind.
//!
//! The engine over a two-word job, plus threads. The API modules ([`fork`](mod@crate::fork) and
//! others) create jobs; they all share these workers.

mod absent;
pub(crate) mod blocks;
mod builder;
pub(crate) mod context;
mod covered;
mod current_pool;
mod dedicated;
mod event_count;
mod events;
mod guest;
pub(crate) mod heap;
mod help;
pub(crate) mod isolation;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod list;
mod patience;
pub(crate) mod pending;
mod push;
mod registry;
pub(crate) mod residents;
mod retract;
pub(crate) mod scoped;
mod slab;
pub(crate) mod stack;
pub(crate) mod task;
mod tasks;
mod tick;
mod wait_modes;
mod waiting;
pub(crate) mod waits;

pub use builder::PoolBuilder;
pub use tasks::TaskOverflow;
pub use waits::{Cycle, Party, Wait, waits};

use crate::{
    base::{
        padded::Padded,
        thread,
        unwind::{self, Payload},
    },
    clock::Clock,
    engine::{Core, PerWorker, Unpark, sleep::MAX_WORKERS},
    observe::{Counters, Metrics},
    threads::{Parkers, ThreadGroup, is_thread_of},
};
use absent::Absent;
use context::WorkerContext;
use dedicated::DedicatedWorkers;
use guest::Guests;
use job::Job;
use residents::Residents;
use slab::{Reserve, Slab};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};
use tasks::Tasks;

/// The state that the threads, the guests and the handles of a pool share.
pub(crate) struct Inner {
    core: Arc<Core<Job, PerWorker, Counters>>,
    parkers: Arc<Parkers>,
    /// Whether the parkers have a driver.
    has_driver: bool,
    guests: Guests,
    /// One for each worker, guests included.
    /// On separate lines: a worker writes its own at every spawn.
    slabs: Box<[Padded<Slab>]>,
    reserve: Reserve,
    threads: usize,
    /// If the threads are not started by the pool: the number of workers that have lost theirs.
    absent: Option<Absent>,
    tasks: Tasks,
    number: registry::Number,
    /// Futures that wait.
    residents: Residents<Inner>,
    /// The dedicated workers, if there are any.
    dedicated: Option<DedicatedWorkers>,
    on_panic: Option<PanicHandler>,
    clock: Clock,
    /// If this pool was built for one caller that found no free guest slot: the pool that the
    /// caller belongs to.
    stands_for: Option<Arc<Inner>>,
    /// The handles, for `Pool::current`.
    handle: OnceLock<Weak<Owned>>,
    /// The address of the permanent context of a thread that stays.
    base: OnceLock<usize>,
    /// A reference to itself, for callers that have only a reference.
    this: Weak<Inner>,
}

type PanicHandler = Arc<dyn Fn(&Payload) + Send + Sync>;

/// The part that the last handle drops.
struct Owned {
    inner: Arc<Inner>,
    thread_group: Mutex<Option<ThreadGroup<()>>>,
}

/// A pool of workers. Cheap to clone; dropping the last clone runs what is queued and joins the
/// threads.
///
/// ```
/// use filch::Pool;
///
/// let pool = Pool::builder().workers(2).build()?;
/// let (a, b) = pool.join(|| 6 * 7, || "hello".len());
/// assert_eq!((a, b), (42, 5));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    owned: Arc<Owned>,
}

static GLOBAL: OnceLock<Pool> = OnceLock::new();

impl Pool {
    /// The maximum number of threads of a pool.
    pub const MAX_WORKERS: usize = MAX_WORKERS - guest::GUESTS;

    /// Returns a builder for a pool.
    #[must_use]
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// Returns the pool of the whole program, started at its first use: one worker for each core,
    /// or `FILCH_WORKERS`. [`PoolBuilder::build_global`] configures it differently.
    ///
    /// ```
    /// assert!(filch::Pool::global().workers() >= 1);
    /// ```
    ///
    /// # Panics
    /// When its threads cannot be started.
    pub fn global() -> &'static Self {
        thread::reject_undirected("the global pool");
        GLOBAL.get_or_init(|| match Self::builder().build() {
            Ok(pool) => pool,
            Err(error) => panic!("the global pool could not be started: {error}"),
        })
    }

    /// Returns the pool that this thread works for at present.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// assert!(Pool::current().is_none());
    /// let pool = Pool::builder().workers(1).build().unwrap();
    /// pool.install(|| assert!(Pool::current().is_some()));
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        WorkerContext::with(|context| {
            let Some(context) = context else {
                return Self::with_entered(|pool| pool.cloned());
            };
            let owned = context.pool().handle.get()?.upgrade()?;
            Some(Self { owned })
        })
    }

    /// The number of workers: threads of the pool, not counting guests, which work for the duration
    /// of a call, and [dedicated workers](PoolBuilder::future_workers).
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner().threads
    }

    /// Returns the workers' counters. Those of the pool's own threads are followed by those of the
    /// guest slots, for threads that work for the duration of a call, and then those of the
    /// [dedicated workers](PoolBuilder::future_workers).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build().unwrap();
    /// pool.install(|| filch::spawn(|| println!("on a worker")));
    /// let metrics = pool.metrics();
    /// assert_eq!(metrics.total().spawned_local, 1);
    /// // Unused slots are not shown: a title, a sum, two workers, one guest.
    /// assert_eq!(metrics.to_string().lines().count(), 1 + 1 + 2 + 1);
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.inner().core.observer().metrics();
        metrics.guests = metrics.workers.len() - self.workers();
        metrics
    }

    /// Runs `f` on this pool: the calling thread becomes one of its workers for that time, so that
    /// everything `f` calls (`join`, `scope`, …) happens here.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(2).build().unwrap();
    /// let sum = pool.install(|| {
    ///     let (a, b) = filch::join(|| 1, || 2);
    ///     a + b
    /// });
    /// assert_eq!(sum, 3);
    /// ```
    pub fn install<R>(&self, f: impl FnOnce() -> R) -> R {
        self.enter_worker(|_| f())
    }

    /// Runs everything that is queued, and waits for the threads to end. Other handles of the pool
    /// are left without workers; calls through them run on their own thread.
    ///
    /// It does not wait when it is called from inside of a task of this pool, or while another
    /// thread is shutting down already.
    pub fn shutdown(self) {
        self.owned.finish();
    }

    /// [`shutdown`](Self::shutdown) that waits no longer than `limit`. Returns false when a task is
    /// still running then; it continues. (A pool without threads does its work here, however long
    /// it takes.)
    ///
    /// ```
    /// use filch::Pool;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::builder().workers(1).build().unwrap();
    /// assert!(pool.shutdown_timeout(Duration::from_secs(10)));
    /// ```
    #[must_use]
    pub fn shutdown_timeout(self, limit: Duration) -> bool {
        if self.inner().threads == 0 {
            // The caller does the work, however long it takes.
            self.owned.finish();
            return true;
        }
        self.inner().close();
        let start = Instant::now();
        while !self.inner().core.is_stopped() {
            if start.elapsed() >= limit {
                // The threads continue and end by themselves.
                drop(self.owned.take_thread_group());
                return false;
            }
            thread::sleep(Duration::from_micros(100).min(limit));
        }
        self.owned.finish();
        true
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.owned.inner
    }

    /// Calls `f` on this pool: in the thread's context there, or as a guest.
    #[inline(always)]
    pub(crate) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        self.inner().enter_worker(f)
    }
}

/// Calls `f` on the pool that this thread works for, else on the global one.
#[inline(always)]
pub(crate) fn on_current<R>(f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) => f(context),
        None => Pool::with_default(|pool| pool.enter_worker(f)),
    })
}

impl Inner {
    /// Returns a shared pointer to this pool.
    pub(crate) fn share(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("it is alive while it is borrowed")
    }

    /// Closes the pool to new work. Futures are dropped; other queued jobs will run.
    fn close(&self) {
        self.residents.close();
        self.core.close();
    }

    pub(crate) fn residents(&self) -> &Residents<Self> {
        &self.residents
    }

    pub(crate) fn core(&self) -> &Core<Job, PerWorker, Counters> {
        &self.core
    }

    /// As [`Pool::enter_worker`].
    #[inline(always)]
    pub(crate) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        WorkerContext::with(|context| match context {
            Some(context) if std::ptr::eq(context.pool(), self) => f(context),
            Some(context) => context.on_outer(self, f),
            None => self.as_guest(f),
        })
    }

    /// The pool that receives futures spawned here, if it is another one: they may outlive this
    /// pool. A pool without threads does not receive them, since it may have no caller that polls
    /// them.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Option<&Self> {
        match &self.stands_for {
            Some(pool) if pool.threads > 0 => Some(pool),
            _ => None,
        }
    }

    /// The number of the pool's own threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The clock that its futures use.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Advances an auto-advancing clock, because the only worker has nothing to run. Returns
    /// whether it did, and the worker should search again. A worker that is `alone` may run nothing
    /// of what is queued, and no other thread will: so queued jobs do not stop the clock then.
    pub(crate) fn skip_time(&self, alone: bool) -> bool {
        self.threads == 0 && self.clock.skip(|| alone || !self.core.has_work())
    }

    pub(crate) fn unpark(&self, worker: usize) {
        self.parkers.unpark(worker);
    }

    #[inline(always)]
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    #[inline(always)]
    pub(crate) fn slab(&self, worker: usize) -> &Slab {
        &self.slabs[worker]
    }

    /// Reports the panic of a task that has no waiter.
    pub(crate) fn panicked(&self, payload: Payload) {
        report_panic(self.on_panic.as_ref(), payload);
    }
}

/// Passes a panic to `handler`, if there is one.
fn report_panic(handler: Option<&PanicHandler>, payload: Payload) {
    // Both the handler and the payloads' destructors are user code.
    if let Some(handler) = handler
        && let Err(another) = unwind::contain(|| handler(&payload))
    {
        unwind::discard(another);
    }
    unwind::discard(payload);
}

impl Owned {
    fn take_thread_group(&self) -> Option<ThreadGroup<()>> {
        self.thread_group
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Runs everything that is queued and joins the threads.
    fn finish(&self) {
        let inner = &self.inner;
        inner.close();
        // A thread that runs a task of this pool cannot wait for it.
        let inside =
            is_thread_of(Arc::as_ptr(&inner.core) as usize) || covered::is_thread_inside(inner);
        if inside {
            // The threads end by themselves, and a call from outside can still wait for them. If
            // there are none, the guest that runs a task runs what is queued when it leaves
            // (`at_place`), and jobs that are enqueued after that are left for the last handle.
            WorkerContext::with(|context| {
                if let Some(context) = context.filter(|context| context.stays_in(inner))
                    && self.take_thread_group().is_some()
                {
                    context.retire();
                }
            });
            return;
        }
        if self.has_external_threads() {
            return;
        }
        if let Some(thread_group) = self.take_thread_group() {
            if inner.threads == 0 {
                inner.run_out();
            }
            drop(thread_group.join());
            inner.residents.wait();
        }
    }

    /// Whether the threads were not started by the pool, so that it does not join them.
    fn has_external_threads(&self) -> bool {
        let thread_group = self
            .thread_group
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.inner.threads > 0
            && thread_group
                .as_ref()
                .is_some_and(|thread_group| !thread_group.has_threads())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("workers", &self.workers())
            .field("core", &self.inner().core)
            .finish()
    }
}
