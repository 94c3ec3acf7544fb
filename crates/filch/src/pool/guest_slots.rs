//! The slots that threads from outside take to become workers of a pool for a while.

use crate::base::sync::{AtomicU64, Ordering};

/// Number of guest slots: threads from outside that may work in the pool at the same time.
pub(super) const GUESTS: usize = 32;

/// Which of the guest slots are free: one bit each.
#[derive(Debug)]
pub(super) struct GuestSlots {
    free: AtomicU64,
}

impl GuestSlots {
    pub(super) fn new() -> Self {
        Self {
            free: AtomicU64::new((1 << GUESTS) - 1),
        }
    }

    pub(super) fn take(&self) -> Option<usize> {
        // Acquire: pairs with the release in `give_back`; the slot is as its last guest left it.
        // Relaxed on failure: retried.
        let before = self
            .free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| {
                (free != 0).then_some(free & free.wrapping_sub(1))
            });
        before.ok().map(|free| free.trailing_zeros() as usize)
    }

    pub(super) fn give_back(&self, slot: usize) {
        // Release: pairs with the acquire in `take`.
        self.free.fetch_or(1 << slot, Ordering::Release);
    }
}
