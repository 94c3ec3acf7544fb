//! The state word of a task: its phase, its handle and waiter, and the reference count of its cell.
//!
//! `cell.md` has the protocol; every change of the word is one of the transitions below.

use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicU64, Ordering},
        thread,
    },
    engine::Level,
};
use std::fmt;

const PHASE: u64 = 0b11;
const QUEUED: u64 = 0;
const RUNNING: u64 = 1;
const DONE: u64 = 2;
/// It has no ticket yet, because it waits for other tasks.
const HELD: u64 = 3;
const LEVEL_SHIFT: u32 = 2;
const LEVEL: u64 = 0b11 << LEVEL_SHIFT;
/// There is a handle, which takes the outcome.
const HANDLE: u64 = 1 << 4;
/// The handle has stored a waker, which the thread that finishes the task must call.
const WAITING: u64 = 1 << 5;
/// The running task is requested to stop.
const CANCEL: u64 = 1 << 6;
/// Other tasks wait for its end: the thread that finishes it must notify them.
const FOLLOWED: u64 = 1 << 7;
/// How it ended, once it is done.
const FATE_SHIFT: u32 = 8;
const FATE: u64 = 0b111 << FATE_SHIFT;
/// One reference: the handle, a ticket, a claim, a predecessor, a follower, or a canceller.
const REFERENCE: u64 = 1 << 11;

/// How a task ended. The outcome itself may be dropped long before this is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::submit) enum TaskStatus {
    Succeeded,
    Panicked,
    Cancelled,
    Expired,
    /// Its pool was closed, or had no capacity.
    Refused,
    /// A task that it waited for failed.
    DependencyFailed,
}

impl TaskStatus {
    const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Panicked,
        Self::Cancelled,
        Self::Expired,
        Self::Refused,
        Self::DependencyFailed,
    ];
}

/// One reading of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::submit) struct Snapshot(u64);

impl Snapshot {
    const fn phase(self) -> u64 {
        self.0 & PHASE
    }

    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Returns the word with `set` set and `clear` cleared.
    const fn with(self, set: u64, clear: u64) -> u64 {
        (self.0 & !clear) | set
    }

    /// Returns the word in another phase.
    const fn at(self, phase: u64) -> u64 {
        self.with(phase, PHASE)
    }

    /// Whether it is ready and not claimed.
    pub(in crate::submit) const fn is_queued(self) -> bool {
        self.phase() == QUEUED
    }

    /// Whether it waits for other tasks.
    pub(in crate::submit) const fn is_held(self) -> bool {
        self.phase() == HELD
    }

    /// Whether it has been claimed.
    pub(in crate::submit) const fn is_begun(self) -> bool {
        matches!(self.phase(), RUNNING | DONE)
    }

    /// Returns how it ended, if it is done.
    pub(in crate::submit) fn fate(self) -> Option<TaskStatus> {
        let fate = (self.0 & FATE) >> FATE_SHIFT;
        self.is_done().then(|| TaskStatus::ALL[fate as usize])
    }

    /// Whether the outcome is stored.
    pub(in crate::submit) const fn is_done(self) -> bool {
        self.phase() == DONE
    }

    /// Whether there is a handle, which takes the outcome.
    pub(in crate::submit) const fn has_handle(self) -> bool {
        self.has(HANDLE)
    }

    /// Whether the handle has stored a waker.
    pub(super) const fn is_watched(self) -> bool {
        self.has(WAITING)
    }

    pub(in crate::submit) fn level(self) -> Level {
        Level::ALL[((self.0 & LEVEL) >> LEVEL_SHIFT) as usize]
    }

    const fn references(self) -> u64 {
        self.0 / REFERENCE
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase() {
            QUEUED => "queued",
            RUNNING => "running",
            HELD => "held",
            _ => "done",
        };
        f.debug_struct("State")
            .field("phase", &phase)
            .field("level", &self.level())
            .field("handle", &self.has(HANDLE))
            .field("waiting", &self.has(WAITING))
            .field("cancelled", &self.has(CANCEL))
            .field("followed", &self.has(FOLLOWED))
            .field("references", &self.references())
            .finish()
    }
}

/// What the thread that finished a task does next.
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
    /// One of the other cases: the word shows which, and does not change in that respect any more.
    /// In addition the caller must notify the followers, and it releases the reference in any case.
    Followed,
}

/// What a handle does when it is dropped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// Nothing: the task continues, and the reference has been released. The handle must not touch
    /// the cell.
    Left,
    /// The task continues: the handle drops the waker, and then releases the reference.
    LeftWaker,
    /// The handle drops the outcome, and then releases the reference.
    Outcome,
}

/// The effect of a cancellation.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelling {
    /// The task has not started and is claimed by the caller, with a reference for the claim.
    Claimed,
    /// The same, and it has no ticket in any queue.
    ClaimedHeld,
    /// It is running and can check for the request; the caller must cancel its token, if it has
    /// one.
    Asked,
    /// It is done, or the request was made before.
    TooLate,
}

/// The effect of a change of the level.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// It waits at the new level from now on; a ticket with a reference of its own must be queued
    /// there.
    There,
    /// It waits there already; or it is held, and its ticket will be queued at the new level.
    Same,
    /// It does not wait any more.
    TooLate,
}

/// The state word.
pub(super) struct State {
    word: AtomicU64,
}

impl State {
    /// Creates the word of a task that is queued at `level`, with a handle and a ticket.
    pub(super) fn new(level: Level) -> Self {
        let level = (level as u64) << LEVEL_SHIFT;
        Self {
            word: AtomicU64::new(QUEUED | level | HANDLE | (2 * REFERENCE)),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release in `change`, called by `finish`; a thread that sees that
        // the task is done sees the outcome.
        Snapshot(self.word.load(Ordering::Acquire))
    }

    /// Whether the task was requested to stop. Cheap, for the task itself.
    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        // Relaxed: a hint that carries no data.
        Snapshot(self.word.load(Ordering::Relaxed)).has(CANCEL)
    }

    /// Replaces the word by the one that `next` computes, if it computes one, and returns the
    /// second part of its result.
    #[inline(always)]
    fn change<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
        thread::point();
        self.change_now(next)
    }

    /// The same without a scheduling point, for callers that hold a lock: in a rehearsal no other
    /// thread may run here.
    #[inline(always)]
    fn change_now<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
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

    /// Claims the task with the reference of a ticket that was queued at `level`. Returns false
    /// when the ticket is stale. (The closure is older than every reference, so the claim orders
    /// nothing.)
    #[inline]
    #[must_use]
    pub(super) fn claim_at(&self, level: Level) -> bool {
        if broken(Canary::TaskClaim) {
            return self.claim_in_two_steps();
        }
        self.change(|now| match now.is_queued() && now.level() == level {
            true => (Some(now.at(RUNNING)), true),
            false => (None, false),
        })
    }

    /// The defect that the compare-and-swap rules out: check, then act.
    fn claim_in_two_steps(&self) -> bool {
        let queued = self.load().is_queued();
        thread::point();
        if queued {
            // AcqRel: as in `change`.
            let before = self.word.fetch_or(RUNNING, Ordering::AcqRel);
            // Before any memory is used twice.
            assert_eq!(before & PHASE, QUEUED, "a task was claimed twice");
        }
        queued
    }

    /// Claims the task without a ticket, and adds a reference for the claim.
    #[inline]
    #[must_use]
    pub(super) fn claim(&self) -> bool {
        self.change(|now| match now.is_queued() {
            true => (Some(now.at(RUNNING) + REFERENCE), true),
            false => (None, false),
        })
    }

    /// The claimer has stored the outcome. Publishes the outcome; acquires the waker.
    #[inline]
    pub(super) fn finish(&self, fate: TaskStatus) -> Finished {
        // The defect: to check for a handle before the transition.
        let checked = broken(Canary::TaskOrphan).then(|| self.load().has(HANDLE));
        self.change(|now| {
            debug_assert_eq!(now.phase(), RUNNING, "only what was claimed is finished");
            let done = now.at(DONE) | (fate as u64) << FATE_SHIFT;
            if now.has(FOLLOWED) {
                return (Some(done), Finished::Followed);
            }
            match (checked.unwrap_or(now.has(HANDLE)), now.has(WAITING)) {
                (true, false) => (Some(done - REFERENCE), Finished::Handed),
                (true, true) => (Some(done), Finished::Wake),
                (false, _) => (Some(done), Finished::Orphaned),
            }
        })
    }

    /// The handle has stored a waker. Publishes the waker; returns false when the task is done, and
    /// then the waker still belongs to the handle.
    #[must_use]
    pub(super) fn watch(&self) -> bool {
        self.change(|now| match now.is_done() && !broken(Canary::TaskWatch) {
            true => (None, false),
            false => (Some(now.with(WAITING, 0)), true),
        })
    }

    /// Takes the waker back for the handle. Returns false when the task is done, and then the waker
    /// belongs to the thread that finished it.
    #[must_use]
    pub(super) fn unwatch(&self) -> bool {
        self.change(|now| match now.is_done() {
            true => (None, false),
            false => (Some(now.with(0, WAITING)), true),
        })
    }

    /// The handle is dropped. Acquires the outcome, when there is one.
    pub(super) fn abandon(&self) -> Abandoned {
        self.change(|now| {
            let gone = now.with(0, HANDLE | WAITING);
            match (now.is_done(), now.has(WAITING)) {
                (true, _) => (None, Abandoned::Outcome),
                (false, true) => (Some(gone), Abandoned::LeftWaker),
                (false, false) => (Some(gone - REFERENCE), Abandoned::Left),
            }
        })
    }

    /// Cancels the task: claims it if it has not started, otherwise requests it to stop.
    pub(super) fn cancel(&self) -> Cancelling {
        self.change(|now| match now.phase() {
            QUEUED => (Some(now.at(RUNNING) + REFERENCE), Cancelling::Claimed),
            HELD => (Some(now.at(RUNNING) + REFERENCE), Cancelling::ClaimedHeld),
            RUNNING if !now.has(CANCEL) => (Some(now.with(CANCEL, 0)), Cancelling::Asked),
            _ => (None, Cancelling::TooLate),
        })
    }

    /// Publishes the token of the running task, which was stored before. Returns true when the task
    /// was requested to stop already: then the caller must cancel the token. A later request finds
    /// the token: both change this word, so one of them is first, and the other sees what it did.
    #[must_use]
    pub(super) fn publish_token(&self) -> bool {
        if broken(Canary::TaskToken) {
            return self.is_cancelled();
        }
        self.change(|now| (Some(now.0), now.has(CANCEL)))
    }

    /// Moves the task to `level`, if it still waits.
    pub(super) fn move_to(&self, level: Level) -> Moved {
        let bits = (level as u64) << LEVEL_SHIFT;
        self.change(|now| {
            if now.is_begun() {
                (None, Moved::TooLate)
            } else if now.level() == level {
                (None, Moved::Same)
            } else if now.is_held() {
                (Some(now.with(bits, LEVEL)), Moved::Same)
            } else {
                let moved = now.with(bits, LEVEL) + REFERENCE;
                (Some(moved), Moved::There)
            }
        })
    }

    /// Makes a task that no other thread knows yet wait for others.
    pub(super) fn hold_back(&self) {
        self.change(|now| {
            debug_assert!(now.is_queued(), "before anybody can have claimed it");
            (Some(now.at(HELD)), ())
        });
    }

    /// All predecessors of the task have ended: queues it, at the returned level, for which the
    /// caller must queue a ticket. Returns `None` when it does not wait any more. Publishes what
    /// the predecessors did to the claimer.
    #[must_use]
    pub(super) fn make_ready(&self) -> Option<Level> {
        self.change(|now| match now.is_held() {
            true => (Some(now.at(QUEUED)), Some(now.level())),
            false => (None, None),
        })
    }

    /// A predecessor of the task has failed: claims the task with the caller's own reference.
    /// Returns false when it does not wait any more.
    #[must_use]
    pub(super) fn claim_held(&self) -> bool {
        self.change(|now| match now.is_held() {
            true => (Some(now.at(RUNNING)), true),
            false => (None, false),
        })
    }

    /// Requests that the thread that finishes the task notifies its followers; returns false when
    /// it is done. The caller holds the lock of their list, which the notifying thread takes later.
    #[must_use]
    pub(super) fn follow(&self) -> bool {
        self.change_now(|now| match now.is_done() && !broken(Canary::TaskFollow) {
            true => (None, false),
            // The thread that finishes it does so after this read, and sees the bit.
            false if now.has(FOLLOWED) => (None, true),
            false => (Some(now.with(FOLLOWED, 0)), true),
        })
    }

    /// Adds a reference to the cell.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a reference already.
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
