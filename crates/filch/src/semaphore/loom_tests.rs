//! Semaphores: every waiter is served, and no unit is lost.

use super::{Acquire, Permit, Semaphore};
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, long_run, model},
};
use loom::thread;
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
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

/// Records that it was called.
#[derive(Default)]
struct WakeCount(AtomicBool);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A request that the model polls.
///
/// A panic does not drop it, since loom's locks do not work after loom has reported a failure.
struct Request {
    acquire: ManuallyDrop<Acquire<'static>>,
    wakes: Arc<WakeCount>,
}

impl Request {
    fn new(semaphore: &Semaphore, n: u64) -> Self {
        Self {
            acquire: ManuallyDrop::new(semaphore.acquire_many_async(n).into_owned()),
            wakes: Arc::default(),
        }
    }

    /// Creates a request that is in the queue.
    fn queued(semaphore: &Semaphore, n: u64) -> Self {
        let mut request = Self::new(semaphore, n);
        assert!(request.poll().is_none(), "no units should be free");
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

    /// Checks that the waker of this request was called, and that the request is granted.
    fn was_granted(mut self) {
        let called = self.wakes.0.load(Ordering::SeqCst);
        assert!(called, "the waker was not called");
        assert!(self.poll().is_some(), "woken and not granted");
        self.cancel();
    }

    fn cancel(self) {
        drop(ManuallyDrop::into_inner(self.acquire));
    }
}

/// A release without the lock against a request that is about to be queued.
fn release_against_queueing() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap().into_owned();
    let waiter = {
        let semaphore = semaphore.clone();
        thread::spawn(move || {
            let mut request = Request::new(&semaphore, 1);
            let served = request.poll().map(drop).is_some();
            (request, served)
        })
    };
    drop(held);
    let (request, served) = waiter.join().unwrap();
    match served {
        true => request.cancel(),
        false => request.was_granted(),
    }
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
}

#[test]
fn a_release_reaches_a_request_that_is_about_to_wait() {
    model(None, release_against_queueing);
}

#[test]
fn canary_check_then_queue() {
    caught(Canary::SemaphoreHandover, None, release_against_queueing);
}

/// The same with a thread that blocks.
#[test]
fn a_release_reaches_a_thread_that_is_about_to_block() {
    model(None, || {
        let semaphore = Semaphore::new(2);
        let held = [(); 2].map(|()| semaphore.acquire().unwrap().into_owned());
        let waiter = {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire_many(2).unwrap().units())
        };
        drop(held);
        assert_eq!(waiter.join().unwrap(), 2);
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    });
}

/// A release serves a request that is dropped at the same time.
fn cancel_against_grant() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap().into_owned();
    let request = Request::queued(&semaphore, 1);
    let canceller = thread::spawn(move || request.cancel());
    drop(held);
    canceller.join().unwrap();
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
    assert!(semaphore.try_acquire().is_ok());
}

#[test]
fn a_dropped_request_loses_no_units() {
    model(None, cancel_against_grant);
}

#[test]
fn canary_dropped_after_it_was_granted() {
    caught(Canary::SemaphoreCancel, None, cancel_against_grant);
}

/// A large request at the head leaves during a release that is too small for it, but not for the
/// request behind it.
fn head_leaves_against_release() {
    let semaphore = Semaphore::new(2);
    let mut held = semaphore.acquire_many(2).unwrap().into_owned();
    let small = held.split(1).unwrap();
    let head = Request::queued(&semaphore, 2);
    let behind = Request::queued(&semaphore, 1);
    let canceller = thread::spawn(move || head.cancel());
    drop(small);
    canceller.join().unwrap();
    behind.was_granted();
    drop(held);
    assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
}

#[test]
fn the_request_behind_one_that_leaves_is_served() {
    model(None, head_leaves_against_release);
}

#[test]
fn canary_leaves_without_serving_the_next() {
    caught(Canary::SemaphoreMoveUp, None, head_leaves_against_release);
}

/// The same, and a thread behind it is about to block.
#[test]
fn a_thread_that_is_about_to_block_behind_a_request_that_leaves_is_served() {
    model(None, || {
        let semaphore = Semaphore::new(2);
        let mut held = semaphore.acquire_many(2).unwrap().into_owned();
        let small = held.split(1).unwrap();
        let head = Request::queued(&semaphore, 2);
        let waiter = {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire().unwrap().units())
        };
        let canceller = thread::spawn(move || head.cancel());
        drop(small);
        canceller.join().unwrap();
        assert_eq!(waiter.join().unwrap(), 1);
        drop(held);
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    });
}

/// A close against a request that is about to be queued, and against its grant.
#[test]
fn a_close_wakes_all_waiters() {
    model(None, || {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire().unwrap().into_owned();
        let waiter = {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire().map(|permit| permit.units()))
        };
        semaphore.close();
        drop(held);
        assert!(waiter.join().unwrap().unwrap_err().is_closed());
        assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
    });
}

/// The semaphore becomes too small for a request that is about to be queued.
#[test]
fn a_smaller_semaphore_leaves_no_request_waiting_for_ever() {
    model(None, || {
        let semaphore = Semaphore::new(2);
        let mut held = semaphore.acquire_many(2).unwrap().into_owned();
        let lost = held.split(1).unwrap();
        let waiter = {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire_many(2).map(|permit| permit.units()))
        };
        lost.forget();
        assert!(waiter.join().unwrap().unwrap_err().is_too_large());
        drop(held);
        assert_eq!((semaphore.available(), semaphore.capacity()), (1, 1));
    });
}

/// Three holders of one unit, by the fast path and by the queue, one after the other.
#[test]
fn a_holder_sees_what_the_previous_one_did() {
    model(long_run(3, 5), || {
        let (semaphore, data) = (Semaphore::new(1), Arc::new(Data::default()));
        let threads = [(); 2].map(|()| {
            let (semaphore, data) = (semaphore.clone(), data.clone());
            thread::spawn(move || {
                let _permit = semaphore.acquire().unwrap();
                data.add(1);
            })
        });
        let permit = semaphore.acquire().unwrap();
        data.add(1);
        drop(permit);
        for thread in threads {
            thread.join().unwrap();
        }
        let _permit = semaphore.try_acquire().unwrap();
        assert_eq!(data.add(1), 4);
    });
}

/// One holder releases its unit, and another thread grants it, together with a unit of its own.
#[test]
fn units_publish_what_their_holder_did() {
    model(None, || {
        let (semaphore, data) = (Semaphore::new(2), Arc::new(Data::default()));
        let [first, second] = [(); 2].map(|()| semaphore.acquire().unwrap().into_owned());
        let mut request = Request::queued(&semaphore, 2);
        let holder = {
            let data = data.clone();
            thread::spawn(move || {
                data.add(1);
                drop(first);
            })
        };
        drop(second);
        if request.poll().is_some() {
            assert_eq!(data.add(1), 2);
        }
        holder.join().unwrap();
        request.cancel();
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    });
}

/// Two semaphores that are wanted in opposite orders.
#[test]
fn opposite_orders_do_not_lock_each_other_out() {
    model(long_run(3, 5), || {
        let [a, b] = [(); 2].map(|()| Semaphore::new(1));
        let other = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || drop(Semaphore::acquire_all([(&b, 1), (&a, 1)]).unwrap()))
        };
        drop(Semaphore::acquire_all([(&a, 1), (&b, 1)]).unwrap());
        other.join().unwrap();
        assert_eq!([a.available(), b.available()], [1, 1]);
        assert_eq!([a.waiting(), b.waiting()], [0, 0]);
    });
}

/// One of two requests that do not wait gets the unit that both want. One of them takes it without
/// a lock.
#[test]
fn a_request_for_two_and_one_for_one_do_not_both_fail() {
    model(None, || {
        let [a, b] = [(); 2].map(|()| Semaphore::new(1));
        let other = {
            let b = b.clone();
            thread::spawn(move || b.try_acquire().map(Permit::into_owned))
        };
        let both = Semaphore::try_acquire_all([(&a, 1), (&b, 1)]);
        let one = other.join().unwrap();
        assert!(both.is_ok() != one.is_ok(), "the unit has one holder");
        drop((both, one));
        assert_eq!([a.available(), b.available()], [1, 1]);
    });
}

/// Both semaphores of a request get their units back at the same time.
#[test]
fn two_releases_reach_a_request_that_waits_for_both() {
    model(long_run(3, 5), || {
        let [a, b] = [(); 2].map(|()| Semaphore::new(1));
        let [first, second] = [&a, &b].map(|one| one.acquire().unwrap().into_owned());
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(wakes.clone());
        let both = Semaphore::acquire_all_async([(&b, 1), (&a, 1)]).into_owned();
        // Not dropped by a panic; see `Request`.
        let mut both = ManuallyDrop::new(both);
        let mut poll = || Pin::new(&mut *both).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        let other = thread::spawn(move || drop(first));
        drop(second);
        other.join().unwrap();
        assert!(wakes.0.load(Ordering::SeqCst), "it was not notified");
        assert!(poll().is_ready());
        assert_eq!([a.waiting(), b.waiting()], [0, 0]);
    });
}

/// A request for two semaphores is granted, and one behind it can be granted as well.
fn grant_against_the_next_request() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(2));
    let held = a.acquire().unwrap().into_owned();
    let mut cx = Context::from_waker(Waker::noop());
    let both = Semaphore::acquire_all_async([(&a, 1), (&b, 1)]).into_owned();
    let mut both = ManuallyDrop::new(both);
    assert!(Pin::new(&mut *both).poll(&mut cx).is_pending());
    let behind = Request::queued(&b, 1);
    let other = thread::spawn(move || drop(held));
    let polled = Pin::new(&mut *both).poll(&mut cx);
    other.join().unwrap();
    behind.was_granted();
    drop(polled);
    drop(ManuallyDrop::into_inner(both));
    assert_eq!([a.available(), b.available()], [1, 2]);
}

#[test]
fn a_grant_of_two_serves_the_queues_of_both() {
    model(None, grant_against_the_next_request);
}

#[test]
fn canary_grant_without_serving() {
    caught(
        Canary::SemaphoreServeOthers,
        None,
        grant_against_the_next_request,
    );
}
