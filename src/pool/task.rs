//! Which submitted task this thread is in: a pointer that only its face can read; and how deep.

use std::{cell::Cell, ptr};

thread_local! {
    static CURRENT: Cell<Place> = const { Cell::new(Place { task: ptr::null(), depth: 0 }) };
}

#[derive(Clone, Copy)]
struct Place {
    task: *const (),
    /// How many tasks this thread is in, one in the middle of the other.
    depth: usize,
}

/// Puts back what was current before.
#[must_use]
pub(crate) struct Restore(Place);

/// This thread is in `task` until the value is dropped.
#[inline(always)]
pub(crate) fn enter(task: *const ()) -> Restore {
    let before = CURRENT.get();
    let depth = before.depth + 1;
    CURRENT.set(Place { task, depth });
    Restore(before)
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
    CURRENT.get().task
}

/// How many tasks this thread is in, one in the middle of the other: what belongs to one of them can tell by this
/// whether that is the one which runs now.
#[inline(always)]
pub(crate) fn depth() -> usize {
    CURRENT.get().depth
}

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
