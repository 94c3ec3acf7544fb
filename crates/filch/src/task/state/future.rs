//! The transitions of futures, which have one job, and run any number of times.

use super::{CLOSED, RUNNING, SCHEDULED, Snapshot, TaskState};
use crate::base::{
    canary::{Canary, broken},
    sync::Ordering,
    thread,
};

/// What the thread that has started a future does with it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartAction {
    Poll,
    /// Drops it: it must end.
    Drop,
}

/// What the thread that has polled a future does after the poll.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterPoll {
    /// The future waits, and the caller does not own it any more. The caller must not touch it.
    Idle,
    /// The future was woken during the poll: the caller owns it and must queue its job.
    Requeue,
    /// The future must end: the caller owns it as with `Requeue`, but starts it at once.
    Drop,
}

impl TaskState {
    /// Sets `bits`, whatever the other bits are, and returns the previous word.
    #[inline(always)]
    fn set(&self, bits: u64) -> Snapshot {
        thread::point();
        // AcqRel: publishes what was done before to the thread that polls the future next, and
        // acquires the future.
        Snapshot(self.0.fetch_or(bits, Ordering::AcqRel))
    }

    /// The owner of the job starts the future. Acquires what was done before each wake.
    #[inline]
    pub(crate) fn start(&self) -> StartAction {
        thread::point();
        // AcqRel: acquires what the doc comment names; pairs with the release of `wake`, `end_poll`
        // and `cancel_future`.
        let before = self.0.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
        debug_assert!(
            Snapshot(before).phase() == SCHEDULED,
            "there is one job for a future, and only while it is not running"
        );
        match Snapshot(before).has(CLOSED) {
            true => StartAction::Drop,
            false => StartAction::Poll,
        }
    }

    /// The future is pending. Publishes it to the thread that wakes it.
    #[inline]
    pub(crate) fn end_poll(&self) -> AfterPoll {
        thread::point();
        if broken(Canary::FutureRest) {
            // Release: as below.
            self.0.fetch_and(!(RUNNING | SCHEDULED), Ordering::Release);
            return AfterPoll::Idle;
        }
        // AcqRel: publishes what the doc comment names; pairs with `start`, `wake` and `evict`.
        let before = Snapshot(self.0.fetch_and(!RUNNING, Ordering::AcqRel));
        match (before.has(SCHEDULED), before.has(CLOSED)) {
            (false, _) => AfterPoll::Idle,
            (true, false) => AfterPoll::Requeue,
            (true, true) => AfterPoll::Drop,
        }
    }

    /// Wakes the future. Returns true when the caller owns it from now on, and must queue a job for
    /// it.
    ///
    /// The word is written even if the future is scheduled: the next poll must see what was done
    /// before this wake.
    #[inline]
    #[must_use = "a future that is scheduled must be queued"]
    pub(crate) fn wake(&self) -> bool {
        if broken(Canary::FutureWakeAgain) && self.load().has(SCHEDULED) {
            return false;
        }
        self.set(SCHEDULED).is_idle()
    }

    /// Requests the end of the future. Returns true when the caller owns it from now on, and must
    /// queue a job for it.
    #[must_use = "a future that is scheduled must be queued"]
    pub(crate) fn cancel_future(&self) -> bool {
        self.set(SCHEDULED | CLOSED).is_idle()
    }

    /// Marks the future as closed, because its job was refused or its pool is ending. The caller
    /// owns the job.
    pub(crate) fn close(&self) {
        let _ = self.set(CLOSED);
    }

    /// Claims the future because the pool ends. Returns true when the caller owns it, as if it had
    /// started it. Otherwise the owner finds `CLOSED`, and ends it.
    #[must_use = "a future that was taken over must be ended"]
    pub(crate) fn evict(&self) -> bool {
        if broken(Canary::FutureEvict) {
            let idle = self.load().is_idle();
            let _ = self.set(if idle { RUNNING | CLOSED } else { CLOSED });
            return idle;
        }
        self.change(|now| match now.is_idle() {
            true => (Some(now.with(RUNNING | CLOSED, 0)), true),
            false => (Some(now.with(SCHEDULED | CLOSED, 0)), false),
        })
    }
}
