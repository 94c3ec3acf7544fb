//! When the first entry of the timer is due, for workers that poll it without the lock.

use crate::base::sync::Hint;
use std::{sync::OnceLock, task::RawWakerVTable, time::Instant};

/// How long an entry that is due is left to the thread before workers try it again, in nanoseconds.
const RETRY_DELAY_NANOS: u64 = 100_000;

/// The value while there is no entry.
pub(super) const NEVER: u64 = u64::MAX;

/// The state that polling workers read: when the first entry is due, and which wakers they may
/// wake.
pub(super) struct Next {
    /// In nanoseconds since `epoch`, or [`NEVER`].
    pub(super) nanos: Hint,
    /// Some time in the past.
    epoch: OnceLock<Instant>,
    /// The functions of the wakers that polling workers may wake.
    pub(super) trusted: OnceLock<&'static RawWakerVTable>,
}

impl Next {
    pub(super) const fn new() -> Self {
        Self {
            nanos: Hint::new(NEVER),
            epoch: OnceLock::new(),
            trusted: OnceLock::new(),
        }
    }

    /// Sets when the first entry is due. Called with the lock held, whenever that may have changed.
    pub(super) fn set(&self, at: Option<Instant>) {
        let nanos = at.map_or(NEVER, |at| self.nanos_of(at));
        // All polling workers read it, so it is not written needlessly.
        if nanos != self.nanos.get() {
            self.nanos.set(nanos);
        }
    }

    /// Leaves the first entry to the thread, if it is due. Called with the lock held.
    pub(super) fn leave_if_due(&self, now: Instant) {
        let now = self.nanos_of(now);
        if self.nanos.get() <= now {
            self.nanos
                .set(now.saturating_add(RETRY_DELAY_NANOS).min(NEVER - 1));
        }
    }

    pub(super) fn nanos_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(*self.epoch.get_or_init(Instant::now));
        u64::try_from(since.as_nanos()).map_or(NEVER - 1, |nanos| nanos.min(NEVER - 1))
    }
}
