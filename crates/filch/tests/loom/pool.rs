//! Waiting inside of a task: whoever waits for a stolen job or for a scope is told, and sees what was done.

use super::{caught, model};
use filch::{
    base::{canary::Canary, sys::barrier::model::busy_side},
    engine::{Capacity, Deque, Steal},
    pool::model::{Latch, Pending, StackJob},
};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
// Not loom's: when it reports a sleep without an end, its `Arc` must not be dropped any more.
use std::sync::Arc;

/// The number of the worker that waits.
const WAITER: usize = 3;

/// What a wait does when there is nothing to run: sleeps, unless it has happened, until it has, or until
/// somebody calls.
macro_rules! sleep_until {
    ($event:expr, $asleep:expr, $called:expr) => {
        if $asleep {
            while !$event.happened() && !$called {
                thread::park();
            }
            $event.awake();
        }
    };
}

/// What a thief leaves behind: a plain cell, so that loom reports an access that nothing orders.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the models order the accesses, which is what loom checks.
#[expect(unsafe_code, reason = "a cell whose accesses loom watches")]
unsafe impl Sync for Data {}

impl Data {
    #[expect(unsafe_code, reason = "loom watches")]
    fn add(&self, n: usize) {
        // SAFETY: as above.
        self.0.with_mut(|data| unsafe { *data += n });
    }

    #[expect(unsafe_code, reason = "loom watches")]
    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|data| unsafe { *data })
    }
}

/// Waits for `latch` as a worker does, and says what was left behind.
fn wait_for_latch(latch: &Latch, data: &Data, called: &AtomicBool) -> usize {
    while !latch.happened() {
        let asleep = latch.sleep(WAITER);
        sleep_until!(latch, asleep, called.swap(false, Ordering::Acquire));
    }
    data.get()
}

/// A thief hands a result over while the owner of the job falls asleep; with `call`, the owner is called
/// away from its sleep for something else and comes back.
fn set_against_sleep(call: bool) {
    let (latch, data) = (Arc::new(Latch::new()), Arc::new(Data::default()));
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
    latch.set(|worker| {
        assert_eq!(worker, WAITER);
        waiter.thread().unpark();
    });
    assert_eq!(waiter.join().unwrap(), 7);
    if let Some(caller) = caller {
        caller.join().unwrap();
    }
}

#[test]
fn the_owner_of_a_stolen_job_is_told() {
    model(None, || set_against_sleep(false));
}

#[test]
fn a_call_on_the_way_to_a_stolen_job_loses_nothing() {
    model(Some(3), || set_against_sleep(true));
}

#[test]
fn canary_stolen_job_that_wakes_nobody() {
    caught(Canary::PoolLatchWake, None, || set_against_sleep(false));
    caught(Canary::PoolLatchWake, Some(3), || set_against_sleep(true));
}

/// Waits for `pending` as its owner does. It has spawned three tasks, and runs one of them itself: before
/// it sleeps, or, if it is to be `called`, after that.
fn wait_for_scope(pending: &Pending, data: &Data, called: Option<&AtomicBool>) -> usize {
    let mut own = true;
    if called.is_none() {
        pending.done_here();
        own = false;
    }
    while !pending.happened() {
        let asleep = pending.sleep();
        sleep_until!(
            pending,
            asleep,
            called.is_some_and(|called| {
                let called = called.load(Ordering::Acquire);
                called && own
            })
        );
        if std::mem::take(&mut own) {
            pending.done_here();
        }
    }
    data.get()
}

/// Two other workers run a task of a scope each while its owner falls asleep, and one of them spawns one
/// more. With `call`, the owner wakes up in between and comes back.
fn scope_against_sleep(call: bool) {
    let (pending, data) = (Arc::new(Pending::new()), Arc::new(Data::default()));
    let called = call.then(|| Arc::new(AtomicBool::new(false)));
    (0..3).for_each(|_| pending.add_here());
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
            pending.done_elsewhere(|| owner.unpark());
        })
    };
    data.add(1);
    pending.add_elsewhere();
    pending.done_elsewhere(|| owner.thread().unpark());
    data.add(1);
    pending.done_elsewhere(|| owner.thread().unpark());
    assert_eq!(owner.join().unwrap(), 2, "over before everything was done");
    other.join().unwrap();
}

#[test]
fn the_owner_of_a_scope_is_told() {
    model(Some(3), || scope_against_sleep(false));
}

#[test]
fn a_call_on_the_way_keeps_a_scope_open() {
    model(Some(3), || scope_against_sleep(true));
}

#[test]
fn canary_scope_that_wakes_nobody() {
    caught(Canary::ScopeWake, Some(3), || scope_against_sleep(false));
    caught(Canary::ScopeWake, Some(3), || scope_against_sleep(true));
}

/// A scope whose owner is no worker: two tasks run elsewhere, one of which spawns one more, and the owner counts itself as done and
/// waits for the signal of whoever is last.
fn scope_of_an_outsider() {
    let (pending, data) = (Arc::new(Pending::for_outsider()), Arc::new(Data::default()));
    let told = Arc::new(AtomicBool::new(false));
    let owner = thread::current();
    let tell = {
        let told = told.clone();
        move || {
            assert!(!told.swap(true, Ordering::Release), "told twice");
            owner.unpark();
        }
    };
    pending.add_elsewhere();
    let other = {
        let (pending, data, tell) = (pending.clone(), data.clone(), tell.clone());
        thread::spawn(move || {
            pending.add_elsewhere();
            let another = {
                let (pending, tell) = (pending.clone(), tell.clone());
                thread::spawn(move || pending.done_elsewhere(tell))
            };
            data.add(1);
            pending.done_elsewhere(tell);
            another.join().unwrap();
        })
    };
    pending.done_elsewhere(tell);
    while !told.load(Ordering::Acquire) {
        thread::park();
    }
    assert_eq!(data.get(), 1, "over before everything was done");
    other.join().unwrap();
}

#[test]
fn whoever_is_last_tells_an_outsider() {
    model(Some(3), scope_of_an_outsider);
}

#[test]
fn canary_outsider_that_nobody_tells() {
    caught(Canary::ScopeWake, Some(3), scope_of_an_outsider);
}

/// A join: the second half is pushed, taken back or stolen, and waited for. The thief may come at any time;
/// the job stands where it stands in a join, but in an `Arc`, so that a late touch is not undefined behaviour.
#[expect(unsafe_code, reason = "the duties of a join's two sides")]
fn join_against_thief() {
    let deque = Arc::new(Deque::new(Capacity::bounded(2)));
    let mut owner = deque.owner().unwrap();
    // Each run of the closure is one too many but the first.
    let ran = Arc::new(Data::default());
    let closure = {
        let ran = ran.clone();
        Box::new(move |_| {
            ran.add(1);
            41 + ran.get()
        })
    };
    let job = Arc::new(StackJob::new(closure));
    let mark = owner.push_marked(1_usize).unwrap();
    let busy = busy_side();
    let thief = {
        let (deque, job, waiter) = (deque.clone(), job.clone(), thread::current());
        thread::spawn(move || {
            if let Steal::Taken(_) = deque.steal() {
                // SAFETY: stolen, so it is ours.
                unsafe { job.execute(|_| waiter.unpark()) };
            }
        })
    };
    let result = if !job.happened() && owner.retract(mark) {
        drop(busy);
        // SAFETY: taken back, so it is ours.
        unsafe { job.run_back() }
    } else {
        drop(busy);
        while !job.happened() {
            let asleep = job.sleep(WAITER);
            sleep_until!(job, asleep, false);
        }
        // SAFETY: the latch is set.
        unsafe { job.take_result() }
    };
    assert_eq!(result, 42);
    thief.join().unwrap();
}

#[test]
fn the_second_half_of_a_join_runs_once() {
    model(None, join_against_thief);
}

#[test]
fn canary_join_with_a_careless_thief() {
    caught(Canary::KnockBarrier, None, join_against_thief);
}

#[test]
fn canary_join_that_nobody_wakes() {
    caught(Canary::PoolLatchWake, None, join_against_thief);
}
