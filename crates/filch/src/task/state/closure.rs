//! The transitions of tasks that run once, and have a ticket in each queue that they wait in.

use super::{
    CLOSED, FOLLOWED, LEVEL, LEVEL_SHIFT, REFERENCE, RUNNING, SCHEDULED, Snapshot, TaskState,
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::Ordering,
        thread,
    },
    engine::Priority,
};

/// The effect of a cancellation on the state word.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelTransition {
    /// The task has not started and is claimed by the caller, with a reference for the claim.
    Claimed,
    /// The same, and it has no ticket in any queue.
    ClaimedHeld,
    /// It is running and can check for the request; the caller must cancel its token, if it has
    /// one.
    Requested,
    /// It is done, or the request was made before.
    TooLate,
}

/// The effect of a change of the level on the state word.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelChange {
    /// It waits at the new level from now on: the caller must queue a ticket there, with the
    /// reference that was added for it.
    Requeue,
    /// Its level was the same; or the task is held, and its ticket will be queued at the new level.
    NoRequeue,
    /// It does not wait any more.
    TooLate,
}

impl TaskState {
    /// Claims the task with the reference of a ticket that was queued at `level`. Returns false
    /// when the ticket is stale. (The closure is older than every reference, so the claim orders
    /// nothing.)
    #[inline]
    #[must_use]
    pub(crate) fn claim_at(&self, level: Priority) -> bool {
        if broken(Canary::TaskClaim) {
            return self.claim_in_two_steps();
        }
        let waiting = SCHEDULED | (level as u64) << LEVEL_SHIFT;
        self.change(|now| match now.0 & (SCHEDULED | LEVEL) == waiting {
            true => (Some(now.claimed()), true),
            false => (None, false),
        })
    }

    /// The defect that the compare-and-swap rules out: check, then act.
    fn claim_in_two_steps(&self) -> bool {
        let queued = self.load().is_queued();
        thread::point();
        if queued {
            // AcqRel: as in `change`.
            let before = self.0.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
            // Before any memory is used twice.
            assert!(Snapshot(before).is_queued(), "a task was claimed twice");
        }
        queued
    }

    /// Claims the task without a ticket, and adds a reference for the claim.
    #[inline]
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.change(|now| match now.is_queued() {
            true => (Some(now.claimed() + REFERENCE), true),
            false => (None, false),
        })
    }

    /// Cancels the task: claims it if it has not started, otherwise requests it to stop.
    pub(crate) fn cancel(&self) -> CancelTransition {
        self.change(|now| match now.phase() {
            SCHEDULED => (Some(now.claimed() + REFERENCE), CancelTransition::Claimed),
            0 => (
                Some(now.in_phase(RUNNING) + REFERENCE),
                CancelTransition::ClaimedHeld,
            ),
            RUNNING if !now.has(CLOSED) => (Some(now.with(CLOSED, 0)), CancelTransition::Requested),
            _ => (None, CancelTransition::TooLate),
        })
    }

    /// Whether the task was requested to stop. Cheap, for the task itself.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Relaxed: a hint that carries no data.
        Snapshot(self.0.load(Ordering::Relaxed)).has(CLOSED)
    }

    /// Publishes the token of the running task, which was stored before. Returns true when the task
    /// was requested to stop already: then the caller must cancel the token. A later request finds
    /// the token: both change this word, so one of them is first, and the other sees what it did.
    #[must_use]
    pub(crate) fn publish_token(&self) -> bool {
        if broken(Canary::TaskToken) {
            return self.is_cancelled();
        }
        self.change(|now| (Some(now.0), now.has(CLOSED)))
    }

    /// Changes the level of the task to `level`, if the task still waits.
    pub(crate) fn set_level(&self, level: Priority) -> LevelChange {
        let bits = (level as u64) << LEVEL_SHIFT;
        self.change(|now| {
            if now.has_started() {
                (None, LevelChange::TooLate)
            } else if now.level() == level {
                (None, LevelChange::NoRequeue)
            } else if now.is_held() {
                (Some(now.with(bits, LEVEL)), LevelChange::NoRequeue)
            } else {
                let moved = now.with(bits, LEVEL) + REFERENCE;
                (Some(moved), LevelChange::Requeue)
            }
        })
    }

    /// Makes a task that no other thread can access yet wait for others.
    pub(crate) fn mark_held(&self) {
        self.change(|now| {
            debug_assert!(now.is_queued(), "before another thread can have claimed it");
            (Some(now.in_phase(0)), ())
        });
    }

    /// All predecessors of the task have ended: queues it, at the returned level, for which the
    /// caller must queue a ticket. Returns `None` when it does not wait any more. Publishes what
    /// the predecessors did to the claimer.
    #[must_use]
    pub(crate) fn make_ready(&self) -> Option<Priority> {
        self.change(|now| match now.is_held() {
            true => (Some(now.in_phase(SCHEDULED)), Some(now.level())),
            false => (None, None),
        })
    }

    /// A predecessor of the task has failed: claims the task with the caller's own reference.
    /// Returns false when it does not wait any more.
    #[must_use]
    pub(crate) fn claim_held(&self) -> bool {
        self.change(|now| match now.is_held() {
            true => (Some(now.in_phase(RUNNING)), true),
            false => (None, false),
        })
    }

    /// Requests that the thread that finishes the task notifies its followers; returns false when
    /// it is done. The caller holds the lock of their list, which the notifying thread takes later.
    #[must_use]
    pub(crate) fn follow(&self) -> bool {
        self.change_now(|now| match now.is_done() && !broken(Canary::TaskFollow) {
            true => (None, false),
            // The thread that finishes it does so after this read, and sees the bit.
            false if now.has(FOLLOWED) => (None, true),
            false => (Some(now.with(FOLLOWED, 0)), true),
        })
    }
}
