//! The bell of the workers that are kept for futures: it rings when there is something for them.
//!
//! **Who does what.** Whoever has queued a job *rings*, after that. A worker that is kept *waits* for the bell, and *takes*
//! the ring; then it looks for jobs, and runs them until it sees none. It looks after it has taken the ring, never
//! before.
//!
//! **No job waits for a worker that sleeps.** All there is to know is one bit. A ring sets it, in one step; a worker takes it
//! away, in one step. Of the two, one comes first:
//! - The ring, and then the worker takes it away: what was queued before the ring the worker sees when it looks.
//! - The worker, and then the ring finds the bit gone: it sets the bit, and wakes one of those who sleep, if any do. Who
//!   sleeps has looked at the bit before, with the lock in its hand; who rings takes that lock after it has set the bit. So
//!   either that worker sees the bit, or it sleeps already and is woken.
//!
//! **Several of them.** Rings that come before the bit is taken away are one ring, and wake one worker; that one sees all their
//! jobs, but takes one, which may be long. So whoever has taken a job and sees that more are there *passes the ring on* before it
//! runs its own. While something waits, then, either the bit is set and somebody is on the way to take it, or nobody sleeps.
//!
//! **One in the driver.** Where the pool has a [driver](crate::Driver), one of these workers waits in it instead. Its parker is
//! noted under the lock, after a look at the bit; so a ring that comes later finds it, and unparks it. A ring wakes one that
//! sleeps first: the driver is left only when all others are at work.
//!
//! **The end.** A second bit, which stays. The workers of the pool set it when they go home, and they don't before every job is
//! done; so there is nothing left to look for.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering},
    thread::{self, Parker},
};
use std::{
    fmt,
    sync::{Arc, PoisonError},
};

const RUNG: u32 = 1;
const OVER: u32 = 1 << 1;

/// See the module.
pub(crate) struct EventCount {
    /// `RUNG`, `OVER`.
    word: AtomicU32,
    sleepers: Mutex<Sleepers>,
    rings: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// How many wait for the condition variable.
    here: usize,
    /// The one that waits in the driver.
    in_driver: Option<Arc<Parker>>,
}

impl EventCount {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            sleepers: Mutex::new(Sleepers::default()),
            rings: Condvar::new(),
        }
    }

    /// A job has been queued: one who waits gets up for it.
    pub(crate) fn ring(&self) {
        thread::point();
        // Release: whoever takes this ring, or one that comes on top of it, sees the job; pairs with `take`.
        let before = self.word.fetch_or(RUNG, Ordering::Release);
        if before & (RUNG | OVER) == 0 {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        let sleepers = self.lock();
        if sleepers.here > 0 {
            self.rings.notify_one();
        } else if let Some(parker) = sleepers.in_driver.clone() {
            drop(sleepers);
            parker.unpark();
        }
    }

    /// One who has a job, and is about to run it, has looked whether there are more.
    pub(crate) fn pass_on(&self, more: bool) {
        if more && !broken(Canary::EventCountPassOn) {
            self.ring();
        }
    }

    /// Those who wait go home, as does whoever comes later.
    pub(crate) fn end(&self) {
        // Relaxed: there is nothing to be seen. Who sleeps is told with the lock, as in `ring`.
        self.word.fetch_or(OVER, Ordering::Relaxed);
        let in_driver = self.lock().in_driver.clone();
        self.rings.notify_all();
        if let Some(parker) = in_driver {
            parker.unpark();
        }
    }

    /// What a worker does that is kept: it waits, and as long as there is work, it works. Returns at the end. `elsewhere` waits
    /// in another place for a while, if it can: see [`wait_in`](Self::wait_in).
    pub(crate) fn attend(
        &self,
        is_work: impl Fn() -> bool,
        work: impl Fn(),
        elsewhere: impl Fn() -> bool,
    ) {
        while self.wait(&elsewhere) {
            while is_work() {
                work();
            }
        }
    }

    /// Calls `park`, unless the bell has rung. If it rings meanwhile, this thread is unparked.
    pub(crate) fn wait_in(&self, park: impl FnOnce()) {
        {
            let mut sleepers = self.lock();
            if self.has_news() {
                return;
            }
            sleepers.in_driver = Some(thread::parker());
        }
        park();
        self.lock().in_driver = None;
    }

    /// Waits for a ring, and takes it. False at the end.
    fn wait(&self, elsewhere: impl Fn() -> bool) -> bool {
        loop {
            thread::point();
            if let Some(rung) = self.take() {
                return rung;
            }
            if elsewhere() {
                continue;
            }
            if !thread::wait_until(None, || self.has_news()) {
                return self.sleep();
            }
        }
    }

    fn sleep(&self) -> bool {
        let mut sleepers = self.lock();
        let mut blind = broken(Canary::EventCountLook);
        loop {
            if !blind && let Some(rung) = self.take() {
                return rung;
            }
            blind = false;
            sleepers.here += 1;
            sleepers = self
                .rings
                .wait(sleepers)
                .unwrap_or_else(PoisonError::into_inner);
            sleepers.here -= 1;
        }
    }

    /// Takes the ring, if there is one; false if it is over.
    fn take(&self) -> Option<bool> {
        // Acquire: what was queued before the ring, or before those below it, is seen from now on; pairs with `ring`. A
        // ring that comes later finds the bit gone: it is the same word. Relaxed is the defect.
        let order = match broken(Canary::EventCountOrder) {
            false => Ordering::Acquire,
            true => Ordering::Relaxed,
        };
        let word = self.word.fetch_and(!RUNG, order);
        match word {
            _ if word & OVER != 0 => Some(false),
            _ if word & RUNG != 0 => Some(true),
            _ => None,
        }
    }

    fn has_news(&self) -> bool {
        // Relaxed: whoever sees something takes it next.
        self.word.load(Ordering::Relaxed) != 0
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EventCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: for people.
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("EventCount")
            .field("rung", &(word & RUNG != 0))
            .field("over", &(word & OVER != 0))
            .finish_non_exhaustive()
    }
}

/// The bell as it is, for the model checker.
#[cfg(filch_loom)]
pub(crate) mod model {
    /// See the bell of the pool.
    #[derive(Debug)]
    pub struct EventCount(super::EventCount);

    #[expect(clippy::new_without_default, missing_docs, reason = "a shim for tests")]
    impl EventCount {
        pub fn new() -> Self {
            Self(super::EventCount::new())
        }

        pub fn ring(&self) {
            self.0.ring();
        }

        pub fn pass_on(&self, more: bool) {
            self.0.pass_on(more);
        }

        pub fn end(&self) {
            self.0.end();
        }

        pub fn attend(&self, is_work: impl Fn() -> bool, work: impl Fn()) {
            self.0.attend(is_work, work, || false);
        }
    }
}
