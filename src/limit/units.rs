//! The word of a budget: the free units, whether somebody waits, and whether it is closed.
//!
//! `budget.md` argues why one word is what the handover needs.

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicU64, Ordering},
};
use std::fmt;

/// Somebody is in the queue. Changes only under the lock of the queue.
const WAITING: u64 = 1;
/// Nothing is given out any more. Set under the lock of the queue.
const CLOSED: u64 = 2;
/// The free units stand above the two bits.
pub(super) const SHIFT: u32 = 2;

/// What a request found.
#[must_use = "what was taken must be given back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Taken,
    /// Too few are free, or somebody waits already.
    Wait,
    Closed,
}

/// One reading of [`Units`].
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

    /// Whether `n` units can be taken by somebody who has not queued.
    const fn serves(self, n: u64) -> bool {
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

/// The word. The units never exceed [`MOST_UNITS`](super::MOST_UNITS), so sums don't reach the top.
pub(super) struct Units {
    word: Padded<AtomicU64>,
}

impl Units {
    pub(super) fn new(free: u64) -> Self {
        Self {
            word: Padded::new(AtomicU64::new(free << SHIFT)),
        }
    }

    /// Takes `n` units if they are free and nobody waits.
    #[inline]
    pub(super) fn take(&self, n: u64) -> Take {
        // Relaxed: the swap decides, and nothing is concluded from a refusal.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let state = UnitsState(word);
            if n == 0 && !state.is_closed() {
                return Take::Taken;
            }
            if !state.serves(n) {
                return match state.is_closed() {
                    true => Take::Closed,
                    false => Take::Wait,
                };
            }
            // Acquire: pairs with the release in `give`, so that the next holder sees what the one
            // before it did. Every change of the word is a read-modify-write, so the chain holds.
            match self.word.compare_exchange_weak(
                word,
                word - (n << SHIFT),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Take::Taken,
                Err(now) => word = now,
            }
        }
    }

    /// Gives `n` units back. True when somebody waits: then the queue must be served.
    #[inline]
    #[must_use = "somebody may wait for them"]
    pub(super) fn give(&self, n: u64) -> bool {
        // Release: pairs with the acquire of whoever takes the units, in `take` or `take_for_first`.
        UnitsState(self.word.fetch_add(n << SHIFT, Ordering::Release)).is_waiting()
    }

    /// Under the lock: takes `n` units, or says in the same step that somebody waits.
    pub(super) fn take_or_wait(&self, n: u64) -> Take {
        if broken(Canary::BudgetHandover) && !self.state().is_closed() {
            // The defect that this step exists to rule out: look, then queue. Relaxed, as below.
            self.word.fetch_or(WAITING, Ordering::Relaxed);
            return Take::Wait;
        }
        // Relaxed: the swap decides; whoever is refused holds the lock under which the bits change.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let state = UnitsState(word);
            if state.is_closed() {
                return Take::Closed;
            }
            let (next, found) = match state.serves(n) {
                true => (word - (n << SHIFT), Take::Taken),
                false => (word | WAITING, Take::Wait),
            };
            // Acquire: as in `take`.
            match self
                .word
                .compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return found,
                Err(now) => word = now,
            }
        }
    }

    /// Under the lock: takes `n` units for the first in the queue, if they are free. If it is the `last`
    /// one too, nobody waits after that.
    pub(super) fn take_for_first(&self, n: u64, last: bool) -> bool {
        let less = (n << SHIFT) + if last { WAITING } else { 0 };
        // Acquire: as in `take`; the lock hands on to the waiter what it brings. Relaxed on failure:
        // whoever adds units after that sees that somebody waits, and comes for the lock.
        self.word
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                (UnitsState(word).free() >= n).then(|| word - less)
            })
            .is_ok()
    }

    /// Under the lock: the queue has become empty without anybody being served.
    pub(super) fn nobody_waits(&self) {
        // Relaxed: the units carry their own order, and the queue is under its lock.
        self.word.fetch_and(!WAITING, Ordering::Relaxed);
    }

    /// Under the lock: nothing is given out from now on.
    pub(super) fn close(&self) {
        // Relaxed: as in `nobody_waits`.
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> UnitsState {
        // Acquire: whoever sees all units back sees what their holders did; pairs with `give`.
        UnitsState(self.word.load(Ordering::Acquire))
    }
}
