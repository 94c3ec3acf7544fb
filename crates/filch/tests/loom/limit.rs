//! Budgets: whoever waits is served, and nothing is lost on the way.

use super::{caught, model};
use filch::{Budget, Budgets, Permit, base::canary::Canary, limit::Acquire};
use loom::{cell::UnsafeCell, thread};
// Not loom's: when it reports a sleep without an end, its `Arc` must not be dropped any more.
use std::{
    future::Future,
    mem::ManuallyDrop,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Notes that it was called.
#[derive(Default)]
struct WakeCount(AtomicBool);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A request that is polled by hand.
///
/// It is not dropped by a panic, since loom's locks don't work any more when loom has reported something.
struct Request {
    acquire: ManuallyDrop<Acquire<'static>>,
    wakes: Arc<WakeCount>,
}

impl Request {
    fn new(budget: &Budget, n: u64) -> Self {
        Self {
            acquire: ManuallyDrop::new(budget.acquire_async(n).into_owned()),
            wakes: Arc::default(),
        }
    }

    /// One that is in the queue.
    fn queued(budget: &Budget, n: u64) -> Self {
        let mut request = Self::new(budget, n);
        assert!(request.poll().is_none(), "there should be nothing for it");
        request
    }

    fn poll(&mut self) -> Option<Permit<'static>> {
        let waker = Waker::from(self.wakes.clone());
        let acquire = Pin::new(&mut *self.acquire);
        match acquire.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result.unwrap()),
            Poll::Pending => None,
        }
    }

    /// It had to wait; by now somebody has called, and not in vain.
    fn was_called(mut self) {
        let called = self.wakes.0.load(Ordering::SeqCst);
        assert!(called, "nobody called who had to wait");
        assert!(self.poll().is_some(), "called in vain");
        self.cancel();
    }

    fn cancel(self) {
        drop(ManuallyDrop::into_inner(self.acquire));
    }
}

/// A release without the lock against a request that is about to queue up.
fn release_against_queueing() {
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap().into_owned();
    let waiter = {
        let budget = budget.clone();
        thread::spawn(move || {
            let mut request = Request::new(&budget, 1);
            let served = request.poll().map(drop).is_some();
            (request, served)
        })
    };
    drop(held);
    let (request, served) = waiter.join().unwrap();
    match served {
        true => request.cancel(),
        false => request.was_called(),
    }
    assert_eq!((budget.available(), budget.waiting()), (1, 0));
}

#[test]
fn a_release_reaches_who_is_about_to_wait() {
    model(None, release_against_queueing);
}

#[test]
fn canary_look_then_queue() {
    caught(Canary::BudgetHandover, None, release_against_queueing);
}

/// The same with a thread that blocks.
#[test]
fn a_release_reaches_who_is_about_to_block() {
    model(None, || {
        let budget = Budget::new(2);
        let held = [(); 2].map(|()| budget.acquire(1).unwrap().into_owned());
        let waiter = {
            let budget = budget.clone();
            thread::spawn(move || budget.acquire(2).unwrap().n())
        };
        drop(held);
        assert_eq!(waiter.join().unwrap(), 2);
        assert_eq!((budget.available(), budget.waiting()), (2, 0));
    });
}

/// A release serves a request that is dropped in the same moment.
fn cancel_against_grant() {
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap().into_owned();
    let request = Request::queued(&budget, 1);
    let canceller = thread::spawn(move || request.cancel());
    drop(held);
    canceller.join().unwrap();
    assert_eq!((budget.available(), budget.waiting()), (1, 0));
    assert!(budget.try_acquire(1).is_ok());
}

#[test]
fn a_dropped_request_loses_nothing() {
    model(None, cancel_against_grant);
}

#[test]
fn canary_dropped_after_it_was_served() {
    caught(Canary::BudgetCancel, None, cancel_against_grant);
}

/// A large request at the head leaves while a release comes that is too small for it, but not for the one
/// behind it.
fn head_leaves_against_release() {
    let budget = Budget::new(2);
    let mut held = budget.acquire(2).unwrap().into_owned();
    let small = held.split(1).unwrap();
    let head = Request::queued(&budget, 2);
    let behind = Request::queued(&budget, 1);
    let canceller = thread::spawn(move || head.cancel());
    drop(small);
    canceller.join().unwrap();
    behind.was_called();
    drop(held);
    assert_eq!((budget.available(), budget.waiting()), (2, 0));
}

#[test]
fn who_is_behind_a_request_that_leaves_is_served() {
    model(None, head_leaves_against_release);
}

#[test]
fn canary_leaves_without_a_look_behind() {
    caught(Canary::BudgetMoveUp, None, head_leaves_against_release);
}

/// The same, and the one behind is about to block.
#[test]
fn who_is_about_to_block_behind_a_request_that_leaves_is_served() {
    model(Some(3), || {
        let budget = Budget::new(2);
        let mut held = budget.acquire(2).unwrap().into_owned();
        let small = held.split(1).unwrap();
        let head = Request::queued(&budget, 2);
        let waiter = {
            let budget = budget.clone();
            thread::spawn(move || budget.acquire(1).unwrap().n())
        };
        let canceller = thread::spawn(move || head.cancel());
        drop(small);
        canceller.join().unwrap();
        assert_eq!(waiter.join().unwrap(), 1);
        drop(held);
        assert_eq!((budget.available(), budget.waiting()), (2, 0));
    });
}

/// A close against a request that is about to queue up, and against its grant.
#[test]
fn a_close_sends_everybody_home() {
    model(None, || {
        let budget = Budget::new(1);
        let held = budget.acquire(1).unwrap().into_owned();
        let waiter = {
            let budget = budget.clone();
            thread::spawn(move || budget.acquire(1).map(|permit| permit.n()))
        };
        budget.close();
        drop(held);
        assert!(waiter.join().unwrap().unwrap_err().is_closed());
        assert_eq!((budget.available(), budget.waiting()), (1, 0));
    });
}

/// The budget becomes too small for a request that is about to queue up.
#[test]
fn a_smaller_budget_leaves_nobody_waiting_for_ever() {
    model(None, || {
        let budget = Budget::new(2);
        let mut held = budget.acquire(2).unwrap().into_owned();
        let lost = held.split(1).unwrap();
        let waiter = {
            let budget = budget.clone();
            thread::spawn(move || budget.acquire(2).map(|permit| permit.n()))
        };
        lost.forget();
        assert!(waiter.join().unwrap().unwrap_err().is_too_large());
        drop(held);
        assert_eq!((budget.available(), budget.capacity()), (1, 1));
    });
}

/// What a holder does: a plain cell, so that loom reports an access that nothing orders.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the budget of one unit orders the accesses, which is what loom checks.
#[expect(unsafe_code, reason = "a cell whose accesses loom watches")]
unsafe impl Sync for Data {}

impl Data {
    #[expect(unsafe_code, reason = "loom watches")]
    fn add_one(&self) -> usize {
        self.0.with_mut(|data| {
            // SAFETY: as above.
            let data = unsafe { &mut *data };
            *data += 1;
            *data
        })
    }
}

/// Three holders of one unit, by the fast path and by the queue, one after the other.
#[test]
fn a_holder_sees_what_the_one_before_it_did() {
    model(Some(3), || {
        let (budget, data) = (Budget::new(1), Arc::new(Data::default()));
        let threads = [(); 2].map(|()| {
            let (budget, data) = (budget.clone(), data.clone());
            thread::spawn(move || {
                let _permit = budget.acquire(1).unwrap();
                data.add_one();
            })
        });
        let permit = budget.acquire(1).unwrap();
        data.add_one();
        drop(permit);
        for thread in threads {
            thread.join().unwrap();
        }
        let _permit = budget.try_acquire(1).unwrap();
        assert_eq!(data.add_one(), 4);
    });
}

/// One holder gives back, and another one hands its units on, together with its own.
#[test]
fn units_that_another_hands_on_bring_what_their_holder_did() {
    model(None, || {
        let (budget, data) = (Budget::new(2), Arc::new(Data::default()));
        let [first, second] = [(); 2].map(|()| budget.acquire(1).unwrap().into_owned());
        let mut request = Request::queued(&budget, 2);
        let holder = {
            let data = data.clone();
            thread::spawn(move || {
                data.add_one();
                drop(first);
            })
        };
        drop(second);
        if request.poll().is_some() {
            assert_eq!(data.add_one(), 2);
        }
        holder.join().unwrap();
        request.cancel();
        assert_eq!((budget.available(), budget.waiting()), (2, 0));
    });
}

/// Two parts that are wanted in opposite orders.
#[test]
fn opposite_orders_do_not_lock_each_other_out() {
    model(None, || {
        let budgets = Budgets::new().with("a", 1).with("b", 1);
        let other = {
            let budgets = budgets.clone();
            thread::spawn(move || drop(budgets.acquire(&[("b", 1), ("a", 1)]).unwrap()))
        };
        drop(budgets.acquire(&[("a", 1), ("b", 1)]).unwrap());
        other.join().unwrap();
        let free = (budgets.available("a"), budgets.available("b"));
        assert_eq!((free, budgets.waiting()), ((Some(1), Some(1)), 0));
    });
}
