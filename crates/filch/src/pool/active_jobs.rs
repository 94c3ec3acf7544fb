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
use std::{cell::Cell, iter::successors, mem::MaybeUninit, ptr};

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
}

impl ActiveJob {
    /// Makes a job of `group` the innermost of this thread. `place` stays in its frame until the
    /// job is removed.
    #[cold]
    #[inline(never)]
    fn list(place: &mut MaybeUninit<Self>, group: JobGroup) {
        let enclosing = INNERMOST.get();
        INNERMOST.set(place.write(Self { group, enclosing }));
    }

    /// Removes this job, which is the innermost.
    #[cold]
    #[inline(never)]
    fn remove(&self) {
        INNERMOST.set(self.enclosing);
    }
}

/// Removes a job at its end, if it is listed.
struct RemoveAtEnd<'e> {
    /// Initialised if it is listed.
    place: &'e MaybeUninit<ActiveJob>,
    is_listed: bool,
}

impl Drop for RemoveAtEnd<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_listed {
            // SAFETY: it is listed, so `place` is initialised.
            unsafe { self.place.assume_init_ref() }.remove();
        }
    }
}

/// Calls `f`, which is a job of `group`, and lists it if it `is_elsewhere`: on another worker than
/// the one that waits for the group.
#[inline(always)]
pub(crate) fn enter<R>(
    group: impl FnOnce() -> JobGroup,
    is_elsewhere: bool,
    f: impl FnOnce() -> R,
) -> R {
    let mut place = MaybeUninit::uninit();
    if is_elsewhere {
        ActiveJob::list(&mut place, group());
    }
    let _remove = RemoveAtEnd {
        place: &place,
        is_listed: is_elsewhere,
    };
    f()
}

/// The groups of the listed jobs of this thread, innermost first.
fn groups() -> impl Iterator<Item = JobGroup> {
    // SAFETY: each entry lies in a frame of this thread that has not returned: the destructor of
    // `RemoveAtEnd` removes it from the list.
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
