//! A latch: threads wait until a number of events has happened.

use super::canary::{Canary, broken};
use super::{
    sync::{AtomicUsize, Condvar, Mutex, Ordering},
    thread,
};
use std::{fmt, sync::PoisonError};

/// Opens when it has been counted down to zero, and stays open.
///
/// Counting down is one atomic subtraction. Only the last one takes the lock, and only to ensure
/// that a waiter which has just checked the counter is already asleep when it is notified.
pub(crate) struct CountdownLatch {
    remaining: AtomicUsize,
    lock: Mutex<()>,
    opened: Condvar,
}

impl CountdownLatch {
    /// Returns a latch that opens after `events` calls of [`count_down`](Self::count_down).
    #[must_use]
    pub(crate) fn new(events: usize) -> Self {
        Self {
            remaining: AtomicUsize::new(events),
            lock: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Makes the latch wait for one more event. The caller has an event to count down itself, so
    /// the latch is not open.
    pub(crate) fn add(&self) {
        // Relaxed: the caller's own event, which is counted down later, publishes what it does.
        self.remaining.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one event.
    ///
    /// # Panics
    /// When more events are counted than the latch was made for.
    pub(crate) fn count_down(&self) {
        // Release: what this thread did before is visible to threads that see the latch open.
        // Acquire on the last one: it passes on what the others did before theirs.
        let before = self.remaining.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a latch was counted down below zero");
        if before == 1 && !broken(Canary::LatchWake) {
            // A waiter checks the counter under this lock. Taking it means that the waiter has
            // either not checked yet (and will see zero) or waits already (and gets the
            // notification).
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.opened.notify_all();
        }
    }

    /// Whether all events have happened.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: pairs with the release in `count_down`.
        self.remaining.load(Ordering::Acquire) == 0
    }

    /// Blocks until all events have happened.
    pub(crate) fn wait(&self) {
        if thread::wait_until(None, || self.is_open()) {
            return;
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_open() {
            guard = self
                .opened
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for CountdownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountdownLatch")
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
