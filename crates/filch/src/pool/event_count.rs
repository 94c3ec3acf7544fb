//! The event count on which dedicated workers wait: it is notified when there is a job for them.
//!
//! A notification is taken by one worker, as from an auto-reset event or tokio's `Notify`: there
//! are no epochs, since a worker searches after every notification.
//!
//! **Roles.** A producer that has enqueued a job *notifies*, after that. A dedicated worker
//! *waits*, and *takes* the notification; then it searches for jobs, and runs them until it finds
//! none. It searches after it has taken the notification, never before.
//!
//! **No lost wake-up.** The state is one bit. A notification sets it and a worker clears it, each
//! in one atomic operation. One of the two comes first:
//! - The notification, and then the worker clears it: the worker finds what was enqueued before the
//!   notification when it searches.
//! - The worker, and then the notification finds the bit clear: it sets the bit, and wakes one
//!   sleeper, if there is one. A sleeper has checked the bit before, while holding the lock; the
//!   notifier takes that lock after it has set the bit. So either that worker sees the bit, or it
//!   already sleeps and is woken.
//!
//! **Several workers.** Notifications that arrive before the bit is cleared are one notification,
//! and wake one worker. That worker finds all their jobs, but takes one, which may be long. So a
//! worker that has taken a job and finds that there are more *passes the notification on* before it
//! runs its own. Hence, while a job is queued, either the bit is set and a worker is about to clear
//! it, or no worker sleeps.
//!
//! **One worker in the driver.** If the pool has a [driver](crate::Driver), one dedicated worker
//! waits in it instead. Its parker is stored under the lock, after a check of the bit; so a later
//! notification finds it, and unparks it. A notification wakes a sleeper first: the driver is left
//! only when all other dedicated workers are busy.
//!
//! **Shutdown.** A second bit, which is never cleared. The workers of the pool set it when they
//! exit, and they exit only after every job is done; so no job is left to search for.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering},
    thread::{self, Parker},
};
use std::{
    fmt,
    sync::{Arc, PoisonError},
};

const NOTIFIED: u32 = 1;
const CLOSED: u32 = 1 << 1;

/// An event count with one notification bit: see the module.
pub(crate) struct EventCount {
    /// [`NOTIFIED`] and [`CLOSED`].
    word: AtomicU32,
    sleepers: Mutex<Sleepers>,
    condvar: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// The number of workers that wait on the condition variable.
    here: usize,
    /// The parker of the worker that waits in the driver.
    in_driver: Option<Arc<Parker>>,
}

impl EventCount {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            sleepers: Mutex::new(Sleepers::default()),
            condvar: Condvar::new(),
        }
    }

    /// Notifies that a job has been enqueued: wakes one waiting worker.
    pub(crate) fn notify(&self) {
        thread::point();
        // Release: the worker that takes this notification, or a later one merged with it, sees the
        // job; pairs with `take`.
        let before = self.word.fetch_or(NOTIFIED, Ordering::Release);
        if before & (NOTIFIED | CLOSED) == 0 {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        let sleepers = self.lock();
        if sleepers.here > 0 {
            self.condvar.notify_one();
        } else if let Some(parker) = sleepers.in_driver.clone() {
            drop(sleepers);
            parker.unpark();
        }
    }

    /// Passes the notification on if there are `more` jobs. Called by a worker that has taken a
    /// job, before it runs the job.
    pub(crate) fn pass_on(&self, more: bool) {
        if more && !broken(Canary::EventCountPassOn) {
            self.notify();
        }
    }

    /// Makes the waiting workers exit, and all that wait later.
    pub(crate) fn close(&self) {
        // Relaxed: the bit publishes no data. A sleeper has checked it under the lock, which is
        // taken after this, as in `notify`.
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
        let in_driver = self.lock().in_driver.clone();
        self.condvar.notify_all();
        if let Some(parker) = in_driver {
            parker.unpark();
        }
    }

    /// Runs the loop of a dedicated worker: waits for a notification, then works as long as there
    /// is work. Returns at shutdown. `elsewhere` waits in another place for a while, if it can: see
    /// [`wait_in`](Self::wait_in).
    pub(crate) fn run_worker(
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

    /// Calls `park`, unless there is a notification. If one arrives meanwhile, this thread is
    /// unparked.
    pub(crate) fn wait_in(&self, park: impl FnOnce()) {
        {
            let mut sleepers = self.lock();
            if self.is_notified_or_closed() {
                return;
            }
            sleepers.in_driver = Some(thread::parker());
        }
        park();
        self.lock().in_driver = None;
    }

    /// Waits for a notification, and takes it. Returns false at shutdown.
    fn wait(&self, elsewhere: impl Fn() -> bool) -> bool {
        loop {
            thread::point();
            if let Some(notified) = self.take() {
                return notified;
            }
            if elsewhere() {
                continue;
            }
            if !thread::wait_until(None, || self.is_notified_or_closed()) {
                return self.sleep();
            }
        }
    }

    fn sleep(&self) -> bool {
        let mut sleepers = self.lock();
        let mut blind = broken(Canary::EventCountRecheck);
        loop {
            if !blind && let Some(notified) = self.take() {
                return notified;
            }
            blind = false;
            sleepers.here += 1;
            sleepers = self
                .condvar
                .wait(sleepers)
                .unwrap_or_else(PoisonError::into_inner);
            sleepers.here -= 1;
        }
    }

    /// Takes the notification, if there is one. Returns `Some(false)` at shutdown.
    fn take(&self) -> Option<bool> {
        // Acquire: what was enqueued before this notification, or before those merged with it, is
        // visible from now on; pairs with `notify`. A later notification finds the bit clear,
        // because it is the same word. Relaxed is the canary's defect.
        let order = match broken(Canary::EventCountOrder) {
            false => Ordering::Acquire,
            true => Ordering::Relaxed,
        };
        let word = self.word.fetch_and(!NOTIFIED, order);
        match word {
            _ if word & CLOSED != 0 => Some(false),
            _ if word & NOTIFIED != 0 => Some(true),
            _ => None,
        }
    }

    fn is_notified_or_closed(&self) -> bool {
        // Relaxed: a caller that sees a bit takes it next.
        self.word.load(Ordering::Relaxed) != 0
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EventCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("EventCount")
            .field("rung", &(word & NOTIFIED != 0))
            .field("over", &(word & CLOSED != 0))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
