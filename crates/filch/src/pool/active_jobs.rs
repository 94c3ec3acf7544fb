//! The jobs of groups on the stack of this thread.
//!
//! A group of jobs, such as a run of a graph or the tasks of a scope, does not end before each of
//! its jobs has returned. A job cannot return before the waits above it on its stack have ended, no
//! matter whether it called what waits there or its worker took that up meanwhile. So the check for
//! cyclic waits must know which jobs are beneath a wait, and a task that waits for a run of its own
//! shared plan waits for itself. Each job that another worker than the waiting one runs is in a
//! list while it runs, in frames of the thread's stack. (What the waiting worker runs itself is
//! above its own wait.)
#![expect(unsafe_code, reason = "a thread-local list in frames of its own stack")]

use super::waits::EventId;
use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// The innermost listed job of this thread, or null.
    static INNERMOST: Cell<*const ActiveJob> = const { Cell::new(ptr::null()) };
}

/// The group that a job belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobGroup {
    /// The end of all its jobs.
    pub(crate) end: EventId,
    /// The identity of the shared plan that it is a run of; zero if there is none.
    pub(crate) plan_id: usize,
}

/// A job of a group, in the frame of the call that runs it.
struct ActiveJob {
    group: JobGroup,
    enclosing: *const ActiveJob,
    is_listed: bool,
}

impl Drop for ActiveJob {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_listed {
            INNERMOST.set(self.enclosing);
        }
    }
}

/// Calls `f`, which is a job of `group`, and lists it if it `is_elsewhere`: on another worker than
/// the one that waits for the group.
#[inline(always)]
pub(crate) fn enter<R>(group: JobGroup, is_elsewhere: bool, f: impl FnOnce() -> R) -> R {
    let active = ActiveJob {
        group,
        enclosing: INNERMOST.get(),
        is_listed: is_elsewhere,
    };
    if is_elsewhere {
        INNERMOST.set(&raw const active);
    }
    f()
}

/// The groups of the listed jobs of this thread, innermost first.
fn groups() -> impl Iterator<Item = JobGroup> {
    // SAFETY: each entry lies in a frame of this thread that has not returned: the destructor of
    // `ActiveJob` removes it from the list.
    let next = |at: *const ActiveJob| unsafe { at.as_ref() };
    let all = successors(next(INNERMOST.get()), move |active| next(active.enclosing));
    all.map(|active| active.group)
}

/// Calls `f` with the ends of the groups that have a listed job on this thread.
pub(super) fn for_each(f: impl FnMut(EventId)) {
    groups().map(|group| group.end).for_each(f);
}

/// Whether a job of a run of this shared plan is active on this thread.
pub(crate) fn is_plan_active(plan_id: usize) -> bool {
    groups().any(|group| group.plan_id == plan_id)
}
