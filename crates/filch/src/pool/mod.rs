//! The pool: workers that run jobs of any kind.
//!
//! The engine over a two-word job, plus threads. The API modules ([`fork`](mod@crate::fork) and
//! others) create jobs; they all share these workers.

mod absent;
pub(crate) mod active_jobs;
mod backoff;
mod blocking;
pub(crate) mod blocks;
mod build;
mod builder;
pub(crate) mod context;
pub(crate) mod context_call;
mod current_pool;
pub(crate) mod current_task;
mod dedicated;
mod dedicated_workers;
mod event_count;
mod events;
mod guest;
mod guest_slots;
mod handoff;
pub(crate) mod heap;
mod help;
mod inner;
pub(crate) mod isolation;
pub(crate) mod job;
pub(crate) mod job_limit;
pub(crate) mod latch;
pub(crate) mod list;
pub(crate) mod pending;
pub(crate) mod pending_group;
mod push;
mod quick_wait;
mod registry;
pub(crate) mod residents;
mod resize;
mod retract;
pub(crate) mod scoped;
mod shadowed;
mod slab;
pub(crate) mod stack;
mod stale;
mod substitutes;

mod tasks;
mod tick;
mod time_slice;
mod wait_modes;
mod waiting;
pub(crate) mod waits;
mod work_hook;

pub use blocking::blocking;
pub use builder::PoolBuilder;
pub use current_pool::EnterGuard;
pub(crate) use inner::Inner;
pub(crate) use registry::NO_POOL;
pub use tasks::TaskOverflow;
pub use waits::{Cycle, Party, Wait, deadlocks, waits};

use crate::{
    base::{Instant, thread},
    engine::MAX_WORKERS,
    observe::{Metrics, TaskMetrics},
    threads::ThreadGroup,
};
use context_call::{ContextCall, call_once};
use guest_slots::GUESTS;
use inner::{PoolOwner, WorkerContext};
use std::{
    fmt, ptr,
    sync::{Arc, OnceLock, PoisonError},
    time::Duration,
};

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
///
/// # The current pool
///
/// Free functions such as [`join`](crate::join()) and [`submit`](crate::submit()) use the current
/// pool of their thread: the one that it works for, else the one that it has
/// [entered](Self::enter), else the [global](Self::global) one.
#[doc(alias("ThreadPool", "Runtime", "Registry"))]
#[derive(Clone)]
pub struct Pool {
    owned: Arc<PoolOwner>,
}

static GLOBAL: OnceLock<Pool> = OnceLock::new();

impl Pool {
    /// The maximum number of threads of a pool.
    pub const MAX_WORKERS: usize = MAX_WORKERS - GUESTS;

    /// Returns the pool of the whole program, started at its first use with the
    /// [default](PoolBuilder::workers) number of workers. [`PoolBuilder::build_global`] configures
    /// it differently.
    ///
    /// ```
    /// assert!(filch::Pool::global().workers() >= 1);
    /// ```
    ///
    /// # Panics
    /// When its threads cannot be started, or the variable `FILCH_WORKERS` is invalid. A program
    /// that wants an error instead calls [`PoolBuilder::build_global`] when it starts.
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
    #[doc(alias("Handle::current", "try_current"))]
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
    /// of a call, and [dedicated workers](PoolBuilder::future_workers). [`resize`](Self::resize)
    /// changes it.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(3).build()?;
    /// let pieces = 4 * pool.workers(); // a few for each worker, so that all of them end together
    /// assert_eq!(pieces, 12);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias("current_num_threads", "num_workers"))]
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner().live_workers()
    }

    /// Returns the workers' counters. Those of the pool's own threads, by number and up to
    /// [`max_workers`](Self::max_workers), are followed by those of the guest slots, for threads
    /// that work for the duration of a call, and then those of the
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
        metrics.guests = metrics.workers.len() - self.max_workers();
        metrics
    }

    /// Returns counters of the tasks that were [submitted](Self::submit).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// pool.submit(|| 1 + 1).join().unwrap();
    /// assert!(pool.submit(|| panic!("on purpose")).join().is_err());
    /// let counts = pool.task_metrics().total();
    /// assert_eq!((counts.submitted, counts.finished, counts.panicked), (2, 1, 1));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn task_metrics(&self) -> TaskMetrics {
        self.inner().tasks().counters.metrics()
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
    /// It does not wait when it is called from inside a task of this pool, or while another
    /// thread is shutting down already. A [`resize`](Self::resize) that has begun is waited for,
    /// with the threads that it starts.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static RAN: AtomicUsize = AtomicUsize::new(0);
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// for _ in 0..10 {
    ///     pool.spawn(|| drop(RAN.fetch_add(1, Ordering::Relaxed)));
    /// }
    /// pool.shutdown();
    /// assert_eq!(RAN.load(Ordering::Relaxed), 10);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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
        if self.inner().live_workers() == 0 {
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

    /// [`shutdown`](Self::shutdown) that does not run the submitted tasks that are queued: they
    /// report that they were cancelled. In those that run, [`is_cancelled`](crate::is_cancelled())
    /// becomes true; they are waited for, as is everything that was spawned.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// let never = pool.submit(|| unreachable!("no worker took it before the end"));
    /// pool.shutdown_now();
    /// assert!(never.join().unwrap_err().is_cancelled());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn shutdown_now(self) {
        self.inner().tasks().cancel_all();
        self.shutdown();
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

/// Calls `f` on the pool that this thread works for, else on the [entered](Pool::enter) one, else
/// on the global one.
#[inline(always)]
pub(crate) fn on_current<R>(f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) => f(context),
        None => call_once(f, call_on_default),
    })
}

/// Calls `f` as a guest of the pool that this thread uses, which is not a worker.
pub(crate) fn call_on_default(f: ContextCall<'_>) {
    Pool::with_default(|pool| pool.inner().call_as_guest(f));
}

impl Inner {
    /// As [`Pool::enter_worker`].
    #[inline(always)]
    pub(crate) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        WorkerContext::with(|context| match context {
            Some(context) if ptr::eq(context.pool(), self) => f(context),
            _ => self.enter_from_elsewhere(f),
        })
    }

    /// As [`enter_worker`](Self::enter_worker), where the thread's current context is not of this
    /// pool.
    #[inline(always)]
    pub(crate) fn enter_from_elsewhere<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        call_once(f, |f| self.call_from_elsewhere(f))
    }

    fn call_from_elsewhere(&self, f: ContextCall<'_>) {
        WorkerContext::with(|context| match context {
            Some(context) => context.call_on_enclosing(self, f),
            None => self.call_as_guest(f),
        });
    }
}

impl WorkerContext<'_, '_> {
    /// Whether this is a context of `pool`.
    #[inline(always)]
    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        ptr::eq(self.pool, &raw const **pool.inner())
    }
}

impl PoolOwner {
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
        let inside = inner.is_own_thread() || shadowed::is_thread_inside(inner);
        if inside {
            // The threads end by themselves, and a call from outside can still wait for them. If
            // there are none, the guest that runs a task runs what is queued when it leaves
            // (`in_slot`), and jobs that are enqueued after that are left for the last handle.
            WorkerContext::with(|context| {
                if let Some(context) = context.filter(|context| context.is_permanent_in(inner))
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
        let thread_group = inner.members.after_resizes(|| self.take_thread_group());
        if let Some(thread_group) = thread_group {
            if inner.live_workers() == 0 {
                inner.run_until_finished();
            }
            drop(thread_group.join());
            if let Some(substitutes) = &inner.substitutes {
                substitutes.join();
            }
            inner.residents.wait();
        }
    }

    /// Whether the threads were not started by the pool, so that it does not join them.
    fn has_external_threads(&self) -> bool {
        let thread_group = self
            .thread_group
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.inner.live_workers() > 0
            && thread_group
                .as_ref()
                .is_some_and(|thread_group| !thread_group.has_threads())
    }
}

impl Drop for PoolOwner {
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
