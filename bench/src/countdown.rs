//! Waiting for a set of tasks whose handles are not joined.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, Thread},
};

/// Counts completed tasks and wakes the waiting thread after the last one.
pub(crate) struct Countdown {
    left: AtomicU64,
    waiter: Thread,
}

impl Countdown {
    /// Creates a countdown of `tasks` tasks, for which the calling thread will wait.
    pub(crate) fn new(tasks: u64) -> &'static Self {
        // Detached tasks cannot borrow, so a few bytes per sample are leaked.
        Box::leak(Box::new(Self {
            left: AtomicU64::new(tasks),
            waiter: thread::current(),
        }))
    }

    /// Sleeps until all tasks have called [`one`](Self::one).
    pub(crate) fn wait(&self) {
        // Acquire: pairs with the decrements in `one`, so what the tasks did is visible here.
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }

    /// Counts one completed task.
    #[inline(always)]
    pub(crate) fn one(&self) {
        // AcqRel: pairs with the load in `wait`, through the decrements of the tasks in between.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }
}
