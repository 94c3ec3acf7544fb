//! The word of a future: where it stands, who is interested, and how many hold on to its memory.
//!
//! `future.md` has the protocol; every change of the word is one of the transitions below.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU64, Ordering},
    thread,
};
use std::fmt;

/// There is a job for it in a queue; or, while it is polled, there will be one.
const SCHEDULED: u64 = 1;
/// Somebody polls it, or ends it.
const RUNNING: u64 = 1 << 1;
/// It must end: it is not polled again.
const CLOSED: u64 = 1 << 2;
/// The future is gone, and what came of it is there.
const DONE: u64 = 1 << 3;
const END_SHIFT: u32 = 4;
const END: u64 = 0b11 << END_SHIFT;
/// There is a handle: the outcome is for it.
const HANDLE: u64 = 1 << 6;
/// The handle has left a waker, which whoever ends the future must call.
const WAITING: u64 = 1 << 7;
/// One reference: the handle, a waker, whoever may abort it; and one for the future itself until it is done.
const REFERENCE: u64 = 1 << 8;

/// What came of a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A value, which is in the slot.
    Value = 0,
    /// A panic, which is in the slot.
    Panic = 1,
    /// Nothing: it was dropped before. The slot is empty.
    Cancelled = 2,
}

/// One reading of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// The outcome is there.
    pub(crate) const fn is_done(self) -> bool {
        self.has(DONE)
    }

    /// The handle has left a waker.
    pub(super) const fn is_watched(self) -> bool {
        self.has(WAITING)
    }

    /// What came of it, once it is done.
    pub(super) const fn end(self) -> End {
        match (self.0 & END) >> END_SHIFT {
            0 => End::Value,
            1 => End::Panic,
            _ => End::Cancelled,
        }
    }

    const fn references(self) -> u64 {
        self.0 / REFERENCE
    }

    /// Nobody has it: it waits to be woken.
    const fn is_idle(self) -> bool {
        !self.has(SCHEDULED | RUNNING | DONE)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("scheduled", &self.has(SCHEDULED))
            .field("running", &self.has(RUNNING))
            .field("closed", &self.has(CLOSED))
            .field("done", &self.is_done().then(|| self.end()))
            .field("handle", &self.has(HANDLE))
            .field("waiting", &self.has(WAITING))
            .field("references", &self.references())
            .finish()
    }
}

/// What whoever has the job does with the future.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Poll,
    /// It must end.
    Drop,
}

/// What whoever has polled the future does with it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It waits, and is no longer ours: hands off.
    Idle,
    /// It was woken meanwhile: there must be a job for it, which is ours to queue.
    Again,
    /// It must end: the same, but ours to start at once.
    Drop,
}

/// What became of the one who ended a future.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// The outcome is the handle's, and the reference has been given up: hands off.
    Handed,
    /// The same, but the waker is ours to call first, and the reference to give up then.
    Wake,
    /// Nobody wants the outcome: it is ours to drop, and the reference to give up then.
    Orphaned,
}

/// What became of a handle that lets go.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The future goes on, and the reference has been given up: hands off.
    Left,
    /// The same, but the waker is ours to drop first, and the reference to give up then.
    LeftWaker,
    /// The outcome is ours to drop, and the reference to give up then.
    Outcome,
}

/// The word.
pub(super) struct State {
    word: AtomicU64,
}

impl State {
    /// About to be queued, with a handle.
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(SCHEDULED | HANDLE | (2 * REFERENCE)),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release in `finish`; who sees that the future is done sees the outcome.
        Snapshot(self.word.load(Ordering::Acquire))
    }

    /// Goes from one word to the next, if `next` says one, and tells what `next` said.
    #[inline(always)]
    fn change<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
        thread::point();
        // Acquire, as on failure below: whoever gives up may conclude from what it saw.
        let mut now = self.word.load(Ordering::Acquire);
        loop {
            let (word, said) = next(Snapshot(now));
            let Some(word) = word else {
                return said;
            };
            // AcqRel: hands on what this side has left in the cell, and receives what the other side has;
            // each transition says what that is. Acquire on failure: as above.
            match self
                .word
                .compare_exchange_weak(now, word, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return said,
                Err(seen) => now = seen,
            }
        }
    }

    /// Sets `bits`, whatever else there is, and tells what there was.
    #[inline(always)]
    fn set(&self, bits: u64) -> Snapshot {
        thread::point();
        // AcqRel: hands on what was done before to whoever polls the future next, and receives the future.
        Snapshot(self.word.fetch_or(bits, Ordering::AcqRel))
    }

    /// Whoever has the job begins. Receives what was done before each wake.
    #[inline]
    pub(super) fn start(&self) -> Start {
        thread::point();
        // AcqRel: as the transition says; pairs with the release of `wake`, `rest` and `abort`.
        let before = self.word.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
        debug_assert_eq!(
            before & (SCHEDULED | RUNNING | DONE),
            SCHEDULED,
            "there is one job for a future, and only while it is not running"
        );
        match Snapshot(before).has(CLOSED) {
            true => Start::Drop,
            false => Start::Poll,
        }
    }

    /// The future is pending. Hands it on to whoever wakes it.
    #[inline]
    pub(super) fn rest(&self) -> Rest {
        thread::point();
        if broken(Canary::FutureRest) {
            // Release: as below.
            self.word
                .fetch_and(!(RUNNING | SCHEDULED), Ordering::Release);
            return Rest::Idle;
        }
        // AcqRel: as the transition says; pairs with `start`, `wake` and `evict`.
        let before = Snapshot(self.word.fetch_and(!RUNNING, Ordering::AcqRel));
        match (before.has(SCHEDULED), before.has(CLOSED)) {
            (false, _) => Rest::Idle,
            (true, false) => Rest::Again,
            (true, true) => Rest::Drop,
        }
    }

    /// Somebody wakes the future. True when a job for it must be queued by the caller, who has it then.
    ///
    /// The word is written even if the future is scheduled: what was done before this wake must be seen by the poll that
    /// is to come.
    #[inline]
    #[must_use = "a future that is scheduled must be queued"]
    pub(super) fn wake(&self) -> bool {
        if broken(Canary::FutureWakeAgain) && self.load().has(SCHEDULED) {
            return false;
        }
        self.set(SCHEDULED).is_idle()
    }

    /// The future must end. True when a job for it must be queued by the caller, who has it then.
    #[must_use = "a future that is scheduled must be queued"]
    pub(super) fn abort(&self) -> bool {
        self.set(SCHEDULED | CLOSED).is_idle()
    }

    /// The job of the future was refused, or its pool is ending: it must end. The caller has the job.
    pub(super) fn close(&self) {
        let _ = self.set(CLOSED);
    }

    /// The pool ends. True when the future is the caller's, as if it had started it; else whoever has it will learn
    /// that it must end.
    #[must_use = "a future that was taken over must be ended"]
    pub(super) fn evict(&self) -> bool {
        if broken(Canary::FutureEvict) {
            let idle = self.load().is_idle();
            let _ = self.set(if idle { RUNNING | CLOSED } else { CLOSED });
            return idle;
        }
        self.change(|now| match now.is_idle() {
            true => (Some(now.0 | RUNNING | CLOSED), true),
            false => (Some(now.0 | SCHEDULED | CLOSED), false),
        })
    }

    /// The future is gone, and the outcome in its place. Hands on the outcome; receives the waker.
    #[inline]
    pub(super) fn finish(&self, end: End) -> Finished {
        // The defect: to have looked before whether there is a handle.
        let looked = broken(Canary::FutureOrphan).then(|| self.load().has(HANDLE));
        self.change(|now| {
            debug_assert!(now.has(RUNNING) && !now.is_done(), "it was started");
            let done = (now.0 & !(RUNNING | SCHEDULED)) | DONE | ((end as u64) << END_SHIFT);
            match (looked.unwrap_or(now.has(HANDLE)), now.has(WAITING)) {
                (true, false) => (Some(done - REFERENCE), Finished::Handed),
                (true, true) => (Some(done), Finished::Wake),
                // Nobody is there to see a change.
                (false, _) if now.references() == 1 => (None, Finished::Orphaned),
                (false, _) => (Some(done), Finished::Orphaned),
            }
        })
    }

    /// The handle has left a waker in its place. Hands on the waker; false when the future is done, and the
    /// waker still the handle's.
    #[must_use]
    pub(super) fn watch(&self) -> bool {
        self.change(|now| match now.is_done() && !broken(Canary::FutureWatch) {
            true => (None, false),
            false => (Some(now.0 | WAITING), true),
        })
    }

    /// The waker is the handle's again; false when the future is done, and the waker with whoever ended it.
    #[must_use]
    pub(super) fn unwatch(&self) -> bool {
        self.change(|now| match now.is_done() {
            true => (None, false),
            false => (Some(now.0 & !WAITING), true),
        })
    }

    /// The handle lets go. Receives the outcome, when there is one.
    pub(super) fn abandon(&self) -> Abandoned {
        self.change(|now| {
            let gone = now.0 & !(HANDLE | WAITING);
            match (now.is_done(), now.has(WAITING)) {
                (true, _) => (None, Abandoned::Outcome),
                (false, true) => (Some(gone), Abandoned::LeftWaker),
                (false, false) => (Some(gone - REFERENCE), Abandoned::Left),
            }
        })
    }

    /// One more holds on to the memory.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a reference already, or the future itself keeps the memory.
        self.word.fetch_add(REFERENCE, Ordering::Relaxed);
    }

    /// One fewer. True for the last one, who sees everything that the others did.
    #[inline]
    #[must_use = "the last one must free the memory"]
    pub(super) fn release(&self) -> bool {
        if self.load().references() == 1 {
            // Nobody else is there to make it more. The load was an acquire: it pairs with the release below.
            return true;
        }
        // AcqRel: what this one did is visible to the last; the last sees what the others did.
        Snapshot(self.word.fetch_sub(REFERENCE, Ordering::AcqRel)).references() == 1
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}
