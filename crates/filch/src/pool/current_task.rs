//! The submitted task that this thread runs, as an opaque pointer, and the nesting depth.

use crate::base::budget::{self, RestoreBudget};
use std::{
    cell::Cell,
    ptr,
    sync::{Mutex, PoisonError},
};

thread_local! {
    /// The number of this thread, or zero if it has none yet.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static CURRENT: Cell<CurrentTask> = const { Cell::new(CurrentTask { task: ptr::null(), depth: 0 }) };
}

#[derive(Clone, Copy)]
struct CurrentTask {
    /// Null, the task, or with [`POLL`] in its address the future that is being polled.
    task: *const (),
    /// The number of tasks that this thread runs, nested in one another.
    depth: usize,
}

/// Marks the address of a future. Both kinds of cells are aligned to words.
const POLL: usize = 1;

/// Restores what was current before.
#[must_use]
pub(crate) struct RestoreTask(CurrentTask);

/// Makes `task` the current one of this thread until the value is dropped.
#[inline(always)]
pub(crate) fn enter(task: *const ()) -> RestoreTask {
    let before = CURRENT.get();
    let depth = before.depth + 1;
    CURRENT.set(CurrentTask { task, depth });
    RestoreTask(before)
}

/// Leaves the current task until the value is dropped: the thread runs something that is not part
/// of it.
#[inline(always)]
pub(crate) fn set_aside() -> (RestoreTask, RestoreBudget) {
    (enter(ptr::null()), budget::suspend())
}

/// Records that this thread polls `future`, and runs no task, until the value is dropped.
#[inline(always)]
pub(crate) fn enter_poll(future: *const ()) -> RestoreTask {
    enter(future.map_addr(|address| address | POLL))
}

/// The task that this thread runs, or null.
#[inline(always)]
pub(crate) fn current() -> *const () {
    let task = CURRENT.get().task;
    match task.addr() & POLL {
        0 => task,
        _ => ptr::null(),
    }
}

/// The address of the future that this thread polls, if no other task runs nested in that poll.
pub(crate) fn polled() -> Option<usize> {
    let address = CURRENT.get().task.addr();
    (address & POLL != 0).then_some(address & !POLL)
}

/// The number of tasks that this thread runs, nested in one another: the state of a task can
/// determine by this whether that task is the innermost one.
#[inline(always)]
pub(crate) fn depth() -> usize {
    CURRENT.get().depth
}

impl Drop for RestoreTask {
    #[inline(always)]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// A position in the call stack of a thread, as a number of 63 bits: the number of the thread, and
/// the number of tasks that run there, nested in one another. Thread numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StackPosition(u64);

/// Enough for a stack of a gigabyte. It leaves 39 bits for the number of the thread: a program that
/// does nothing but start threads needs months to exhaust them.
pub(super) const DEPTH_BITS: u32 = 24;
const DEPTH: u64 = (1 << DEPTH_BITS) - 1;

impl StackPosition {
    /// The present position of this thread.
    #[inline]
    pub(crate) fn current() -> Self {
        Self::at(depth())
    }

    /// The position of a task that begins now: above every wait that is in progress on this thread.
    #[inline]
    pub(crate) fn of_next_task() -> Self {
        Self::at(depth() + 1)
    }

    #[inline]
    fn at(depth: usize) -> Self {
        // The largest number stands for all greater depths.
        Self(this_thread() << DEPTH_BITS | (depth as u64).min(DEPTH))
    }

    /// The position with this numeric value.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Whether both are on the same thread.
    #[inline]
    pub(crate) const fn is_on_thread_of(self, other: Self) -> bool {
        self.0 >> DEPTH_BITS == other.0 >> DEPTH_BITS
    }

    /// The lowest position of the thread.
    pub(crate) const fn bottom(self) -> Self {
        Self(self.0 & !DEPTH)
    }

    /// The topmost position of the thread; equal to itself if it is too deep to be compared with
    /// others.
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
