//! Semaphores: which requests they grant, in which order, and that all units come back.

#[path = "semaphore/mixed.rs"]
mod mixed;
#[path = "semaphore/model.rs"]
mod model;
#[path = "semaphore/several.rs"]
mod several;
mod support;

use filch::{
    AcquireError, Permit, Rng, Semaphore,
    sync::{Acquire, AcquireAll},
};
use std::{
    cell::RefCell,
    future::Future,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    ptr,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    thread,
    time::{Duration, Instant},
};
use support::{LIMIT, Panics, block_on, panic_of, quiet_panic, until, within};

/// Too long for any test, so that a wait which ends has been ended by another thread.
const LONG: Duration = Duration::from_secs(3600);

/// Counts how often it is called.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl WakeCount {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future with its own bell.
struct Polled<F> {
    future: F,
    wakes: Arc<WakeCount>,
}

impl<F: Future + Unpin> Polled<F> {
    fn new(future: F) -> Self {
        Self {
            future,
            wakes: Arc::default(),
        }
    }

    /// One that waits.
    #[track_caller]
    fn waiting(future: F) -> Self {
        let mut polled = Self::new(future);
        assert!(polled.poll().is_none(), "it should have to wait");
        polled
    }

    fn poll(&mut self) -> Option<F::Output> {
        let waker = Waker::from(self.wakes.clone());
        match Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

/// Waits until `n` requests are in the queue.
#[track_caller]
fn queued(semaphore: &Semaphore, n: usize) {
    until("the queue has grown", || semaphore.waiting() == n);
}

#[test]
fn everything_can_be_sent() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<Semaphore>();
    check::<Permit<'_>>();
    check::<Acquire<'_>>();
    check::<AcquireAll<'_>>();
    check::<AcquireError>();
}

#[test]
fn units_go_out_and_come_back() {
    let semaphore = Semaphore::new(10);
    let first = semaphore.acquire_many(4).unwrap();
    let second = semaphore.try_acquire_many(6).unwrap();
    assert_eq!((first.units(), second.units()), (4, 6));
    assert_eq!((semaphore.available(), semaphore.capacity()), (0, 10));
    assert!(semaphore.try_acquire().unwrap_err().is_full());
    drop(first);
    assert_eq!(semaphore.available(), 4);
    drop(second);
    assert_eq!(semaphore.available(), 10);
}

#[test]
fn a_clone_is_the_same_semaphore() {
    let semaphore = Semaphore::new(2);
    let clone = semaphore.clone();
    let mut permit = semaphore.acquire().unwrap();
    assert_eq!(clone.available(), 1);
    permit.merge(clone.acquire().unwrap()).unwrap();
    drop(permit);
    assert_eq!(clone.available(), 2);
}

#[test]
fn nothing_at_all_is_always_granted() {
    let semaphore = Semaphore::new(0);
    assert_eq!(semaphore.acquire_many(0).unwrap().units(), 0);
    assert!(semaphore.acquire().unwrap_err().is_too_large());
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap();
    let _behind = Polled::waiting(semaphore.acquire_async());
    drop(semaphore.try_acquire_many(0).unwrap());
    drop(semaphore.acquire_many(0).unwrap());
    drop(held);
    semaphore.close();
    assert!(semaphore.acquire_many(0).unwrap_err().is_closed());
    assert!(Semaphore::acquire_all([]).unwrap().is_empty());
}

#[test]
fn the_largest_numbers_are_fine() {
    let semaphore = Semaphore::new(u64::MAX);
    assert_eq!(semaphore.capacity(), Semaphore::MAX_UNITS);
    semaphore.add(u64::MAX);
    assert_eq!(semaphore.capacity(), Semaphore::MAX_UNITS);
    let all = semaphore.acquire_many(Semaphore::MAX_UNITS).unwrap();
    assert_eq!(semaphore.available(), 0);
    assert!(semaphore.try_acquire().unwrap_err().is_full());
    assert!(
        semaphore
            .try_acquire_many(u64::MAX)
            .unwrap_err()
            .is_too_large()
    );
    assert!(
        semaphore
            .acquire_many(Semaphore::MAX_UNITS + 1)
            .unwrap_err()
            .is_too_large()
    );
    drop(all);
    assert_eq!(semaphore.available(), Semaphore::MAX_UNITS);

    let twice = [(&semaphore, u64::MAX), (&semaphore, 1)];
    assert!(Semaphore::acquire_all(twice).unwrap_err().is_too_large());
}

#[test]
fn more_than_there_is_fails_at_once_in_every_form() {
    let semaphore = Semaphore::new(4);
    let _held = semaphore.acquire_many(4).unwrap();
    let _queued = Polled::waiting(semaphore.acquire_async());
    for error in [
        semaphore.acquire_many(5).unwrap_err(),
        semaphore.try_acquire_many(5).unwrap_err(),
        semaphore.acquire_many_timeout(5, LONG).unwrap_err(),
        block_on(semaphore.acquire_many_async(5)).unwrap_err(),
    ] {
        assert!(error.is_too_large(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains('5') && text.contains('4'), "{text}");
    }
}

#[test]
fn a_blocked_request_is_served_by_a_release() {
    within(LIMIT, || {
        let semaphore = Semaphore::new(3);
        let held = semaphore.acquire_many(3).unwrap();
        thread::scope(|s| {
            let waiter = s.spawn(|| semaphore.acquire_many(2).unwrap().units());
            queued(&semaphore, 1);
            assert!(semaphore.try_acquire().unwrap_err().is_full());
            drop(held);
            assert_eq!(waiter.join().unwrap(), 2);
        });
        assert_eq!(semaphore.available(), 3);
    });
}

#[test]
fn a_time_that_is_up_leaves_no_trace() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire().unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let start = Instant::now();
        let error = semaphore.acquire_many_timeout(2, timeout).unwrap_err();
        assert!(error.is_timeout());
        assert!(start.elapsed() >= timeout);
        assert_eq!((semaphore.waiting(), semaphore.available()), (0, 1));
    }
    // What no request waits for any more is free for the next one.
    drop(semaphore.try_acquire().unwrap());
    drop(held);
    drop(semaphore.acquire_many_timeout(2, Duration::ZERO).unwrap());
    drop(semaphore.acquire_many_timeout(2, Duration::MAX).unwrap());
}

#[test]
fn a_request_that_gives_up_lets_those_behind_it_pass() {
    within(LIMIT, || {
        let semaphore = Semaphore::new(2);
        let _held = semaphore.acquire().unwrap();
        let mut behind = Polled::new(semaphore.acquire_async());
        thread::scope(|s| {
            let head = s.spawn(|| semaphore.acquire_many_timeout(2, Duration::from_millis(20)));
            // It may be too late for that on a busy machine; then there is no request to pass.
            until("it waits or is over", || {
                semaphore.waiting() == 1 || head.is_finished()
            });
            let at_once = behind.poll();
            assert!(head.join().unwrap().unwrap_err().is_timeout());
            if at_once.is_none() {
                assert_eq!(behind.wakes.calls(), 1);
                assert!(behind.poll().unwrap().is_ok());
            }
        });
    });
}

#[test]
fn first_come_first_served() {
    within(LIMIT, || {
        const WAITERS: usize = 6;
        let semaphore = Semaphore::new(1);
        let order = Mutex::new(Vec::new());
        let held = semaphore.acquire().unwrap();
        thread::scope(|s| {
            for waiter in 0..WAITERS {
                let (semaphore, order) = (&semaphore, &order);
                s.spawn(move || {
                    let _permit = semaphore.acquire().unwrap();
                    order.lock().unwrap().push(waiter);
                });
                queued(semaphore, waiter + 1);
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    });
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let semaphore = Semaphore::new(4);
    let mut held = semaphore.acquire_many(4).unwrap();
    let mut large = Polled::waiting(semaphore.acquire_many_async(4));
    let mut small = Polled::waiting(semaphore.acquire_async());
    for free in 1..4 {
        drop(held.split(1).unwrap());
        assert_eq!(semaphore.available(), free);
        assert!(semaphore.try_acquire().unwrap_err().is_full(), "overtaken");
        assert!(small.poll().is_none(), "overtaken");
        assert!(large.poll().is_none());
    }
    drop(held);
    assert_eq!((large.wakes.calls(), small.wakes.calls()), (1, 0));
    let all = large.poll().unwrap().unwrap();
    assert_eq!(all.units(), 4);
    assert!(small.poll().is_none());
    drop(all);
    assert_eq!(small.poll().unwrap().unwrap().units(), 1);
}

#[test]
fn one_release_serves_all_whom_it_can() {
    let semaphore = Semaphore::new(6);
    let held = semaphore.acquire_many(6).unwrap();
    let mut requests = [1, 2, 3, 1].map(|n| Polled::waiting(semaphore.acquire_many_async(n)));
    drop(held);
    let calls: Vec<_> = requests
        .iter()
        .map(|request| request.wakes.calls())
        .collect();
    assert_eq!(calls, [1, 1, 1, 0]);
    assert_eq!((semaphore.available(), semaphore.waiting()), (0, 1));
    let [first, ..] = &mut requests;
    drop(first.poll().unwrap());
    assert_eq!(requests[3].wakes.calls(), 1);
}

#[test]
fn a_future_asks_for_nothing_before_it_is_polled() {
    let semaphore = Semaphore::new(1);
    let future = semaphore.acquire_async();
    drop(semaphore.try_acquire().unwrap());
    drop(block_on(future).unwrap());
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn a_future_is_dropped_while_it_waits() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2).unwrap();
    let requests = [2, 1, 1].map(|n| Polled::waiting(semaphore.acquire_many_async(n)));
    let [first, second, mut third] = requests;
    drop(second); // from the middle
    assert_eq!(semaphore.waiting(), 2);
    drop(first); // the head
    assert_eq!(semaphore.waiting(), 1);
    drop(held);
    assert_eq!(third.poll().unwrap().unwrap().units(), 1);
    assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
}

#[test]
fn a_future_is_dropped_after_it_was_served() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap();
    let first = Polled::waiting(semaphore.acquire_async());
    let mut second = Polled::waiting(semaphore.acquire_async());
    drop(held);
    assert_eq!((first.wakes.calls(), second.wakes.calls()), (1, 0));
    assert_eq!(semaphore.available(), 0);
    drop(first);
    assert_eq!(second.wakes.calls(), 1);
    drop(second.poll().unwrap().unwrap());
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn futures_are_dropped_in_every_order() {
    // Four requests; each is dropped before the release, after it, or taken and then dropped.
    for orders in 0..3_u32.pow(4) {
        let semaphore = Semaphore::new(3);
        let held = semaphore.acquire_many(3).unwrap();
        let what = |at: usize| orders / 3_u32.pow(at as u32) % 3;
        let mut requests: Vec<_> = [2, 1, 3, 2]
            .into_iter()
            .map(|n| Some(Polled::waiting(semaphore.acquire_many_async(n))))
            .collect();
        let drop_those = |requests: &mut Vec<Option<_>>, wanted| {
            for (at, request) in requests.iter_mut().enumerate() {
                if what(at) == wanted {
                    *request = None;
                }
            }
        };
        drop_those(&mut requests, 0);
        drop(held);
        drop_those(&mut requests, 1);
        for request in requests.iter_mut().flatten() {
            drop(request.poll().expect("it is its turn").unwrap());
        }
        assert_eq!(
            (semaphore.available(), semaphore.waiting()),
            (3, 0),
            "{orders}"
        );
    }
}

#[test]
fn the_last_waker_is_the_one_that_is_called() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap();
    let mut request = Polled::waiting(semaphore.acquire_async());
    let old = std::mem::take(&mut request.wakes);
    assert!(request.poll().is_none());
    assert_eq!(Arc::strong_count(&old), 1, "the old one is let go");
    drop(held);
    assert_eq!((old.calls(), request.wakes.calls()), (0, 1));
}

#[test]
fn a_future_moves_to_another_thread() {
    within(LIMIT, || {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire().unwrap();
        let mut request = Polled::waiting(semaphore.acquire_async())
            .future
            .into_owned();
        assert_eq!(semaphore.waiting(), 1, "it has kept its place");
        let thread = thread::spawn(move || block_on(&mut request).unwrap().units());
        drop(held);
        assert_eq!(thread.join().unwrap(), 1);
        assert_eq!(semaphore.available(), 1);
    });
}

#[test]
fn a_future_that_is_ready_is_not_asked_again() {
    let semaphore = Semaphore::new(1);
    let mut request = Polled::new(semaphore.acquire_async());
    drop(request.poll().unwrap());
    assert!(panic::catch_unwind(AssertUnwindSafe(|| request.poll())).is_err());
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn a_panic_gives_the_units_back() {
    let semaphore = Semaphore::new(2);
    let said = panic_of(|| {
        let _permit = semaphore.acquire_many(2).unwrap();
        quiet_panic("while it holds")
    });
    assert_eq!(said, "while it holds");
    assert_eq!(semaphore.available(), 2);

    let (a, b) = (Semaphore::new(1), Semaphore::new(2));
    panic_of(|| {
        let _permits = Semaphore::acquire_all([(&a, 1), (&b, 1)]).unwrap();
        quiet_panic("while it holds")
    });
    assert_eq!((a.available(), b.available()), (1, 2));
}

#[test]
fn a_task_that_panics_on_a_pool_gives_its_units_back() {
    within(LIMIT, || {
        let (told, semaphore) = (Panics::default(), Semaphore::new(1));
        let pool = told.pool(2);
        for _ in 0..10 {
            let permit = semaphore.acquire().unwrap().into_owned();
            pool.spawn(move || {
                let _permit = permit;
                quiet_panic("in a task")
            });
        }
        drop(semaphore.acquire().unwrap());
        drop(pool);
        assert_eq!(told.take().len(), 10);
    });
}

/// Panics when it is called, and when it is dropped for the last time.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        quiet_panic("wake");
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("drop of a waker");
        }
    }
}

#[test]
fn a_waker_that_panics_loses_nothing() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2).unwrap();
    let mut first = semaphore.acquire_async();
    let bomb = Waker::from(Arc::new(Bomb));
    let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&bomb));
    assert!(polled.is_pending());
    let mut second = Polled::waiting(semaphore.acquire_async());
    drop(held); // calls both; nothing comes out of it
    assert_eq!((second.wakes.calls(), semaphore.waiting()), (1, 0));
    assert!(second.poll().unwrap().is_ok());
    assert_eq!(semaphore.available(), 1, "the first one has its unit");
    drop(first);
    assert_eq!(semaphore.available(), 2);
    assert_eq!(panic_of(|| drop(bomb)), "drop of a waker");
}

#[test]
fn a_waker_whose_drop_panics_loses_nothing() {
    let (a, b) = (Semaphore::new(2), Semaphore::new(2));
    let both = || Semaphore::acquire_all_async([(&a, 2), (&b, 2)]);
    let held = Semaphore::acquire_all([(&a, 1), (&b, 1)]).unwrap();
    let mut requests = [(); 2].map(|()| both());
    for request in &mut requests {
        // The queue has the only handle.
        let bomb = Waker::from(Arc::new(Bomb));
        let mut cx = Context::from_waker(&bomb);
        assert!(Pin::new(request).poll(&mut cx).is_pending());
    }
    let mut next = Polled::waiting(both());
    let [first, mut second] = requests;
    drop(first);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
    drop(second);
    drop(held);
    assert!(next.poll().unwrap().is_ok());
    assert_eq!((a.available(), b.available()), (2, 2));
}

thread_local! {
    /// What the next clone of the waker below does.
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A waker that does what `ON_CLONE` says when it is cloned, and whose clones panic when they are
/// dropped.
fn fragile() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        let f = ON_CLONE
            .take()
            .expect("it is cloned only when it has to wait");
        f();
        RawWaker::new(ptr::dangling(), &CALLS)
    }
    fn drop(data: *const ()) {
        if !data.is_null() {
            quiet_panic("drop of a clone");
        }
    }
    static CALLS: RawWakerVTable = RawWakerVTable::new(clone, |_| (), |_| (), drop);
    #[expect(unsafe_code, reason = "only so can the clone of a waker run code")]
    // SAFETY: the pointer is never followed, and all of it may run on any thread.
    unsafe {
        Waker::from_raw(RawWaker::new(ptr::null(), &CALLS))
    }
}

/// Polls `future` when nothing is free; the clone of its waker gives `held` back, and is dropped
/// unneeded.
#[track_caller]
fn poll_late<F: Future + Unpin>(mut future: F, held: impl Sized + 'static) -> F::Output {
    ON_CLONE.set(Some(Box::new(move || drop(held))));
    let waker = fragile();
    match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it has been given back"),
    }
}

#[test]
fn units_are_not_lost_with_a_waker_whose_drop_panics() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().unwrap().into_owned();
    let permit = poll_late(semaphore.acquire_async(), held).unwrap();
    assert_eq!((semaphore.available(), semaphore.waiting()), (0, 0));
    drop(permit);
    assert_eq!(semaphore.available(), 1);
    let (a, b) = (Semaphore::new(1), Semaphore::new(1));
    let held = a.acquire().unwrap().into_owned();
    let permits = poll_late(Semaphore::acquire_all_async([(&a, 1), (&b, 1)]), held).unwrap();
    assert_eq!((a.available(), b.available()), (0, 0));
    drop(permits);
    assert_eq!((a.available(), b.available()), (1, 1));
    // What is free at once needs no clone.
    let waker = fragile();
    let mut future = Semaphore::acquire_all_async([(&a, 1), (&b, 1)]);
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_ready());
}

#[test]
fn a_refusal_survives_a_waker_whose_drop_panics() {
    struct Close(Semaphore);
    impl Drop for Close {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let semaphore = Semaphore::new(1);
    let _held = semaphore.acquire().unwrap();
    let late = poll_late(semaphore.acquire_async(), Close(semaphore.clone()));
    assert!(late.unwrap_err().is_closed());
}

#[test]
fn a_waker_may_ask_the_semaphore_itself() {
    struct Curious(Semaphore, Mutex<Vec<u64>>);
    impl Wake for Curious {
        fn wake(self: Arc<Self>) {
            let seen = self.0.try_acquire().map_or(0, |permit| permit.units());
            self.1.lock().unwrap().push(seen + self.0.waiting() as u64);
        }
    }
    let semaphore = Semaphore::new(3);
    let held = semaphore.acquire_many(3).unwrap();
    let curious = Arc::new(Curious(semaphore.clone(), Mutex::default()));
    let waker = Waker::from(curious.clone());
    let mut request = semaphore.acquire_many_async(2);
    let polled = Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(held);
    assert_eq!(*curious.1.lock().unwrap(), [1]);
}

#[test]
fn permits_are_split_and_merged() {
    let semaphore = Semaphore::new(10);
    let mut permit = semaphore.acquire_many(10).unwrap();
    let part = permit.split(4).unwrap().into_owned();
    let nothing = permit.split(0).unwrap();
    assert!(permit.split(7).is_none());
    assert_eq!((permit.units(), part.units(), nothing.units()), (6, 4, 0));
    drop(permit);
    assert_eq!(semaphore.available(), 6);
    let mut permit = semaphore.acquire().unwrap();
    permit.merge(part).unwrap();
    assert_eq!((permit.units(), semaphore.available()), (5, 5));

    let stranger = Semaphore::new(10);
    let back = permit.merge(stranger.acquire_many(3).unwrap()).unwrap_err();
    assert_eq!((back.units(), permit.units()), (3, 5));
    drop((back, permit));
    assert_eq!((semaphore.available(), stranger.available()), (10, 10));
}

#[test]
fn a_split_serves_waiters() {
    let semaphore = Semaphore::new(2);
    let mut held = semaphore.acquire_many(2).unwrap();
    let mut request = Polled::waiting(semaphore.acquire_async());
    drop(held.split(1).unwrap());
    assert!(request.poll().unwrap().is_ok());
    assert_eq!(held.units(), 1);
}

#[test]
fn a_semaphore_grows_and_shrinks() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2).unwrap();
    let mut request = Polled::waiting(semaphore.acquire_async());
    semaphore.add(3);
    assert_eq!(request.wakes.calls(), 1);
    assert_eq!((semaphore.available(), semaphore.capacity()), (2, 5));
    let mut large = Polled::waiting(semaphore.acquire_many_async(5));
    let mut small = Polled::waiting(semaphore.acquire_many_async(2));
    held.forget();
    // The first one holds one of the three that are left.
    let error = large.poll().expect("refused at once").unwrap_err();
    assert!(error.is_too_large());
    assert_eq!(
        small
            .poll()
            .expect("no request is before it")
            .unwrap()
            .units(),
        2
    );
    drop(request.poll());
    assert_eq!((semaphore.available(), semaphore.capacity()), (3, 3));
}

#[test]
fn a_close_refuses_all_and_takes_permits_back() {
    within(LIMIT, || {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire().unwrap();
        let mut granted = Polled::waiting(semaphore.acquire_async());
        drop(held);
        let mut queued_one = Polled::waiting(semaphore.acquire_async());
        thread::scope(|s| {
            let blocked = s.spawn(|| semaphore.acquire().map(|permit| permit.units()));
            let timed = s.spawn(|| semaphore.acquire_timeout(LONG).map(|permit| permit.units()));
            queued(&semaphore, 3);
            semaphore.close();
            assert!(blocked.join().unwrap().unwrap_err().is_closed());
            assert!(timed.join().unwrap().unwrap_err().is_closed());
        });
        assert_eq!(queued_one.wakes.calls(), 1);
        assert!(queued_one.poll().unwrap().unwrap_err().is_closed());
        assert!(granted.poll().unwrap().is_ok(), "what was granted stays so");
        let text = format!("{semaphore:?}");
        assert!(text.contains("waiting: false"), "{text}");
        assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
        semaphore.close();
        for error in [
            semaphore.acquire().unwrap_err(),
            semaphore.acquire_many(7).unwrap_err(),
            semaphore.try_acquire().unwrap_err(),
            semaphore.acquire_timeout(LONG).unwrap_err(),
            block_on(semaphore.acquire_async()).unwrap_err(),
        ] {
            assert!(error.is_closed(), "{error:?}");
        }
    });
}

#[test]
fn they_can_be_printed() {
    let semaphore = Semaphore::new(3);
    let permit = semaphore.acquire().unwrap();
    let text = format!("{semaphore:?} {permit:?} {:?}", semaphore.acquire_async());
    assert!(text.contains("available: 2"), "{text}");
    assert!(text.contains("Permit { units: 1 }"), "{text}");
}

/// How often each thread of a stress test asks.
const ROUNDS: usize = if cfg!(debug_assertions) {
    5_000
} else {
    50_000
};
const THREADS: u64 = 4;

/// Calls `f` on four threads at once, each with its own random numbers.
fn four_threads(f: impl Fn(&mut Rng) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|s| {
        for seed in 1..=THREADS {
            let (f, start) = (&f, &start);
            s.spawn(move || {
                start.wait();
                let mut rng = Rng::new(seed);
                for _ in 0..ROUNDS {
                    f(&mut rng);
                }
            });
        }
    });
}

/// What is out at present, and that it is never more than `most`.
struct Out {
    sum: AtomicU64,
    most: u64,
}

impl Out {
    fn new(most: u64) -> Self {
        let sum = AtomicU64::new(0);
        Self { sum, most }
    }

    fn hold(&self, n: u64, f: impl FnOnce()) {
        let sum = self.sum.fetch_add(n, Ordering::Relaxed) + n;
        assert!(sum <= self.most, "{sum} of {} are out", self.most);
        f();
        self.sum.fetch_sub(n, Ordering::Relaxed);
    }
}

#[test]
fn never_more_than_there_is_and_all_of_it_comes_back() {
    within(LIMIT, || {
        const CAPACITY: u64 = 5;
        let (semaphore, out) = (Semaphore::new(CAPACITY), Out::new(CAPACITY));
        four_threads(|rng| {
            let n = rng.below(CAPACITY as usize) as u64 + 1;
            let permit = match rng.below(5) {
                0 => semaphore.try_acquire_many(n),
                1 => semaphore.acquire_many_timeout(n, Duration::from_micros(n)),
                2 => block_on(semaphore.acquire_many_async(n)),
                3 => {
                    // Polled once; then it is dropped, whatever became of it.
                    let mut request = Polled::new(semaphore.acquire_many_async(n));
                    drop(request.poll());
                    return;
                }
                _ => semaphore.acquire_many(n),
            };
            let Ok(mut permit) = permit else { return };
            out.hold(n, || {
                if rng.below(16) == 0 {
                    thread::yield_now();
                }
            });
            if rng.below(4) == 0 {
                let part = permit.split(n / 2).unwrap().into_owned();
                out.hold(n - n / 2, || drop(part));
            }
        });
        assert_eq!((semaphore.available(), semaphore.waiting()), (CAPACITY, 0));
        assert!(semaphore.acquire_many(CAPACITY).is_ok());
    });
}

#[test]
fn a_close_under_load() {
    within(LIMIT, || {
        for round in 0..50 {
            let semaphore = Semaphore::new(2);
            let done = AtomicUsize::new(0);
            thread::scope(|s| {
                for thread in 0..THREADS {
                    let (semaphore, done) = (&semaphore, &done);
                    s.spawn(move || {
                        while let Ok(permit) = semaphore.acquire_many(thread % 2 + 1) {
                            done.fetch_add(1, Ordering::Relaxed);
                            drop(permit);
                        }
                    });
                }
                until("some work was done", || {
                    done.load(Ordering::Relaxed) > round
                });
                semaphore.close();
            });
            assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
        }
    });
}
