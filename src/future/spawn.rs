//! How futures get into a pool.
#![expect(unsafe_code, reason = "makes cells of futures")]

use super::{FutureHandle, cell};
use crate::pool::{Inner, Pool, context::WorkerContext};
use std::ptr;

/// Runs `future` on the pool that the caller works for, else on the global one. It is polled by the pool's workers,
/// whenever it has been woken.
///
/// Callable from anywhere. A pool that is shut down drops the future; then the handle says that it was cancelled.
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
    // SAFETY: both are `Send` and borrow nothing.
    unsafe { launch_on(context, future) }
}

fn spawn_outside<F>(pool: &Inner, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: as in `spawn_on`.
    unsafe { launch_outside(pool, future) }
}

/// Spawns a future on `pool`.
///
/// # Safety
/// As [`cell::make`].
pub(super) unsafe fn launch<F: Future>(pool: &Inner, future: F) -> FutureHandle<F::Output> {
    WorkerContext::with(|context| match context {
        // SAFETY: the caller's duty.
        Some(context) if ptr::eq(context.pool(), pool) => unsafe { launch_on(context, future) },
        // SAFETY: as above.
        _ => unsafe { launch_outside(pool, future) },
    })
}

/// # Safety
/// As [`cell::make`].
#[inline]
unsafe fn launch_on<F: Future>(
    context: &WorkerContext<'_, '_>,
    future: F,
) -> FutureHandle<F::Output> {
    if let Some(pool) = context.pool().elsewhere() {
        // SAFETY: the caller's duty.
        return unsafe { launch_outside(pool, future) };
    }
    // SAFETY: the caller's duty.
    let (hold, ticket) = unsafe { cell::make(future) };
    ticket.queue_on(context);
    FutureHandle::new(hold, context.pool().number())
}

/// # Safety
/// As [`cell::make`].
unsafe fn launch_outside<F: Future>(pool: &Inner, future: F) -> FutureHandle<F::Output> {
    // SAFETY: the caller's duty.
    let (hold, ticket) = unsafe { cell::make(future) };
    ticket.queue_outside(pool);
    FutureHandle::new(hold, pool.number())
}
