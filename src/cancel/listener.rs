//! Who is told that a node is cancelled.

use super::CancelReason;
use crate::base::unwind;
use std::{
    sync::{Arc, Weak},
    task::Waker,
};

/// Something of ours that wants to hear of a cancellation without an allocation for it: a queued task.
pub(crate) trait OnCancel: Send + Sync {
    /// The token is cancelled. Called at most once for each [`watch`](super::CancelToken::watch), outside of all
    /// locks, on the thread of the one who cancels, which may be that of the timer: must be short.
    fn on_cancel(self: Arc<Self>, reason: CancelReason);
}

/// One entry in the list of a node.
pub(crate) enum Listener {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
    Task(Weak<dyn OnCancel>),
}

impl Listener {
    /// Tells it. Everything in here may be the user's code, so it is never called under a lock, and what
    /// panics has told the panic hook and goes no further.
    pub(crate) fn tell(self, reason: CancelReason) {
        let told = unwind::contain(|| match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
            Self::Task(task) => {
                if let Some(task) = task.upgrade() {
                    task.on_cancel(reason);
                }
            }
        });
        if let Err(payload) = told {
            unwind::discard(payload);
        }
    }
}
