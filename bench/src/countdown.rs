//! Waiting for tasks that nobody waits for one by one.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, Thread},
};

/// Counts tasks down, and wakes whoever waits for the last one.
pub(crate) struct Countdown {
    left: AtomicU64,
    waiter: Thread,
}

impl Countdown {
    /// For so many tasks, to be waited for by the calling thread.
    pub(crate) fn new(tasks: u64) -> &'static Self {
        // Tasks that nobody waits for cannot borrow: let a few bytes a sample go.
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

    /// A task.
    #[inline(always)]
    pub(crate) fn one(&self) {
        // AcqRel: pairs with the load in `wait`, by way of all tasks between.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }
}
