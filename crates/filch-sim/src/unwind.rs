//! Panics of simulated tasks and of the engine under test, as data.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

/// Runs `f`, and returns the payload if it panics. What `f` leaves behind is not used afterwards,
/// or is checked.
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    panic::catch_unwind(AssertUnwindSafe(f))
}

/// Returns the text of a panic, if it has one.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a value that is not a text"
    }
}
