//! A biased counter protocol: no locked instructions as long as one worker alone runs the graph.
//!
//! The worker that waits for a run, its *owner*, often runs small graphs from the first task to the
//! last before another worker arrives. Then no other worker touches the counters of the tasks, and
//! decrementing one is a load and a store. The run is *biased* towards its owner. The owner only
//! has to announce when it is counting (`begin`, `end`): two plain stores to a cache line of its
//! own, no matter how many counters it changes.
//!
//! Another worker that gets its first job of the run has to *join* before it touches a counter. It
//! announces that, passes the process-wide barrier, and waits until the owner is not counting.
//! Either the owner's next load comes after the barrier, and the owner finds that it is not alone;
//! or the load came before, and then the joining worker sees that the owner is counting, and waits
//! until `end`. From then on all workers count with atomic operations; the bias never returns
//! within a run. So the joining worker bears the cost, once a run: a microsecond for the barrier.

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicU8, Ordering, hint},
    sys::barrier,
    thread,
};

const ALONE: u8 = 0;
const JOINING: u8 = 1;
const SHARED: u8 = 2;

/// Whether the owner alone touches the counters of a run.
pub(super) struct BiasedCount {
    others: Padded<AtomicU8>,
    /// Whether the owner is between `begin` and `end`.
    counting: Padded<AtomicBool>,
}

impl BiasedCount {
    /// `owned`: the run has an owner, which begins alone.
    pub(super) fn new(owned: bool) -> Self {
        Self {
            others: Padded::new(AtomicU8::new(if owned { ALONE } else { SHARED })),
            counting: Padded::new(AtomicBool::new(false)),
        }
    }

    /// Announces that the owner is about to count. Returns true if it is alone: then it may count
    /// without atomic read-modify-write operations, and calls `end` afterwards. No user code may
    /// run between the two.
    #[inline(always)]
    pub(super) fn begin(&self) -> bool {
        // Relaxed: checked again below.
        if self.others.load(Ordering::Relaxed) != ALONE {
            return false;
        }
        // Relaxed: the barrier orders it before the load.
        self.counting.store(true, Ordering::Relaxed);
        // Pairs with the heavy barrier in `join`.
        barrier::light();
        // Relaxed: the barrier orders it after the store. The other workers' counts need no
        // ordering from this load: they are atomic operations with orderings of their own.
        if self.others.load(Ordering::Relaxed) == ALONE || broken(Canary::GraphBias) {
            return true;
        }
        self.end();
        false
    }

    /// Announces that the owner has counted.
    #[inline(always)]
    pub(super) fn end(&self) {
        // Release: pairs with the acquire in `join_first`; a worker that joins sees the counts.
        self.counting.store(false, Ordering::Release);
    }

    /// Called by another worker before it counts. Afterwards it may count, with atomic operations.
    #[inline(always)]
    pub(super) fn join(&self) {
        // Acquire: pairs with the release in `join_first`.
        if self.others.load(Ordering::Acquire) != SHARED {
            self.join_first();
        }
    }

    #[cold]
    fn join_first(&self) {
        // Relaxed: the barrier orders it before the load.
        self.others.store(JOINING, Ordering::Relaxed);
        // Pairs with the light barrier in `begin`.
        barrier::heavy();
        // Acquire: pairs with the release in `end`.
        while self.counting.load(Ordering::Acquire) {
            hint::spin_loop();
            thread::yield_now();
        }
        // Release: pairs with the acquire in `join`; a worker that reads `SHARED` sees what this
        // one has seen.
        self.others.store(SHARED, Ordering::Release);
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
