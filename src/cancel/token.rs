//! The token that is handed around, and the guard that cancels it.

use super::{
    CancelReason, Cancelled, Registration,
    list::Key,
    listener::{Listener, OnCancel},
    node::Node,
};
use crate::threads::TimerError;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// Says that something is not wanted any more: to whoever asks, waits, or has left a callback.
///
/// Clones are the same token. A [`child`](Self::child) is another one, which is cancelled with its parent but can
/// be cancelled alone. What is promised when several threads are at it is written in the [module](super).
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
#[derive(Clone)]
pub struct CancelToken {
    node: Arc<Node>,
}

/// A task that watches a token; see [`CancelToken::watch`].
#[derive(Debug)]
#[must_use = "give it to `unwatch`"]
pub(crate) struct Watch(Key);

impl CancelToken {
    /// A token that is nobody's child.
    #[must_use]
    pub fn new() -> Self {
        Self { node: Node::new() }
    }

    /// A token that is cancelled when this one is, but not the other way round. Of a cancelled token the
    /// children are cancelled from the start, for the same reason.
    ///
    /// It keeps its ancestors' deadlines alive, also when nobody has the ancestors themselves any more, and a
    /// few words of memory for each of them.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            node: self.node.child(),
        }
    }

    /// Cancels this token and everything below it, and runs the callbacks. True when this call was the one that
    /// cancelled it; on a cancelled token it does nothing.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// assert!(token.cancel());
    /// assert!(!token.cancel(), "it is cancelled once");
    /// ```
    pub fn cancel(&self) -> bool {
        self.node.cancel(CancelReason::Asked)
    }

    /// Whether it is cancelled: one load, so a running task may ask often. What the one who cancelled did before
    /// is visible after a `true`.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Why it is cancelled, if it is. The first reason stays, and goes to everything below.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        self.node.reason()
    }

    /// Cancels the token when so much time has passed; see [`cancel_at`](Self::cancel_at). A time that no clock
    /// reaches never comes.
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
    /// As of [`cancel_at`](Self::cancel_at).
    pub fn cancel_after(&self, time: Duration) -> Result<(), TimerError> {
        match Instant::now().checked_add(time) {
            Some(at) => self.cancel_at(at),
            None => Ok(()),
        }
    }

    /// Cancels the token at `at`: never before, and soon after. Of several deadlines the earliest counts. One that
    /// has passed cancels at once, in this call.
    ///
    /// One thread, `filch-timer`, serves the deadlines of the whole process, and runs the callbacks of what it
    /// cancels. The deadline is forgotten when the token is cancelled before, and when the token and everything
    /// below it has been dropped; it keeps nothing alive.
    ///
    /// # Errors
    /// When that thread has to be started and cannot be. The token stays as it was, and the next deadline tries
    /// again.
    pub fn cancel_at(&self, at: Instant) -> Result<(), TimerError> {
        self.node.cancel_at(at)
    }

    /// Blocks this thread until the token is cancelled.
    ///
    /// A worker that waits here runs nothing else meanwhile; a task better asks, or leaves a callback.
    pub fn wait(&self) -> CancelReason {
        let reason = self.node.wait(None);
        reason.expect("without an end, only a cancellation ends the wait")
    }

    /// Blocks this thread until the token is cancelled, but not for longer than this.
    ///
    /// ```
    /// use filch::{CancelReason, CancelToken};
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.wait_timeout(Duration::from_millis(1)), None);
    /// token.cancel();
    /// assert_eq!(token.wait_timeout(Duration::from_millis(1)), Some(CancelReason::Asked));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> Option<CancelReason> {
        match Instant::now().checked_add(timeout) {
            Some(end) => self.node.wait(Some(end)),
            None => Some(self.wait()),
        }
    }

    /// A future that is ready when the token is cancelled.
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
    /// assert_eq!(cancelled.poll(&mut cx), Poll::Ready(CancelReason::Asked));
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.node.clone())
    }

    /// Calls `callback` when the token is cancelled: at once if it is, else on the thread of the one who cancels,
    /// which for deadlines is the timer's, so it should be short. It runs exactly once, or never when the
    /// [`Registration`] is dropped before.
    ///
    /// No lock is held meanwhile: it may use this token in every way. A panic in it is contained.
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
                listener.tell(reason);
                Registration::spent()
            }
        }
    }

    /// Something that cancels the token when it is dropped, also by a panic.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let child = token.child();
    /// {
    ///     let _guard = token.drop_guard();
    ///     // Whoever works for `child` here need not go on when this block has been left.
    /// }
    /// assert!(child.is_cancelled());
    /// ```
    pub fn drop_guard(&self) -> DropGuard {
        DropGuard {
            token: Some(self.clone()),
        }
    }

    /// Calls `task` when the token is cancelled, unless [`unwatch`](Self::unwatch) comes before. Costs a slot
    /// in a list, no allocation of its own. When the token is cancelled already, it gives the reason and calls
    /// nobody.
    pub(crate) fn watch(&self, task: Weak<dyn OnCancel>) -> Result<Watch, CancelReason> {
        match self.node.listen(Listener::Task(task)) {
            Ok(key) => Ok(Watch(key)),
            Err((_, reason)) => Err(reason),
        }
    }

    /// Ends a watch of this token, in O(1). True: the task has not been called and never will be. False: it has been,
    /// or is being called right now.
    pub(crate) fn unwatch(&self, watch: Watch) -> bool {
        self.node.unlisten(watch.0)
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn node(&self) -> &Arc<Node> {
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
    /// Gives the token back without cancelling it.
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
