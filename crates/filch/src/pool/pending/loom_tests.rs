//! The owner of a scope, and of a run in the heap, is notified once, by the last task.
#![expect(unsafe_code, reason = "a count that several threads of a model share")]

use super::{Pending, WaitTarget, done_by_other};
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
    pool::latch::loom_tests::sleep_until,
};
use loom::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::{mem, ops::Deref, sync::Arc};

/// A count, shared as the production code shares it.
struct SharedPending(Pending);

// SAFETY: the models call `add_by_owner`, `done_by_owner` and the methods of `WaitTarget` on one
// thread.
unsafe impl Sync for SharedPending {}

impl Deref for SharedPending {
    type Target = Pending;

    fn deref(&self) -> &Pending {
        &self.0
    }
}

impl SharedPending {
    fn done_by_other(&self, unpark: impl FnOnce()) {
        done_by_other(self.shared(), unpark);
    }
}

/// Waits for `pending` as its owner does. The owner has spawned three tasks, and runs one of them
/// itself: before it sleeps or, if it is to be `called`, after that.
fn wait_for_scope(pending: &Pending, data: &Data, called: Option<&AtomicBool>) -> usize {
    let mut own = true;
    if called.is_none() {
        pending.done_by_owner();
        own = false;
    }
    while !pending.has_happened() {
        let is_called = |called: &AtomicBool| {
            let called = called.load(Ordering::Acquire);
            called && own
        };
        sleep_until(pending, || called.is_some_and(is_called));
        if mem::take(&mut own) {
            pending.done_by_owner();
        }
    }
    data.get()
}

/// Two other workers run a task of a scope each while its owner falls asleep, and one of them
/// spawns another task. With `call`, the owner is woken for another reason, and sleeps again.
fn scope_against_sleep(call: bool) {
    let (pending, data) = (
        Arc::new(SharedPending(Pending::new())),
        Arc::new(Data::default()),
    );
    let called = call.then(|| Arc::new(AtomicBool::new(false)));
    (0..3).for_each(|_| pending.add_by_owner());
    let owner = {
        let (pending, data, called) = (pending.clone(), data.clone(), called.clone());
        thread::spawn(move || wait_for_scope(&pending, &data, called.as_deref()))
    };
    let other = {
        let (pending, owner) = (pending.clone(), owner.thread().clone());
        thread::spawn(move || {
            if let Some(called) = called {
                called.store(true, Ordering::Release);
                owner.unpark();
            }
            pending.done_by_other(|| owner.unpark());
        })
    };
    data.add(1);
    pending.add_by_other();
    pending.done_by_other(|| owner.thread().unpark());
    data.add(1);
    pending.done_by_other(|| owner.thread().unpark());
    assert_eq!(owner.join().unwrap(), 2, "over before all tasks were done");
    other.join().unwrap();
}

#[test]
fn the_owner_of_a_scope_is_woken() {
    model(Some(3), || scope_against_sleep(false));
}

#[test]
fn a_wake_for_another_reason_keeps_a_scope_open() {
    model(Some(3), || scope_against_sleep(true));
}

#[test]
fn canary_scope_without_a_wake() {
    caught(Canary::ScopeWake, Some(3), || scope_against_sleep(false));
    caught(Canary::ScopeWake, Some(3), || scope_against_sleep(true));
}

/// A scope whose owner is not a worker: two tasks run elsewhere, one of which spawns another one.
/// The owner counts itself as done, and waits for the notification of the last task.
fn scope_of_outside_caller() {
    let (pending, data) = (
        Arc::new(SharedPending(Pending::for_outside_caller())),
        Arc::new(Data::default()),
    );
    let notified = Arc::new(AtomicBool::new(false));
    let owner = thread::current();
    let notify = {
        let notified = notified.clone();
        move || {
            assert!(!notified.swap(true, Ordering::Release), "notified twice");
            owner.unpark();
        }
    };
    pending.add_by_other();
    let other = {
        let (pending, data, notify) = (pending.clone(), data.clone(), notify.clone());
        thread::spawn(move || {
            pending.add_by_other();
            let another = {
                let (pending, notify) = (pending.clone(), notify.clone());
                thread::spawn(move || pending.done_by_other(notify))
            };
            data.add(1);
            pending.done_by_other(notify);
            another.join().unwrap();
        })
    };
    pending.done_by_other(notify);
    while !notified.load(Ordering::Acquire) {
        thread::park();
    }
    assert_eq!(data.get(), 1, "over before all tasks were done");
    other.join().unwrap();
}

#[test]
fn the_last_task_notifies_an_outside_owner() {
    model(Some(3), scope_of_outside_caller);
}

#[test]
fn canary_outside_owner_without_a_notification() {
    caught(Canary::ScopeWake, Some(3), scope_of_outside_caller);
}

/// A graph's run in the heap, which no worker waits for: it counts as if its owner slept, and the
/// worker that ends its last job finishes it.
fn run_in_the_heap() {
    run_with_precounted_strands(0);
}

/// Ends jobs of a run as a graph does: a worker that has all the pending ones need not count them.
fn end_jobs(pending: &SharedPending, jobs: u32, end: impl FnOnce()) {
    if pending.are_last_without_owner(jobs) {
        return end();
    }
    pending.done_many_by_other(jobs - 1);
    pending.done_by_other(end);
}

/// Each of the two other workers has run `precounted` strands that it had queued, and gives their
/// counts back when it ends.
fn run_with_precounted_strands(precounted: u32) {
    let pending = Arc::new(SharedPending(Pending::new()));
    let (ended, data) = (
        Arc::new(AtomicUsize::new(0)),
        [(); 3].map(|()| Arc::new(Data::default())),
    );
    pending.add_by_other();
    assert!(pending.register_sleeper(0));
    let end = {
        let (ended, data) = (ended.clone(), data.clone());
        Arc::new(move || {
            ended.fetch_add(1, Ordering::Relaxed);
            assert_eq!(
                data.iter().map(|data| data.get()).sum::<usize>(),
                3,
                "over too early"
            );
        })
    };
    // The first job queues two more.
    let others: Vec<_> = (1..3)
        .map(|number| {
            (0..=precounted).for_each(|_| pending.add_by_other());
            let (pending, data, end) = (pending.clone(), data[number].clone(), end.clone());
            thread::spawn(move || {
                data.add(1);
                end_jobs(&pending, precounted + 1, || end());
            })
        })
        .collect();
    data[0].add(1);
    end_jobs(&pending, 1, || end());
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[test]
fn a_run_in_the_heap_ends_once() {
    model(Some(3), run_in_the_heap);
    model(Some(3), || run_with_precounted_strands(2));
}

#[test]
fn canary_run_in_the_heap_that_does_not_end() {
    caught(Canary::ScopeWake, Some(3), run_in_the_heap);
}
