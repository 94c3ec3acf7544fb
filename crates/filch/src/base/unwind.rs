//! The one place that catches panics.
//!
//! A panic in user code is data: it is caught, kept and given to the waiter. A panic in filch's own
//! code is a broken invariant, and aborts the process.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// Calls `f`, which is user code, and returns its panic as an error.
///
/// Unwind safety is the user's responsibility: `f` can break only the user's data.
#[inline(always)]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    panic::catch_unwind(AssertUnwindSafe(f))
}

/// Resumes a panic that was contained.
pub(crate) fn resume(payload: Payload) -> ! {
    panic::resume_unwind(payload)
}

/// Whether this thread is unwinding because of a panic.
pub(crate) fn is_unwinding() -> bool {
    std::thread::panicking()
}

/// Returns the text of a panic, if it has one.
pub(crate) fn message(payload: &Payload) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a value that is not a text"
    }
}

/// Runs filch's own code where a panic would leave other threads with pointers into a dead frame: a
/// panic in `f` aborts the process.
#[inline(always)]
pub(crate) fn or_abort<R>(f: impl FnOnce() -> R) -> R {
    let guard = AbortOnUnwind;
    let result = f();
    guard.disarm();
    result
}

/// [`or_abort`] for what follows until [`disarm`](Self::disarm): without a closure, which would be
/// compiled for every type of task.
pub(crate) struct AbortOnUnwind;

impl AbortOnUnwind {
    #[inline(always)]
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbortOnUnwind {
    #[cold]
    fn drop(&mut self) {
        eprintln!("filch: a panic inside the scheduler itself; this is a bug in filch; aborting");
        std::process::abort();
    }
}

/// Drops a payload, or anything else whose destructor is user code and may panic. The destructor of
/// the new payload may panic, too, and so on: the third payload is leaked.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = contain(|| drop(value))
        && let Err(another) = contain(|| drop(payload))
    {
        std::mem::forget(another);
    }
}
