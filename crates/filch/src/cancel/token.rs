//! The token, and the guard that cancels it.

use super::{
    CancelReason, Cancelled, Registration,
    list::ListenerKey,
    listener::{Listener, OnCancel},
    node::CancelNode,
};
use crate::{base::Instant, threads::TimerError};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// Signals that a result is no longer wanted. Tasks can poll it, wait for it, or register a
/// callback.
///
/// Clones are the same token. A [`child`](Self::child) is another one, which is cancelled with its
/// parent but can be cancelled separately. The [module](super) documents the guarantees under
/// concurrency.
///
/// ```
/// use filch::CancelToken;
///
/// let request = CancelToken::new();
/// let (search, log) = (request.child(), request.child());
///
/// search.cancel();
/// assert!(!request.is_cancelled() && !log.is_cancelled());
///
/// let worker = std::thread::spawn({
///     let log = log.clone();
///     move || {
///         let mut lines = 0;
///         while !log.is_cancelled() {
///             lines += 1; // a piece of work
///         }
///         lines
///     }
/// });
/// request.cancel();
/// worker.join().unwrap();
/// assert!(log.is_cancelled());
/// ```
#[doc(alias = "CancellationToken")]
#[derive(Clone)]
pub struct CancelToken {
    node: Arc<CancelNode>,
}

/// The registration of a task that watches a token; see [`CancelToken::watch`].
#[derive(Debug)]
#[must_use = "give it to `unwatch`"]
pub(crate) struct Watch(ListenerKey);

impl CancelToken {
    /// Creates a token without a parent.
    ///
    /// ```
    /// let token = filch::CancelToken::new();
    /// assert!(!token.is_cancelled());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            node: CancelNode::new(),
        }
    }

    /// Creates a token that is cancelled with this one, but not the other way round. Children of a
    /// cancelled token are cancelled from the start, for the same reason.
    ///
    /// It keeps its ancestors' deadlines alive, also when no other reference to the ancestors is
    /// left, and with them a few words of memory for each ancestor.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let request = CancelToken::new();
    /// let (search, log) = (request.child(), request.child());
    /// search.cancel();
    /// assert!(!request.is_cancelled() && !log.is_cancelled());
    /// request.cancel();
    /// assert!(log.is_cancelled() && request.child().is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            node: self.node.child(),
        }
    }

    /// Cancels this token and everything below it, and runs the callbacks. Returns whether this
    /// call cancelled it; on a cancelled token it does nothing. Callbacks may cancel other tokens;
    /// if they do so more than sixteen levels deep, the callbacks below run when those above have
    /// returned.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// assert!(token.cancel());
    /// assert!(!token.cancel(), "it is cancelled once");
    /// ```
    pub fn cancel(&self) -> bool {
        self.node.cancel(CancelReason::Requested)
    }

    /// Whether it is cancelled. It is one load, so a running task may check often. After a `true`,
    /// what the cancelling thread wrote before is visible.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let mut steps = 0;
    /// while !token.is_cancelled() {
    ///     steps += 1; // a piece of work
    ///     if steps == 3 {
    ///         token.cancel();
    ///     }
    /// }
    /// assert_eq!(steps, 3);
    /// ```
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Returns why it is cancelled, if it is. The first reason stays, and applies to everything
    /// below.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.reason(), None);
    /// token.cancel();
    /// assert_eq!(token.child().reason(), Some(CancelReason::Requested));
    /// ```
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        self.node.reason()
    }

    /// Cancels the token after `time`; see [`cancel_at`](Self::cancel_at). A time beyond the range
    /// of `Instant` is never reached.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// token.cancel_after(Duration::from_millis(5))?;
    /// assert_eq!(token.wait(), CancelReason::Deadline);
    /// # Ok::<(), filch::TimerError>(())
    /// ```
    ///
    /// # Errors
    /// As [`cancel_at`](Self::cancel_at).
    pub fn cancel_after(&self, time: Duration) -> Result<(), TimerError> {
        match Instant::now().checked_add(time) {
            Some(at) => self.cancel_at(at),
            None => Ok(()),
        }
    }

    /// Cancels the token at `at`: never before, and soon after. Of several deadlines the earliest
    /// counts. A deadline in the past cancels in this call.
    ///
    /// One thread, `filch-timer`, serves the deadlines of the whole process, and runs the callbacks
    /// of the tokens that it cancels. The deadline is removed when the token is cancelled before,
    /// and when the token and everything below it has been dropped; it keeps nothing alive.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    /// use std::time::{Duration, Instant};
    ///
    /// let token = CancelToken::new();
    /// token.cancel_at(Instant::now() + Duration::from_millis(5))?;
    /// assert_eq!(token.wait(), CancelReason::Deadline);
    /// # Ok::<(), filch::TimerError>(())
    /// ```
    ///
    /// # Errors
    /// If that thread has to be started and cannot be. The token is unchanged, and the next
    /// deadline retries.
    pub fn cancel_at(&self, at: Instant) -> Result<(), TimerError> {
        self.node.cancel_at(at)
    }

    /// Blocks this thread until the token is cancelled.
    ///
    /// A worker that waits here runs no tasks meanwhile; a task should poll the token or register a
    /// callback.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    ///
    /// let token = CancelToken::new();
    /// let waiter = std::thread::spawn({
    ///     let token = token.clone();
    ///     move || token.wait()
    /// });
    /// token.cancel();
    /// assert_eq!(waiter.join().unwrap(), CancelReason::Requested);
    /// ```
    pub fn wait(&self) -> CancelReason {
        let reason = self.node.wait(None);
        reason.expect("without an end, only a cancellation ends the wait")
    }

    /// Blocks this thread until the token is cancelled, or until `timeout` has passed.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.wait_timeout(Duration::from_millis(1)), None);
    /// token.cancel();
    /// assert_eq!(token.wait_timeout(Duration::from_millis(1)), Some(CancelReason::Requested));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> Option<CancelReason> {
        match Instant::now().checked_add(timeout) {
            Some(end) => self.node.wait(Some(end)),
            None => Some(self.wait()),
        }
    }

    /// Returns a future that is ready when the token is cancelled.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let token = CancelToken::new();
    /// let mut cancelled = pin!(token.cancelled());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(cancelled.as_mut().poll(&mut cx).is_pending());
    /// token.cancel();
    /// assert_eq!(cancelled.poll(&mut cx), Poll::Ready(CancelReason::Requested));
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.node.clone())
    }

    /// Calls `callback` when the token is cancelled: at once if it already is, else on the
    /// cancelling thread. For deadlines that is the timer's thread, so the callback should be
    /// short. It runs exactly once, or never if the [`Registration`] is dropped before.
    ///
    /// No lock is held during the call, so it may use this token in every way. A panic in it is
    /// contained.
    ///
    /// ```
    /// use filch::CancelToken;
    /// use std::sync::mpsc;
    ///
    /// let token = CancelToken::new();
    /// let (send, receive) = mpsc::channel();
    /// let registration = token.on_cancel(move || send.send("stop").unwrap());
    /// token.cancel();
    /// assert_eq!(receive.recv(), Ok("stop"));
    /// # drop(registration);
    /// ```
    pub fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) -> Registration {
        match self.node.listen(Listener::Call(Box::new(callback))) {
            Ok(key) => Registration::new(self.node.clone(), key),
            Err((listener, reason)) => {
                listener.notify(reason);
                Registration::spent()
            }
        }
    }

    /// Returns a guard that cancels the token when it is dropped, also by a panic.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let child = token.child();
    /// {
    ///     let _guard = token.drop_guard();
    ///     // Work for `child` need not go on when this block has been left.
    /// }
    /// assert!(child.is_cancelled());
    /// ```
    pub fn drop_guard(&self) -> DropGuard {
        DropGuard {
            token: Some(self.clone()),
        }
    }

    /// Calls `task` when the token is cancelled, unless [`unwatch`](Self::unwatch) is called
    /// before. Costs a slot in a list, no allocation of its own. If the token is already cancelled,
    /// returns the reason and does not call `task`.
    pub(crate) fn watch(&self, task: Weak<dyn OnCancel>) -> Result<Watch, CancelReason> {
        match self.node.listen(Listener::Task(task)) {
            Ok(key) => Ok(Watch(key)),
            Err((_, reason)) => Err(reason),
        }
    }

    /// Ends a watch of this token, in O(1). True: the task has not been called and never will be.
    /// False: it has been called, or another thread is calling it or will soon.
    pub(crate) fn unwatch(&self, watch: Watch) -> bool {
        self.node.unlisten(watch.0)
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn node(&self) -> &Arc<CancelNode> {
        &self.node
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

/// Cancels a token when it is dropped; from [`CancelToken::drop_guard`].
#[derive(Debug)]
#[must_use = "dropping the guard cancels the token"]
pub struct DropGuard {
    /// `None` when it was disarmed.
    token: Option<CancelToken>,
}

impl DropGuard {
    /// Returns the token without cancelling it.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new().drop_guard().disarm();
    /// assert!(!token.is_cancelled());
    /// ```
    #[must_use]
    pub fn disarm(mut self) -> CancelToken {
        self.token.take().expect("it is disarmed once")
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }
}
