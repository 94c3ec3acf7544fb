//! The atomic word of a semaphore: the free units, whether requests are queued, and whether it is
//! closed.
//!
//! `semaphore.md` argues why the handover needs all three in one word.

use crate::base::{
    padded::Padded,
    sync::{AtomicU64, Ordering},
};
use std::fmt;

/// The queue is not empty, or a request is about to take units or to be queued under the lock. No
/// thread takes units without the lock. Changes only under the lock of the queue.
const WAITING: u64 = 1;
/// No units are given out any more. Set under the lock of the queue.
const CLOSED: u64 = 2;
/// The free units are stored above the two bits.
pub(super) const SHIFT: u32 = 2;

/// The result of an attempt to take units without the lock.
#[must_use = "what was taken must be given back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeResult {
    Taken,
    /// Too few units are free, or other requests are queued.
    Wait,
    Closed,
}

/// A snapshot of [`Units`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitsState(u64);

impl UnitsState {
    pub(super) const fn free(self) -> u64 {
        self.0 >> SHIFT
    }

    pub(super) const fn is_waiting(self) -> bool {
        self.0 & WAITING != 0
    }

    pub(super) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether a request that is not queued can take `n` units.
    const fn can_take(self, n: u64) -> bool {
        self.0 & (WAITING | CLOSED) == 0 && self.free() >= n
    }
}

impl fmt::Debug for UnitsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units")
            .field("free", &self.free())
            .field("waiting", &self.is_waiting())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The word. The units never exceed [`Semaphore::MAX_UNITS`](super::Semaphore::MAX_UNITS), so sums
/// don't overflow.
pub(super) struct Units {
    word: Padded<AtomicU64>,
}

impl Units {
    pub(super) fn new(free: u64) -> Self {
        Self {
            word: Padded::new(AtomicU64::new(free << SHIFT)),
        }
    }

    /// Takes `n` units if they are free and no request is queued.
    #[inline]
    pub(super) fn take(&self, n: u64) -> TakeResult {
        // Relaxed: the compare-and-swap decides, and nothing is concluded from a refusal.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let state = UnitsState(word);
            if n == 0 && !state.is_closed() {
                return TakeResult::Taken;
            }
            if !state.can_take(n) {
                return match state.is_closed() {
                    true => TakeResult::Closed,
                    false => TakeResult::Wait,
                };
            }
            // Acquire: pairs with the release in `give`, so that the next holder sees the previous
            // holder's writes. Every change of the word is a read-modify-write, so the release
            // sequence is not broken.
            match self.word.compare_exchange_weak(
                word,
                word - (n << SHIFT),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return TakeResult::Taken,
                Err(now) => word = now,
            }
        }
    }

    /// Gives `n` units back. Returns whether requests are queued: then the queue must be served.
    #[inline]
    #[must_use = "a waiter may need them"]
    pub(super) fn give(&self, n: u64) -> bool {
        // Release: pairs with the acquire that takes the units, in `take`, `take_for_first` or
        // `take_while_waiting`.
        UnitsState(self.word.fetch_add(n << SHIFT, Ordering::Release)).is_waiting()
    }

    /// Sets `WAITING`, and returns the free units. Until it is cleared, no other thread takes any.
    /// Requires the lock.
    pub(super) fn set_waiting(&self) -> u64 {
        // Relaxed: the units carry their own order. A thread that adds units later sees `WAITING`
        // and takes the lock to serve.
        UnitsState(self.word.fetch_or(WAITING, Ordering::Relaxed)).free()
    }

    /// Takes `n` units that are free while `WAITING` is set. Requires the lock.
    pub(super) fn take_while_waiting(&self, n: u64) {
        // Acquire: as in `take`.
        self.word.fetch_sub(n << SHIFT, Ordering::Acquire);
    }

    /// Takes `n` units for the head of the queue, if they are free and the semaphore is open. If it
    /// is the `last` request as well, clears `WAITING` in the same step. Requires the lock.
    pub(super) fn take_for_first(&self, n: u64, last: bool) -> bool {
        let less = (n << SHIFT) + if last { WAITING } else { 0 };
        // Acquire: as in `take`; the lock makes it visible to the waiter. Relaxed on failure: a
        // thread that adds units later sees `WAITING` and takes the lock to serve.
        self.word
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                let state = UnitsState(word);
                (state.free() >= n && !state.is_closed()).then(|| word - less)
            })
            .is_ok()
    }

    /// Clears `WAITING`, when the queue is empty. Requires the lock.
    pub(super) fn clear_waiting(&self) {
        // Relaxed: the units carry their own order, and the queue is protected by its lock.
        self.word.fetch_and(!WAITING, Ordering::Relaxed);
    }

    /// Sets `CLOSED`. Requires the lock.
    pub(super) fn close(&self) {
        // Relaxed: as in `clear_waiting`.
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> UnitsState {
        // Acquire: pairs with `give`, so that a reader that sees all units back sees their holders'
        // writes.
        UnitsState(self.word.load(Ordering::Acquire))
    }
}
