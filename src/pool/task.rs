//! Which submitted task this thread is in: a pointer that only its face can read; and how deep.

use std::{
    cell::Cell,
    ptr,
    sync::{Mutex, PoisonError},
};

thread_local! {
    /// The number of this thread, or zero if it has none yet.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static CURRENT: Cell<Place> = const { Cell::new(Place { task: ptr::null(), depth: 0 }) };
}

#[derive(Clone, Copy)]
struct Place {
    /// Null, the task, or with [`POLL`] in its address the future that is being polled.
    task: *const (),
    /// How many tasks this thread is in, one in the middle of the other.
    depth: usize,
}

/// Marks the address of a future. Both kinds of cells are aligned to words.
const POLL: usize = 1;

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

/// This thread polls `future`, and is in no task, until the value is dropped.
#[inline(always)]
pub(crate) fn enter_poll(future: *const ()) -> Restore {
    enter(future.map_addr(|address| address | POLL))
}

/// The task that this thread is in, or null.
#[inline(always)]
pub(crate) fn current() -> *const () {
    let task = CURRENT.get().task;
    match task.addr() & POLL {
        0 => task,
        _ => ptr::null(),
    }
}

/// The address of the future that this thread polls, if nothing else runs in the middle of that.
pub(crate) fn polled() -> Option<usize> {
    let address = CURRENT.get().task.addr();
    (address & POLL != 0).then_some(address & !POLL)
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

/// A position in the call stack of a thread, as a number of 63 bits: the number of the thread, and how many tasks the
/// thread is in there, one in the middle of the other. Thread numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StackPosition(u64);

/// Enough for a stack of a gigabyte. It leaves 39 bits for the number of the thread: a program that does nothing but
/// start threads needs months to use them up.
pub(super) const DEPTH_BITS: u32 = 24;
const DEPTH: u64 = (1 << DEPTH_BITS) - 1;

impl StackPosition {
    /// Where this thread is now.
    #[inline]
    pub(crate) fn current() -> Self {
        Self::at(depth())
    }

    /// The position of a task that begins here and now: above every wait that is in progress on this thread.
    #[inline]
    pub(crate) fn of_next_task() -> Self {
        Self::at(depth() + 1)
    }

    #[inline]
    fn at(depth: usize) -> Self {
        // The deepest number stands for all that are deeper.
        Self(this_thread() << DEPTH_BITS | (depth as u64).min(DEPTH))
    }

    /// The position that has this number.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Whether both are on one thread.
    #[inline]
    pub(crate) const fn is_on_thread_of(self, other: Self) -> bool {
        self.0 >> DEPTH_BITS == other.0 >> DEPTH_BITS
    }

    /// The lowest position of the thread.
    pub(crate) const fn bottom(self) -> Self {
        Self(self.0 & !DEPTH)
    }

    /// The topmost position of the thread; itself if it is too deep to be compared with others.
    pub(crate) const fn topmost(self) -> Self {
        Self(self.0 | DEPTH)
    }
}

/// The number of this thread.
#[inline]
fn this_thread() -> u64 {
    match NUMBER.get() {
        0 => number_this_thread(),
        number => number,
    }
}

#[cold]
fn number_this_thread() -> u64 {
    static LAST: Mutex<u64> = Mutex::new(0);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last += 1;
    NUMBER.set(*last);
    *last
}
