//! WorkerContexts that are not current although they are further up the stack of their thread than the one
//! that is.
//!
//! A worker that waits in the middle of a task of one pool may run jobs of another pool that it
//! holds a place in: calls to it, mail that only it may run, or wakers that belong to no pool.
//! For that time the site of the other pool is current, or none. The one where it waits is
//! *covered*: it is not found from the current one, but the thread is still in the middle of
//! its task.
#![expect(unsafe_code, reason = "pointers into the stack of their own thread")]

use super::{
    Inner,
    context::{CURRENT, ContextPointer, Restore, WorkerContext},
};
use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// What was covered last on this thread, or null.
    static COVERED: Cell<*const Covered> = const { Cell::new(ptr::null()) };
}

/// A site that is covered, in the frame of the call that covers it.
struct Covered {
    context: ContextPointer,
    next: *const Covered,
}

impl Drop for Covered {
    fn drop(&mut self) {
        COVERED.set(self.next);
    }
}

/// Calls `f` with the site at `below` as the current one: one further down the stack of this
/// thread, or null for none.
pub(super) fn cover<R>(below: ContextPointer, f: impl FnOnce() -> R) -> R {
    let restore = Restore(CURRENT.replace(below));
    let covered = Covered {
        context: restore.0,
        next: COVERED.get(),
    };
    COVERED.set(&raw const covered);
    f()
}

impl WorkerContext<'_, '_> {
    /// Calls `f` with this site as the current one, which is further down the stack than the one
    /// that is current now.
    pub(super) fn as_covering<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        cover((&raw const *self).cast(), || f(self))
    }
}

/// Whether this thread is in the middle of a task of `pool`, wherever on its stack that is.
pub(super) fn is_thread_inside(pool: &Inner) -> bool {
    let inside = |context: ContextPointer| {
        // SAFETY: as in `WorkerContext::with`. One that is covered was current, and is alive: its frame is
        // further down the stack than the one that covers it.
        let context = unsafe { context.as_ref() };
        context.is_some_and(|context| context.is_inside(pool))
    };
    // SAFETY: each lies in a frame of this thread that has not returned: `Covered` takes itself out
    // of the list.
    let next = |at: *const Covered| unsafe { at.as_ref() };
    let mut covered = successors(next(COVERED.get()), |covered| next(covered.next));
    inside(CURRENT.get()) || covered.any(|covered| inside(covered.context))
}
