//! What a worker waits for inside of a task.

use super::job::Job;
use crate::ground::{
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
}

const UNSET: usize = 0;
const SET: usize = 1;
/// The number of the worker that sleeps, plus this.
const SLEEPER: usize = 2;

/// One event, set by one thread and waited for by one worker, in the waiter's stack frame.
///
/// The word is all there is, and the swap that sets it is the last touch of the one who sets it: the
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

    /// It has happened. `unpark` wakes a worker of the waiter's pool, which outlives the latch, since the
    /// setter is one of its workers.
    pub(super) fn set_with(&self, unpark: impl FnOnce(usize)) {
        thread::point();
        // AcqRel: what was done before is visible to the waiter; and if it sleeps, that it went to
        // sleep, in the pool's parkers, is visible to us. Nothing of `self` is touched after this.
        let before = self.state.swap(SET, Ordering::AcqRel);
        if before >= SLEEPER && !broken(Canary::PoolLatchWake) {
            unpark(before - SLEEPER);
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
            .compare_exchange(UNSET, SLEEPER + worker, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn awake(&self) {
        // Relaxed: unless it is set, nobody else looks at the word before the next `sleep`.
        let state = self.state.load(Ordering::Relaxed);
        if state != SET {
            // Relaxed: as above. If it fails, it has been set in between.
            let _ = self
                .state
                .compare_exchange(state, UNSET, Ordering::Relaxed, Ordering::Relaxed);
        }
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
