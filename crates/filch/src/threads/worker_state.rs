//! Whether each worker of a pool or executor takes part, and how many do.
//!
//! A pool or executor has numbers for as many workers as it may ever have. A resize changes how
//! many of them take part: always those with the lowest numbers. Each number has a state word.
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | gone | starting | a resize | before it starts the thread |
//! | starting | running | the worker | it has entered the engine |
//! | starting | gone | a resize | the thread could not be started |
//! | running | leaving | a resize | the pool gets smaller |
//! | leaving | running | a resize | the pool gets larger again before the worker has left |
//! | leaving | going | the worker | between two tasks, with nothing queued that only it may run |
//! | going | gone | the worker | it has left the engine |
//!
//! Resizes are serialised by a lock. So the only race is that of *leaving*: a resize takes the
//! request back while the worker acts on it. Both compare and swap, and one of them is first. A
//! worker that is *going* runs no code of the user before it is *gone*, so a resize waits for that.
//!
//! A shutdown takes the threads of the pool under the same lock, after it has closed the pool. So a
//! resize either began before that, and has added its threads to those that the shutdown joins, or
//! it finds the pool closed.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering},
    thread,
};
use std::{
    fmt,
    sync::{PoisonError, TryLockError},
};

const GONE: u8 = 0;
const STARTING: u8 = 1;
const RUNNING: u8 = 2;
const LEAVING: u8 = 3;
const GOING: u8 = 4;

/// The result of [`WorkerState::revoke`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// The worker had not left, and stays.
    Stays,
    /// The worker is about to be gone: ask again.
    Going,
    /// The worker is gone, and needs another thread.
    Gone,
}

/// The result of [`WorkerState::depart`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The worker leaves, and must call [`WorkerState::end`] afterwards.
    Leaves,
    /// The worker is not to leave, or no longer.
    Stays,
}

/// Whether the worker of one number takes part.
pub(crate) struct WorkerState(AtomicU8);

impl WorkerState {
    fn new(runs: bool) -> Self {
        Self(AtomicU8::new(if runs { RUNNING } else { GONE }))
    }

    /// Changes the state if it is `from`. Returns the state that it had instead.
    fn change(&self, from: u8, to: u8) -> Result<(), u8> {
        // AcqRel: what the worker has done before it is gone happens before what its successor
        // does, and what a resize has done before it asks happens before the worker leaves.
        // Acquire on failure: the caller acts on the state that it finds.
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    /// Whether the worker is asked to leave.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        // Acquire: pairs with the release in `ask_to_leave`.
        self.0.load(Ordering::Acquire) == LEAVING
    }

    /// Whether the worker is in the engine.
    pub(crate) fn takes_part(&self) -> bool {
        // Acquire: as in `is_leaving`.
        matches!(self.0.load(Ordering::Acquire), RUNNING | LEAVING | GOING)
    }

    /// Whether the worker has yet to enter the engine.
    pub(crate) fn is_starting(&self) -> bool {
        // Acquire: pairs with the release in `enter`.
        self.0.load(Ordering::Acquire) == STARTING
    }

    /// Asks a running worker to leave. The caller has the lock of [`WorkerStates`].
    pub(crate) fn ask_to_leave(&self) {
        let asked = self.change(RUNNING, LEAVING);
        debug_assert_eq!(asked, Ok(()), "only running workers are asked");
    }

    /// Takes back that the worker is to leave. The caller has the lock of [`WorkerStates`].
    pub(crate) fn revoke(&self) -> Revoked {
        match self.change(LEAVING, RUNNING) {
            Ok(()) => Revoked::Stays,
            Err(GOING) => Revoked::Going,
            Err(state) => {
                debug_assert_eq!(state, GONE, "the lock admits one resize at a time");
                Revoked::Gone
            }
        }
    }

    /// Called by the worker, between two tasks: leaves, if it is still asked to.
    pub(crate) fn depart(&self) -> Departure {
        if broken(Canary::DepartCheck) && self.is_leaving() {
            // Relaxed: the defect.
            self.0.store(GOING, Ordering::Relaxed);
            return Departure::Leaves;
        }
        match self.change(LEAVING, GOING) {
            Ok(()) => Departure::Leaves,
            Err(_) => Departure::Stays,
        }
    }

    /// Called by a worker that ends. Returns whether it has left the pool, which continues.
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        self.change(GOING, GONE).is_ok()
    }

    /// A thread is about to be started for a worker that is gone.
    pub(crate) fn start(&self) {
        let started = self.change(GONE, STARTING);
        debug_assert_eq!(started, Ok(()), "only workers that are gone are started");
    }

    /// Called by a worker that has entered the engine.
    pub(crate) fn enter(&self) {
        // The first threads of a pool count as running before they are started.
        let _ = self.change(STARTING, RUNNING);
    }

    /// The thread could not be started.
    pub(crate) fn fail_start(&self) {
        let failed = self.change(STARTING, GONE);
        debug_assert_eq!(failed, Ok(()), "a thread that failed has not entered");
    }
}

/// Which workers of a pool take part.
pub(crate) struct WorkerStates {
    /// The number of workers, leaving ones not counted. The workers that stay have numbers below
    /// it.
    live: AtomicUsize,
    /// The largest number of workers so far.
    peak: AtomicUsize,
    states: Box<[WorkerState]>,
    /// Held during a resize.
    resizing: Mutex<()>,
}

impl WorkerStates {
    /// Creates it for `workers` workers, of which there may be `capacity`.
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        Self {
            live: AtomicUsize::new(workers),
            peak: AtomicUsize::new(workers),
            states: (0..capacity)
                .map(|worker| WorkerState::new(worker < workers))
                .collect(),
            resizing: Mutex::new(()),
        }
    }

    /// The number of workers.
    #[inline(always)]
    pub(crate) fn live(&self) -> usize {
        // Relaxed: a number that publishes nothing. A worker that counts has entered the engine,
        // and a caller that relies on that has synchronised with the resize.
        self.live.load(Ordering::Relaxed)
    }

    /// Sets the number of workers. The caller has the lock.
    pub(crate) fn set_live(&self, workers: usize) {
        // Relaxed, twice: as in `live`.
        self.live.store(workers, Ordering::Relaxed);
        self.peak.fetch_max(workers, Ordering::Relaxed);
    }

    /// The largest number of workers so far.
    pub(crate) fn peak(&self) -> usize {
        // Relaxed: as in `live`.
        self.peak.load(Ordering::Relaxed)
    }

    /// The most workers at a time.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.states.len()
    }

    /// The number of workers that have a thread: those that are leaving are counted.
    pub(crate) fn running_threads(&self) -> usize {
        let live = self.live();
        // Acquire: as in `is_leaving`; only counted.
        let has_thread = |state: &&WorkerState| state.0.load(Ordering::Acquire) != GONE;
        live + self.states[live..].iter().filter(has_thread).count()
    }

    pub(crate) fn state(&self, worker: usize) -> &WorkerState {
        &self.states[worker]
    }

    /// Whether `worker` is asked to leave. Costs one load as long as the pool has all its workers.
    #[inline(always)]
    pub(crate) fn is_leaving(&self, worker: usize) -> bool {
        worker >= self.live() && self.states.get(worker).is_some_and(WorkerState::is_leaving)
    }

    /// Begins a resize, after all that have begun before, if the pool `is_open` then. A shutdown
    /// waits until the guard is dropped.
    pub(crate) fn begin_resize(
        &self,
        is_open: impl FnOnce() -> bool,
    ) -> Option<MutexGuard<'_, ()>> {
        let lock = self.lock();
        is_open().then_some(lock)
    }

    /// Calls `take` of a shutdown, which takes the threads to join, when no resize adds any. The
    /// pool has been closed.
    pub(crate) fn after_resizes<R>(&self, take: impl FnOnce() -> R) -> R {
        let _lock = (!broken(Canary::ShutdownLock)).then(|| self.lock());
        take()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // In a rehearsal the thread that has the lock may have been interrupted.
        let is_free = || !matches!(self.resizing.try_lock(), Err(TryLockError::WouldBlock));
        thread::wait_until(None, is_free);
        self.resizing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: only printed.
        f.write_str(match self.0.load(Ordering::Relaxed) {
            GONE => "gone",
            STARTING => "starting",
            RUNNING => "running",
            LEAVING => "leaving",
            _ => "going",
        })
    }
}

impl fmt::Debug for WorkerStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerStates")
            .field("live", &self.live())
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
