//! The parkers of the threads of a group.

use super::driver::{SharedDriver, park_thread};
use crate::{
    base::Instant,
    base::thread::{self, Parker},
    engine::Unpark,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

/// The threads of a group, to be woken by the number of their worker.
///
/// Whether a worker has been woken is written in its entry of the sleep list, before `unpark`; so a
/// stray token of [`thread::park`], which user code may leave behind, does no harm.
#[derive(Debug)]
pub(crate) struct Parkers {
    /// Locked briefly by a worker that begins or ends, and by the thread that wakes it.
    threads: Box<[Mutex<Option<Arc<Parker>>>]>,
    /// The driver in which one of them waits instead.
    driver: Option<SharedDriver>,
}

impl Parkers {
    pub(crate) fn new(workers: usize) -> Self {
        Self::with_driver(workers, None)
    }

    pub(crate) fn with_driver(workers: usize, driver: Option<SharedDriver>) -> Self {
        Self {
            threads: (0..workers).map(|_| Mutex::new(None)).collect(),
            driver,
        }
    }

    /// Makes this thread worker `worker` from now on.
    pub(crate) fn register(&self, worker: usize) {
        *self.slot(worker) = Some(thread::parker());
    }

    fn slot(&self, worker: usize) -> MutexGuard<'_, Option<Arc<Parker>>> {
        self.threads[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub(crate) fn has_driver(&self) -> bool {
        self.driver.is_some()
    }

    /// Parks as `worker` until `woken`, or until the timeout, or until the driver has put wakers
    /// into `ready`.
    pub(crate) fn park(
        &self,
        worker: usize,
        timeout: Option<Duration>,
        ready: &mut Vec<Waker>,
        woken: impl Fn() -> bool,
    ) {
        let start = timeout.map(|_| Instant::now());
        while !woken() && ready.is_empty() {
            let mut left = None;
            if let (Some(timeout), Some(start)) = (timeout, start) {
                match timeout.checked_sub(start.elapsed()) {
                    Some(rest) if !rest.is_zero() => left = Some(rest),
                    _ => return,
                }
            }
            match &self.driver {
                Some(driver) => driver.park(worker, left, ready),
                None => park_thread(left),
            }
        }
    }

    /// Takes the wakers of events that have occurred, if no other worker waits in the driver.
    pub(crate) fn poll(&self, ready: &mut Vec<Waker>) {
        if let Some(driver) = &self.driver {
            driver.poll(ready);
        }
    }

    /// Called by a worker that will not wait in the driver for some time. If no other worker does,
    /// a sleeping worker takes its place.
    pub(crate) fn hand_over(&self) {
        if let Some(worker) = self.driver.as_ref().and_then(SharedDriver::hand_over) {
            self.unpark(worker);
        }
    }
}

impl Unpark for Parkers {
    fn unpark(&self, worker: usize) {
        // A worker that sleeps has registered first. Without the lock: what wakes a thread in a
        // driver is user code.
        let parker = self.slot(worker).clone();
        if let Some(parker) = parker {
            parker.unpark();
        }
    }
}

/// Lets the engine and the group share them.
impl Unpark for Arc<Parkers> {
    fn unpark(&self, worker: usize) {
        (**self).unpark(worker);
    }
}
