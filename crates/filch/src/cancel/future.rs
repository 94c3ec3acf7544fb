//! Awaiting a cancellation.

use super::{CancelReason, list::ListenerKey, node::CancelNode};
use crate::base::budget;
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A future that is ready when its token is cancelled; from
/// [`CancelToken::cancelled`](super::CancelToken::cancelled).
///
/// It owns a reference to the token's node, so it is `'static`. It may be polled again after it was
/// ready.
#[must_use = "a future does nothing unless it is polled"]
pub struct Cancelled {
    node: Arc<CancelNode>,
    /// The key of the waker of the last poll in the node's list.
    key: Option<ListenerKey>,
}

impl Cancelled {
    pub(crate) fn new(node: Arc<CancelNode>) -> Self {
        Self { node, key: None }
    }
}

impl Future for Cancelled {
    type Output = CancelReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CancelReason> {
        let Self { node, key } = self.get_mut();
        budget::poll_leaf(cx, |cx| match node.reason() {
            Some(reason) => Poll::Ready(reason),
            None => match node.wake_on_cancel(key, cx.waker()) {
                Some(reason) => Poll::Ready(reason),
                None => Poll::Pending,
            },
        })
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.node.unlisten(key);
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled")
            .field("reason", &self.node.reason())
            .finish_non_exhaustive()
    }
}
