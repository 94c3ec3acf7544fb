//! The shared plans whose runs are active on the stack of this thread.
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
    static INNERMOST: Cell<*const ActivePlan> = const { Cell::new(ptr::null()) };
}

/// A job of a run of a shared plan, in the frame of the call that runs it.
struct ActivePlan {
    /// The identity of the plan; see `RunControl::plan_id`.
    plan_id: usize,
    outer: *const ActivePlan,
}

impl Drop for ActivePlan {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Calls `f`, which is a part of a run of this shared plan. Zero means that there is no shared
/// plan.
#[inline]
pub(super) fn enter<R>(plan_id: usize, f: impl FnOnce() -> R) -> R {
    if plan_id == 0 {
        return f();
    }
    let active = ActivePlan {
        plan_id,
        outer: INNERMOST.get(),
    };
    INNERMOST.set(&raw const active);
    f()
}

/// Whether a job of a run of this plan is active on this thread.
pub(super) fn is_active(plan_id: usize) -> bool {
    // SAFETY: each entry lies in a frame of this thread that has not returned: the destructor of
    // `ActivePlan` removes it from the list.
    let next = |at: *const ActivePlan| unsafe { at.as_ref() };
    let mut all = successors(next(INNERMOST.get()), |active| next(active.outer));
    all.any(|active| active.plan_id == plan_id)
}
