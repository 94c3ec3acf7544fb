//! The handle of a spawned future.

use super::{
    FutureError,
    block_on::{WaitRegistration, block_on_for},
    cell::{FutureRef, Resident},
};
use crate::{
    pool::waits::{Needs, Party, Subject, WaitList, Waiting},
    task::JoinRef,
};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// The handle of a [spawned](crate::spawn_future) future: await it, or [`join`](Self::join) it from
/// a thread.
///
/// Dropping the handle detaches the future: it continues, and its outcome is dropped.
/// [`abort`](Self::abort) ends it.
///
/// ```
/// let handle = filch::spawn_future(async { 6 * 7 });
/// let answer = filch::block_on(async { handle.await.unwrap() });
/// assert_eq!(answer, 42);
/// ```
#[must_use = "dropping the handle detaches the future; say `detach` if that is meant"]
pub struct FutureHandle<T> {
    join: JoinRef<Resident, T>,
}

impl<T> FutureHandle<T> {
    pub(super) fn new(join: JoinRef<Resident, T>) -> Self {
        Self { join }
    }

    /// Waits until the future is done. A worker runs other tasks meanwhile. On a pool without
    /// threads the caller runs the pool's tasks.
    ///
    /// ```
    /// let handle = filch::spawn_future(async { "done" });
    /// assert_eq!(handle.join().unwrap(), "done");
    /// ```
    ///
    /// # Errors
    /// When the future panicked, was [aborted](Self::abort), or its pool was shut down before it
    /// was done; and when a poll of it waits for the caller, directly or through others:
    /// [`FutureError::is_deadlock`].
    pub fn join(mut self) -> Result<T, FutureError> {
        let (pool, future) = (self.join.pool(), self.join.task().address());
        // Dropped before the handle, so that the address is not registered any more when another
        // future may get it.
        let waiting = Waiting::new(WaitList::global());
        let join = JoinOrCycle {
            handle: &mut self,
            waiting: &waiting,
        };
        let registration = JoinRegistration {
            waiting: &waiting,
            future,
        };
        let joined = block_on_for(pool, join, &registration);
        let cycle = waiting.finish();
        joined.unwrap_or_else(|| {
            Err(cycle.map_or_else(FutureError::cancelled, FutureError::deadlock))
        })
    }

    /// Ends the future: it is not polled again, and is dropped by a free worker or by the one that
    /// polls it at present. A waiter gets the error that it was cancelled, unless it was done
    /// before.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(handle.join().unwrap_err().is_cancelled());
    /// ```
    pub fn abort(&self) {
        self.join.task().abort();
    }

    /// Returns a handle that can only [abort](Self::abort) the future.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// let abort = handle.abort_handle();
    /// filch::spawn(move || abort.abort());
    /// assert!(handle.join().unwrap_err().is_cancelled());
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            cell: self.join.task().clone(),
        }
    }

    /// Detaches the future, as dropping the handle does: it continues without a waiter. If it
    /// panics, the pool's [`on_panic`](crate::PoolBuilder::on_panic) is called.
    ///
    /// ```
    /// filch::spawn_future(async { println!("some time") }).detach();
    /// ```
    pub fn detach(self) {}

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// assert!(!handle.is_finished());
    /// # handle.abort();
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.join.task().snapshot().is_done()
    }
}

/// Awaits the handle; ready with `None` when that wait can never end.
struct JoinOrCycle<'w, T> {
    handle: &'w mut FutureHandle<T>,
    waiting: &'w Waiting<'static>,
}

impl<T> Future for JoinOrCycle<'_, T> {
    type Output = Option<Result<T, FutureError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.waiting.is_cyclic() {
            true => Poll::Ready(None),
            false => Pin::new(&mut *self.handle).poll(cx).map(Some),
        }
    }
}

/// Registers a join in the list of waits.
struct JoinRegistration<'w> {
    waiting: &'w Waiting<'static>,
    /// The address of the future.
    future: usize,
}

impl WaitRegistration for JoinRegistration<'_> {
    fn register(&self) -> bool {
        self.waiting.list(
            |list| {
                list.push(Box::new(AwaitedFuture(self.future)));
                true
            },
            || None,
        )
    }

    fn is_cyclic(&self) -> bool {
        self.waiting.is_cyclic()
    }
}

/// The address of a future that is waited for.
struct AwaitedFuture(usize);

impl Subject for AwaitedFuture {
    fn needs(&self) -> Needs {
        Needs::Poll(self.0)
    }

    fn party(&self) -> Party {
        Party::future(self.0)
    }
}

impl<T> Future for FutureHandle<T> {
    type Output = Result<T, FutureError>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(
            !self.join.is_taken(),
            "a handle was polled after it had given its result; await it once"
        );
        if let Some(outcome) = self.join.take() {
            return Poll::Ready(FutureError::from_outcome(outcome));
        }
        if self.join.register_waker(cx.waker()) {
            return Poll::Pending;
        }
        let outcome = self.join.take().expect("it is done");
        Poll::Ready(FutureError::from_outcome(outcome))
    }
}

impl<T> Unpin for FutureHandle<T> {}

impl<T> fmt::Debug for FutureHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureHandle")
            .field("state", &self.join.task().snapshot())
            .finish()
    }
}

/// Aborts a spawned future without its handle: from [`FutureHandle::abort_handle`].
///
/// ```
/// let handle = filch::spawn_future(std::future::pending::<()>());
/// let abort = handle.abort_handle();
/// assert!(!abort.is_finished());
/// abort.clone().abort();
/// assert!(handle.join().unwrap_err().is_cancelled());
/// assert!(abort.is_finished());
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    cell: FutureRef,
}

impl AbortHandle {
    /// [`FutureHandle::abort`].
    ///
    /// ```
    /// let download = filch::spawn_future(std::future::pending::<()>());
    /// let abort = download.abort_handle(); // for the button that stops it
    /// abort.abort();
    /// assert!(download.join().unwrap_err().is_cancelled());
    /// ```
    pub fn abort(&self) {
        self.cell.abort();
    }

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let handle = filch::spawn_future(async { 1 });
    /// let abort = handle.abort_handle();
    /// handle.join().unwrap();
    /// assert!(abort.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.snapshot().is_done()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("state", &self.cell.snapshot())
            .finish()
    }
}
