//! The one place that catches panics.
//!
//! A panic in the user's code is data: it is caught, kept and given to whoever waits. A panic in our
//! own code is a broken invariant under other people's programs, and ends the process.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

/// What a panic carried.
pub type Payload = Box<dyn Any + Send + 'static>;

/// Runs the user's code.
///
/// Unwind safety is the user's business: what `f` broke, it broke in their data.
#[inline(always)]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    panic::catch_unwind(AssertUnwindSafe(f))
}

/// Goes on with a panic that was contained.
pub(crate) fn resume(payload: Payload) -> ! {
    panic::resume_unwind(payload)
}

/// The text of a panic, as far as it has one.
pub(crate) fn message(payload: &Payload) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a value that is not a text"
    }
}

/// Runs our own code at a place where a panic would leave others pointing into a dead frame: a panic that
/// comes out of `f` ends the process.
#[inline(always)]
pub(crate) fn or_abort<R>(f: impl FnOnce() -> R) -> R {
    struct Fuse;
    impl Drop for Fuse {
        #[cold]
        fn drop(&mut self) {
            eprintln!(
                "filch: a panic inside the scheduler itself; this is a bug in filch; aborting"
            );
            std::process::abort();
        }
    }
    let fuse = Fuse;
    let result = f();
    std::mem::forget(fuse);
    result
}

/// Drops a payload, or anything else whose destructor is the user's code and may panic, as may that of the new
/// payload, and so on: the third one is kept.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = contain(|| drop(value))
        && let Err(another) = contain(|| drop(payload))
    {
        std::mem::forget(another);
    }
}
