//! The listeners of a node.

use super::CancelReason;
use crate::base::unwind;
use std::{
    sync::{Arc, Weak},
    task::Waker,
};

/// An internal listener that needs no allocation of its own: a queued task.
pub(crate) trait OnCancel: Send + Sync {
    /// Called when the token is cancelled, at most once for each
    /// [`watch`](super::CancelToken::watch), outside all locks, on the cancelling thread, which may
    /// be that of the timer. It must be short.
    fn on_cancel(self: Arc<Self>, reason: CancelReason);
}

/// One entry in the list of a node.
pub(crate) enum Listener {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
    Task(Weak<dyn OnCancel>),
}

impl Listener {
    /// Notifies the listener. It may run user code, so it is never called under a lock. A panic has
    /// been reported by the panic hook, and is discarded here.
    pub(crate) fn notify(self, reason: CancelReason) {
        let notified = unwind::contain(|| match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
            Self::Task(task) => {
                if let Some(task) = task.upgrade() {
                    task.on_cancel(reason);
                }
            }
        });
        if let Err(payload) = notified {
            unwind::discard(payload);
        }
    }
}
