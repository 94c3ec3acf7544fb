//! How wakers of users are called and dropped.

use crate::base::unwind;
use std::task::Waker;

/// Calls a waker and contains its panics: it may be user code.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::contain(|| waker.wake()) {
        unwind::discard(payload);
    }
}

/// Drops a waker and contains its panics: its destructor is user code.
pub(crate) fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker {
        unwind::discard(waker);
    }
}
