//! Contexts that are not current although they are further up the stack of their thread than the
//! current one.
//!
//! A worker that waits in a task of one pool may run jobs of another pool that it is a worker or
//! guest of: calls to it, pinned tasks from its mailbox, or wakers that belong to no pool. During
//! that time the context of the other pool is current, or none. The context in which the thread
//! waits is *covered*: it is not found from the current one, but the thread is still running its
//! task.
#![expect(unsafe_code, reason = "pointers into the stack of their own thread")]

use super::{
    context::{CURRENT, RestoreContext},
    current_task,
    inner::{ContextPointer, Inner, WorkerContext},
};
use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// The context that was covered last on this thread, or null.
    static COVERED: Cell<*const Covered> = const { Cell::new(ptr::null()) };
}

/// A covered context, in the frame of the call that covers it.
struct Covered {
    context: ContextPointer,
    next: *const Covered,
}

impl Drop for Covered {
    fn drop(&mut self) {
        COVERED.set(self.next);
    }
}

/// Calls `f` with `below` as the current context: one further down the stack of this thread, or
/// null for none.
fn cover<R>(below: ContextPointer, f: impl FnOnce() -> R) -> R {
    let restore = RestoreContext(CURRENT.replace(below));
    let covered = Covered {
        context: restore.0,
        next: COVERED.get(),
    };
    COVERED.set(&raw const covered);
    f()
}

impl WorkerContext<'_, '_> {
    /// Calls `f` with this context as the current one. It is further down the stack than the one
    /// that is current now.
    pub(super) fn as_covering<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        cover((&raw const *self).cast(), || f(self))
    }

    /// Calls `f` as on a thread that is not a worker, outside of any task.
    pub(super) fn as_outside<R>(&self, f: impl FnOnce() -> R) -> R {
        let _aside = current_task::set_aside();
        cover(ptr::null(), f)
    }
}

/// Whether this thread runs a task of `pool`, anywhere on its stack.
pub(super) fn is_thread_inside(pool: &Inner) -> bool {
    let inside = |context: ContextPointer| {
        // SAFETY: as in `WorkerContext::with`, this is null or a context on this stack. One that is
        // covered was current, and is alive: its frame is further down the stack than the one that
        // covers it.
        let context = unsafe { context.as_ref() };
        context.is_some_and(|context| context.is_inside(pool))
    };
    // SAFETY: each is in a frame of this thread that has not returned: `Covered` unlinks itself
    // when dropped.
    let next = |at: *const Covered| unsafe { at.as_ref() };
    let mut covered = successors(next(COVERED.get()), |covered| next(covered.next));
    inside(CURRENT.get()) || covered.any(|covered| inside(covered.context))
}
