//! Counters without locked instructions, as long as a run is one worker's alone.
//!
//! The worker that waits for a run, its *owner*, most often runs small graphs from the first task to the last; no
//! other comes in time. Then nobody else touches the counters of the tasks, and taking one off is a load and a
//! store. All the owner has to do is to say when it is in the middle of that (`begin`, `end`): two plain stores to a
//! line of its own, whatever the number of counters.
//!
//! Another worker that gets a first job of the run has to *join* before it touches a counter. It says so, passes the
//! process-wide barrier, and waits until the owner is not in the middle of something. Either the owner's next look
//! comes after the barrier, and finds that it is not alone; or it came before, and then the other one sees that the
//! owner is counting, and waits for the end. From then on everybody counts with atomic operations; a run never goes
//! back. So whoever comes late pays, once for a run: a microsecond for the barrier.

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

/// Who touches the counters of a run.
pub(super) struct BiasedCount {
    others: Padded<AtomicU8>,
    /// The owner is between `begin` and `end`.
    counting: Padded<AtomicBool>,
}

impl BiasedCount {
    /// `owned`: there is an owner, who begins alone.
    pub(super) fn new(owned: bool) -> Self {
        Self {
            others: Padded::new(AtomicU8::new(if owned { ALONE } else { SHARED })),
            counting: Padded::new(AtomicBool::new(false)),
        }
    }

    /// The owner is about to count. True when it is alone: it may count as it likes, and says `end` then. Between the
    /// two must be no code of the user's.
    #[inline(always)]
    pub(super) fn begin(&self) -> bool {
        // Relaxed: looked at once more below.
        if self.others.load(Ordering::Relaxed) != ALONE {
            return false;
        }
        // Relaxed: the barrier orders it before the load.
        self.counting.store(true, Ordering::Relaxed);
        // Pairs with the heavy barrier in `join`.
        barrier::light();
        // Relaxed: as above. Nothing is concluded from the others' counts: those are atomic.
        if self.others.load(Ordering::Relaxed) == ALONE || broken(Canary::GraphBias) {
            return true;
        }
        self.end();
        false
    }

    /// The owner has counted.
    #[inline(always)]
    pub(super) fn end(&self) {
        // Release: pairs with the acquire in `join_first`; whoever joins sees the counts.
        self.counting.store(false, Ordering::Release);
    }

    /// Another worker is about to count. From now on it may, with atomic operations.
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
        // Release: who finds it shared has seen what we have.
        self.others.store(SHARED, Ordering::Release);
    }
}

/// The protocol as it is, for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::fmt;

    /// See the protocol of counters.
    pub struct BiasedCount(super::BiasedCount);

    #[expect(missing_docs, reason = "a shim for tests")]
    impl BiasedCount {
        #[expect(clippy::new_without_default, reason = "a shim for tests")]
        pub fn new() -> Self {
            Self(super::BiasedCount::new(true))
        }

        pub fn begin(&self) -> bool {
            self.0.begin()
        }

        pub fn end(&self) {
            self.0.end();
        }

        pub fn join(&self) {
            self.0.join();
        }
    }

    impl fmt::Debug for BiasedCount {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Bias")
        }
    }
}
