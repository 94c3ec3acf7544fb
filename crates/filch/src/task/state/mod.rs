//! The state word of a task: its phase, its handle and waiter, how it ended, and the reference
//! count of its cell.
//!
//! `task.md` has the protocol; every change of the word is one of the transitions below.

use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicU64, Ordering},
        thread,
    },
    engine::Priority,
};
use std::fmt;

mod closure;
mod future;

pub(crate) use closure::{CancelTransition, LevelChange};
pub(crate) use future::{AfterPoll, StartAction};

/// It is queued; or, while it is polled, it will be.
const SCHEDULED: u64 = 1;
/// A thread runs, polls or ends it.
const RUNNING: u64 = 1 << 1;
/// Its body has been dropped, and its outcome is stored.
const DONE: u64 = 1 << 2;
/// A task that has none of these bits is idle: it waits to be woken, or for other tasks.
const PHASE: u64 = SCHEDULED | RUNNING | DONE;
/// It must end: a future is not polled again, a running closure is requested to stop.
const CLOSED: u64 = 1 << 3;
/// There is a handle, which takes the outcome.
const HANDLE: u64 = 1 << 4;
/// The handle has stored a waker, which the thread that finishes the task must call.
const WAITING: u64 = 1 << 5;
/// Other tasks wait for its end: the thread that finishes it must notify them.
const FOLLOWED: u64 = 1 << 6;
/// The level at which it is queued.
const LEVEL_SHIFT: u32 = 7;
const LEVEL: u64 = 0b11 << LEVEL_SHIFT;
/// How it ended, once it is done.
const STATUS_SHIFT: u32 = 9;
const STATUS: u64 = 0b111 << STATUS_SHIFT;
/// One reference to the cell.
const REFERENCE: u64 = 1 << 12;

/// How a task ended. The outcome itself may be dropped long before this is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Succeeded,
    Panicked,
    /// It never ran, or was not polled to its end.
    Cancelled(Cause),
}

/// Why a task was cancelled. Numbered as in the word, after the statuses of tasks that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    /// It was cancelled, or its token was.
    Requested = 2,
    /// Its deadline passed before it started.
    Deadline,
    /// The pool accepts no more tasks, or was shut down before the task started.
    Closed,
    /// The pool had no capacity for it.
    Full,
    /// A task that it waited for failed.
    Dependency,
}

impl TaskStatus {
    #[inline(always)]
    const fn bits(self) -> u64 {
        let number = match self {
            Self::Succeeded => 0,
            Self::Panicked => 1,
            Self::Cancelled(cause) => cause as u64,
        };
        number << STATUS_SHIFT
    }

    #[inline(always)]
    const fn from_word(word: u64) -> Self {
        match (word & STATUS) >> STATUS_SHIFT {
            0 => Self::Succeeded,
            1 => Self::Panicked,
            2 => Self::Cancelled(Cause::Requested),
            3 => Self::Cancelled(Cause::Deadline),
            4 => Self::Cancelled(Cause::Closed),
            5 => Self::Cancelled(Cause::Full),
            _ => Self::Cancelled(Cause::Dependency),
        }
    }
}

/// One reading of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

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
    const fn in_phase(self, phase: u64) -> u64 {
        self.with(phase, PHASE)
    }

    /// Whether a closure is queued and no thread has claimed it. (Of a future that is running or
    /// done it says that it was woken meanwhile.)
    pub(crate) const fn is_queued(self) -> bool {
        self.has(SCHEDULED)
    }

    /// Returns the word of a closure that is queued, when it has been claimed: in one addition.
    const fn claimed(self) -> u64 {
        self.0 + (RUNNING - SCHEDULED)
    }

    /// Whether a future waits to be woken: no thread owns it, and it is in no queue.
    pub(crate) const fn is_idle(self) -> bool {
        self.phase() == 0
    }

    /// Whether a closure waits for other tasks. The phase is that of an idle future.
    pub(crate) const fn is_held(self) -> bool {
        self.is_idle()
    }

    /// Whether a thread has claimed it.
    pub(crate) const fn has_started(self) -> bool {
        self.has(RUNNING | DONE)
    }

    /// Whether the outcome is stored.
    pub(crate) const fn is_done(self) -> bool {
        self.has(DONE)
    }

    /// Returns how it ended, if it is done.
    #[inline]
    pub(crate) fn status(self) -> Option<TaskStatus> {
        self.is_done().then(|| TaskStatus::from_word(self.0))
    }

    /// Whether there is a handle, which takes the outcome.
    pub(crate) const fn has_handle(self) -> bool {
        self.has(HANDLE)
    }

    /// Whether the handle has stored a waker.
    pub(super) const fn is_waiting(self) -> bool {
        self.has(WAITING)
    }

    /// Returns the level at which it is queued, or will be.
    pub(crate) fn level(self) -> Priority {
        Priority::ALL[((self.0 & LEVEL) >> LEVEL_SHIFT) as usize]
    }

    const fn references(self) -> u64 {
        self.0 / REFERENCE
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase() {
            0 => "idle",
            SCHEDULED => "queued",
            RUNNING => "running",
            DONE => "done",
            // A wake that came too late sets the bit as well.
            _ if self.is_done() => "done",
            _ => "running, woken",
        };
        f.debug_struct("TaskState")
            .field("phase", &phase)
            .field("status", &self.status())
            .field("level", &self.level())
            .field("handle", &self.has(HANDLE))
            .field("waiting", &self.has(WAITING))
            .field("closed", &self.has(CLOSED))
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
pub(super) enum HandleDropped {
    /// Nothing: the task continues, and the reference has been released. The handle must not touch
    /// the cell.
    Released,
    /// The task continues: the handle drops the waker, and then releases the reference.
    OwnsWaker,
    /// The handle drops the outcome of this status, and then releases the reference.
    OwnsOutcome(TaskStatus),
}

/// The state word.
pub(crate) struct TaskState(AtomicU64);

/// The transitions of every task.
impl TaskState {
    /// Creates the word of a task that is queued at `level`, with two references: the handle, and
    /// its ticket or the future itself.
    pub(crate) fn new(level: Priority) -> Self {
        let level = (level as u64) << LEVEL_SHIFT;
        Self(AtomicU64::new(SCHEDULED | level | HANDLE | (2 * REFERENCE)))
    }

    /// Creates the word of a future that its creator polls at once, without a handle.
    pub(crate) fn new_running() -> Self {
        Self(AtomicU64::new(RUNNING | REFERENCE))
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        // Acquire: pairs with the release in `change`, called by `finish`; a thread that sees that
        // the task is done sees the outcome.
        Snapshot(self.0.load(Ordering::Acquire))
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
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let (word, result) = next(Snapshot(now));
            let Some(word) = word else {
                return result;
            };
            // AcqRel: publishes what this thread has written to the cell, and acquires what the
            // other thread has; each transition names what that is. Acquire on failure: as above.
            match self
                .0
                .compare_exchange_weak(now, word, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return result,
                Err(seen) => now = seen,
            }
        }
    }

    /// The body has been dropped, and the outcome stored. Publishes the outcome; acquires the
    /// waker.
    #[inline]
    pub(super) fn finish(&self, status: TaskStatus) -> Finished {
        // The defect: to check for a handle before the transition.
        let checked = broken(Canary::TaskOrphan).then(|| self.load().0 & HANDLE);
        self.change(|now| {
            debug_assert!(now.has(RUNNING) && !now.is_done(), "only what was claimed");
            let done = now.in_phase(DONE) | status.bits();
            let handle = checked.unwrap_or(now.0 & HANDLE);
            match handle | now.0 & (WAITING | FOLLOWED) {
                HANDLE => (Some(done - REFERENCE), Finished::Handed),
                // No other thread can see a change: the caller holds the only reference.
                0 if now.references() == 1 => (None, Finished::Orphaned),
                0 => (Some(done), Finished::Orphaned),
                bits if bits & FOLLOWED != 0 => (Some(done), Finished::Followed),
                _ => (Some(done), Finished::Wake),
            }
        })
    }

    /// The handle has stored a waker. Publishes the waker; returns false when the task is done, and
    /// then the waker still belongs to the handle.
    #[must_use]
    pub(super) fn set_waiting(&self) -> bool {
        self.change(|now| match now.is_done() && !broken(Canary::TaskWatch) {
            true => (None, false),
            false => (Some(now.with(WAITING, 0)), true),
        })
    }

    /// Takes the waker back for the handle. Returns false when the task is done, and then the waker
    /// belongs to the thread that finished it.
    #[must_use]
    pub(super) fn clear_waiting(&self) -> bool {
        self.change(|now| match now.is_done() {
            true => (None, false),
            false => (Some(now.with(0, WAITING)), true),
        })
    }

    /// The handle is dropped. Acquires the outcome, when there is one.
    #[inline]
    pub(super) fn drop_handle(&self) -> HandleDropped {
        self.change(|now| {
            let gone = now.with(0, HANDLE | WAITING);
            match (now.is_done(), now.has(WAITING)) {
                (true, _) => (
                    None,
                    HandleDropped::OwnsOutcome(TaskStatus::from_word(now.0)),
                ),
                (false, true) => (Some(gone), HandleDropped::OwnsWaker),
                (false, false) => (Some(gone - REFERENCE), HandleDropped::Released),
            }
        })
    }

    /// Adds a reference to the cell.
    pub(super) fn retain(&self) {
        // Relaxed: the caller has a reference already, or the future itself keeps the memory.
        self.0.fetch_add(REFERENCE, Ordering::Relaxed);
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
        Snapshot(self.0.fetch_sub(REFERENCE, Ordering::AcqRel)).references() == 1
    }
}

impl fmt::Debug for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}
