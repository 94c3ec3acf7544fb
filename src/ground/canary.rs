//! Deliberate defects, so that every checker can be seen to fail.
//!
//! In normal builds `broken` is a constant `false` and disappears. With `--cfg filch_loom` or
//! `--cfg filch_canary` a test may switch one defect on and must then see the checker report it.

/// One deliberate defect in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Canary {
    /// `Owner::pop` without its fence.
    PopFence = 1,
    /// A thief checks its claim against `bottom` without a fence.
    ClaimFence = 2,
    /// The owner takes a claimed task without sealing the claim.
    Seal = 3,
    /// Grow the ring without publishing the new one.
    GrowPublish = 4,
    /// Close the gate with a check and a separate write.
    GateSplit = 5,
    /// A worker rests without flushing its private count.
    GateFlush = 6,
    /// The last searcher falls asleep without looking once more.
    LastLook = 7,
    /// A push does not look at the sleep word.
    PushWake = 8,
    /// No barrier between announcing sleep and the last look.
    SleepFence = 9,
    /// A searcher that found work does not pass the search on.
    PassOn = 10,
    /// The latch is set without waking its waiter.
    LatchWake = 11,
    /// A batch steal forgets one of the tasks it took.
    LoseTask = 12,
    /// A worker that leaves drops its queue's tasks on the floor.
    LeaveDrop = 13,
    /// A thief that knocks does not wait for the barrier.
    KnockBarrier = 14,
    /// The owner stops guarding without making the thieves' word a new one.
    CalmTag = 15,
    /// The latch of a stolen job is set without waking the worker that waits for it.
    PoolLatchWake = 16,
    /// The last task of a scope does not wake the worker that waits for the scope.
    ScopeWake = 17,
}

#[cfg(any(filch_loom, filch_canary))]
mod switch {
    use super::Canary;
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    #[doc(hidden)]
    pub fn set(canary: Option<Canary>) {
        // SeqCst: for tests; as strong as can be.
        ACTIVE.store(canary.map_or(0, |c| c as u8), Ordering::SeqCst);
    }

    pub(crate) fn broken(canary: Canary) -> bool {
        // Relaxed: set before the threads of a test start.
        ACTIVE.load(Ordering::Relaxed) == canary as u8
    }
}

#[cfg(any(filch_loom, filch_canary))]
pub use switch::*;

#[cfg(not(any(filch_loom, filch_canary)))]
#[inline(always)]
pub(crate) const fn broken(_canary: Canary) -> bool {
    false
}
