//! Spawning futures on a pool.
#![expect(unsafe_code, reason = "makes cells of futures")]

use super::{FutureHandle, cell};
use crate::pool::{Inner, Pool, context::WorkerContext};
use std::ptr;

/// Spawns `future` on the pool that the caller works for, else on the global one. The pool's
/// workers poll it whenever it has been woken.
///
/// May be called on any thread. A pool that is shut down drops the future, and the handle returns
/// the error that it was cancelled.
///
/// ```
/// let handle = filch::spawn_future(async { 6 * 7 });
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
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

#[inline]
fn spawn_on<F>(context: &WorkerContext<'_, '_>, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`, and borrow nothing.
    unsafe { launch_on(context, future) }
}

fn spawn_outside<F>(pool: &Inner, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`, and borrow nothing.
    unsafe { launch_outside(pool, future) }
}

/// Spawns a future on `pool`.
///
/// # Safety
/// As for [`cell::make`].
pub(super) unsafe fn launch<F: Future>(pool: &Inner, future: F) -> FutureHandle<F::Output> {
    WorkerContext::with(|context| match context {
        // SAFETY: the caller guarantees what `launch_on` and `cell::make` require.
        Some(context) if ptr::eq(context.pool(), pool) => unsafe { launch_on(context, future) },
        // SAFETY: the caller guarantees what `launch_outside` and `cell::make` require.
        _ => unsafe { launch_outside(pool, future) },
    })
}

/// # Safety
/// As for [`cell::make`].
#[inline]
unsafe fn launch_on<F: Future>(
    context: &WorkerContext<'_, '_>,
    future: F,
) -> FutureHandle<F::Output> {
    if let Some(pool) = context.pool().elsewhere() {
        // SAFETY: the caller guarantees what `cell::make` requires of the future.
        return unsafe { launch_outside(pool, future) };
    }
    // SAFETY: the caller guarantees what `cell::make` requires of the future.
    let (join, scheduled) = unsafe { cell::make(context.pool().number(), future) };
    scheduled.queue_on(context);
    FutureHandle::new(join)
}

/// # Safety
/// As for [`cell::make`].
unsafe fn launch_outside<F: Future>(pool: &Inner, future: F) -> FutureHandle<F::Output> {
    // SAFETY: the caller guarantees what `cell::make` requires of the future.
    let (join, scheduled) = unsafe { cell::make(pool.number(), future) };
    scheduled.queue_outside(pool);
    FutureHandle::new(join)
}
