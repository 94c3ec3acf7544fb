//! Spawning futures on a pool.
#![expect(unsafe_code, reason = "makes cells of futures")]

use super::{FutureHandle, cell};
use crate::{
    engine::Priority,
    pool::{Inner, Pool, context::WorkerContext},
};
use std::{fmt, ptr};

/// Spawns `future` on the [current pool](crate::Pool#the-current-pool). The pool's workers poll it
/// whenever it has been woken.
///
/// May be called on any thread. A pool that is shut down drops the future, and the handle returns
/// the error that it was cancelled.
///
/// ```
/// let handle = filch::spawn_future(async { 6 * 7 });
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
#[doc(alias = "tokio::spawn")]
pub fn spawn_future<F>(future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    WorkerContext::with(|context| match context {
        Some(context) => spawn_on(context, future),
        None => Pool::with_default(|pool| spawn_outside(pool.inner(), future)),
    })
}

impl Pool {
    /// [`spawn_future`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// assert_eq!(pool.spawn_future(async { "here" }).join().unwrap(), "here");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias = "Runtime::spawn")]
    pub fn spawn_future<F>(&self, future: F) -> FutureHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        WorkerContext::with(|context| match context {
            Some(context) if context.is_of(self) => spawn_on(context, future),
            _ => spawn_outside(self.inner(), future),
        })
    }
}

/// A future that is about to be spawned, with a priority: from [`Pool::future`].
///
/// ```
/// use filch::{Pool, Priority};
///
/// let pool = Pool::builder().workers(1).build()?;
/// let urgent = pool.future(async { "first" }).priority(Priority::Critical).spawn();
/// assert_eq!(urgent.join().unwrap(), "first");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[must_use = "a future does nothing before it is spawned"]
pub struct FutureBuilder<'p, F> {
    pool: &'p Pool,
    level: Priority,
    future: F,
}

impl Pool {
    /// Returns a builder, which sets a priority before the future is spawned: for futures what
    /// [`task`](Self::task) is for closures.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let report = pool.future(async { "written" }).priority(Priority::Low).spawn();
    /// assert_eq!(report.join().unwrap(), "written");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn future<F>(&self, future: F) -> FutureBuilder<'_, F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        FutureBuilder {
            pool: self,
            level: Priority::Normal,
            future,
        }
    }
}

impl<F> FutureBuilder<'_, F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Sets the priority of its polls, all of them; [`Normal`](crate::Priority::Normal) by default.
    ///
    /// A `Critical` future is polled before everything else that is queued, and a `Low` one after
    /// everything else. A `Normal` one is as urgent as a `High` one when it is woken from outside
    /// of the pool. In a pool with [dedicated workers](crate::PoolBuilder::future_workers), which
    /// have nothing to do but futures, the priority has no effect.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    /// use std::sync::mpsc;
    ///
    /// let pool = Pool::builder().workers(0).build()?; // polled in `run_until_stalled`
    /// let (send, order) = mpsc::channel();
    /// for priority in [Priority::Low, Priority::Normal, Priority::Critical] {
    ///     let send = send.clone();
    ///     pool.future(async move { send.send(priority).unwrap() }).priority(priority).spawn().detach();
    /// }
    /// pool.run_until_stalled();
    /// let order: Vec<_> = order.try_iter().collect();
    /// assert_eq!(order, [Priority::Critical, Priority::Normal, Priority::Low]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.level = priority;
        self
    }

    /// Spawns the future; as [`Pool::spawn_future`].
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// assert_eq!(pool.future(async { 6 * 7 }).spawn().join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spawn(self) -> FutureHandle<F::Output> {
        // SAFETY: the future and its output are `Send`, and borrow nothing.
        unsafe { launch(self.pool.inner(), self.level, self.future) }
    }
}

impl<F> fmt::Debug for FutureBuilder<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureBuilder")
            .field("priority", &self.level)
            .finish_non_exhaustive()
    }
}

#[inline]
fn spawn_on<F>(context: &WorkerContext<'_, '_>, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`, and borrow nothing.
    unsafe { launch_on(context, Priority::Normal, future) }
}

#[inline(always)]
fn spawn_outside<F>(pool: &Inner, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`, and borrow nothing.
    unsafe { launch_outside(pool, Priority::Normal, future) }
}

/// Spawns a future on `pool`.
///
/// # Safety
/// As for [`cell::make`].
pub(super) unsafe fn launch<F: Future>(
    pool: &Inner,
    level: Priority,
    future: F,
) -> FutureHandle<F::Output> {
    WorkerContext::with(|context| match context {
        // SAFETY: the caller guarantees what `launch_on` and `cell::make` require.
        Some(context) if ptr::eq(context.pool(), pool) => unsafe {
            launch_on(context, level, future)
        },
        // SAFETY: the caller guarantees what `launch_outside` and `cell::make` require.
        _ => unsafe { launch_outside(pool, level, future) },
    })
}

/// # Safety
/// As for [`cell::make`].
#[inline]
unsafe fn launch_on<F: Future>(
    context: &WorkerContext<'_, '_>,
    level: Priority,
    future: F,
) -> FutureHandle<F::Output> {
    let other = context.pool().other_future_pool();
    let pool = other.unwrap_or(context.pool());
    // SAFETY: the caller guarantees what `cell::make` requires of the future.
    let (join, scheduled) = unsafe { cell::make(pool.number(), level, future) };
    match other {
        Some(pool) => scheduled.queue_outside(pool, level),
        None => scheduled.queue_on(context, level),
    }
    FutureHandle::new(join)
}

/// Inlined, because a future that is passed to a call is built in memory first and copied from
/// there, also where the call is not reached.
///
/// # Safety
/// As for [`cell::make`].
#[inline(always)]
unsafe fn launch_outside<F: Future>(
    pool: &Inner,
    level: Priority,
    future: F,
) -> FutureHandle<F::Output> {
    // SAFETY: the caller guarantees what `cell::make` requires of the future.
    let (join, scheduled) = unsafe { cell::make(pool.number(), level, future) };
    scheduled.queue_outside(pool, level);
    FutureHandle::new(join)
}
