//! Events that a worker waits for inside a task.

use super::job::Job;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
    thread,
};

/// An event that a worker can wait for while it runs other jobs, and that can wake it.
pub(crate) trait WaitTarget {
    /// Whether the event has happened. After that only the waiter accesses it.
    fn happened(&self) -> bool;

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

    /// The worker that runs what is waited for, if known: its queue holds the rest of it.
    fn runner(&self) -> Option<usize> {
        None
    }
}

const UNSET: usize = 0;
const SET: usize = 1;
/// The waiter sleeps; its number is in the word.
const SLEEPS: usize = 1 << 1;
/// A worker runs what is waited for; its number is in the word.
const RUNS: usize = 1 << 2;
/// The lowest bit of the waiter's number, and its width in bits: enough for `engine::MAX_WORKERS`.
const WAITER: u32 = 3;
const BITS: u32 = 14;
/// The lowest bit of the runner's number.
const RUNNER: u32 = WAITER + BITS;

const fn number(state: usize, begin: u32) -> usize {
    (state >> begin) & ((1 << BITS) - 1)
}

/// One event, set by one thread and waited for by one worker, in the waiter's stack frame.
///
/// A word: `set`, `sleeps`, `runs` (1 bit each), the waiter's number, the runner's number (14 bits
/// each). Once it is set, the other bits are clear. The word is the whole state, and the swap that
/// sets it is the setter's last access: the waiter may return, and its frame be gone, right after.
#[derive(Debug)]
pub(crate) struct WorkerLatch {
    state: AtomicUsize,
}

impl WorkerLatch {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicUsize::new(UNSET),
        }
    }

    /// Records that `worker` begins to run what is waited for.
    pub(super) fn begin(&self, worker: usize) {
        // Relaxed: a hint where to search for work.
        self.state
            .fetch_or(RUNS | worker << RUNNER, Ordering::Relaxed);
    }

    /// Sets the latch. `unpark` wakes a worker of the waiter's pool, which outlives the latch,
    /// since the setter is one of its workers.
    pub(super) fn set_with(&self, unpark: impl FnOnce(usize)) {
        thread::point();
        // AcqRel: what was done before is visible to the waiter; and if it sleeps, its registration
        // in the pool's parkers is visible to the setter. Nothing of `self` is accessed after this.
        let before = self.state.swap(SET, Ordering::AcqRel);
        if before & SLEEPS != 0 && !broken(Canary::PoolLatchWake) {
            unpark(number(before, WAITER));
        }
    }
}

impl WaitTarget for WorkerLatch {
    #[inline(always)]
    fn happened(&self) -> bool {
        // Acquire: pairs with the release in `set_with`.
        self.state.load(Ordering::Acquire) == SET
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        thread::point();
        // AcqRel: as in `set_with`. Acquire on failure: it is set.
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state != SET).then_some(state | SLEEPS | worker << WAITER)
            })
            .is_ok()
    }

    fn unregister_sleeper(&self) {
        // Relaxed: unless it is set, only this worker reads these bits before the next
        // `register_sleeper`.
        let _ = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                (state != SET).then_some(state & (RUNS | !0 << RUNNER))
            });
    }

    fn runner(&self) -> Option<usize> {
        // Relaxed: a hint. Once it is set the bit is clear.
        let state = self.state.load(Ordering::Relaxed);
        (state & RUNS != 0).then(|| number(state, RUNNER))
    }
}

#[cfg(all(test, filch_loom))]
pub(super) mod loom_tests;
