//! When the first entry of the timer is due, for workers that poll it without the lock.

use super::wheel::NEVER;
use crate::base::{Instant, sync::Hint};
use std::{sync::OnceLock, task::RawWakerVTable, time::Duration};

/// How long an entry that is due is left to the thread before workers try it again, in nanoseconds.
const RETRY_DELAY_NANOS: u64 = 100_000;

/// How far the epoch lies before the first use of the timer. Deadlines before the epoch count as
/// equal, so it must be earlier than the deadlines that a program sets late.
const EPOCH_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The state that polling workers read: when the first entry is due, and which wakers they may
/// wake.
pub(super) struct Next {
    /// In nanoseconds since `epoch`, or [`NEVER`]. No entry is earlier. A thread that has inserted
    /// an entry, or knows of that, reads a value from then or later: the writes are under the lock,
    /// and a location has one order for all threads. So an entry before this time is gone.
    pub(super) nanos: Hint,
    /// Until when workers leave an entry that is due to the thread; in the past if they don't.
    retry: Hint,
    /// A time [`EPOCH_AGE`] before the first use, if the clock has such a time.
    epoch: OnceLock<Instant>,
    /// The functions of the wakers that polling workers may wake.
    pub(super) inline_wakers: OnceLock<&'static RawWakerVTable>,
}

impl Next {
    pub(super) const fn new() -> Self {
        Self {
            nanos: Hint::new(NEVER),
            retry: Hint::new(0),
            epoch: OnceLock::new(),
            inline_wakers: OnceLock::new(),
        }
    }

    /// Sets when the first entry is due. Called with the lock held, whenever that may have changed.
    pub(super) fn set(&self, nanos: u64) {
        // All polling workers read it, so it is not written needlessly.
        if nanos != self.nanos.get() {
            self.nanos.set(nanos);
            if self.retry.get() != 0 {
                self.retry.set(0);
            }
        }
    }

    /// Whether workers should try to wake what is due at `now`.
    pub(super) fn is_reached(&self, now: u64) -> bool {
        now >= self.nanos.get() && now >= self.retry.get()
    }

    /// Whether an entry at `nanos`, which the caller knows of, has left the queue. False if that is
    /// not certain.
    pub(super) fn is_gone(&self, nanos: u64) -> bool {
        self.nanos.get() > nanos
    }

    /// Leaves the first entry to the thread, if it is due. Called with the lock held.
    pub(super) fn leave_if_due(&self, now: u64) {
        if self.nanos.get() <= now {
            self.retry.set(now.saturating_add(RETRY_DELAY_NANOS));
        }
    }

    /// The time of this number of nanoseconds; `None` for [`NEVER`].
    pub(super) fn time_of(&self, nanos: u64) -> Option<Instant> {
        match nanos {
            NEVER => None,
            _ => self.epoch().checked_add(Duration::from_nanos(nanos)),
        }
    }

    pub(super) fn nanos_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch());
        u64::try_from(since.as_nanos()).map_or(NEVER - 1, |nanos| nanos.min(NEVER - 1))
    }

    fn epoch(&self) -> Instant {
        *self.epoch.get_or_init(|| {
            let now = Instant::now();
            now.checked_sub(EPOCH_AGE).unwrap_or(now)
        })
    }
}
