//! What a worker waits for inside of a task.

use super::job::Job;
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicUsize, Ordering},
    thread,
};

/// Something that a worker can wait for while it helps others, and that can wake it.
pub(crate) trait Awaited {
    /// Whether it has happened. After that nobody touches it any more but the one who waits.
    fn happened(&self) -> bool;

    /// `worker` is about to sleep until it has happened. False when it has already.
    fn sleep(&self, worker: usize) -> bool;

    /// The worker does not sleep any more.
    fn awake(&self);

    /// A job that belongs to what is waited for and lies in no worker's queue.
    fn take_job(&self) -> Option<Job> {
        None
    }

    /// Whether there is one.
    fn has_job(&self) -> bool {
        false
    }

    /// The worker that runs what is waited for, if that is known: its queue holds the rest of it.
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
/// Where the waiter's number begins, and how many bits it has: enough for `engine::MAX_WORKERS`.
const WAITER: u32 = 3;
const BITS: u32 = 14;
/// Where the runner's number begins.
const RUNNER: u32 = WAITER + BITS;

const fn number(state: usize, begin: u32) -> usize {
    (state >> begin) & ((1 << BITS) - 1)
}

/// One event, set by one thread and waited for by one worker, in the waiter's stack frame.
///
/// A word: `set`, `sleeps`, `runs` (1 bit each), the waiter's number, the runner's number (14 bits each).
/// Once it is set, the other bits are clear. The word is all there is, and the swap that sets it is the last touch of the one who sets it: the
/// waiter may return, and the frame be gone, right after.
#[derive(Debug)]
pub(crate) struct Latch {
    state: AtomicUsize,
}

impl Latch {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicUsize::new(UNSET),
        }
    }

    /// `worker` begins to run what is waited for.
    pub(super) fn begin(&self, worker: usize) {
        // Relaxed: a hint where to look for work.
        self.state
            .fetch_or(RUNS | worker << RUNNER, Ordering::Relaxed);
    }

    /// It has happened. `unpark` wakes a worker of the waiter's pool, which outlives the latch, since the
    /// setter is one of its workers.
    pub(super) fn set_with(&self, unpark: impl FnOnce(usize)) {
        thread::point();
        // AcqRel: what was done before is visible to the waiter; and if it sleeps, that it went to
        // sleep, in the pool's parkers, is visible to us. Nothing of `self` is touched after this.
        let before = self.state.swap(SET, Ordering::AcqRel);
        if before & SLEEPS != 0 && !broken(Canary::PoolLatchWake) {
            unpark(number(before, WAITER));
        }
    }
}

impl Awaited for Latch {
    #[inline(always)]
    fn happened(&self) -> bool {
        // Acquire: pairs with the release in `set_with`.
        self.state.load(Ordering::Acquire) == SET
    }

    fn sleep(&self, worker: usize) -> bool {
        thread::point();
        // AcqRel: as in `set_with`. Acquire on failure: it is set.
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state != SET).then_some(state | SLEEPS | worker << WAITER)
            })
            .is_ok()
    }

    fn awake(&self) {
        // Relaxed: unless it is set, only this worker reads these bits before the next `sleep`.
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

/// The latch as it is, for the model checker.
#[cfg(filch_loom)]
pub(crate) mod model {
    use super::Awaited;

    /// See the latch of the pool.
    #[derive(Debug)]
    pub struct Latch(super::Latch);

    #[expect(clippy::new_without_default, missing_docs, reason = "a shim for tests")]
    impl Latch {
        pub fn new() -> Self {
            Self(super::Latch::new())
        }

        pub fn set(&self, unpark: impl FnOnce(usize)) {
            self.0.set_with(unpark);
        }

        pub fn happened(&self) -> bool {
            self.0.happened()
        }

        pub fn sleep(&self, worker: usize) -> bool {
            self.0.sleep(worker)
        }

        pub fn awake(&self) {
            self.0.awake();
        }
    }
}
