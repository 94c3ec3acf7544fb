//! Contexts that are not current although their frames are newer than that of the current one.
//!
//! A worker that waits in a task of one pool may run jobs of another pool that it is a worker or
//! guest of: calls to it, pinned tasks from its mailbox, or wakers that belong to no pool. During
//! that time the context of the other pool is current, or none; likewise where a program that
//! carries its worker uses it in a call to another pool. The context in which the thread waits is
//! *shadowed*: it is not found from the current one, but the thread is still running its task.
#![expect(unsafe_code, reason = "pointers into the stack of their own thread")]

use super::{
    context::{CURRENT, RestoreContext},
    current_task,
    inner::{ContextPointer, Inner, WorkerContext},
};
use std::{cell::Cell, iter::successors, ptr};

thread_local! {
    /// The context that was shadowed last on this thread, or null.
    static SHADOWED: Cell<*const ShadowedContext> = const { Cell::new(ptr::null()) };
}

/// A shadowed context, in the frame of the call that shadows it.
struct ShadowedContext {
    context: ContextPointer,
    /// The context that was shadowed before this one.
    next: *const ShadowedContext,
}

impl Drop for ShadowedContext {
    fn drop(&mut self) {
        SHADOWED.set(self.next);
    }
}

/// Calls `f` with `enclosing` as the current context, which is in an older frame of this thread, or
/// null for none. The context that was current is shadowed meanwhile.
fn with_current<R>(enclosing: ContextPointer, f: impl FnOnce() -> R) -> R {
    let restore = RestoreContext(CURRENT.replace(enclosing));
    let shadowed = ShadowedContext {
        context: restore.0,
        next: SHADOWED.get(),
    };
    SHADOWED.set(&raw const shadowed);
    f()
}

impl WorkerContext<'_, '_> {
    /// Calls `f` with this context as the current one. Its frame is older than that of the context
    /// that is current now.
    pub(super) fn as_current_again<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        with_current((&raw const *self).cast(), || f(self))
    }

    /// Calls `f`, which runs jobs, with this context as the current one, if it is not: a program
    /// that carries it uses it in a call to another pool. A thread that has retired from its pool
    /// works for another one for good.
    #[inline]
    pub(crate) fn ensure_current<R>(&self, f: impl FnOnce() -> R) -> R {
        if ptr::eq(CURRENT.get(), (&raw const *self).cast()) || self.retired.get() {
            return f();
        }
        self.switch_to_this(f)
    }

    #[cold]
    fn switch_to_this<R>(&self, f: impl FnOnce() -> R) -> R {
        WorkerContext::with(|current| {
            if let Some(current) = current {
                current.leave_for_other_pool();
            }
        });
        self.as_current_again(|_| f())
    }

    /// Calls `f` as on a thread that is not a worker, outside of any task.
    pub(super) fn as_outside<R>(&self, f: impl FnOnce() -> R) -> R {
        let _aside = current_task::set_aside();
        with_current(ptr::null(), f)
    }
}

/// Whether this thread runs a task of `pool`, anywhere on its stack.
pub(super) fn is_thread_inside(pool: &Inner) -> bool {
    let inside = |context: ContextPointer| {
        // SAFETY: as in `WorkerContext::with`, this is null or a context on this stack. One that is
        // shadowed was current, and is alive: its frame is older than that of the call that shadows
        // it, which has not returned.
        let context = unsafe { context.as_ref() };
        context.is_some_and(|context| context.is_inside(pool))
    };
    // SAFETY: each is in a frame of this thread that has not returned: `ShadowedContext` unlinks
    // itself when dropped.
    let next = |at: *const ShadowedContext| unsafe { at.as_ref() };
    let mut shadowed = successors(next(SHADOWED.get()), |shadowed| next(shadowed.next));
    inside(CURRENT.get()) || shadowed.any(|shadowed| inside(shadowed.context))
}
