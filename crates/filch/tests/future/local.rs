//! Local sets with several drivers, and wakers that come back while they are cloned or dropped.

use crate::support::{LIMIT, message, pool, quiet_panic, within};
use filch::{
    block_on,
    future::{FutureGroup, LocalHandle, LocalSet, spawn_local, yield_now},
    time::PausedClock,
};
use futures::{FutureExt, join, select_biased};
use std::{
    cell::{Cell, RefCell},
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    ptr,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    thread,
    time::Duration,
};

/// A letter to a future, from anywhere.
#[derive(Clone, Default)]
struct Letter(Arc<Mutex<(bool, Option<Waker>)>>);

impl Letter {
    fn send(&self) {
        let waker = {
            let mut letter = self.0.lock().unwrap();
            letter.0 = true;
            letter.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes its waiter without a letter.
    fn disturb(&self) {
        let waker = self.0.lock().unwrap().1.clone();
        waker.expect("a future waits").wake();
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut letter = self.0.lock().unwrap();
        if letter.0 {
            return Poll::Ready(());
        }
        letter.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    async fn receive(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn wakes() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (wakes.clone(), wakes.into())
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn drivers_side_by_side_lose_no_wake() {
    within(LIMIT, || {
        for round in 0..100 {
            let set = LocalSet::new();
            let letters: [Letter; 6] = Default::default();
            let sent = letters.clone();
            let sender = thread::spawn(move || {
                for n in 0..6 {
                    sent[(n * 5 + round) % 6].send();
                    thread::yield_now();
                }
            });
            let part = async |own: &Letter, spawned: [&Letter; 2]| {
                let locals = spawned.map(|letter| {
                    let letter = letter.clone();
                    spawn_local(async move { letter.receive().await })
                });
                own.receive().await;
                for local in locals {
                    local.await.unwrap();
                }
            };
            block_on(async {
                let [a, b, c, d, e, f] = &letters;
                let left = set.run_until(part(a, [b, c]));
                let right = set.run_until(part(d, [e, f]));
                join!(left, right);
            });
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_driver_hands_over_what_is_anothers() {
    let (set, letters) = (LocalSet::new(), [Letter::default(), Letter::default()]);
    let (seen_a, waker_a) = wakes();
    let (seen_b, waker_b) = wakes();
    let mut a = pin!(set.run_until(letters[0].receive()));
    let mut b = pin!(set.run_until(letters[1].receive()));
    assert!(poll(a.as_mut(), &waker_a).is_pending());
    assert!(poll(b.as_mut(), &waker_b).is_pending());
    letters[1].send();
    assert_eq!(seen_b.0.load(SeqCst), 1);
    // The first one comes first, and finds it.
    assert!(poll(a.as_mut(), &waker_a).is_pending());
    assert!(poll(b.as_mut(), &waker_b).is_ready());
    letters[0].send();
    assert!(seen_a.0.load(SeqCst) >= 1);
    assert!(poll(a.as_mut(), &waker_a).is_ready());
}

#[test]
fn a_driver_that_goes_leaves_its_wakes_to_the_others() {
    let (set, letter) = (LocalSet::new(), Letter::default());
    let received = letter.clone();
    let local = set.spawn_local(async move { received.receive().await });
    let (_, waker_a) = wakes();
    let (seen_b, waker_b) = wakes();
    let mut a = Box::pin(set.run_until(pending::<()>()));
    let mut b = pin!(set.run_until(local));
    assert!(poll(a.as_mut(), &waker_a).is_pending());
    assert!(poll(b.as_mut(), &waker_b).is_pending());
    letter.send();
    drop(a); // woken, and never polled again
    assert!(seen_b.0.load(SeqCst) >= 1);
    assert!(poll(b.as_mut(), &waker_b).is_ready());
    // Without any driver, the next one finds it.
    let again = Letter::default();
    let received = again.clone();
    let local = set.spawn_local(async move { received.receive().await });
    let mut first = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(first.as_mut(), &waker_a).is_pending());
    drop(first);
    again.send();
    assert!(poll(pin!(set.run_until(local)), &waker_b).is_ready());
}

#[test]
fn one_inside_of_the_other() {
    within(LIMIT, || {
        let set = LocalSet::new();
        let sum = set.block_on(async {
            let outer = spawn_local(async {
                yield_now().await;
                1
            });
            let inner = set.run_until(async {
                yield_now().await;
                let handle = spawn_local(async {
                    yield_now().await;
                    2
                });
                handle.await.unwrap()
            });
            inner.await + outer.await.unwrap()
        });
        assert_eq!(sum, 3);
        // A race that drops the inner one in the middle.
        let letter = Letter::default();
        set.block_on(async {
            let received = letter.clone();
            let local = spawn_local(async move { received.receive().await });
            select_biased! {
                () = set.run_until(pending::<()>()).fuse() => unreachable!(),
                () = yield_now().fuse() => {}
            }
            letter.send();
            local.await.unwrap();
        });
    });
}

#[test]
fn a_local_future_polls_its_own_set() {
    within(LIMIT, || {
        let set = Rc::new(LocalSet::new());
        let (inner, letter) = (set.clone(), Letter::default());
        let received = letter.clone();
        let polls = Rc::new(Cell::new(0));
        let count = polls.clone();
        let handle = set.spawn_local(async move {
            // Its wake is found by itself, while it is polled.
            let both = async {
                let watched = poll_fn(|cx| {
                    count.set(count.get() + 1);
                    received.poll(cx)
                });
                let nested = inner.run_until(async {
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    spawn_local(async { 5 }).await.unwrap()
                });
                join!(watched, nested).1
            };
            both.await
        });
        let (_, waker) = wakes();
        let mut driver = pin!(set.run_until(handle));
        for _ in 0..10 {
            assert!(poll(driver.as_mut(), &waker).is_pending());
        }
        let before = polls.get();
        letter.disturb();
        assert!(poll(driver.as_mut(), &waker).is_pending());
        assert_eq!(polls.get(), before + 1);
        letter.send();
        let Poll::Ready(five) = poll(driver.as_mut(), &waker) else {
            panic!("it was woken");
        };
        assert_eq!(five.unwrap(), 5);
    });
}

#[test]
fn a_local_future_blocks_on_its_own_set() {
    within(LIMIT, || {
        let set = Rc::new(LocalSet::new());
        let (inner, turns) = (set.clone(), Rc::new(Cell::new(0)));
        let count = turns.clone();
        let other = set.spawn_local(async move {
            for _ in 0..100 {
                count.set(count.get() + 1);
                yield_now().await;
            }
        });
        let blocks = set.spawn_local(async move {
            yield_now().await;
            inner.block_on(other).unwrap();
            yield_now().await;
            "done"
        });
        assert_eq!(set.block_on(blocks).unwrap(), "done");
        assert_eq!(turns.get(), 100);
    });
}

#[test]
fn the_own_future_of_a_driver_lets_the_set_run() {
    within(LIMIT, || {
        let (set, flag) = (LocalSet::new(), Rc::new(Cell::new(false)));
        set.block_on(async {
            let set_it = flag.clone();
            spawn_local(async move {
                yield_now().await;
                set_it.set(true);
            })
            .detach();
            while !flag.get() {
                yield_now().await;
            }
        });
        assert!(set.is_empty());
    });
}

#[test]
fn a_set_that_is_dropped_drops_the_oldest_first() {
    struct Says(u32, Rc<RefCell<Vec<u32>>>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }
    let (set, said) = (LocalSet::new(), Rc::new(RefCell::new(Vec::new())));
    for n in 0..50 {
        let says = Says(n, said.clone());
        set.spawn_local(async move {
            let _says = says;
            pending::<()>().await;
        })
        .detach();
    }
    drop(set);
    assert_eq!(*said.borrow(), (0..50).collect::<Vec<_>>());
}

/// Records whether its thread was unwinding when it was dropped, and panics then.
struct Grenade(Rc<Cell<Option<bool>>>);

impl Drop for Grenade {
    fn drop(&mut self) {
        self.0.set(Some(thread::panicking()));
        quiet_panic("in a destructor");
    }
}

#[test]
fn a_panic_in_the_destructor_of_a_local_future_reaches_the_handle() {
    let set = LocalSet::new();
    let seen = Rc::new(Cell::new(None));
    let stuck = || {
        let grenade = Grenade(seen.clone());
        set.spawn_local(async move {
            let _grenade = grenade;
            pending::<()>().await;
        })
    };
    let message_of =
        |handle: LocalHandle<()>| set.block_on(handle).map_err(|e| message(&*e.into_panic()));
    // Before its first poll, and idle.
    let queued = stuck();
    queued.cancel();
    assert!(queued.is_finished());
    assert_eq!(message_of(queued), Err("in a destructor"));
    assert_eq!(seen.take(), Some(false));
    let idle = stuck();
    set.block_on(yield_now());
    idle.cancel();
    assert_eq!(message_of(idle), Err("in a destructor"));
    // By itself, while it is polled.
    let slot: Rc<RefCell<Option<LocalHandle<()>>>> = Rc::default();
    let (own, grenade) = (slot.clone(), Grenade(seen.clone()));
    let cancels = set.spawn_local(async move {
        let _grenade = grenade;
        own.borrow().as_ref().unwrap().cancel();
        pending::<()>().await;
    });
    *slot.borrow_mut() = Some(cancels);
    set.block_on(yield_now());
    assert_eq!(message_of(slot.take().unwrap()), Err("in a destructor"));
    // By the end of the set.
    let evicted = stuck();
    drop(set);
    let error = block_on(evicted).unwrap_err();
    assert_eq!(message(&*error.into_panic()), "in a destructor");
}

#[test]
fn destructors_that_run_because_of_a_panic_see_it() {
    let set = LocalSet::new();
    let seen = Rc::new(Cell::new(None));
    let mut kept = None;
    let seen_there = seen.clone();
    let bad = set.spawn_local(poll_fn(move |_| -> Poll<()> {
        kept.get_or_insert_with(|| Grenade(seen_there.clone()));
        quiet_panic("in the poll")
    }));
    let error = set.block_on(bad).unwrap_err();
    assert_eq!(message(&*error.into_panic()), "in the poll");
    assert_eq!(seen.take(), Some(true));
}

#[test]
fn spawn_local_without_a_set_says_what_to_do() {
    let spawned = std::panic::catch_unwind(|| drop(spawn_local(async {})));
    let payload = spawned.unwrap_err();
    let text = payload.downcast_ref::<&str>().unwrap();
    assert!(text.contains("LocalSet::run_until"), "{text}");
}

thread_local! {
    /// What the waker below does when it is cloned, and when it is dropped.
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static ON_DROP: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A waker that does what those say, each once, and then panics when it is dropped.
fn fragile() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        if let Some(f) = ON_CLONE.take() {
            f();
        }
        RawWaker::new(ptr::null(), &CALLS)
    }
    fn drop(_: *const ()) {
        if let Some(f) = ON_DROP.take() {
            f();
            quiet_panic("drop of a waker");
        }
    }
    static CALLS: RawWakerVTable = RawWakerVTable::new(clone, |_| (), |_| (), drop);
    #[expect(unsafe_code, reason = "only so can the clone of a waker run code")]
    // SAFETY: the pointer is never followed, and all of it may run on any thread.
    unsafe {
        Waker::from_raw(RawWaker::new(ptr::null(), &CALLS))
    }
}

#[test]
fn a_waker_that_ends_a_member_while_it_is_cloned_or_dropped() {
    within(LIMIT, || {
        let pool = pool(0);
        let letters: [Letter; 2] = Default::default();
        let mut group: FutureGroup<usize> = pool.future_group();
        for (n, letter) in letters.iter().enumerate() {
            let letter = letter.clone();
            group.spawn(async move {
                letter.receive().await;
                n
            });
        }
        pool.run_until_stalled();
        let end = |n: usize| {
            let (letter, pool) = (letters[n].clone(), pool.clone());
            Some(Box::new(move || {
                letter.send();
                pool.run_until_stalled();
            }) as Box<dyn FnOnce()>)
        };
        let waker = fragile();
        let mut cx = Context::from_waker(&waker);
        ON_CLONE.set(end(0));
        let Poll::Ready(Some(first)) = group.poll_join_next(&mut cx) else {
            panic!("it has ended while the waker was cloned");
        };
        assert_eq!(first.unwrap(), 0);
        assert!(group.poll_join_next(&mut cx).is_pending());
        // Another waker takes its place, and the first one is dropped.
        ON_DROP.set(end(1));
        let (seen, other) = wakes();
        let mut cx = Context::from_waker(&other);
        assert!(group.poll_join_next(&mut cx).is_pending());
        assert_eq!(seen.0.load(SeqCst), 1, "woken at the end");
        let Poll::Ready(Some(second)) = group.poll_join_next(&mut cx) else {
            panic!("it has ended while the waker was dropped");
        };
        assert_eq!(second.unwrap(), 1);
    });
}

#[test]
fn a_waker_that_wakes_a_local_future_while_it_is_cloned_or_dropped() {
    within(LIMIT, || {
        let (set, letters) = (LocalSet::new(), [Letter::default(), Letter::default()]);
        let locals = letters.each_ref().map(|letter| {
            let letter = letter.clone();
            set.spawn_local(async move { letter.receive().await })
        });
        let send = |n: usize| {
            let letter = letters[n].clone();
            Some(Box::new(move || letter.send()) as Box<dyn FnOnce()>)
        };
        let waker = fragile();
        {
            let mut driver = pin!(set.run_until(pending::<()>()));
            ON_CLONE.set(send(0));
            assert!(poll(driver.as_mut(), &waker).is_pending());
            assert!(locals[0].is_finished(), "found by the second check");
            ON_DROP.set(send(1));
            let (seen, other) = wakes();
            assert!(poll(driver.as_mut(), &other).is_pending());
            assert_eq!(seen.0.load(SeqCst), 1);
            assert!(poll(driver.as_mut(), &other).is_pending());
            assert!(locals[1].is_finished());
            // And with a driver that goes.
            assert!(poll(driver.as_mut(), &waker).is_pending());
            let letter = Letter::default();
            let received = letter.clone();
            set.spawn_local(async move { received.receive().await })
                .detach();
            assert!(poll(driver.as_mut(), &waker).is_pending());
            ON_DROP.set(Some(Box::new(move || letter.send())));
        }
        assert!(ON_DROP.take().is_none(), "the waker was dropped");
        set.block_on(yield_now());
        assert!(set.is_empty());
    });
}

#[test]
fn a_waker_that_panics_harms_no_other_waiter() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            quiet_panic("in a waker");
        }
    }
    within(LIMIT, || {
        let bad = Waker::from(Arc::new(Panics));
        let (set, letter) = (LocalSet::new(), Letter::default());
        let received = letter.clone();
        set.spawn_local(async move { received.receive().await })
            .detach();
        let (seen, good) = wakes();
        let mut a = pin!(set.run_until(pending::<()>()));
        let mut b = pin!(set.run_until(pending::<()>()));
        assert!(poll(a.as_mut(), &bad).is_pending());
        assert!(poll(b.as_mut(), &good).is_pending());
        letter.send();
        assert_eq!(seen.0.load(SeqCst), 1);
        // A member of a group that panics, and so wakes a waker that panics.
        let pool = pool(0);
        let mut group = pool.future_group::<()>();
        group.spawn(async {
            yield_now().await;
            quiet_panic("in a future");
        });
        assert!(pool.tick());
        assert!(
            group
                .poll_join_next(&mut Context::from_waker(&bad))
                .is_pending()
        );
        pool.run_until_stalled();
        let Poll::Ready(Some(Err(error))) =
            group.poll_join_next(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("it has panicked");
        };
        assert!(error.is_panic());
    });
}

#[test]
fn a_group_that_lets_all_go_starts_anew() {
    within(LIMIT, || {
        let clock = PausedClock::new();
        let pool = filch::Pool::builder().workers(0).clock(&clock);
        let pool = pool.build().unwrap();
        let mut group = pool.future_group();
        let (seen, waker) = wakes();
        let mut cx = Context::from_waker(&waker);
        let sleep = clock.sleep(Duration::from_secs(1));
        group.spawn(sleep);
        pool.run_until_stalled();
        assert!(group.poll_join_next(&mut cx).is_pending());
        group.detach_all();
        assert_eq!(seen.0.load(SeqCst), 1, "there is nothing to wait for");
        assert!(matches!(group.poll_join_next(&mut cx), Poll::Ready(None)));
        group.spawn(async {});
        clock.advance(Duration::from_secs(1));
        pool.run_until_stalled();
        assert!(pool.block_on(group.join_next()).unwrap().is_ok());
        assert!(group.is_empty());
    });
}

/// Polls a set with a future that spawns another one, when the thread ends.
struct AtTheEnd;

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let sum = LocalSet::new().block_on(async {
            let one = spawn_local(async {
                yield_now().await;
                1
            });
            one.await.unwrap() + 1
        });
        assert_eq!(sum, 2);
    }
}

thread_local! {
    static AT_THE_END: AtTheEnd = const { AtTheEnd };
}

#[test]
fn a_set_in_the_destructor_of_a_thread_local() {
    crate::support::in_a_child("local::a_set_in_the_destructor_of_a_thread_local", || {
        thread::spawn(|| {
            // Destructors run in the opposite order, so those of this library before this one.
            AT_THE_END.with(|_| ());
            LocalSet::new().block_on(async { spawn_local(async {}).await.unwrap() });
        })
        .join()
        .unwrap();
    });
}
