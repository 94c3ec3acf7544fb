//! The shared plans whose runs this thread is inside of.
//!
//! The runs of a shared plan wait for each other, so a task that waits for a run of its own plan
//! waits for itself. That is detected within one thread: each job of a launched run is in a list
//! while it runs, in frames of the thread's stack. A job further down that stack cannot continue
//! before the job that waits above it, no matter whether it called that job or took it while it
//! waited.
#![expect(unsafe_code, reason = "a thread-local list in frames of its own stack")]

use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// The innermost job of a launched run on this thread, or null.
    static INNERMOST: Cell<*const Within> = const { Cell::new(ptr::null()) };
}

/// A job of a run of a shared plan, in the frame of the call that runs it.
struct Within {
    /// The address of the plan's line (its queue of runs); see `Remote::line`.
    line: usize,
    outer: *const Within,
}

impl Drop for Within {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Calls `f`, which is a part of a run of the plan with this line. Zero means that there is no
/// shared plan.
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

/// Whether this thread is inside of a run of the plan with this line.
pub(super) fn is_inside(line: usize) -> bool {
    // SAFETY: each entry lies in a frame of this thread that has not returned: the destructor of
    // `Within` removes it from the list.
    let next = |at: *const Within| unsafe { at.as_ref() };
    let mut all = successors(next(INNERMOST.get()), |within| next(within.outer));
    all.any(|within| within.line == line)
}
