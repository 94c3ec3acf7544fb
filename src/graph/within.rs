//! Which shared plans this thread is in a run of.
//!
//! The runs of a shared plan wait for each other, so a task that waits for a run of its own plan
//! waits for itself. That is seen where it is so on one thread: each job of a launched run is in a
//! list while it runs, in frames of the thread's stack. A job further down that stack cannot go on
//! before what waits above it does, whether it has called that or picked it up while it waited.
#![expect(unsafe_code, reason = "a thread-local list in frames of its own stack")]

use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// The innermost job of a launched run on this thread, or null.
    static INNERMOST: Cell<*const Within> = const { Cell::new(ptr::null()) };
}

/// A job of a run of a shared plan, in the frame of the call that runs it.
struct Within {
    /// The address of the plan's line; see `Remote::line`.
    line: usize,
    outer: *const Within,
}

impl Drop for Within {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Calls `f`, which is a part of a run of the plan with this line. Zero is none.
#[inline]
pub(super) fn enter<R>(line: usize, f: impl FnOnce() -> R) -> R {
    if line == 0 {
        return f();
    }
    let within = Within {
        line,
        outer: INNERMOST.get(),
    };
    INNERMOST.set(&raw const within);
    f()
}

/// Whether this thread is in the middle of a run of the plan with this line.
pub(super) fn is_inside(line: usize) -> bool {
    // SAFETY: each lies in a frame of this thread that has not returned: `Within` takes itself out
    // of the list.
    let next = |at: *const Within| unsafe { at.as_ref() };
    let mut all = successors(next(INNERMOST.get()), |within| next(within.outer));
    all.any(|within| within.line == line)
}
