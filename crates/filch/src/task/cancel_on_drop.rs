//! Handles that cancel their task when they are dropped.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
};

/// A handle whose task can be cancelled: [`TaskHandle`](crate::TaskHandle),
/// [`FutureHandle`](crate::FutureHandle) and [`LocalHandle`](crate::future::LocalHandle).
/// Implemented by this crate only.
pub trait CancelTask: sealed::Sealed {
    /// Cancels the task: [`TaskHandle::cancel`](crate::TaskHandle::cancel),
    /// [`FutureHandle::cancel`](crate::FutureHandle::cancel) or
    /// [`LocalHandle::cancel`](crate::future::LocalHandle::cancel).
    ///
    /// ```
    /// use filch::submit::CancelTask;
    ///
    /// fn cancel_all(handles: &[impl CancelTask]) {
    ///     handles.iter().for_each(CancelTask::cancel_task);
    /// }
    ///
    /// let pool = filch::Pool::builder().workers(0).build()?;
    /// let tasks = [pool.submit(|| 1), pool.submit(|| 2)];
    /// cancel_all(&tasks);
    /// assert!(tasks.iter().all(|task| task.is_finished()));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    fn cancel_task(&self);
}

/// Only the handles of this crate are cancellable.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A handle that cancels its task when it is dropped, instead of detaching it: from
/// [`TaskHandle::cancel_on_drop`](crate::TaskHandle::cancel_on_drop) and the methods of that name
/// of the handles of futures.
///
/// It dereferences to the handle, and is a future as the handle is. A task that waits in a queue
/// never starts, a future is not polled again, and a running task is requested to stop. The drop
/// does not wait for that.
///
/// ```
/// let pool = filch::Pool::builder().workers(0).build()?;
/// let task = pool.submit(|| unreachable!()).cancel_on_drop();
/// assert!(!task.is_finished());
/// drop(task);
/// assert_eq!(pool.task_metrics().total().cancelled, 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[doc(alias = "AbortOnDropHandle")]
#[must_use = "dropping it cancels the task"]
pub struct CancelOnDrop<H: CancelTask> {
    /// `None` only after [`into_inner`](Self::into_inner).
    handle: Option<H>,
}

impl<H: CancelTask> CancelOnDrop<H> {
    pub(crate) fn new(handle: H) -> Self {
        Self {
            handle: Some(handle),
        }
    }

    /// Returns the handle: from now on a drop detaches the task again.
    ///
    /// ```
    /// let task = filch::submit(|| 6 * 7).cancel_on_drop();
    /// assert_eq!(task.into_inner().join().unwrap(), 42);
    /// ```
    pub fn into_inner(mut self) -> H {
        self.handle.take().expect(PRESENT)
    }
}

const PRESENT: &str = "only `into_inner` takes the handle";

impl<H: CancelTask> Deref for CancelOnDrop<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.handle.as_ref().expect(PRESENT)
    }
}

impl<H: CancelTask + Future + Unpin> Future for CancelOnDrop<H> {
    type Output = H::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.handle.as_mut().expect(PRESENT)).poll(cx)
    }
}

impl<H: CancelTask> Drop for CancelOnDrop<H> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel_task();
        }
    }
}

impl<H: CancelTask + fmt::Debug> fmt::Debug for CancelOnDrop<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&**self).finish()
    }
}
