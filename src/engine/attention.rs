//! Busy workers are asked to serve work that is not in their own queues; `sleep.md` has the protocol.

use super::{core::Core, event::Observer, lanes::Level, queue::Strategy};
use crate::base::{
    canary::{Canary, broken},
    sync::fence_after_rmw,
};

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Asks busy workers to serve work that is not in their own queues, if no other worker will.
    /// Called after a push that they should not overlook.
    ///
    /// While a worker sleeps or searches, that one finds the task, or asks in turn
    /// (`Worker::after_missed`).
    #[inline]
    pub(super) fn request_attention(&self) {
        // Pairs with the fence in `settle_attention` (either this load sees the bit cleared, or that
        // look sees the push) and with the one in `Worker::after_missed`.
        fence_after_rmw();
        let state = self.sleep.state();
        if !state.all_busy() || broken(Canary::Attention) {
            return;
        }
        if !self.futures.is_empty() {
            // Seen at every step. A worker that takes the last one lowers it and looks once more.
            self.flags().raise_spawned();
        }
        if !state.attention() {
            self.raise_attention();
        }
    }

    /// A worker has stopped searching, and may be busy for long now: asks for what came during its
    /// search, after its look there.
    pub(super) fn request_attention_for_missed(&self) {
        // Pairs with the fence in `request_attention`: either the push sees that the search has ended, or this look
        // sees the push.
        fence_after_rmw();
        if self.needs_attention() {
            self.request_attention();
        }
    }

    /// Sets the attention bit, and makes the owners of deques notice it at their next pop.
    #[cold]
    fn raise_attention(&self) {
        if self.sleep.raise_attention() {
            Q::alert(&self.store);
        }
    }

    /// Tells the time, in nanoseconds since some fixed moment: Low tasks have turns only when they have
    /// waited for long.
    pub fn observe_time(&self, now: u64) {
        let waiting = self.flags().read().has(Level::Low);
        self.low_age.observe(waiting, now);
    }

    /// Whether busy workers are asked to serve work that is not in their own queues.
    #[inline(always)]
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.sleep.state().attention()
    }

    /// Clears the attention bit if nothing is left that needs it.
    #[cold]
    pub fn settle_attention(&self) {
        if self.needs_attention() {
            return;
        }
        self.sleep.lower_attention();
        // Pairs with the fence in `request_attention`.
        fence_after_rmw();
        if self.needs_attention() && !broken(Canary::AttentionLook) {
            self.raise_attention();
        }
    }

    /// Whether there is work that a busy worker should serve before its own.
    fn needs_attention(&self) -> bool {
        self.flags().read().presses() || !self.injector.is_empty() || !self.futures.is_empty()
    }
}
