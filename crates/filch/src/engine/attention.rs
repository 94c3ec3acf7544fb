//! Requests for busy workers to serve work that is not in their own queues; `sleep.md` has the
//! protocol.

use super::{core::Core, event::Observer, lanes::Priority, queue::Strategy};
use crate::base::{
    canary::{Canary, broken},
    sync::fence_after_rmw,
};

impl<T: Send, Q: Strategy, O: Observer> Core<T, Q, O> {
    /// Asks busy workers to serve work that is not in their own queues, if no other worker will.
    /// Called after a push that busy workers must not overlook.
    ///
    /// If a worker sleeps or searches, that worker finds the task, or requests attention itself
    /// (`request_attention_for_missed`). A stale entry in the list of sleepers is taken for a
    /// sleeper here, so the caller has tried to wake one, which drops stale entries, or has taken a
    /// task whose push has done so.
    #[inline]
    pub(super) fn request_attention(&self) {
        // Pairs with the fence in `clear_unneeded_attention` (either this load sees the bit
        // cleared, or the check there sees the push) and with the one in
        // `request_attention_for_missed`.
        fence_after_rmw();
        let state = self.sleep.state();
        if !state.all_busy() || broken(Canary::Attention) {
            return;
        }
        if !self.futures.is_empty() {
            // Workers test this flag at every step. A worker that takes the last future clears the
            // flag and checks the queue again.
            self.flags().raise_spawned();
        }
        if !state.attention() {
            self.raise_attention();
        }
    }

    /// Called by worker `by` that has stopped searching and may be busy for long, or has moved
    /// tasks to the injector; and by a thread that has counted a sleeper as searching and took that
    /// back: requests attention for tasks that no search will find.
    pub(super) fn request_attention_for_missed(&self, by: usize) {
        // Pairs with the fence in `request_attention`: either the push sees that the search has
        // ended, or this check sees the push.
        fence_after_rmw();
        if !self.needs_attention() {
            return;
        }
        if self.sleep.has_stale_head() && !broken(Canary::AttentionStale) {
            // An attempt to wake a sleeper drops the stale entries before it.
            let _ = self.take_sleeper(by);
        }
        self.request_attention();
    }

    /// Sets the attention bit, and makes the owners of deques observe it at their next pop.
    #[cold]
    fn raise_attention(&self) {
        if self.sleep.raise_attention() {
            Q::alert(&self.store);
        }
    }

    /// Sets the time, in nanoseconds since some fixed moment. Low tasks have turns only after they
    /// have waited for long.
    ///
    /// ```
    /// # use filch::engine::{Core, Priority, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(1, Placement::Lane(Priority::Low)).unwrap();
    /// let start = std::time::Instant::now();
    /// // A driver does this now and then, between two steps.
    /// core.observe_time(start.elapsed().as_nanos() as u64);
    /// # assert!(core.has_work());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn observe_time(&self, now: u64) {
        let waiting = self.flags().read().has(Priority::Low);
        self.low_age.observe(waiting, now);
    }

    /// Whether busy workers must serve work that is not in their own queues.
    #[inline(always)]
    #[must_use]
    pub(crate) fn wants_attention(&self) -> bool {
        self.sleep.state().attention()
    }

    /// Clears the attention bit if no work is left that needs it.
    #[cold]
    pub(crate) fn clear_unneeded_attention(&self) {
        if self.needs_attention() {
            return;
        }
        self.sleep.lower_attention();
        // Pairs with the fence in `request_attention`.
        fence_after_rmw();
        if self.needs_attention() && !broken(Canary::AttentionRecheck) {
            self.raise_attention();
        }
    }

    /// Whether there is work that a busy worker should serve before its own.
    fn needs_attention(&self) -> bool {
        self.flags().read().has_preferred() || !self.injector.is_empty() || !self.futures.is_empty()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
#[cfg(all(test, not(filch_loom)))]
mod tests;
