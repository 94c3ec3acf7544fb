//! How many predecessors a task still waits for.
//!
//! The counters are a list of their own, apart from the records: sixteen to a line, and the records, which hold the
//! closures, are only read while a graph runs. So two workers that run the same graph again and again keep the records in
//! the caches of both, and what goes from one to the other is counters (`docs/decisions/0010-graphs.md`).
//!
//! A task that waits for one other has no use for its counter: the edge says so ([`Edge::is_only`](super::edges::Edge)).

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU32, Ordering},
    thread,
};

/// The counter of a task.
#[repr(transparent)]
pub(super) struct PredecessorCount(AtomicU32);

impl PredecessorCount {
    pub(super) fn new(waits_for: u32) -> Self {
        Self(AtomicU32::new(waits_for))
    }

    /// A predecessor is done, and arrives once a run. True when it was the last one missing.
    ///
    /// The last one leaves the counter as it is: it has found that nobody else is missing, and `rearm` comes before
    /// anybody looks again.
    #[inline(always)]
    pub(super) fn arrive(&self) -> bool {
        thread::point();
        // Acquire: pairs with the release below, of those that came before; what they did is visible to whoever runs the
        // task.
        let last = self.0.load(Ordering::Acquire) == 1;
        if last && !broken(Canary::GraphArrive) && !broken(Canary::GraphLast) {
            return true;
        }
        self.arrive_often()
    }

    /// The same where predecessors may arrive more than once, in loops.
    #[inline(always)]
    pub(super) fn arrive_often(&self) -> bool {
        thread::point();
        if broken(Canary::GraphLast) {
            // AcqRel, and Acquire: as below.
            self.0.fetch_sub(1, Ordering::AcqRel);
            thread::point();
            return self.0.load(Ordering::Acquire) == 0;
        }
        let ordering = if broken(Canary::GraphArrive) {
            // Relaxed: the defect.
            Ordering::Relaxed
        } else {
            // AcqRel: what the predecessors did is visible to whoever runs the task; the release of the others to
            // the acquire of the last one.
            Ordering::AcqRel
        };
        self.0.fetch_sub(1, ordering) == 1
    }

    /// The same as `arrive` where nobody else touches the counter; see `bias`.
    #[inline(always)]
    pub(super) fn arrive_alone(&self) -> bool {
        // Relaxed, here and below: nobody else is there. `BiasedCount::end` hands the counter over to whoever comes.
        let missing = self.0.load(Ordering::Relaxed);
        if missing == 1 || broken(Canary::GraphLast) && missing == 2 {
            return true;
        }
        self.0.store(missing - 1, Ordering::Relaxed);
        false
    }

    /// The task is about to run: from now on so many are missing again.
    #[inline(always)]
    pub(super) fn rearm(&self, waits_for: u32) {
        if !broken(Canary::GraphRearm) {
            // Relaxed: nobody arrives before this task has released somebody who leads back to it, or the run is
            // over.
            self.0.store(waits_for, Ordering::Relaxed);
        }
    }
}

/// The counter as it is, for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::fmt;

    /// See the counter of a task's predecessors.
    pub struct PredecessorCount(super::PredecessorCount, u32);

    #[expect(missing_docs, reason = "a shim for tests")]
    impl PredecessorCount {
        pub fn new(waits_for: u32) -> Self {
            Self(super::PredecessorCount::new(waits_for), waits_for)
        }

        pub fn arrive(&self) -> bool {
            self.0.arrive()
        }

        pub fn arrive_often(&self) -> bool {
            self.0.arrive_often()
        }

        pub fn arrive_alone(&self) -> bool {
            self.0.arrive_alone()
        }

        pub fn rearm(&self) {
            self.0.rearm(self.1);
        }
    }

    impl fmt::Debug for PredecessorCount {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Missing")
        }
    }
}
