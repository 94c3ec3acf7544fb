//! The handle of a spawned future.

use super::{
    FutureError,
    block_on::{WaitRegistration, block_on_for},
    cell::{FutureRef, Resident},
};
use crate::{
    base::budget,
    pool::waits::{Needs, Party, Subject, WaitList, Waiting},
    task::{CancelOnDrop, CancelTask, JoinRef, TaskId, sealed},
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
/// [`cancel`](Self::cancel) ends it.
///
/// ```
/// let handle = filch::spawn_future(async { 6 * 7 });
/// let answer = filch::block_on(async { handle.await.unwrap() });
/// assert_eq!(answer, 42);
/// ```
#[doc(alias = "JoinHandle")]
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
    /// When the future panicked, was [cancelled](Self::cancel), or its pool was shut down before it
    /// was done; and when a poll of it waits for the caller, directly or through others:
    /// [`FutureError::is_deadlock`].
    pub fn join(mut self) -> Result<T, FutureError> {
        assert!(
            !self.join.is_taken(),
            "a handle was joined after it had given its result; await or join it once"
        );
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

    /// Cancels the future: it is not polled again, and is dropped by a free worker or by the one
    /// that polls it at present. A waiter gets the error that it was cancelled, unless it was done
    /// before, or its destructor panics: then it gets that panic.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// handle.cancel();
    /// assert!(handle.join().unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        self.join.task().cancel();
    }

    /// Makes a handle that [cancels](Self::cancel) the future when it is dropped.
    ///
    /// ```
    /// let never = filch::spawn_future(std::future::pending::<()>());
    /// let watch = never.cancel_handle();
    /// drop(never.cancel_on_drop());
    /// while !watch.is_finished() {
    ///     std::thread::yield_now(); // a worker drops it
    /// }
    /// ```
    #[doc(alias = "abort_on_drop")]
    pub fn cancel_on_drop(self) -> CancelOnDrop<Self> {
        CancelOnDrop::new(self)
    }

    /// Returns the id of the future, which [`current_task_id`](crate::current_task_id) returns in
    /// its polls.
    ///
    /// ```
    /// let future = filch::spawn_future(async { filch::current_task_id() });
    /// let id = future.id();
    /// assert_eq!(future.join().unwrap(), Some(id));
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        TaskId::of_future(self.join.task().address())
    }

    /// Returns a handle that can only [cancel](Self::cancel) the future.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// let cancel = handle.cancel_handle();
    /// filch::spawn(move || cancel.cancel());
    /// assert!(handle.join().unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort_handle")]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
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

    /// Returns the outcome if the future is done; at most once.
    pub(super) fn take_outcome(&mut self) -> Option<Result<T, FutureError>> {
        self.join.take().map(FutureError::from_outcome)
    }

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let handle = filch::spawn_future(std::future::pending::<()>());
    /// assert!(!handle.is_finished());
    /// # handle.cancel();
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
        budget::poll_leaf(cx, |cx| {
            if let Some(outcome) = self.take_outcome() {
                return Poll::Ready(outcome);
            }
            if self.join.register_waker(cx.waker()) {
                return Poll::Pending;
            }
            Poll::Ready(self.take_outcome().expect("it is done"))
        })
    }
}

impl<T> Unpin for FutureHandle<T> {}

impl<T> sealed::Sealed for FutureHandle<T> {}

impl<T> CancelTask for FutureHandle<T> {
    fn cancel_task(&self) {
        self.cancel();
    }
}

impl<T> fmt::Debug for FutureHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureHandle")
            .field("state", &self.join.task().snapshot())
            .finish()
    }
}

/// Cancels a spawned future without its handle: from [`FutureHandle::cancel_handle`].
///
/// ```
/// let handle = filch::spawn_future(std::future::pending::<()>());
/// let cancel = handle.cancel_handle();
/// assert!(!cancel.is_finished());
/// cancel.clone().cancel();
/// assert!(handle.join().unwrap_err().is_cancelled());
/// assert!(cancel.is_finished());
/// ```
#[doc(alias = "AbortHandle")]
#[derive(Clone)]
pub struct CancelHandle {
    cell: FutureRef,
}

impl CancelHandle {
    /// [`FutureHandle::cancel`].
    ///
    /// ```
    /// let download = filch::spawn_future(std::future::pending::<()>());
    /// let cancel = download.cancel_handle(); // for the button that stops it
    /// cancel.cancel();
    /// assert!(download.join().unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        self.cell.cancel();
    }

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let handle = filch::spawn_future(async { 1 });
    /// let cancel = handle.cancel_handle();
    /// handle.join().unwrap();
    /// assert!(cancel.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.snapshot().is_done()
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle")
            .field("state", &self.cell.snapshot())
            .finish()
    }
}
