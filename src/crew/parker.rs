//! Where the threads of a crew sleep.

use crate::{
    engine::Unpark,
    ground::thread::{self, Thread},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The threads of a crew, to be woken by the number of their worker.
///
/// Whether a worker has been woken is written in its entry of the sleep list, before `unpark`; so a
/// stray token of [`thread::park`], which the user's own code may leave behind, does no harm.
#[derive(Debug)]
pub(crate) struct Parkers {
    /// Locked for a moment by a worker that begins or ends, and by whoever wakes it.
    threads: Box<[Mutex<Option<Thread>>]>,
}

impl Parkers {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            threads: (0..workers).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// This thread is worker `worker` from now on.
    pub(crate) fn register(&self, worker: usize) {
        *self.slot(worker) = Some(thread::current());
    }

    fn slot(&self, worker: usize) -> MutexGuard<'_, Option<Thread>> {
        self.threads[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `woken`, or until the time is up.
    pub(crate) fn park(&self, timeout: Option<Duration>, woken: impl Fn() -> bool) {
        let Some(timeout) = timeout else {
            while !woken() {
                thread::park();
            }
            return;
        };
        let start = Instant::now();
        while !woken() {
            match timeout.checked_sub(start.elapsed()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                _ => return,
            }
        }
    }
}

impl Unpark for Parkers {
    fn unpark(&self, worker: usize) {
        // A worker that sleeps has registered first.
        if let Some(thread) = &*self.slot(worker) {
            thread.unpark();
        }
    }
}

/// So that the engine and the crew can share them.
impl Unpark for std::sync::Arc<Parkers> {
    fn unpark(&self, worker: usize) {
        (**self).unpark(worker);
    }
}
