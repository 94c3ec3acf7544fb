//! A count of pending tasks, for the one worker that waits for all of them.

use super::{
    latch::WaitTarget,
    waits::{EventId, EventKind},
};
use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicI64, AtomicU64, Ordering},
    thread,
};
use std::cell::Cell;

/// The number of pending tasks of a scope, or of another group of tasks that a worker waits for.
///
/// The worker that waits, the *owner*, counts the tasks that it spawns and finishes itself in a
/// plain cell; all other threads share a word. The sum of both is the number of pending tasks.
/// Before the owner sleeps it adds its cell to the word, so that the thread that brings the word to
/// zero knows that it must wake the owner: the waiter bears the cost.
pub(crate) struct Pending {
    /// Used by the owner's thread only, which the users ensure. On a separate cache line: the owner
    /// writes it at every spawn, and thieves write the other one after every task (`filch-bench
    /// spawn`, case `scope_spawn`).
    owned: Padded<Cell<i64>>,
    shared: Padded<SharedCount>,
}

/// What other threads than the owner's write.
///
/// Without padding: a reference to it is an argument of [`done_by_other`], and what is not in an
/// atomic must stay valid until that function returns (see `scoped`).
pub(crate) struct SharedCount {
    /// Twice the count, plus one while the owner sleeps.
    word: AtomicI64,
    /// One more than the number of the worker that has begun a task last; 0 if there is none. A
    /// hint for the owner: the queue of that worker may hold more tasks of the group. It is not
    /// cleared when the task ends, since that may have been nested in another one of the group.
    runner: AtomicU64,
}

#[cfg(not(filch_loom))]
const _: () = assert!(size_of::<SharedCount>() == size_of::<AtomicI64>() + size_of::<AtomicU64>());

const ONE: i64 = 2;
const SLEEPING: i64 = 1;

impl Pending {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            owned: Padded::new(Cell::new(0)),
            shared: Padded::new(SharedCount {
                word: AtomicI64::new(0),
                runner: AtomicU64::new(0),
            }),
        }
    }

    /// Returns a count whose owner is not a worker. It counts as sleeping from the start, and as
    /// one pending task until it counts itself as [done](done_by_other).
    pub(crate) fn for_outside_caller() -> Self {
        Self::without_owner(1)
    }

    /// Returns a count of this number of tasks for which no worker waits: as if the owner slept, so
    /// that the thread that ends the last task learns that it was the last.
    pub(crate) fn without_owner(tasks: usize) -> Self {
        let this = Self::new();
        let word = tasks as i64 * ONE + SLEEPING;
        // Relaxed: not shared with other threads yet.
        this.shared.word.store(word, Ordering::Relaxed);
        this
    }

    /// Makes it a count [without owner](Self::without_owner) of this number of tasks.
    #[inline(always)]
    pub(crate) fn reset_without_owner(&mut self, tasks: usize) {
        *self.owned = Cell::new(0);
        let word = tasks as i64 * ONE + SLEEPING;
        *self.shared = SharedCount {
            word: AtomicI64::new(word),
            runner: AtomicU64::new(0),
        };
    }

    /// Whether the caller's tasks, which are pending, are the last ones of a count [without
    /// owner](Self::without_owner). Then no other thread uses the count any more, and the caller
    /// need not count its tasks as done.
    #[inline(always)]
    pub(crate) fn are_last_without_owner(&self, tasks: u32) -> bool {
        // Acquire: pairs with the release of the other tasks in `done_by_other`. Only a thread
        // with a pending task changes the word, and there is no other.
        self.shared.word.load(Ordering::Acquire) == i64::from(tasks) * ONE + SLEEPING
    }

    #[inline(always)]
    pub(crate) fn add_by_owner(&self) {
        self.owned.set(self.owned.get() + 1);
    }

    #[inline(always)]
    pub(crate) fn add_by_other(&self) {
        // Relaxed: the task that adds is pending itself, or the owner is in `f`; so no thread waits
        // for this very change.
        self.shared.word.fetch_add(ONE, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn done_by_owner(&self) {
        self.owned.set(self.owned.get() - 1);
    }

    /// Records that `worker`, which is not the owner, begins a task.
    #[inline(always)]
    pub(crate) fn begin_by_other(&self, worker: usize) {
        let runner = worker as u64 + 1;
        // Relaxed: a hint where to search for work.
        if self.shared.runner.load(Ordering::Relaxed) != runner {
            // Relaxed: as above.
            self.shared.runner.store(runner, Ordering::Relaxed);
        }
    }

    /// The shared part, for [`done_by_other`].
    #[inline(always)]
    pub(crate) fn shared(&self) -> &SharedCount {
        &self.shared
    }

    /// Counts this number of tasks as done on the owner's thread, while one more is pending.
    #[inline(always)]
    pub(crate) fn done_many_by_owner(&self, tasks: u32) {
        self.owned.set(self.owned.get() - i64::from(tasks));
    }

    /// Counts this number of tasks as done on another thread, while the caller has one more that is
    /// pending.
    #[inline(always)]
    pub(crate) fn done_many_by_other(&self, tasks: u32) {
        // Relaxed: that pending task publishes what they did, in `done_by_other`.
        self.shared
            .word
            .fetch_sub(i64::from(tasks) * ONE, Ordering::Relaxed);
    }
}

/// Counts a task as done on another worker than the owner's. Takes only the shared part: when its
/// word has changed, everything around it may have been freed.
#[inline(always)]
pub(crate) fn done_by_other(shared: &SharedCount, unpark: impl FnOnce()) {
    thread::point();
    // AcqRel: what the task did is visible to the owner when it sees the sum. Nothing is accessed
    // after this: the owner may have returned.
    let before = shared.word.fetch_sub(ONE, Ordering::AcqRel);
    if before == ONE + SLEEPING && !broken(Canary::ScopeWake) {
        unpark();
    }
}

impl WaitTarget for Pending {
    #[inline]
    fn has_happened(&self) -> bool {
        // Acquire: pairs with the release in `done_by_other`.
        let shared = self.shared.word.load(Ordering::Acquire);
        self.owned.get() + (shared >> 1) == 0
    }

    #[inline(always)]
    fn owned_jobs(&self) -> i64 {
        self.owned.get()
    }

    fn register_sleeper(&self, _worker: usize) -> bool {
        thread::point();
        let owned = self.owned.take();
        // AcqRel: as in `done_by_other`.
        let before = self
            .shared
            .word
            .fetch_add(owned * ONE + SLEEPING, Ordering::AcqRel);
        if (before >> 1) + owned == 0 {
            self.unregister_sleeper();
            return false;
        }
        true
    }

    fn unregister_sleeper(&self) {
        // AcqRel: as in `done_by_other`.
        self.shared.word.fetch_sub(SLEEPING, Ordering::AcqRel);
    }

    fn runner(&self) -> Option<usize> {
        // Relaxed: a hint, as in `begin_by_other`.
        let runner = self.shared.runner.load(Ordering::Relaxed);
        runner.checked_sub(1).map(|worker| worker as usize)
    }

    /// Only runs of graphs wait for the count itself.
    fn event(&self) -> Option<EventId> {
        Some(EventId::end_of(self, EventKind::Run))
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
