//! Which submitted task this thread is in: a pointer that only its face can read.

use std::{cell::Cell, ptr};

thread_local! {
    static CURRENT: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Puts back what was current before.
#[must_use]
pub(crate) struct Restore(*const ());

/// This thread is in `task` until the value is dropped.
#[inline(always)]
pub(crate) fn enter(task: *const ()) -> Restore {
    Restore(CURRENT.replace(task))
}

/// This thread is in no task until the value is dropped: it runs what has nothing to do with the one that it
/// is in.
#[inline(always)]
pub(crate) fn set_aside() -> Restore {
    enter(ptr::null())
}

/// The task that this thread is in, or null.
#[inline(always)]
pub(crate) fn current() -> *const () {
    CURRENT.get()
}

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
