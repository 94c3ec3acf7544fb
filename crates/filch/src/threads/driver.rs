//! Arbitration of which worker waits in the pool's driver.
//!
//! One worker at a time *holds* the driver. A worker that has to wait while another one holds it
//! waits on its parker, and is registered as a *waiter*. The holder may *hand over* when it
//! releases the driver: it unparks one of the waiters, which then retries.
//!
//! Whether the driver is held and which workers wait for it are behind one lock. So a worker that
//! finds the driver held is a waiter before the holder can release the driver, and the holder sees
//! it there.
//!
//! # When the driver is handed over
//!
//! A holder that leaves with events, or that is woken for a task, usually returns soon. Waking
//! another worker for that time would cost more than the task, so it does not hand over. It does:
//!
//! - between two tasks, when it polls the driver because it has been busy for some time;
//! - at a checkpoint in a task, for the same reason;
//! - at the end of a wait in a task: the task continues, for an unknown time.
//!
//! So events are delayed by one task at most, up to its next checkpoint, while another worker
//! sleeps. (tokio's events are delayed in the same case.)

use crate::base::{
    Driver,
    canary::{Canary, broken},
    sync::{Mutex, MutexGuard},
    thread,
};
use std::{
    fmt,
    sync::{Arc, PoisonError},
    task::Waker,
    time::Duration,
};

/// Whether the driver is held, and the workers that wait for it.
#[derive(Debug, Default)]
struct Holding {
    held: bool,
    /// The workers that wait on their parkers and would hold the driver if it were free.
    waiters: Vec<usize>,
}

/// The right to wait in a driver: see the module.
#[derive(Debug)]
struct DriverLock(Mutex<Holding>);

impl DriverLock {
    fn new() -> Self {
        Self(Mutex::new(Holding::default()))
    }

    fn lock(&self) -> MutexGuard<'_, Holding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by `worker` when it is about to wait. Returns true when it holds the driver from now
    /// on. If not it is a waiter, until it [withdraws](Self::withdraw).
    #[must_use]
    fn hold_or_wait(&self, worker: usize) -> bool {
        let mut state = self.lock();
        if state.held {
            state.waiters.push(worker);
            return false;
        }
        state.held = true;
        true
    }

    /// Holds the driver if it is free.
    #[must_use]
    fn try_hold(&self) -> bool {
        !std::mem::replace(&mut self.lock().held, true)
    }

    /// Removes `worker` from the waiters, if it is one.
    fn withdraw(&self, worker: usize) {
        self.lock().waiters.retain(|&waiter| waiter != worker);
    }

    /// Releases the driver. The holder takes it again soon, or calls
    /// [`hand_over`](Self::hand_over).
    fn release(&self) {
        self.lock().held = false;
    }

    /// Removes and returns a waiter that should hold the driver, if it is free. The caller must
    /// unpark it.
    #[must_use]
    fn hand_over(&self) -> Option<usize> {
        if broken(Canary::DriverHandOver) {
            return None;
        }
        let mut state = self.lock();
        if state.held {
            None
        } else {
            state.waiters.pop()
        }
    }
}

/// Parks this thread, for `timeout` at most.
pub(super) fn park_thread(timeout: Option<Duration>) {
    match timeout {
        None => thread::park(),
        Some(timeout) => thread::park_timeout(timeout),
    }
}

/// The driver of a pool.
pub(crate) struct SharedDriver {
    driver: Arc<dyn Driver>,
    lock: DriverLock,
}

impl SharedDriver {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            lock: DriverLock::new(),
        }
    }

    /// Waits as `worker`: in the driver if that is free, else on the parker of this thread. May
    /// return early.
    pub(super) fn park(&self, worker: usize, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        if self.lock.hold_or_wait(worker) {
            let parked = thread::park_in(&self.driver, timeout, ready);
            self.lock.release();
            if parked {
                return;
            }
        } else {
            thread::point();
            park_thread(timeout);
        }
        self.lock.withdraw(worker);
    }

    /// Calls `f`, which may wait in the driver, if no other thread holds it. Returns whether it
    /// did.
    pub(crate) fn call_if_free(&self, f: impl FnOnce(&Arc<dyn Driver>)) -> bool {
        self.lock.try_hold() && {
            f(&self.driver);
            self.lock.release();
            true
        }
    }

    /// Takes the wakers of the events that have occurred, if no other worker holds the driver.
    pub(crate) fn poll(&self, ready: &mut Vec<Waker>) {
        self.call_if_free(|driver| driver.park(Some(Duration::ZERO), ready));
    }

    /// See [`DriverLock::hand_over`].
    pub(super) fn hand_over(&self) -> Option<usize> {
        self.lock.hand_over()
    }
}

impl fmt::Debug for SharedDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
