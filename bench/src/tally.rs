//! Counts of executed tasks, for systems without state per worker.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

thread_local! {
    static RAN: Cell<u64> = const { Cell::new(0) };
}

/// Counts one task on the worker that runs it.
#[inline(always)]
pub(crate) fn one() {
    RAN.set(RAN.get() + 1);
}

/// Adds the count of the calling worker to `sum` and resets it.
pub(crate) fn collect(sum: &AtomicU64) {
    // Relaxed: the thread that reads the sum has synchronised with the worker by other means.
    sum.fetch_add(RAN.take(), Ordering::Relaxed);
}

/// Checks that every task ran exactly once.
///
/// # Panics
/// If a task did not run, or ran more than once.
pub(crate) fn check(system: &str, ran: u64, spawned: u64) {
    assert_eq!(ran, spawned, "{system} did not run every task once");
}
