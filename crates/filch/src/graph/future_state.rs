//! The state of a future: one word, so that there is one poll at a time and no wake is missed.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU8, Ordering},
    thread,
};

/// The future waits for a wake.
const ASLEEP: u8 = 0;
/// A poll is queued.
const QUEUED: u8 = 1;
/// The future is being polled.
const POLLED: u8 = 2;
/// The future is being polled, and was woken meanwhile.
const WOKEN: u8 = 3;
/// The future is done or dropped.
const DONE: u8 = 4;

/// The state of a future.
pub(super) struct FutureState(AtomicU8);

impl FutureState {
    /// Creates the state of a future that is being polled.
    pub(super) fn polled() -> Self {
        Self(AtomicU8::new(POLLED))
    }

    /// Begins a poll that was queued. What was done before the wakes so far is visible to it; wakes
    /// from now on are recorded.
    pub(super) fn begin(&self) {
        // Acquire: pairs with the release in `fall_asleep` and `wake`; what the last poll did is
        // visible to this one. Relaxed on failure: it cannot fail; while a poll is queued no other
        // thread changes the state.
        let began = self
            .0
            .compare_exchange(QUEUED, POLLED, Ordering::Acquire, Ordering::Relaxed);
        debug_assert!(began.is_ok(), "only a queued poll begins");
    }

    /// Ends a poll of a future that is not ready. Returns false if it was woken meanwhile: then the
    /// caller queues the next poll.
    #[must_use]
    pub(super) fn fall_asleep(&self) -> bool {
        thread::point();
        // AcqRel: the release is for the acquire in `begin`, the acquire for the thread that queues
        // the next poll. Acquire on failure: it was woken.
        let slept = self
            .0
            .compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_err() {
            // AcqRel: the release is for the acquire in `begin`. The acquire is for the wakes that
            // found the state woken already, and rely on the next poll to see what they did.
            self.0.swap(QUEUED, Ordering::AcqRel);
        }
        slept.is_ok()
    }

    /// Wakes the future. Returns true if the caller has to queue a poll.
    #[must_use]
    pub(super) fn wake(&self) -> bool {
        thread::point();
        // Relaxed: the compare-and-swap decides.
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            let next = match state {
                ASLEEP => QUEUED,
                POLLED if broken(Canary::GraphWake) => return false,
                POLLED => WOKEN,
                QUEUED | WOKEN if broken(Canary::GraphWakeAgain) => return false,
                // Written although it does not change: a poll that begins after this must see what
                // was done before the wake.
                QUEUED | WOKEN => state,
                _ => return false,
            };
            // AcqRel: what was done before the wake is visible to the poll, by the acquire in
            // `begin` or `fall_asleep`; and what the last poll did is visible to the thread that
            // queues. Relaxed on failure: tried again.
            match self
                .0
                .compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return before == ASLEEP,
                Err(other) => state = other,
            }
        }
    }

    /// Ends the future; wakes have no effect any more.
    pub(super) fn end(&self) {
        // Relaxed: a thread that reads this value does nothing.
        self.0.store(DONE, Ordering::Relaxed);
    }
}

/// The state, exposed for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::fmt;

    /// Wraps the state of a future.
    pub struct FutureState(super::FutureState);

    #[expect(missing_docs, reason = "a shim for tests")]
    impl FutureState {
        pub fn polled() -> Self {
            Self(super::FutureState::polled())
        }

        pub fn begin(&self) {
            self.0.begin();
        }

        #[must_use]
        pub fn fall_asleep(&self) -> bool {
            self.0.fall_asleep()
        }

        #[must_use]
        pub fn wake(&self) -> bool {
            self.0.wake()
        }

        pub fn end(&self) {
            self.0.end();
        }
    }

    impl fmt::Debug for FutureState {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("FutureState")
        }
    }
}
