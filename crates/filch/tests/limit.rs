//! Budgets: what they give out, to whom, in which order, and that it all comes back.

#[path = "limit/model.rs"]
mod model;
mod support;

use filch::{
    AcquireError, Budget, Budgets, Permit, Permits, Rng,
    limit::{Acquire, AcquireAll, MOST_UNITS},
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
use support::{LIMIT, Told, block_on, panic_of, quiet_panic, until, within};

/// Too long for any test, so that a wait which ends has been ended by somebody.
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
fn queued(budget: &Budget, n: usize) {
    until("the queue has grown", || budget.waiting() == n);
}

#[test]
fn everything_can_be_sent() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<Budget>();
    check::<Budgets>();
    check::<Permit<'_>>();
    check::<Permits<'_>>();
    check::<Acquire<'_>>();
    check::<AcquireAll<'_>>();
    check::<AcquireError>();
}

#[test]
fn units_go_out_and_come_back() {
    let budget = Budget::new(10);
    let first = budget.acquire(4).unwrap();
    let second = budget.try_acquire(6).unwrap();
    assert_eq!((first.n(), second.n()), (4, 6));
    assert_eq!((budget.available(), budget.capacity()), (0, 10));
    assert!(budget.try_acquire(1).unwrap_err().is_full());
    drop(first);
    assert_eq!(budget.available(), 4);
    drop(second);
    assert_eq!(budget.available(), 10);
}

#[test]
fn a_clone_is_the_same_budget() {
    let budget = Budget::new(2);
    let clone = budget.clone();
    let mut permit = budget.acquire(1).unwrap();
    assert_eq!(clone.available(), 1);
    permit.merge(clone.acquire(1).unwrap()).unwrap();
    drop(permit);
    assert_eq!(clone.available(), 2);
}

#[test]
fn nothing_at_all_is_always_granted() {
    let budget = Budget::new(0);
    assert_eq!(budget.acquire(0).unwrap().n(), 0);
    assert!(budget.acquire(1).unwrap_err().is_too_large());
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap();
    let _behind = Polled::waiting(budget.acquire_async(1));
    drop(budget.try_acquire(0).unwrap());
    drop(budget.acquire(0).unwrap());
    drop(held);
    budget.close();
    assert!(budget.acquire(0).unwrap_err().is_closed());
    assert!(Budgets::new().acquire(&[]).is_ok());
}

#[test]
fn the_largest_numbers_are_fine() {
    let budget = Budget::new(u64::MAX);
    assert_eq!(budget.capacity(), MOST_UNITS);
    budget.add(u64::MAX);
    assert_eq!(budget.capacity(), MOST_UNITS);
    let all = budget.acquire(MOST_UNITS).unwrap();
    assert_eq!(budget.available(), 0);
    assert!(budget.try_acquire(1).unwrap_err().is_full());
    assert!(budget.try_acquire(u64::MAX).unwrap_err().is_too_large());
    assert!(budget.acquire(MOST_UNITS + 1).unwrap_err().is_too_large());
    drop(all);
    assert_eq!(budget.available(), MOST_UNITS);

    let budgets = Budgets::new().with("a", u64::MAX).with("a", 1);
    assert_eq!(budgets.capacity("a"), Some(MOST_UNITS));
    let twice = [("a", u64::MAX), ("a", 1)];
    assert!(budgets.acquire(&twice).unwrap_err().is_too_large());
}

#[test]
fn more_than_there_is_fails_at_once_in_every_form() {
    let budget = Budget::new(4);
    let _held = budget.acquire(4).unwrap();
    let _queued = Polled::waiting(budget.acquire_async(1));
    for error in [
        budget.acquire(5).unwrap_err(),
        budget.try_acquire(5).unwrap_err(),
        budget.acquire_timeout(5, LONG).unwrap_err(),
        block_on(budget.acquire_async(5)).unwrap_err(),
    ] {
        assert!(error.is_too_large(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains('5') && text.contains('4'), "{text}");
    }
}

#[test]
fn a_blocked_request_is_served_by_a_release() {
    within(LIMIT, || {
        let budget = Budget::new(3);
        let held = budget.acquire(3).unwrap();
        thread::scope(|s| {
            let waiter = s.spawn(|| budget.acquire(2).unwrap().n());
            queued(&budget, 1);
            assert!(budget.try_acquire(1).unwrap_err().is_full());
            drop(held);
            assert_eq!(waiter.join().unwrap(), 2);
        });
        assert_eq!(budget.available(), 3);
    });
}

#[test]
fn a_time_that_is_up_leaves_no_trace() {
    let budget = Budget::new(2);
    let held = budget.acquire(1).unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let start = Instant::now();
        let error = budget.acquire_timeout(2, timeout).unwrap_err();
        assert!(error.is_timeout());
        assert!(start.elapsed() >= timeout);
        assert_eq!((budget.waiting(), budget.available()), (0, 1));
    }
    // What nobody waits for any more is free for the next one.
    drop(budget.try_acquire(1).unwrap());
    drop(held);
    drop(budget.acquire_timeout(2, Duration::ZERO).unwrap());
    drop(budget.acquire_timeout(2, Duration::MAX).unwrap());
}

#[test]
fn a_request_that_gives_up_lets_those_behind_it_pass() {
    within(LIMIT, || {
        let budget = Budget::new(2);
        let _held = budget.acquire(1).unwrap();
        let mut behind = Polled::new(budget.acquire_async(1));
        thread::scope(|s| {
            let head = s.spawn(|| budget.acquire_timeout(2, Duration::from_millis(20)));
            // It may be too late for that on a busy machine; then there is nobody to pass.
            until("it waits or is over", || {
                budget.waiting() == 1 || head.is_finished()
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
        let budget = Budget::new(1);
        let order = Mutex::new(Vec::new());
        let held = budget.acquire(1).unwrap();
        thread::scope(|s| {
            for waiter in 0..WAITERS {
                let (budget, order) = (&budget, &order);
                s.spawn(move || {
                    let _permit = budget.acquire(1).unwrap();
                    order.lock().unwrap().push(waiter);
                });
                queued(budget, waiter + 1);
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    });
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let budget = Budget::new(4);
    let mut held = budget.acquire(4).unwrap();
    let mut large = Polled::waiting(budget.acquire_async(4));
    let mut small = Polled::waiting(budget.acquire_async(1));
    for free in 1..4 {
        drop(held.split(1).unwrap());
        assert_eq!(budget.available(), free);
        assert!(budget.try_acquire(1).unwrap_err().is_full(), "overtaken");
        assert!(small.poll().is_none(), "overtaken");
        assert!(large.poll().is_none());
    }
    drop(held);
    assert_eq!((large.wakes.calls(), small.wakes.calls()), (1, 0));
    let all = large.poll().unwrap().unwrap();
    assert_eq!(all.n(), 4);
    assert!(small.poll().is_none());
    drop(all);
    assert_eq!(small.poll().unwrap().unwrap().n(), 1);
}

#[test]
fn one_release_serves_all_whom_it_can() {
    let budget = Budget::new(6);
    let held = budget.acquire(6).unwrap();
    let mut requests = [1, 2, 3, 1].map(|n| Polled::waiting(budget.acquire_async(n)));
    drop(held);
    let calls: Vec<_> = requests
        .iter()
        .map(|request| request.wakes.calls())
        .collect();
    assert_eq!(calls, [1, 1, 1, 0]);
    assert_eq!((budget.available(), budget.waiting()), (0, 1));
    let [first, ..] = &mut requests;
    drop(first.poll().unwrap());
    assert_eq!(requests[3].wakes.calls(), 1);
}

#[test]
fn a_future_asks_for_nothing_before_it_is_polled() {
    let budget = Budget::new(1);
    let future = budget.acquire_async(1);
    drop(budget.try_acquire(1).unwrap());
    drop(block_on(future).unwrap());
    assert_eq!(budget.available(), 1);
}

#[test]
fn a_future_is_dropped_while_it_waits() {
    let budget = Budget::new(2);
    let held = budget.acquire(2).unwrap();
    let requests = [2, 1, 1].map(|n| Polled::waiting(budget.acquire_async(n)));
    let [first, second, mut third] = requests;
    drop(second); // from the middle
    assert_eq!(budget.waiting(), 2);
    drop(first); // the head
    assert_eq!(budget.waiting(), 1);
    drop(held);
    assert_eq!(third.poll().unwrap().unwrap().n(), 1);
    assert_eq!((budget.available(), budget.waiting()), (2, 0));
}

#[test]
fn a_future_is_dropped_after_it_was_served() {
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap();
    let first = Polled::waiting(budget.acquire_async(1));
    let mut second = Polled::waiting(budget.acquire_async(1));
    drop(held);
    assert_eq!((first.wakes.calls(), second.wakes.calls()), (1, 0));
    assert_eq!(budget.available(), 0);
    drop(first);
    assert_eq!(second.wakes.calls(), 1);
    drop(second.poll().unwrap().unwrap());
    assert_eq!(budget.available(), 1);
}

#[test]
fn futures_are_dropped_in_every_order() {
    // Four requests; each is dropped before the release, after it, or taken and then dropped.
    for orders in 0..3_u32.pow(4) {
        let budget = Budget::new(3);
        let held = budget.acquire(3).unwrap();
        let what = |at: usize| orders / 3_u32.pow(at as u32) % 3;
        let mut requests: Vec<_> = [2, 1, 3, 2]
            .into_iter()
            .map(|n| Some(Polled::waiting(budget.acquire_async(n))))
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
        assert_eq!((budget.available(), budget.waiting()), (3, 0), "{orders}");
    }
}

#[test]
fn the_last_waker_is_the_one_that_is_called() {
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap();
    let mut request = Polled::waiting(budget.acquire_async(1));
    let old = std::mem::take(&mut request.wakes);
    assert!(request.poll().is_none());
    assert_eq!(Arc::strong_count(&old), 1, "the old one is let go");
    drop(held);
    assert_eq!((old.calls(), request.wakes.calls()), (0, 1));
}

#[test]
fn a_future_moves_to_another_thread() {
    within(LIMIT, || {
        let budget = Budget::new(1);
        let held = budget.acquire(1).unwrap();
        let mut request = Polled::waiting(budget.acquire_async(1)).future.into_owned();
        assert_eq!(budget.waiting(), 1, "it has kept its place");
        let thread = thread::spawn(move || block_on(&mut request).unwrap().n());
        drop(held);
        assert_eq!(thread.join().unwrap(), 1);
        assert_eq!(budget.available(), 1);
    });
}

#[test]
fn a_future_that_is_ready_is_not_asked_again() {
    let budget = Budget::new(1);
    let mut request = Polled::new(budget.acquire_async(1));
    drop(request.poll().unwrap());
    assert!(panic::catch_unwind(AssertUnwindSafe(|| request.poll())).is_err());
    assert_eq!(budget.available(), 1);
}

#[test]
fn a_panic_gives_the_units_back() {
    let budget = Budget::new(2);
    let said = panic_of(|| {
        let _permit = budget.acquire(2).unwrap();
        quiet_panic("while it holds")
    });
    assert_eq!(said, "while it holds");
    assert_eq!(budget.available(), 2);

    let budgets = Budgets::new().with("a", 1).with("b", 2);
    panic_of(|| {
        let _permits = budgets.acquire(&[("a", 1), ("b", 1)]).unwrap();
        quiet_panic("while it holds")
    });
    assert_eq!(budgets.available("a"), Some(1));
    assert_eq!(budgets.available("b"), Some(2));
}

#[test]
fn a_task_that_panics_on_a_pool_gives_its_units_back() {
    within(LIMIT, || {
        let (told, budget) = (Told::default(), Budget::new(1));
        let pool = told.pool(2);
        for _ in 0..10 {
            let permit = budget.acquire(1).unwrap().into_owned();
            pool.spawn(move || {
                let _permit = permit;
                quiet_panic("in a task")
            });
        }
        drop(budget.acquire(1).unwrap());
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
    let budget = Budget::new(2);
    let held = budget.acquire(2).unwrap();
    let mut first = budget.acquire_async(1);
    let bomb = Waker::from(Arc::new(Bomb));
    let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&bomb));
    assert!(polled.is_pending());
    let mut second = Polled::waiting(budget.acquire_async(1));
    drop(held); // calls both; nothing comes out of it
    assert_eq!((second.wakes.calls(), budget.waiting()), (1, 0));
    assert!(second.poll().unwrap().is_ok());
    assert_eq!(budget.available(), 1, "the first one has its unit");
    drop(first);
    assert_eq!(budget.available(), 2);
    assert_eq!(panic_of(|| drop(bomb)), "drop of a waker");
}

#[test]
fn a_waker_whose_drop_panics_loses_nothing() {
    let budgets = Budgets::new().with("a", 2);
    let held = budgets.acquire(&[("a", 1)]).unwrap();
    let mut requests = [(); 2].map(|()| budgets.acquire_async(&[("a", 2)]));
    for request in &mut requests {
        // The queue has the only handle.
        let bomb = Waker::from(Arc::new(Bomb));
        let mut cx = Context::from_waker(&bomb);
        assert!(Pin::new(request).poll(&mut cx).is_pending());
    }
    let mut next = Polled::waiting(budgets.acquire_async(&[("a", 2)]));
    let [first, mut second] = requests;
    drop(first);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
    drop(second);
    drop(held);
    assert!(next.poll().unwrap().is_ok());
    assert_eq!(budgets.available("a"), Some(2));
}

thread_local! {
    /// What the next clone of the waker below does.
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A waker that does what `ON_CLONE` says when it is cloned, and whose clones panic when they are dropped.
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

/// Polls `future` when nothing is free; the clone of its waker gives `held` back, and is dropped unneeded.
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
    let budget = Budget::new(1);
    let held = budget.acquire(1).unwrap().into_owned();
    let permit = poll_late(budget.acquire_async(1), held).unwrap();
    assert_eq!((budget.available(), budget.waiting()), (0, 0));
    drop(permit);
    assert_eq!(budget.available(), 1);
    let budgets = Budgets::new().with("a", 1);
    let held = budgets.acquire(&[("a", 1)]).unwrap().into_owned();
    let permits = poll_late(budgets.acquire_async(&[("a", 1)]), held).unwrap();
    assert_eq!(budgets.available("a"), Some(0));
    drop(permits);
    assert_eq!(budgets.available("a"), Some(1));
    // What is free at once needs no clone.
    let waker = fragile();
    let mut future = budgets.acquire_async(&[("a", 1)]);
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_ready());
}

#[test]
fn a_refusal_survives_a_waker_whose_drop_panics() {
    struct Close(Budget);
    impl Drop for Close {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let budget = Budget::new(1);
    let _held = budget.acquire(1).unwrap();
    let late = poll_late(budget.acquire_async(1), Close(budget.clone()));
    assert!(late.unwrap_err().is_closed());
}

#[test]
fn a_waker_may_ask_the_budget_itself() {
    struct Curious(Budget, Mutex<Vec<u64>>);
    impl Wake for Curious {
        fn wake(self: Arc<Self>) {
            let seen = self.0.try_acquire(1).map_or(0, |permit| permit.n());
            self.1.lock().unwrap().push(seen + self.0.waiting() as u64);
        }
    }
    let budget = Budget::new(3);
    let held = budget.acquire(3).unwrap();
    let curious = Arc::new(Curious(budget.clone(), Mutex::default()));
    let waker = Waker::from(curious.clone());
    let mut request = budget.acquire_async(2);
    let polled = Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(held);
    assert_eq!(*curious.1.lock().unwrap(), [1]);
}

#[test]
fn permits_are_split_and_merged() {
    let budget = Budget::new(10);
    let mut permit = budget.acquire(10).unwrap();
    let part = permit.split(4).unwrap().into_owned();
    let nothing = permit.split(0).unwrap();
    assert!(permit.split(7).is_none());
    assert_eq!((permit.n(), part.n(), nothing.n()), (6, 4, 0));
    drop(permit);
    assert_eq!(budget.available(), 6);
    let mut permit = budget.acquire(1).unwrap();
    permit.merge(part).unwrap();
    assert_eq!((permit.n(), budget.available()), (5, 5));

    let stranger = Budget::new(10);
    let back = permit.merge(stranger.acquire(3).unwrap()).unwrap_err();
    assert_eq!((back.n(), permit.n()), (3, 5));
    drop((back, permit));
    assert_eq!((budget.available(), stranger.available()), (10, 10));
}

#[test]
fn a_split_serves_those_who_wait() {
    let budget = Budget::new(2);
    let mut held = budget.acquire(2).unwrap();
    let mut request = Polled::waiting(budget.acquire_async(1));
    drop(held.split(1).unwrap());
    assert!(request.poll().unwrap().is_ok());
    assert_eq!(held.n(), 1);
}

#[test]
fn a_budget_grows_and_shrinks() {
    let budget = Budget::new(2);
    let held = budget.acquire(2).unwrap();
    let mut request = Polled::waiting(budget.acquire_async(1));
    budget.add(3);
    assert_eq!(request.wakes.calls(), 1);
    assert_eq!((budget.available(), budget.capacity()), (2, 5));
    let mut large = Polled::waiting(budget.acquire_async(5));
    let mut small = Polled::waiting(budget.acquire_async(2));
    held.forget();
    // The first one holds one of the three that are left.
    let error = large.poll().expect("refused at once").unwrap_err();
    assert!(error.is_too_large());
    assert_eq!(small.poll().expect("nobody is before it").unwrap().n(), 2);
    drop(request.poll());
    assert_eq!((budget.available(), budget.capacity()), (3, 3));
}

#[test]
fn a_close_refuses_everybody_and_takes_permits_back() {
    within(LIMIT, || {
        let budget = Budget::new(1);
        let held = budget.acquire(1).unwrap();
        let mut granted = Polled::waiting(budget.acquire_async(1));
        drop(held);
        let mut queued_one = Polled::waiting(budget.acquire_async(1));
        thread::scope(|s| {
            let blocked = s.spawn(|| budget.acquire(1).map(|permit| permit.n()));
            let timed = s.spawn(|| budget.acquire_timeout(1, LONG).map(|permit| permit.n()));
            queued(&budget, 3);
            budget.close();
            assert!(blocked.join().unwrap().unwrap_err().is_closed());
            assert!(timed.join().unwrap().unwrap_err().is_closed());
        });
        assert_eq!(queued_one.wakes.calls(), 1);
        assert!(queued_one.poll().unwrap().unwrap_err().is_closed());
        assert!(granted.poll().unwrap().is_ok(), "what was granted stays so");
        let text = format!("{budget:?}");
        assert!(text.contains("waiting: false"), "{text}");
        assert_eq!((budget.available(), budget.waiting()), (1, 0));
        budget.close();
        for error in [
            budget.acquire(1).unwrap_err(),
            budget.acquire(7).unwrap_err(),
            budget.try_acquire(1).unwrap_err(),
            budget.acquire_timeout(1, LONG).unwrap_err(),
            block_on(budget.acquire_async(1)).unwrap_err(),
        ] {
            assert!(error.is_closed(), "{error:?}");
        }
    });
}

#[test]
fn they_can_be_printed() {
    let budget = Budget::new(3);
    let permit = budget.acquire(1).unwrap();
    let text = format!("{budget:?} {permit:?} {:?}", budget.acquire_async(1));
    assert!(text.contains("available: 2"), "{text}");
    assert!(text.contains("Permit { n: 1 }"), "{text}");
    let budgets = Budgets::new().with("bytes", 7);
    let permits = budgets.acquire(&[("bytes", 2)]).unwrap();
    let text = format!("{budgets:?} {permits:?}");
    assert!(text.contains("bytes: 5 of 7"), "{text}");
    assert!(text.contains("Permits { bytes: 2 }"), "{text}");
}

#[test]
fn several_parts_are_all_or_none() {
    let budgets = Budgets::new().with("objects", 2).with("bytes", 100);
    let free = || (budgets.available("objects"), budgets.available("bytes"));
    let first = budgets
        .acquire(&[("bytes", 60), ("objects", 1), ("bytes", 10)])
        .unwrap();
    assert_eq!((first.n("objects"), first.n("bytes")), (1, 70));
    assert_eq!(free(), (Some(1), Some(30)));
    let wanted = [("objects", 1), ("bytes", 31)];
    assert!(budgets.try_acquire(&wanted).unwrap_err().is_full());
    let late = budgets.acquire_timeout(&wanted, Duration::from_millis(2));
    assert!(late.unwrap_err().is_timeout());
    let mut waiting = Polled::waiting(budgets.acquire_async(&wanted));
    assert_eq!(free(), (Some(1), Some(30)), "who waits holds nothing");
    drop(first);
    assert_eq!(waiting.wakes.calls(), 1);
    drop(waiting.poll().unwrap().unwrap());
    assert_eq!(free(), (Some(2), Some(100)));
}

#[test]
fn wrong_requests_for_several_parts_are_clear_errors() {
    let budgets = Budgets::new().with("objects", 2).with("bytes", 100);
    for wrong in ["object", ""] {
        let wanted = [("objects", 1), (wrong, 1)];
        for error in [
            budgets.acquire(&wanted).unwrap_err(),
            budgets.try_acquire(&wanted).unwrap_err(),
            budgets.acquire_timeout(&wanted, LONG).unwrap_err(),
            block_on(budgets.acquire_async(&wanted)).unwrap_err(),
        ] {
            assert!(error.is_unknown(), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("`{wrong}`")), "{text}");
        }
    }
    let wanted = [("objects", 1), ("bytes", 101)];
    for error in [
        budgets.acquire(&wanted).unwrap_err(),
        budgets.try_acquire(&wanted).unwrap_err(),
        budgets.acquire_timeout(&wanted, LONG).unwrap_err(),
        block_on(budgets.acquire_async(&wanted)).unwrap_err(),
    ] {
        assert!(error.is_too_large(), "{error:?}");
        assert!(error.to_string().contains("`bytes`"), "{error}");
    }
    assert_eq!(budgets.available("objects"), Some(2));
    assert_eq!(
        (budgets.available("x"), budgets.capacity("x")),
        (None, None)
    );
}

#[test]
fn a_request_stands_in_line_only_for_its_own_parts() {
    let budgets = Budgets::new().with("a", 2).with("b", 2).with("c", 2);
    let held = budgets.acquire(&[("a", 2)]).unwrap();
    let mut both = Polled::waiting(budgets.acquire_async(&[("a", 1), ("b", 1)]));
    // Nobody waits for `c`.
    drop(budgets.try_acquire(&[("c", 1)]).unwrap());
    // There is enough of `b`, but somebody before it wants some.
    assert!(budgets.try_acquire(&[("b", 1)]).unwrap_err().is_full());
    let mut chained = Polled::waiting(budgets.acquire_async(&[("b", 2), ("c", 1)]));
    assert!(budgets.try_acquire(&[("c", 1)]).unwrap_err().is_full());
    let mut last = Polled::waiting(budgets.acquire_async(&[("c", 2)]));
    drop(chained);
    assert_eq!((last.wakes.calls(), both.wakes.calls()), (1, 0));
    drop(last.poll());
    chained = Polled::waiting(budgets.acquire_async(&[("b", 2), ("c", 1)]));
    drop(held);
    assert_eq!((both.wakes.calls(), chained.wakes.calls()), (1, 0));
    drop(both.poll());
    assert!(chained.poll().unwrap().is_ok());
    let free = ["a", "b", "c"].map(|name| budgets.available(name).unwrap());
    assert_eq!((free, budgets.waiting()), ([2; 3], 0));
}

#[test]
fn several_parts_close_grow_and_shrink() {
    let budgets = Budgets::new().with("a", 1);
    let held = budgets.acquire(&[("a", 1)]).unwrap();
    let mut grown = Polled::waiting(budgets.acquire_async(&[("a", 1)]));
    budgets.add("a", 1);
    budgets.add("b", 5);
    assert!(grown.poll().unwrap().is_ok());
    let mut refused = Polled::waiting(budgets.acquire_async(&[("a", 2), ("b", 1)]));
    let mut behind = Polled::waiting(budgets.acquire_async(&[("b", 5)]));
    held.forget();
    assert!(refused.poll().unwrap().unwrap_err().is_too_large());
    let mut all_b = behind.poll().unwrap().unwrap();
    let part = all_b.split(&[("b", 2)]).unwrap().into_owned();
    assert!(all_b.split(&[("b", 1), ("a", 1)]).is_none());
    assert!(all_b.split(&[("c", 1)]).is_none());
    assert_eq!((all_b.n("b"), part.n("b")), (3, 2));
    all_b.merge(part).unwrap();
    let stranger = Budgets::new().with("b", 1);
    assert!(all_b.merge(stranger.acquire(&[("b", 1)]).unwrap()).is_err());
    let mut closed = Polled::waiting(budgets.acquire_async(&[("b", 1)]));
    budgets.close();
    assert!(closed.poll().unwrap().unwrap_err().is_closed());
    assert!(budgets.acquire(&[]).unwrap_err().is_closed());
    drop(all_b);
    assert_eq!(budgets.available("b"), Some(5));
    assert_eq!((budgets.waiting(), budgets.is_closed()), (0, true));
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
    within(6 * LIMIT, || {
        const CAPACITY: u64 = 5;
        let (budget, out) = (Budget::new(CAPACITY), Out::new(CAPACITY));
        four_threads(|rng| {
            let n = rng.below(CAPACITY as usize) as u64 + 1;
            let permit = match rng.below(5) {
                0 => budget.try_acquire(n),
                1 => budget.acquire_timeout(n, Duration::from_micros(n)),
                2 => block_on(budget.acquire_async(n)),
                3 => {
                    // Polled once; then it is dropped, whatever became of it.
                    let mut request = Polled::new(budget.acquire_async(n));
                    drop(request.poll());
                    return;
                }
                _ => budget.acquire(n),
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
        assert_eq!((budget.available(), budget.waiting()), (CAPACITY, 0));
        assert!(budget.acquire(CAPACITY).is_ok());
    });
}

#[test]
fn opposite_orders_on_four_threads() {
    within(6 * LIMIT, || {
        const ORDERS: [[&str; 2]; 4] = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"]];
        let mut budgets = Budgets::new();
        for part in ["a", "b", "c"] {
            budgets = budgets.with(part, 3);
        }
        let out = ["a", "b", "c"].map(|part| (part, Out::new(3)));
        let out = |name: &str| &out.iter().find(|(part, _)| *part == name).unwrap().1;
        four_threads(|rng| {
            let [first, second] = ORDERS[rng.below(4)];
            let (n, m) = (rng.below(3) as u64 + 1, rng.below(3) as u64 + 1);
            let wanted = [(first, n), (second, m)];
            let permits = match rng.below(4) {
                0 => budgets.try_acquire(&wanted),
                1 => budgets.acquire_timeout(&wanted, Duration::from_micros(n)),
                2 => block_on(budgets.acquire_async(&wanted)),
                _ => budgets.acquire(&wanted),
            };
            if permits.is_ok() {
                out(first).hold(n, || out(second).hold(m, || {}));
            }
        });
        let free = ["a", "b", "c"].map(|name| budgets.available(name).unwrap());
        assert_eq!((free, budgets.waiting()), ([3; 3], 0));
    });
}

/// A close in the middle of everything: everybody ends, and everything comes back.
#[test]
fn a_close_under_load() {
    within(6 * LIMIT, || {
        for round in 0..50 {
            let budget = Budget::new(2);
            let done = AtomicUsize::new(0);
            thread::scope(|s| {
                for thread in 0..THREADS {
                    let (budget, done) = (&budget, &done);
                    s.spawn(move || {
                        while let Ok(permit) = budget.acquire(thread % 2 + 1) {
                            done.fetch_add(1, Ordering::Relaxed);
                            drop(permit);
                        }
                    });
                }
                until("some work was done", || {
                    done.load(Ordering::Relaxed) > round
                });
                budget.close();
            });
            assert_eq!((budget.available(), budget.waiting()), (2, 0));
        }
    });
}
