//! How many predecessors a task still waits for.
//!
//! The counters are a list of their own, apart from the records: sixteen to a cache line. The
//! records, which hold the closures, are only read while a graph runs. So two workers that run the
//! same graph repeatedly keep the records in the caches of both, and only the counters move between
//! them (`docs/decisions/0010-graphs.md`).
//!
//! A task with one predecessor does not use its counter: the edge says so
//! ([`Edge::is_only`](super::edges::Edge)).

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU32, Ordering},
    thread,
};

/// The number of predecessors of a task that are not done in the current run.
#[repr(transparent)]
pub(super) struct JoinCounter(AtomicU32);

impl JoinCounter {
    pub(super) fn new(strong_predecessors: u32) -> Self {
        Self(AtomicU32::new(strong_predecessors))
    }

    /// Records that a predecessor is done, which happens once a run for each. Returns true for the
    /// last one.
    ///
    /// The last predecessor leaves the counter at 1: it has found that all others are done, and
    /// `rearm` is called before the counter is read again.
    #[inline(always)]
    pub(super) fn arrive(&self) -> bool {
        thread::point();
        // Acquire: pairs with the release below, of the earlier predecessors; what they did is
        // visible to the worker that runs the task.
        let last = self.0.load(Ordering::Acquire) == 1;
        if last && !broken(Canary::GraphArrive) && !broken(Canary::GraphLast) {
            return true;
        }
        self.arrive_in_loop()
    }

    /// Like `arrive` where predecessors may arrive more than once, in loops.
    #[inline(always)]
    pub(super) fn arrive_in_loop(&self) -> bool {
        thread::point();
        if broken(Canary::GraphLast) {
            // AcqRel, and Acquire: the same pairing as of the `fetch_sub` below.
            self.0.fetch_sub(1, Ordering::AcqRel);
            thread::point();
            return self.0.load(Ordering::Acquire) == 0;
        }
        let ordering = if broken(Canary::GraphArrive) {
            // Relaxed: the deliberate defect.
            Ordering::Relaxed
        } else {
            // AcqRel: what the predecessors did is visible to the worker that runs the task; the
            // release of the earlier ones pairs with the acquire of the last one.
            Ordering::AcqRel
        };
        self.0.fetch_sub(1, ordering) == 1
    }

    /// Like `arrive` where no other worker touches the counter; see `CounterBias`.
    #[inline(always)]
    pub(super) fn arrive_biased(&self) -> bool {
        // Relaxed, here and below: no other worker uses the counter. `CounterBias::end` publishes
        // it to a worker that joins.
        let remaining = self.0.load(Ordering::Relaxed);
        if remaining == 1 || broken(Canary::GraphLast) && remaining == 2 {
            return true;
        }
        self.0.store(remaining - 1, Ordering::Relaxed);
        false
    }

    /// Resets the counter when the task is about to run: from now on `strong_predecessors`
    /// predecessors have to arrive again.
    #[inline(always)]
    pub(super) fn rearm(&self, strong_predecessors: u32) {
        if !broken(Canary::GraphRearm) {
            // Relaxed: no predecessor arrives before this task has released a task that leads back
            // to it, or the run is over.
            self.0.store(strong_predecessors, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
