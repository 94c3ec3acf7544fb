//! A registered callback.

use super::{list::ListenerKey, node::CancelNode};
use std::{fmt, sync::Arc};

/// A callback that was registered with [`CancelToken::on_cancel`](super::CancelToken::on_cancel).
///
/// Dropping it removes the callback, unless the token was cancelled before.
///
/// ```
/// use filch::CancelToken;
///
/// let token = CancelToken::new();
/// let first = token.on_cancel(|| println!("cancelled"));
/// let second = token.on_cancel(|| unreachable!());
/// assert!(second.remove());
/// token.cancel();
/// assert!(!first.remove(), "it has run");
/// ```
#[must_use = "dropping the registration removes the callback; call `detach` to leave it"]
pub struct Registration {
    /// Where the callback is; `None` if it ran at once, or is detached or removed.
    entry: Option<(Arc<CancelNode>, ListenerKey)>,
}

impl Registration {
    pub(crate) fn new(node: Arc<CancelNode>, key: ListenerKey) -> Self {
        Self {
            entry: Some((node, key)),
        }
    }

    /// Creates the registration of a callback that has run.
    pub(crate) fn spent() -> Self {
        Self { entry: None }
    }

    /// Removes the callback.
    ///
    /// True: it has not run, never will, and has been dropped. False: a cancellation took it
    /// before. Then it runs exactly once, and has done so already unless another thread is running
    /// it. This call does not wait for that thread, so the callback itself may call it.
    ///
    /// ```
    /// let token = filch::CancelToken::new();
    /// let registration = token.on_cancel(|| unreachable!());
    /// assert!(registration.remove());
    /// token.cancel();
    /// ```
    pub fn remove(mut self) -> bool {
        self.remove_callback()
    }

    /// Leaves the callback to the token: it runs when the token is cancelled, and is dropped with
    /// the token.
    ///
    /// A callback that owns a clone of its own token (or of one below it) then keeps that token
    /// alive until it is cancelled.
    ///
    /// ```
    /// use filch::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// token.on_cancel(|| println!("cancelled")).detach();
    /// token.cancel();
    /// ```
    pub fn detach(mut self) {
        self.entry = None;
    }

    fn remove_callback(&mut self) -> bool {
        let entry = self.entry.take();
        entry.is_some_and(|(node, key)| node.unlisten(key))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.remove_callback();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cancelled = |(node, _): &(Arc<CancelNode>, ListenerKey)| node.is_cancelled();
        f.debug_struct("Registration")
            .field("cancelled", &self.entry.as_ref().is_none_or(cancelled))
            .finish()
    }
}
