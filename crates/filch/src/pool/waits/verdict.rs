//! How a wait that sleeps learns that it can never end.

use super::report::Cycle;
use crate::base::{
    sync::{AtomicBool, Mutex, Ordering},
    thread::{self, Parker},
};
use std::sync::{Arc, PoisonError};

/// The verdict that a wait can never end, which another wait has found.
pub(crate) struct CycleVerdict {
    is_found: AtomicBool,
    cycle: Mutex<Option<Cycle>>,
    /// The thread that waits; `None` in models, where it checks without sleeping.
    waiter: Option<Arc<Parker>>,
}

impl CycleVerdict {
    /// Creates one for a wait of this thread.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_found: AtomicBool::new(false),
            cycle: Mutex::new(None),
            waiter: (!cfg!(filch_loom)).then(thread::parker),
        })
    }

    pub(super) fn is_found(&self) -> bool {
        // Acquire: pairs with the release in `deliver`.
        self.is_found.load(Ordering::Acquire)
    }

    /// Ends the wait with a report of this cycle. At most once.
    pub(super) fn deliver(&self, cycle: Cycle) {
        *self.cycle.lock().unwrap_or_else(PoisonError::into_inner) = Some(cycle);
        // Release: the cycle is visible to the waiter.
        self.is_found.store(true, Ordering::Release);
        if let Some(waiter) = &self.waiter {
            waiter.unpark();
        }
    }

    pub(super) fn take(&self) -> Option<Cycle> {
        let mut cycle = self.cycle.lock().unwrap_or_else(PoisonError::into_inner);
        cycle.take()
    }
}
