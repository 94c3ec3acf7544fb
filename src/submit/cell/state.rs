//! The word of a task: where it stands, who is interested, and how many hold on to its memory.
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
/// There is a handle: the outcome is for it.
const HANDLE: u64 = 1 << 4;
/// The handle has left a waker, which whoever finishes the task must call.
const WAITING: u64 = 1 << 5;
/// Somebody wants the running task to stop.
const CANCEL: u64 = 1 << 6;
/// Other tasks wait for its end: whoever finishes it must tell them.
const FOLLOWED: u64 = 1 << 7;
/// How it ended, once it is done.
const FATE_SHIFT: u32 = 8;
const FATE: u64 = 0b111 << FATE_SHIFT;
/// One reference: the handle, a ticket, a claim, a task that it follows or that follows it, or whoever may cancel.
const REFERENCE: u64 = 1 << 11;

/// How a task ended. The outcome itself may be gone long before somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::submit) enum TaskStatus {
    Fine,
    Panicked,
    Cancelled,
    Expired,
    /// Its pool was closed, or had no room.
    Refused,
    /// One that it waited for failed.
    Followed,
}

impl TaskStatus {
    const ALL: [Self; 6] = [
        Self::Fine,
        Self::Panicked,
        Self::Cancelled,
        Self::Expired,
        Self::Refused,
        Self::Followed,
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

    /// The word with `set` set and `clear` cleared.
    const fn with(self, set: u64, clear: u64) -> u64 {
        (self.0 & !clear) | set
    }

    /// The word in another phase.
    const fn at(self, phase: u64) -> u64 {
        self.with(phase, PHASE)
    }

    /// Nobody has claimed it.
    pub(in crate::submit) const fn is_queued(self) -> bool {
        self.phase() == QUEUED
    }

    /// It waits for other tasks.
    pub(in crate::submit) const fn is_held(self) -> bool {
        self.phase() == HELD
    }

    /// Somebody has claimed it.
    pub(in crate::submit) const fn is_begun(self) -> bool {
        matches!(self.phase(), RUNNING | DONE)
    }

    /// How it ended, if it is done.
    pub(in crate::submit) fn fate(self) -> Option<TaskStatus> {
        let fate = (self.0 & FATE) >> FATE_SHIFT;
        self.is_done().then(|| TaskStatus::ALL[fate as usize])
    }

    /// The outcome is there.
    pub(in crate::submit) const fn is_done(self) -> bool {
        self.phase() == DONE
    }

    /// The outcome is for a handle.
    pub(in crate::submit) const fn has_handle(self) -> bool {
        self.has(HANDLE)
    }

    /// The handle has left a waker.
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

/// What became of the one who finished a task.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// The outcome is the handle's, and the reference has been given up: hands off.
    Handed,
    /// The same, but the waker is ours to call first, and the reference to give up then.
    Wake,
    /// Nobody wants the outcome: it is ours to drop, and the reference to give up then.
    Orphaned,
    /// As one of the others: the word says which, and does not change in that any more. But those who follow are to be told
    /// too, and the reference is ours in any case.
    Followed,
}

/// What became of a handle that lets go.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The task goes on, and the reference has been given up: hands off.
    Left,
    /// The same, but the waker is ours to drop first, and the reference to give up then.
    LeftWaker,
    /// The outcome is ours to drop, and the reference to give up then.
    Outcome,
}

/// What a wish to cancel came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelling {
    /// It has not started and is ours, with a reference for the claim.
    Claimed,
    /// The same, and it has no ticket anywhere.
    ClaimedHeld,
    /// It is running and can ask; its token, if it has one, must be told by us.
    Asked,
    /// It is done, or somebody has asked before.
    TooLate,
}

/// What a change of the level came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// It waits at the new level from now on; a ticket with a reference of its own must be queued there.
    There,
    /// It waits there already; or it waits for other tasks first, and gets its ticket for the new level then.
    Same,
    /// It does not wait any more.
    TooLate,
}

/// The word.
pub(super) struct State {
    word: AtomicU64,
}

impl State {
    /// Queued at `level`, with a handle and a ticket.
    pub(super) fn new(level: Level) -> Self {
        let level = (level as u64) << LEVEL_SHIFT;
        Self {
            word: AtomicU64::new(QUEUED | level | HANDLE | (2 * REFERENCE)),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release in `change`, when `finish` made it; who sees that the task is
        // done sees the outcome.
        Snapshot(self.word.load(Ordering::Acquire))
    }

    /// Whether somebody wants it to stop. Cheap, for the task itself.
    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        // Relaxed: a hint that carries no data.
        Snapshot(self.word.load(Ordering::Relaxed)).has(CANCEL)
    }

    /// Goes from one word to the next, if `next` says one, and tells what `next` said.
    #[inline(always)]
    fn change<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
        thread::point();
        self.change_now(next)
    }

    /// The same with a lock held, when nobody else must go on in a rehearsal.
    #[inline(always)]
    fn change_now<R>(&self, next: impl Fn(Snapshot) -> (Option<u64>, R)) -> R {
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

    /// A ticket that was queued at `level` claims the task with its own reference. False when the ticket
    /// is stale. (The closure is older than every reference, so the claim orders nothing.)
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

    /// The defect that the swap exists to rule out: look, then act.
    fn claim_in_two_steps(&self) -> bool {
        let queued = self.load().is_queued();
        thread::point();
        if queued {
            // AcqRel: as in `change`.
            let before = self.word.fetch_or(RUNNING, Ordering::AcqRel);
            // Before anybody's memory is touched twice.
            assert_eq!(before & PHASE, QUEUED, "a task was claimed twice");
        }
        queued
    }

    /// Somebody without a ticket claims the task, and gets a reference for that.
    #[inline]
    #[must_use]
    pub(super) fn claim(&self) -> bool {
        self.change(|now| match now.is_queued() {
            true => (Some(now.at(RUNNING) + REFERENCE), true),
            false => (None, false),
        })
    }

    /// The claimer has left the outcome in its place. Hands on the outcome; receives the waker.
    #[inline]
    pub(super) fn finish(&self, fate: TaskStatus) -> Finished {
        // The defect: to have looked before whether there is a handle.
        let looked = broken(Canary::TaskOrphan).then(|| self.load().has(HANDLE));
        self.change(|now| {
            debug_assert_eq!(now.phase(), RUNNING, "only what was claimed is finished");
            let done = now.at(DONE) | (fate as u64) << FATE_SHIFT;
            if now.has(FOLLOWED) {
                return (Some(done), Finished::Followed);
            }
            match (looked.unwrap_or(now.has(HANDLE)), now.has(WAITING)) {
                (true, false) => (Some(done - REFERENCE), Finished::Handed),
                (true, true) => (Some(done), Finished::Wake),
                (false, _) => (Some(done), Finished::Orphaned),
            }
        })
    }

    /// The handle has left a waker in its place. Hands on the waker; false when the task is done, and the
    /// waker still the handle's.
    #[must_use]
    pub(super) fn watch(&self) -> bool {
        self.change(|now| match now.is_done() && !broken(Canary::TaskWatch) {
            true => (None, false),
            false => (Some(now.with(WAITING, 0)), true),
        })
    }

    /// The waker is the handle's again; false when the task is done, and the waker with whoever finished
    /// it.
    #[must_use]
    pub(super) fn unwatch(&self) -> bool {
        self.change(|now| match now.is_done() {
            true => (None, false),
            false => (Some(now.with(0, WAITING)), true),
        })
    }

    /// The handle lets go. Receives the outcome, when there is one.
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

    /// Somebody wants the task not to run.
    pub(super) fn cancel(&self) -> Cancelling {
        self.change(|now| match now.phase() {
            QUEUED => (Some(now.at(RUNNING) + REFERENCE), Cancelling::Claimed),
            HELD => (Some(now.at(RUNNING) + REFERENCE), Cancelling::ClaimedHeld),
            RUNNING if !now.has(CANCEL) => (Some(now.with(CANCEL, 0)), Cancelling::Asked),
            _ => (None, Cancelling::TooLate),
        })
    }

    /// The running task has got a token, which was left in its place before. True when somebody has asked it to
    /// stop already: then the token must be told by the caller. Whoever asks after this finds the token: both change
    /// this word, so one of them comes first, and the other sees what it did.
    #[must_use]
    pub(super) fn publish_token(&self) -> bool {
        if broken(Canary::TaskToken) {
            return self.is_cancelled();
        }
        self.change(|now| (Some(now.0), now.has(CANCEL)))
    }

    /// The task waits at `level` from now on, if it waits at all.
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

    /// A task that nobody knows yet waits for others from now on.
    pub(super) fn hold_back(&self) {
        self.change(|now| {
            debug_assert!(now.is_queued(), "before anybody can have claimed it");
            (Some(now.at(HELD)), ())
        });
    }

    /// All that the task waits for has ended: it is queued from now on, at the level that this gives, and the caller
    /// owes it a ticket. None when it does not wait any more. Hands on what the others did, to whoever claims it.
    #[must_use]
    pub(super) fn make_ready(&self) -> Option<Level> {
        self.change(|now| match now.is_held() {
            true => (Some(now.at(QUEUED)), Some(now.level())),
            false => (None, None),
        })
    }

    /// One that the task waits for has failed: claims it with the caller's own reference. False when it does not wait
    /// any more.
    #[must_use]
    pub(super) fn claim_held(&self) -> bool {
        self.change(|now| match now.is_held() {
            true => (Some(now.at(RUNNING)), true),
            false => (None, false),
        })
    }

    /// Whoever finishes the task tells its followers; false when it is done. The caller has the lock of their list,
    /// and so has whoever tells them, later.
    #[must_use]
    pub(super) fn follow(&self) -> bool {
        self.change_now(|now| match now.is_done() && !broken(Canary::TaskFollow) {
            true => (None, false),
            // Who finishes it comes later than this look, and sees the mark.
            false if now.has(FOLLOWED) => (None, true),
            false => (Some(now.with(FOLLOWED, 0)), true),
        })
    }

    /// One more holds on to the memory.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a reference already.
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
