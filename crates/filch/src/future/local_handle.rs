//! The handle of a future of a `LocalSet`.

use super::FutureError;
use crate::{
    base::{
        budget,
        unwind::{self, Payload},
    },
    task::{CancelOnDrop, CancelTask, Cause, TaskOutcome, sealed, wake},
};
use std::{
    cell::Cell,
    fmt,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
};

/// The outcome of a future, and the waker of its handle.
pub(super) struct LocalSlot<T> {
    outcome: Cell<Option<TaskOutcome<T>>>,
    done: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl<T> Default for LocalSlot<T> {
    fn default() -> Self {
        Self {
            outcome: Cell::new(None),
            done: Cell::new(false),
            waker: Cell::new(None),
        }
    }
}

impl<T> LocalSlot<T> {
    /// Stores the outcome, unless there is one already.
    pub(super) fn put(&self, outcome: TaskOutcome<T>) {
        if self.done.replace(true) {
            return;
        }
        self.outcome.set(Some(outcome));
        if let Some(waker) = self.waker.take() {
            wake(waker);
        }
    }
}

/// The slot of a future of any type, for the code that drops it.
pub(super) trait CancelSlot {
    /// Stores the outcome of a future that was dropped, with the panic of its destructor, unless
    /// there is an outcome already.
    fn cancel(&self, payload: Option<Payload>);
}

impl<T> CancelSlot for LocalSlot<T> {
    fn cancel(&self, payload: Option<Payload>) {
        match payload {
            None => self.put(TaskOutcome::Cancelled(Cause::Requested)),
            Some(payload) if self.done.get() => unwind::discard(payload),
            Some(payload) => self.put(TaskOutcome::Panic(payload)),
        }
    }
}

/// The futures of a set, for the handles.
pub(super) trait LocalMembers {
    /// Removes the future of this key, and drops it if it is not being polled.
    fn end(&self, key: u64);
}

/// A handle of a future of a [`LocalSet`](super::LocalSet), awaited in that set. Dropping it
/// detaches the future.
///
/// ```
/// use filch::future::{LocalSet, spawn_local};
///
/// LocalSet::new().block_on(async {
///     let never = spawn_local(std::future::pending::<()>());
///     never.cancel();
///     assert!(never.await.unwrap_err().is_cancelled());
/// });
/// ```
#[must_use = "dropping the handle detaches the future"]
pub struct LocalHandle<T> {
    pub(super) slot: Rc<LocalSlot<T>>,
    pub(super) set: Weak<dyn LocalMembers>,
    pub(super) key: u64,
}

impl<T> LocalHandle<T> {
    /// Cancels the future: it is dropped, at once if it is not being polled. Without effect if it
    /// is done.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let never = set.spawn_local(std::future::pending::<()>());
    /// never.cancel();
    /// assert!(never.is_finished() && set.is_empty());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        if let Some(set) = self.set.upgrade() {
            set.end(self.key);
        }
    }

    /// Returns the outcome if the future is done; at most once.
    pub(super) fn take_outcome(&self) -> Option<Result<T, FutureError>> {
        self.slot.outcome.take().map(FutureError::from_outcome)
    }

    /// Whether the future is done, has panicked, or was cancelled.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// let handle = set.spawn_local(async { 1 });
    /// assert!(!handle.is_finished()); // it has not been polled yet
    /// set.block_on(filch::future::yield_now());
    /// assert!(handle.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.slot.done.get()
    }

    /// Detaches the future, as dropping the handle does: it continues, and its outcome is dropped.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// set.spawn_local(async { println!("when the set is polled") }).detach();
    /// ```
    pub fn detach(self) {}
}

impl<T> LocalHandle<T> {
    /// Makes a handle that [cancels](Self::cancel) the future when it is dropped.
    ///
    /// ```
    /// let set = filch::future::LocalSet::new();
    /// drop(set.spawn_local(std::future::pending::<()>()).cancel_on_drop());
    /// assert!(set.is_empty());
    /// ```
    #[doc(alias = "abort_on_drop")]
    pub fn cancel_on_drop(self) -> CancelOnDrop<Self> {
        CancelOnDrop::new(self)
    }
}

impl<T> sealed::Sealed for LocalHandle<T> {}

impl<T> CancelTask for LocalHandle<T> {
    fn cancel_task(&self) {
        self.cancel();
    }
}

impl<T> Future for LocalHandle<T> {
    type Output = Result<T, FutureError>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_leaf(cx, |cx| {
            if self.slot.done.get() {
                return Poll::Ready(
                    self.take_outcome()
                        .expect("a handle was polled after it had given its result; await it once"),
                );
            }
            let before = self.slot.waker.take();
            let same = before.filter(|before| before.will_wake(cx.waker()));
            let waker = same.unwrap_or_else(|| cx.waker().clone());
            self.slot.waker.set(Some(waker));
            Poll::Pending
        })
    }
}

impl<T> fmt::Debug for LocalHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}
