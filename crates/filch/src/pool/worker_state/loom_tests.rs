//! The race between a worker that leaves and a resize that takes the request back.

use super::{Departure, PoolMembers, Revoked};
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// A pool of two workers.
struct Resized {
    members: PoolMembers,
    /// The memory of worker 1, which only its thread may use.
    memory: Data,
}

impl Resized {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            members: PoolMembers::new(2, 2),
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
            let _lock = pool.members.lock();
            if pool.members.live() == 2 {
                pool.shrink();
            }
        }
    });
    let lock = pool.members.lock();
    if pool.members.live() == 2 {
        pool.shrink();
    }
    drop(lock);
    other.join().unwrap();
    assert!(pool.members.live() == 1 && pool.members.is_leaving(1));
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
