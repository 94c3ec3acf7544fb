//! A request that another worker runs what is in a queue of a fold.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicBool, Ordering},
    thread,
};

/// Whether a help job is queued. There is one at a time, which takes the request before it reads
/// the queue. So what was queued before a request is seen by that help job or by a later one.
#[derive(Default)]
pub(super) struct HelpRequest(AtomicBool);

impl HelpRequest {
    /// Requests help for what the caller has queued. Returns true if the caller must queue a help
    /// job.
    #[must_use]
    pub(super) fn make(&self) -> bool {
        thread::point();
        // AcqRel: pairs with the swap in `take`, by which the help job sees what was queued before.
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Takes the request, at the start of a help job.
    pub(super) fn take(&self) {
        let ordering = if broken(Canary::FoldHelp) {
            // Relaxed: the deliberate defect.
            Ordering::Relaxed
        } else {
            // AcqRel: pairs with the swap in `make`.
            Ordering::AcqRel
        };
        self.0.swap(false, ordering);
        thread::point();
    }

    /// Whether a help job seems to be queued.
    pub(super) fn is_made(&self) -> bool {
        // Relaxed: a hint that saves a swap.
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
