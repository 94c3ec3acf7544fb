//! The races between a worker that leaves and a resize that takes the request back, and between a
//! resize and a shutdown.

use super::{Departure, Revoked, WorkerStates};
use crate::{
    base::{
        canary::Canary,
        error::BuildError,
        sync::{AtomicBool, Mutex, Ordering},
    },
    loom_tests::{Data, caught, model},
    threads::ResizeThreads,
};
use loom::thread;
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// A pool of two workers.
struct Resized {
    members: WorkerStates,
    /// The memory of worker 1, which only its thread may use.
    memory: Data,
}

impl Resized {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            members: WorkerStates::new(2, 2),
            memory: Data::default(),
        })
    }

    /// The thread of worker 1, after each of two tasks. Returns whether it has left.
    fn run(&self) -> bool {
        for _ in 0..2 {
            self.memory.add(1);
            let leaves =
                self.members.is_leaving(1) && self.members.state(1).depart() == Departure::Leaves;
            if leaves {
                self.memory.add(1);
                assert!(self.members.state(1).end(), "it was going");
                return true;
            }
        }
        false
    }

    fn shrink(&self) {
        self.members.set_live(1);
        self.members.state(1).ask_to_leave();
    }

    /// Returns whether worker 1 had to be started again.
    fn grow(&self) -> bool {
        let state = self.members.state(1);
        let gone = loop {
            match state.revoke() {
                Revoked::Stays => break false,
                Revoked::Going => thread::yield_now(),
                Revoked::Gone => break true,
            }
        };
        if gone {
            state.start();
            self.memory.add(1);
            state.enter();
            assert!(!state.is_starting());
        }
        self.members.set_live(2);
        gone
    }
}

/// A smaller pool, and a larger one right after that.
fn there_and_back() {
    let pool = Resized::new();
    let worker = thread::spawn({
        let pool = pool.clone();
        move || pool.run()
    });
    pool.shrink();
    let started = pool.grow();
    let left = worker.join().unwrap();
    assert_eq!(left, started, "worker 1 has one thread");
    assert_eq!(pool.members.live(), 2);
    assert!(!pool.members.is_leaving(1));
}

/// Two resizes at a time: the lock makes one of them the first.
fn two_resizes() {
    let pool = Resized::new();
    let other = thread::spawn({
        let pool = pool.clone();
        move || {
            let _lock = pool.members.begin_resize(|| true);
            if pool.members.live() == 2 {
                pool.shrink();
            }
        }
    });
    let lock = pool.members.begin_resize(|| true);
    if pool.members.live() == 2 {
        pool.shrink();
    }
    drop(lock);
    other.join().unwrap();
    assert!(pool.members.live() == 1 && pool.members.is_leaving(1));
}

/// A pool of one worker, which may have two.
struct Growing {
    members: WorkerStates,
    is_open: AtomicBool,
    /// The number of threads that a shutdown joins; `None` after it has taken them.
    threads: Mutex<Option<usize>>,
}

impl ResizeThreads for Growing {
    const NAME: &'static str = "pool";

    fn is_open(&self) -> bool {
        // Relaxed: the lock of the resizes orders it.
        self.is_open.load(Ordering::Relaxed)
    }

    fn start(&self, worker: usize) -> Result<(), BuildError> {
        *self.threads.lock().unwrap().get_or_insert(0) += 1;
        self.members.state(worker).enter();
        Ok(())
    }

    fn unpark(&self, _worker: usize) {}
}

/// A resize starts worker 1 while the pool is shut down: the shutdown takes the thread, or the
/// resize is refused.
fn resize_against_shutdown() {
    let pool = Arc::new(Growing {
        members: WorkerStates::new(1, 2),
        is_open: AtomicBool::new(true),
        threads: Mutex::new(Some(1)),
    });
    let resize = thread::spawn({
        let pool = pool.clone();
        move || pool.members.resize(2, &*pool).is_ok()
    });
    // Relaxed: the lock of the resizes orders it.
    pool.is_open.store(false, Ordering::Relaxed);
    let joined = pool
        .members
        .after_resizes(|| pool.threads.lock().unwrap().take());
    let started = 1 + usize::from(resize.join().unwrap());
    assert_eq!(joined, Some(started), "a thread is left behind");
    assert_eq!(pool.members.live(), started);
}

#[test]
fn a_shutdown_takes_the_threads_of_a_resize() {
    model(None, resize_against_shutdown);
}

#[test]
fn canary_shutdown_beside_a_resize() {
    caught(Canary::ShutdownLock, None, resize_against_shutdown);
}

#[test]
fn a_worker_leaves_or_stays() {
    model(None, there_and_back);
}

#[test]
fn resizes_are_serialised() {
    model(None, two_resizes);
}

#[test]
fn canary_a_worker_leaves_although_it_is_to_stay() {
    caught(Canary::DepartCheck, None, there_and_back);
}
