//! The second half of a join runs once: by its owner, or by a thief that wakes the owner.
#![expect(unsafe_code, reason = "what the two sides of a join do")]

use super::{PartState, StackJob, WorkerLatch};
use crate::pool::latch::WaitTarget;
use crate::{
    base::{canary::Canary, sys::barrier::busy_side},
    engine::{Capacity, Deque, Retract, Steal},
    loom_tests::{Data, caught, model},
    pool::latch::loom_tests::sleep_until,
};
use loom::thread;
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

type Closure = Box<dyn FnOnce(bool) -> usize + Send>;

struct SharedJob(StackJob<Closure, usize>);

// SAFETY: how a thief accesses the cells is the protocol under test.
unsafe impl Sync for SharedJob {}

impl SharedJob {
    /// # Safety
    /// The caller has stolen the job.
    unsafe fn execute(&self, unpark: impl FnOnce(usize)) {
        let call = || {
            // SAFETY: the caller has stolen the job, and so calls this once.
            unsafe { self.0.call_with(|closure| closure(true)) };
            Ok(())
        };
        let set = |latch: &WorkerLatch| latch.set_with(unpark);
        // SAFETY: the caller has stolen the job, and so calls this once.
        unsafe { PartState::execute(self.0.state(), call, set) };
    }
}

/// A join: the second half is pushed, and then retracted, or stolen and waited for. The thief
/// steals at any time. The job is in an `Arc`, so that a late access is not undefined behaviour.
fn join_against_thief() {
    let deque = Arc::new(Deque::new(Capacity::bounded(2)));
    let mut owner = deque.owner().unwrap();
    let runs = Arc::new(Data::default());
    let closure: Closure = {
        let runs = runs.clone();
        Box::new(move |_| 41 + runs.add(1))
    };
    let mark = owner.next_mark().unwrap();
    let job = Arc::new(SharedJob(StackJob::new(closure, false, mark)));
    owner.push_at(mark, 1_usize);
    let busy = busy_side();
    let thief = {
        let (deque, job, waiter) = (deque.clone(), job.clone(), thread::current());
        thread::spawn(move || {
            if let Steal::Taken(_) = deque.steal() {
                job.0.state.latch.begin(1);
                // SAFETY: this thread has stolen the job, so it executes it once.
                unsafe { job.execute(|_| waiter.unpark()) };
            }
        })
    };
    let latch = &job.0.state.latch;
    let is_back = match owner.retract_quickly(|newest| latch.is_untouched_at(newest)) {
        Retract::Taken => true,
        Retract::Missed => false,
        Retract::Guarded => owner.retract_guarded(),
    };
    let result = if is_back {
        drop(busy);
        // SAFETY: this thread has retracted the job, so no thief executes it.
        let closure = unsafe { job.0.take_back() };
        closure(false)
    } else {
        drop(busy);
        assert!(latch.mark().is_none_or(|place| place == mark));
        while !latch.has_happened() {
            sleep_until(latch, || false);
        }
        // SAFETY: the latch is set, so the thief has stored that there is no panic.
        assert!(unsafe { job.0.state.take_panic() }.is_none());
        // SAFETY: the latch is set, so the thief has stored the result.
        unsafe { job.0.take_result() }
    };
    assert_eq!(result, 42);
    thief.join().unwrap();
}

/// A join whose first half waits: the wait runs the second half, and another job is queued at its
/// place.
fn join_after_a_wait() {
    let deque = Deque::new(Capacity::bounded(2));
    let mut owner = deque.owner().unwrap();
    let mark = owner.next_mark().unwrap();
    let closure: Closure = Box::new(|_| 42);
    let job = SharedJob(StackJob::new(closure, false, mark));
    owner.push_at(mark, 1_usize);
    assert_eq!(owner.pop(), Some(1));
    job.0.state.latch.begin(0);
    // SAFETY: this thread has popped the job, so it executes it once.
    unsafe { job.execute(|_| ()) };
    owner.push(2).unwrap();
    let back = owner.retract_quickly(|newest| job.0.state.latch.is_untouched_at(newest));
    assert_eq!(back, Retract::Missed);
    // SAFETY: the latch is set, so the result has been stored.
    assert_eq!(unsafe { job.0.take_result() }, 42);
}

#[test]
fn the_second_half_of_a_join_runs_once() {
    model(None, join_against_thief);
    model(None, join_after_a_wait);
}

#[test]
fn canary_join_by_its_place_alone() {
    caught(Canary::PartPlace, None, join_after_a_wait);
}

#[test]
fn canary_join_with_a_thief_without_a_barrier() {
    caught(Canary::KnockBarrier, None, join_against_thief);
}

#[test]
fn canary_join_without_a_wake() {
    caught(Canary::PoolLatchWake, None, join_against_thief);
}
