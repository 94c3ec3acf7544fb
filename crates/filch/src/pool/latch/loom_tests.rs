//! A worker that sleeps until its stolen job is done is woken, and sees what the thief did.

use super::{WaitTarget, WorkerLatch};
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// The number of the worker that waits.
const WAITER: usize = 3;

/// Sleeps as a waiter without other jobs does: until `event` has happened, or `called` returns
/// true.
pub(in crate::pool) fn sleep_until(event: &impl WaitTarget, called: impl Fn() -> bool) {
    if event.register_sleeper(WAITER) {
        while !event.has_happened() && !called() {
            thread::park();
        }
        event.unregister_sleeper();
    }
}

/// Waits for `latch` as a worker does, and returns what the thief has written.
fn wait_for_latch(latch: &WorkerLatch, data: &Data, called: &AtomicBool) -> usize {
    while !latch.has_happened() {
        sleep_until(latch, || called.swap(false, Ordering::Acquire));
    }
    data.get()
}

/// A thief sets the latch while the owner of the job falls asleep. With `call`, another thread
/// wakes the owner for another reason, and the owner sleeps again.
fn set_against_sleep(call: bool) {
    let (latch, data) = (Arc::new(WorkerLatch::new()), Arc::new(Data::default()));
    let called = Arc::new(AtomicBool::new(false));
    let waiter = {
        let (latch, data, called) = (latch.clone(), data.clone(), called.clone());
        thread::spawn(move || wait_for_latch(&latch, &data, &called))
    };
    let caller = call.then(|| {
        let waiter = waiter.thread().clone();
        thread::spawn(move || {
            called.store(true, Ordering::Release);
            waiter.unpark();
        })
    });
    data.add(7);
    latch.set_with(|worker| {
        assert_eq!(worker, WAITER);
        waiter.thread().unpark();
    });
    assert_eq!(waiter.join().unwrap(), 7);
    if let Some(caller) = caller {
        caller.join().unwrap();
    }
}

#[test]
fn the_owner_of_a_stolen_job_is_woken() {
    model(None, || set_against_sleep(false));
}

#[test]
fn a_wake_for_another_reason_loses_no_set() {
    model(Some(3), || set_against_sleep(true));
}

#[test]
fn canary_set_without_a_wake() {
    caught(Canary::PoolLatchWake, None, || set_against_sleep(false));
    caught(Canary::PoolLatchWake, Some(3), || set_against_sleep(true));
}
