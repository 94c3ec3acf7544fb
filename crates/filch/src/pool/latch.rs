//! Events that a worker waits for inside a task.

use super::{
    job::Job,
    waits::{EventId, EventKind},
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicU64, Ordering},
        thread,
    },
    engine::Mark,
};

/// An event that a worker can wait for while it runs other jobs, and that can wake it.
pub(crate) trait WaitTarget {
    /// Whether the event has happened. After that only the waiter accesses it.
    fn has_happened(&self) -> bool;

    /// The number of jobs that the event waits for, as the waiter's own thread has counted those
    /// that it has queued and ended. Other workers may have ended some of them.
    #[inline]
    fn owned_jobs(&self) -> i64 {
        0
    }

    /// Registers `worker`, which is about to sleep until the event happens. Returns false when it
    /// has happened already.
    fn register_sleeper(&self, worker: usize) -> bool;

    /// Unregisters the worker, which does not sleep any more.
    fn unregister_sleeper(&self);

    /// Takes a job that belongs to what is waited for and is in no worker's queue.
    fn take_job(&self) -> Option<Job> {
        None
    }

    /// Whether there is such a job.
    fn has_job(&self) -> bool {
        false
    }

    /// Whether what is waited for, or something that it depends on, may be in a queue, where only
    /// a worker that runs unrelated jobs finds it.
    fn may_be_queued(&self) -> bool {
        true
    }

    /// The worker that runs what is waited for, if known: its queue holds the rest of it.
    fn runner(&self) -> Option<usize> {
        None
    }

    /// The event for the list of waits, unless the wait is listed by other means.
    fn event(&self) -> Option<EventId> {
        None
    }
}

const UNSET: u64 = 0;
const SET: u64 = 1;
/// The waiter sleeps; its number is in the word.
const SLEEPS: u64 = 1 << 1;
/// A worker runs what is waited for; its number is in the word.
const RUNS: u64 = 1 << 2;
/// The lowest bit of the runner's number, and its width in bits: enough for `engine::MAX_WORKERS`.
const RUNNER: u32 = 3;
const BITS: u32 = 14;
/// The lowest bit of the mark, which is replaced by the waiter's number while the waiter sleeps.
const MARK: u32 = Mark::FREE_BITS;

const _: () = assert!(RUNNER + BITS <= MARK);

/// Returns the number of a worker that is stored in the word from bit `begin` on.
const fn worker_at(state: u64, begin: u32) -> usize {
    (state >> begin) as usize & ((1 << BITS) - 1)
}

/// One event, set by one thread and waited for by one worker, in the waiter's stack frame.
///
/// A word: `set`, `sleeps`, `runs` (1 bit each), the runner's number (14 bits), and above them the
/// place of what is waited for in the queue of the waiter (a [`Mark`], 40 bits) or, while the
/// waiter sleeps, the number of the waiter. Once it is set, the other bits are clear. The word is
/// the whole state, and the swap that sets it is the setter's last access: the waiter may return,
/// and its frame be gone, right after.
///
/// The place is here because the word equals the mark as long as no worker has touched the latch.
/// So a join that takes its part back compares the word with the end of its queue, and knows with
/// one comparison that the part is the newest job and that it has not run.
#[derive(Debug)]
pub(crate) struct WorkerLatch {
    state: AtomicU64,
}

impl WorkerLatch {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(UNSET),
        }
    }

    /// Creates one for what will be queued at `mark`.
    #[inline(always)]
    pub(super) fn at(mark: Mark) -> Self {
        Self {
            state: AtomicU64::new(mark.raw()),
        }
    }

    /// Whether what is waited for was queued at `mark` and, in as far as this thread can know, no
    /// worker has begun to run it. For the waiter, before it sleeps.
    #[inline(always)]
    pub(super) fn is_untouched_at(&self, mark: Mark) -> bool {
        // Relaxed: a thief that has begun to run it has taken it from the queue before, which the
        // waiter will see there.
        let state = self.state.load(Ordering::Relaxed);
        state == mark.raw() || broken(Canary::PartPlace) && state == SET
    }

    /// Returns the place, unless the event has happened. For the waiter, before it sleeps.
    pub(crate) fn mark(&self) -> Option<Mark> {
        // Acquire: if it is set, pairs with the release in `set_with`.
        let state = self.state.load(Ordering::Acquire);
        (state != SET).then(|| Mark::from_raw(state))
    }

    /// The event for the list of waits.
    pub(super) fn end(&self) -> EventId {
        EventId::end_of(self, EventKind::Half)
    }

    /// Records that `worker` begins to run what is waited for.
    pub(super) fn begin(&self, worker: usize) {
        // Relaxed: a hint where to search for work.
        self.state
            .fetch_or(RUNS | (worker as u64) << RUNNER, Ordering::Relaxed);
    }

    /// Sets the latch. `unpark` wakes a worker of the waiter's pool, which outlives the latch,
    /// since the setter is one of its workers.
    pub(crate) fn set_with(&self, unpark: impl FnOnce(usize)) {
        thread::point();
        // AcqRel: what was done before is visible to the waiter; and if it sleeps, its registration
        // in the pool's parkers is visible to the setter. Nothing of `self` is accessed after this.
        let before = self.state.swap(SET, Ordering::AcqRel);
        if before & SLEEPS != 0 && !broken(Canary::PoolLatchWake) {
            unpark(worker_at(before, MARK));
        }
    }
}

impl WaitTarget for WorkerLatch {
    #[inline(always)]
    fn has_happened(&self) -> bool {
        // Acquire: pairs with the release in `set_with`.
        self.state.load(Ordering::Acquire) == SET
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        thread::point();
        // AcqRel: as in `set_with`. Acquire on failure: it is set.
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                let rest = state & !(!0 << MARK);
                (state != SET).then_some(rest | SLEEPS | (worker as u64) << MARK)
            })
            .is_ok()
    }

    fn unregister_sleeper(&self) {
        // Relaxed: unless it is set, only this worker reads these bits before the next
        // `register_sleeper`.
        let _ = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                (state != SET).then_some(state & !(SLEEPS | !0 << MARK))
            });
    }

    fn runner(&self) -> Option<usize> {
        // Relaxed: a hint. Once it is set the bit is clear.
        let state = self.state.load(Ordering::Relaxed);
        (state & RUNS != 0).then(|| worker_at(state, RUNNER))
    }

    fn event(&self) -> Option<EventId> {
        Some(self.end())
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{WaitTarget, WorkerLatch};
    use crate::engine::{MAX_WORKERS, Mark};
    use std::cell::Cell;

    /// The numbers and the place fit into the word, and the place is known until the waiter sleeps.
    #[test]
    fn a_latch_knows_its_place_its_runner_and_its_waiter() {
        let last = Mark::from_raw(!0);
        for mark in [Mark::from_raw(0), last] {
            let latch = WorkerLatch::at(mark);
            assert!(latch.is_untouched_at(mark) && !latch.is_untouched_at(mark.below()));
            latch.begin(MAX_WORKERS - 1);
            assert!(!latch.is_untouched_at(mark) && !latch.has_happened());
            assert_eq!(latch.mark(), Some(mark));
            assert!(latch.register_sleeper(MAX_WORKERS - 2));
            latch.unregister_sleeper();
            assert_eq!(latch.runner(), Some(MAX_WORKERS - 1));
            assert!(latch.register_sleeper(MAX_WORKERS - 3));
            assert_eq!(latch.runner(), Some(MAX_WORKERS - 1));
            let woken = Cell::new(None);
            latch.set_with(|worker| woken.set(Some(worker)));
            assert_eq!(woken.get(), Some(MAX_WORKERS - 3));
            assert!(latch.has_happened() && !latch.register_sleeper(0));
            assert_eq!((latch.mark(), latch.runner()), (None, None));
            assert!(!latch.is_untouched_at(mark));
        }
    }
}

#[cfg(all(test, filch_loom))]
pub(super) mod loom_tests;
