//! How many tasks have run, for systems whose workers have no memory of their own to hand out.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

thread_local! {
    static RAN: Cell<u64> = const { Cell::new(0) };
}

/// Counts one task, on the worker that runs it.
#[inline(always)]
pub(crate) fn one() {
    RAN.set(RAN.get() + 1);
}

/// Adds what the calling worker has counted to `sum`, and starts over.
pub(crate) fn collect(sum: &AtomicU64) {
    // Relaxed: whoever reads the sum has waited for the worker by other means.
    sum.fetch_add(RAN.take(), Ordering::Relaxed);
}

/// # Panics
/// When not every task has run exactly once.
pub(crate) fn check(system: &str, ran: u64, spawned: u64) {
    assert_eq!(ran, spawned, "{system} did not run every task once");
}
