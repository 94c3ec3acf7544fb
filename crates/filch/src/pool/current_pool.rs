//! The pool that a thread which is not a worker uses at present, instead of the global one.
#![expect(unsafe_code, reason = "a thread-local pointer to what a caller holds")]

use super::Pool;
use std::{cell::Cell, ptr};

thread_local! {
    static ENTERED: Cell<*const Pool> = const { Cell::new(ptr::null()) };
}

/// Restores the pool that was entered before.
struct RestoreEntered(*const Pool);

impl Drop for RestoreEntered {
    fn drop(&mut self) {
        ENTERED.set(self.0);
    }
}

impl Pool {
    /// Calls `f`. On a thread that is not a worker, free functions called in it use this pool.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = RestoreEntered(ENTERED.replace(self));
        f()
    }

    /// Calls `f` with the pool that this thread has entered, if any.
    pub(crate) fn with_entered<R>(f: impl FnOnce(Option<&Self>) -> R) -> R {
        // SAFETY: `enter` borrows the pool for as long as the pointer is set.
        f(unsafe { ENTERED.get().as_ref() })
    }

    /// Calls `f` with the pool that a thread which is not a worker uses: the one it has entered,
    /// else the global one.
    pub(crate) fn with_default<R>(f: impl FnOnce(&Self) -> R) -> R {
        Self::with_entered(|pool| f(pool.unwrap_or_else(|| Self::global())))
    }
}
