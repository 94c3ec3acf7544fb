//! A biased counter protocol: no locked instructions as long as one worker alone runs the graph.
//!
//! The worker that waits for a run, its *owner*, often runs small graphs from the first task to the
//! last before another worker arrives. Then no other worker touches the counters of the tasks, and
//! decrementing one is a load and a store. The counters are *biased* towards the owner, as a biased
//! lock is. The owner only has to announce when it is counting (`begin`, `end`): two plain stores
//! to a cache line of its own, no matter how many counters it changes.
//!
//! Another worker that gets its first job of the run has to *revoke* the bias before it touches a
//! counter. It announces that, passes the process-wide barrier, and waits until the owner is not
//! counting. Either the owner's next load comes after the barrier, and the owner finds that the
//! bias is being revoked; or the load came before, and then the other worker sees that the owner is
//! counting, and waits until `end`. From then on all workers count with atomic operations; the bias
//! never returns within a run. So the worker that revokes bears the cost, once a run: a microsecond
//! for the barrier.

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicU8, Ordering, hint},
    sys::barrier,
    thread,
};

/// Only the owner counts.
const BIASED: u8 = 0;
/// A worker waits until the owner is not counting.
const REVOKING: u8 = 1;
/// All workers count with atomic operations.
const SHARED: u8 = 2;

/// Whether the owner alone touches the counters of a run.
pub(super) struct CounterBias {
    state: Padded<AtomicU8>,
    /// Whether the owner is between `begin` and `end`.
    counting: Padded<AtomicBool>,
}

impl CounterBias {
    /// `owned`: the run has an owner, towards which the counters are biased.
    pub(super) fn new(owned: bool) -> Self {
        Self {
            state: Padded::new(AtomicU8::new(if owned { BIASED } else { SHARED })),
            counting: Padded::new(AtomicBool::new(false)),
        }
    }

    /// Announces that the owner is about to count. Returns true if the counters are biased: then it
    /// may count without atomic read-modify-write operations, and calls `end` afterwards. No user
    /// code may run between the two.
    #[inline(always)]
    pub(super) fn begin(&self) -> bool {
        // Relaxed: checked again below.
        if self.state.load(Ordering::Relaxed) != BIASED {
            return false;
        }
        // Relaxed: the barrier orders it before the load.
        self.counting.store(true, Ordering::Relaxed);
        // Pairs with the heavy barrier in `revoke_slow`.
        barrier::light();
        // Relaxed: the barrier orders it after the store. The other workers' counts need no
        // ordering from this load: they are atomic operations with orderings of their own.
        if self.state.load(Ordering::Relaxed) == BIASED || broken(Canary::GraphBias) {
            return true;
        }
        self.end();
        false
    }

    /// Announces that the owner has counted.
    #[inline(always)]
    pub(super) fn end(&self) {
        // Release: pairs with the acquire in `revoke_slow`; a worker that revokes the bias sees the
        // counts.
        self.counting.store(false, Ordering::Release);
    }

    /// Called by another worker before it counts. Afterwards it may count, with atomic operations.
    #[inline(always)]
    pub(super) fn revoke(&self) {
        // Acquire: pairs with the release in `revoke_slow`.
        if self.state.load(Ordering::Acquire) != SHARED {
            self.revoke_slow();
        }
    }

    #[cold]
    fn revoke_slow(&self) {
        // Relaxed: the barrier orders it before the load.
        self.state.store(REVOKING, Ordering::Relaxed);
        // Pairs with the light barrier in `begin`.
        barrier::heavy();
        // Acquire: pairs with the release in `end`.
        while self.counting.load(Ordering::Acquire) {
            hint::spin_loop();
            thread::yield_now();
        }
        // Release: pairs with the acquire in `revoke`; a worker that reads `SHARED` sees what this
        // one has seen.
        self.state.store(SHARED, Ordering::Release);
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
