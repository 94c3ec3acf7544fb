//! The state word of a future: its state, its handle and waiter, and the reference count of its
//! cell.
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
/// A thread polls it, or ends it.
const RUNNING: u64 = 1 << 1;
/// It must end: it is not polled again.
const CLOSED: u64 = 1 << 2;
/// The future has been dropped, and its outcome is stored.
const DONE: u64 = 1 << 3;
const END_SHIFT: u32 = 4;
const END: u64 = 0b11 << END_SHIFT;
/// There is a handle, which takes the outcome.
const HANDLE: u64 = 1 << 6;
/// The handle has stored a waker, which the thread that ends the future must call.
const WAITING: u64 = 1 << 7;
/// One reference: the handle, a waker, an abort handle; and one for the future itself until it is
/// done.
const REFERENCE: u64 = 1 << 8;

/// The outcome of a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A value, which is in the slot.
    Value = 0,
    /// A panic, which is in the slot.
    Panic = 1,
    /// No value: the future was dropped before it was ready. The slot is empty.
    Cancelled = 2,
}

/// One reading of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Whether the outcome is stored.
    pub(crate) const fn is_done(self) -> bool {
        self.has(DONE)
    }

    /// Whether the handle has stored a waker.
    pub(super) const fn is_watched(self) -> bool {
        self.has(WAITING)
    }

    /// Returns the kind of outcome; valid once the future is done.
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

    /// Whether no thread owns the future: it waits to be woken.
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

/// What the owner of the job does with the future.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Poll,
    /// Drops it: it must end.
    Drop,
}

/// What the thread that has polled the future does with it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The future waits, and the caller does not own it any more. The caller must not touch it.
    Idle,
    /// The future was woken during the poll: the caller owns it and must queue its job.
    Again,
    /// The future must end: the caller owns it as with `Again`, but starts it at once.
    Drop,
}

/// What the thread that ended a future does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// Nothing: the outcome belongs to the handle, and the reference has been released. The caller
    /// must not touch the cell.
    Handed,
    /// The outcome belongs to the handle, and the waker to the caller, which calls it and then
    /// releases the reference.
    Wake,
    /// There is no handle: the caller drops the outcome, and then releases the reference.
    Orphaned,
}

/// What a handle does when it is dropped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// Nothing: the future continues, and the reference has been released. The handle must not
    /// touch the cell.
    Left,
    /// The future continues: the handle drops the waker, and then releases the reference.
    LeftWaker,
    /// The handle drops the outcome, and then releases the reference.
    Outcome,
}

/// The state word.
pub(super) struct State {
    word: AtomicU64,
}

impl State {
    /// Creates the word of a future that is about to be queued and has a handle.
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(SCHEDULED | HANDLE | (2 * REFERENCE)),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release in `finish`; a thread that sees that the future is done
        // sees the outcome.
        Snapshot(self.word.load(Ordering::Acquire))
    }

    /// Replaces the word by the one that `next` computes, if it computes one, and returns the
    /// second part of its result.
    #[inline(always)]
    fn change<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
        thread::point();
        // Acquire, as on failure below: a caller that changes nothing may draw conclusions from
        // what it saw.
        let mut now = self.word.load(Ordering::Acquire);
        loop {
            let (word, result) = next(Snapshot(now));
            let Some(word) = word else {
                return result;
            };
            // AcqRel: publishes what this thread has written to the cell, and acquires what the
            // other thread has; each transition names what that is. Acquire on failure: as above.
            match self
                .word
                .compare_exchange_weak(now, word, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return result,
                Err(seen) => now = seen,
            }
        }
    }

    /// Sets `bits`, whatever the other bits are, and returns the previous word.
    #[inline(always)]
    fn set(&self, bits: u64) -> Snapshot {
        thread::point();
        // AcqRel: publishes what was done before to the thread that polls the future next, and
        // acquires the future.
        Snapshot(self.word.fetch_or(bits, Ordering::AcqRel))
    }

    /// The owner of the job starts the future. Acquires what was done before each wake.
    #[inline]
    pub(super) fn start(&self) -> Start {
        thread::point();
        // AcqRel: acquires what the doc comment names; pairs with the release of `wake`, `rest` and
        // `abort`.
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

    /// The future is pending. Publishes it to the thread that wakes it.
    #[inline]
    pub(super) fn rest(&self) -> Rest {
        thread::point();
        if broken(Canary::FutureRest) {
            // Release: as below.
            self.word
                .fetch_and(!(RUNNING | SCHEDULED), Ordering::Release);
            return Rest::Idle;
        }
        // AcqRel: publishes what the doc comment names; pairs with `start`, `wake` and `evict`.
        let before = Snapshot(self.word.fetch_and(!RUNNING, Ordering::AcqRel));
        match (before.has(SCHEDULED), before.has(CLOSED)) {
            (false, _) => Rest::Idle,
            (true, false) => Rest::Again,
            (true, true) => Rest::Drop,
        }
    }

    /// Wakes the future. Returns true when the caller owns it from now on, and must queue a job for
    /// it.
    ///
    /// The word is written even if the future is scheduled: the next poll must see what was done
    /// before this wake.
    #[inline]
    #[must_use = "a future that is scheduled must be queued"]
    pub(super) fn wake(&self) -> bool {
        if broken(Canary::FutureWakeAgain) && self.load().has(SCHEDULED) {
            return false;
        }
        self.set(SCHEDULED).is_idle()
    }

    /// Requests the end of the future. Returns true when the caller owns it from now on, and must
    /// queue a job for it.
    #[must_use = "a future that is scheduled must be queued"]
    pub(super) fn abort(&self) -> bool {
        self.set(SCHEDULED | CLOSED).is_idle()
    }

    /// Marks the future as closed, because its job was refused or its pool is ending. The caller
    /// owns the job.
    pub(super) fn close(&self) {
        let _ = self.set(CLOSED);
    }

    /// Claims the future because the pool ends. Returns true when the caller owns it, as if it had
    /// started it. Otherwise the owner finds `CLOSED`, and ends it.
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

    /// The future has been dropped, and the outcome stored in its slot. Publishes the outcome;
    /// acquires the waker.
    #[inline]
    pub(super) fn finish(&self, end: End) -> Finished {
        // The defect: to check for a handle before the transition.
        let checked = broken(Canary::FutureOrphan).then(|| self.load().has(HANDLE));
        self.change(|now| {
            debug_assert!(now.has(RUNNING) && !now.is_done(), "it was started");
            let done = (now.0 & !(RUNNING | SCHEDULED)) | DONE | ((end as u64) << END_SHIFT);
            match (checked.unwrap_or(now.has(HANDLE)), now.has(WAITING)) {
                (true, false) => (Some(done - REFERENCE), Finished::Handed),
                (true, true) => (Some(done), Finished::Wake),
                // No other thread can see a change: the caller holds the only reference.
                (false, _) if now.references() == 1 => (None, Finished::Orphaned),
                (false, _) => (Some(done), Finished::Orphaned),
            }
        })
    }

    /// The handle has stored a waker. Publishes the waker; returns false when the future is done,
    /// and then the waker still belongs to the handle.
    #[must_use]
    pub(super) fn watch(&self) -> bool {
        self.change(|now| match now.is_done() && !broken(Canary::FutureWatch) {
            true => (None, false),
            false => (Some(now.0 | WAITING), true),
        })
    }

    /// Takes the waker back for the handle. Returns false when the future is done, and then the
    /// waker belongs to the thread that ended it.
    #[must_use]
    pub(super) fn unwatch(&self) -> bool {
        self.change(|now| match now.is_done() {
            true => (None, false),
            false => (Some(now.0 & !WAITING), true),
        })
    }

    /// The handle is dropped. Acquires the outcome, when there is one.
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

    /// Adds a reference to the cell.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a reference already, or the future itself keeps the memory.
        self.word.fetch_add(REFERENCE, Ordering::Relaxed);
    }

    /// Releases a reference. Returns true for the last one, which sees everything that the other
    /// holders did.
    #[inline]
    #[must_use = "the last one must free the memory"]
    pub(super) fn release(&self) -> bool {
        if self.load().references() == 1 {
            // There is no other holder that could add one. The load was an acquire: it pairs with
            // the release below.
            return true;
        }
        // AcqRel: publishes what this holder did to the last one; the last one acquires what the
        // others did.
        Snapshot(self.word.fetch_sub(REFERENCE, Ordering::AcqRel)).references() == 1
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}
