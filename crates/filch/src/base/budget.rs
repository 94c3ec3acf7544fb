//! The budget of a poll: how many leaf futures may be ready in it.
//!
//! A future whose leaf futures are always ready never returns `Pending` by itself. Its worker would
//! poll no other future, and a timeout around it would never see its clock. So every poll begins
//! with a budget, each leaf future of this library that is ready takes one unit, and once the
//! budget is used up they wake their task and are pending instead. The task is queued again, behind
//! the others, and its next poll has a new budget.
//!
//! The budget belongs to the poll and not to the future, so it is one word of the thread. A thread
//! that is not in a poll of ours, such as a worker of another executor, has no limit; nor has a job
//! that runs nested in a poll. (A future that blocks its thread with another executor inside of its
//! own poll shares the budget of that poll.)

use std::task::{Context, Poll};

/// How many leaf futures may be ready in one poll. The number is tokio's: enough that a yield,
/// which costs some hundred nanoseconds, does not count.
#[cfg(not(filch_loom))]
const READY_PER_POLL: u32 = 128;

/// The budget of a thread that is not in a poll.
#[cfg(not(filch_loom))]
const UNLIMITED: u32 = u32::MAX;

#[cfg(not(filch_loom))]
thread_local! {
    /// What is left of the budget of the innermost poll of this thread.
    static LEFT: std::cell::Cell<u32> = const { std::cell::Cell::new(UNLIMITED) };
}

/// Restores the budget from before when it is dropped.
#[must_use]
pub(crate) struct RestoreBudget(#[cfg(not(filch_loom))] u32);

#[cfg(not(filch_loom))]
impl Drop for RestoreBudget {
    #[inline(always)]
    fn drop(&mut self) {
        LEFT.set(self.0);
    }
}

/// Sets no limit until the value is dropped: the thread runs something that is not part of the poll
/// that it is in, and that may poll by itself.
#[cfg(not(filch_loom))]
#[inline(always)]
pub(crate) fn suspend() -> RestoreBudget {
    RestoreBudget(LEFT.replace(UNLIMITED))
}

/// Calls `poll` with a new budget. Afterwards the budget is the one before: the poll may be nested
/// in another.
#[cfg(not(filch_loom))]
#[inline(always)]
pub(crate) fn with_new<R>(poll: impl FnOnce() -> R) -> R {
    let _restore = RestoreBudget(LEFT.replace(READY_PER_POLL));
    poll()
}

/// Polls a leaf future if there is budget left, and takes one unit of it if the future is ready.
/// Otherwise wakes the task, which has a new budget in its next poll.
#[inline]
pub(crate) fn poll_leaf<T>(
    cx: &mut Context<'_>,
    leaf: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if !is_left() {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    let polled = leaf(cx);
    if polled.is_ready() {
        take_unit();
    }
    polled
}

/// Whether the poll that this thread is in has budget left.
#[cfg(not(filch_loom))]
#[inline]
pub(crate) fn is_left() -> bool {
    LEFT.get() != 0
}

#[cfg(not(filch_loom))]
#[inline]
fn take_unit() {
    let left = LEFT.get();
    if left != UNLIMITED {
        LEFT.set(left.saturating_sub(1));
    }
}

// The threads of a model share the thread-locals of one system thread, and no model polls as often.

#[cfg(filch_loom)]
pub(crate) fn suspend() -> RestoreBudget {
    RestoreBudget()
}

#[cfg(filch_loom)]
pub(crate) fn with_new<R>(poll: impl FnOnce() -> R) -> R {
    poll()
}

#[cfg(filch_loom)]
pub(crate) fn is_left() -> bool {
    true
}

#[cfg(filch_loom)]
fn take_unit() {}
