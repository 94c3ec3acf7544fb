//! Futures on the workers of a pool: handles, cancellation, panics, shapes.

use crate::support::{
    Counted, Drops, Flag, LIMIT, Panics, message, pool, quiet_panic, until, within,
};
use filch::{
    FutureHandle, Pool,
    future::{CancelHandle, FutureError, yield_now},
};
use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
};

fn counted() -> (Counted, impl Fn() -> usize) {
    let drops = Drops::default();
    (drops.value(), move || drops.seen())
}

#[test]
fn a_future_is_awaited_and_joined() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            assert_eq!(pool.spawn_future(async { 7 }).join().unwrap(), 7);
            let sum = pool.block_on(async {
                let one = filch::spawn_future(async { 1 });
                let two = filch::spawn_future(async {
                    yield_now().await;
                    2
                });
                one.await.unwrap() + two.await.unwrap()
            });
            assert_eq!(sum, 3);
            let inner = pool.clone();
            let nested = pool.submit(move || {
                let inside = inner.spawn_future(async { 4 });
                inside.join().unwrap() + filch::block_on(async { 5 })
            });
            assert_eq!(nested.join().unwrap(), 9);
        }
    });
}

#[test]
fn free_functions_in_block_on_mean_its_pool() {
    let pool = Pool::builder()
        .workers(1)
        .name(|_| "mine".into())
        .build()
        .unwrap();
    let name = || thread::current().name().map(str::to_owned);
    let names = pool.block_on(async move {
        let (send, receive) = mpsc::channel();
        filch::spawn(move || send.send(name()).unwrap());
        let submitted = filch::submit(name);
        let built = filch::task(name).submit().unwrap();
        [
            filch::spawn_future(async move { name() }).await.unwrap(),
            receive.recv().unwrap(),
            submitted.await.unwrap(),
            built.await.unwrap(),
        ]
    });
    // The joined closures may have run here, but not on another pool.
    assert_eq!(names[0].as_deref(), Some("mine"));
    assert_eq!(names[1].as_deref(), Some("mine"));
    assert!(Pool::current().is_none());
    pool.block_on(async { assert_eq!(Pool::current().unwrap().workers(), 1) });
}

/// A future that waits until it is woken by hand, and counts its polls.
#[derive(Clone, Default)]
struct Manual {
    waker: Arc<Mutex<Option<Waker>>>,
    polls: Arc<AtomicUsize>,
    ready: Flag,
}

impl Manual {
    async fn wait(self) {
        poll_fn(|cx| {
            *self.waker.lock().unwrap() = Some(cx.waker().clone());
            self.polls.fetch_add(1, SeqCst);
            if self.ready.is_set() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn polls(&self) -> usize {
        self.polls.load(SeqCst)
    }

    fn waker(&self) -> Waker {
        self.waker.lock().unwrap().clone().expect("it was polled")
    }

    fn finish(&self) {
        self.ready.set();
        self.waker().wake();
    }
}

#[test]
fn only_what_is_woken_is_polled_and_wakes_coalesce() {
    within(LIMIT, || {
        let pool = pool(0);
        let manual = Manual::default();
        let handle = pool.spawn_future(manual.clone().wait());
        pool.run_until_stalled();
        pool.run_until_stalled();
        assert_eq!(manual.polls(), 1, "it was not woken");
        for _ in 0..10 {
            manual.waker().wake();
        }
        assert_eq!(pool.run_until_stalled(), 1);
        assert_eq!(manual.polls(), 2);
        manual.finish();
        handle.join().unwrap();
        assert_eq!(manual.polls(), 3);
        let waker = manual.waker();
        drop(pool);
        waker.wake_by_ref();
        drop(waker);
    });
}

#[test]
fn a_cancel_before_while_and_after() {
    within(LIMIT, || {
        // Before: never polled.
        let alone = pool(0);
        let (guard, dropped) = counted();
        let handle = alone.spawn_future(async move {
            let _guard = guard;
            unreachable!("it was cancelled before");
        });
        handle.cancel();
        assert_eq!(dropped(), 0, "it is dropped by a worker of the pool");
        alone.run_until_stalled();
        assert_eq!(dropped(), 1);
        assert!(handle.join().unwrap_err().is_cancelled());
        // While it waits.
        let (guard, dropped) = counted();
        let handle = alone.spawn_future(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        alone.run_until_stalled();
        handle.cancel();
        handle.cancel();
        alone.run_until_stalled();
        assert_eq!(dropped(), 1);
        assert!(handle.join().unwrap_err().is_cancelled());
        // After: too late.
        let handle = alone.spawn_future(async { 3 });
        alone.run_until_stalled();
        handle.cancel();
        assert_eq!(handle.join().unwrap(), 3);
    });
}

#[test]
fn a_cancel_while_it_is_polled() {
    within(LIMIT, || {
        let pool = pool(1);
        for waits in [false, true] {
            let (guard, dropped) = counted();
            let (running, go) = (Flag::default(), Flag::default());
            let (inside, goes) = (running.clone(), go.clone());
            let handle = pool.spawn_future(async move {
                let _guard = guard;
                inside.set();
                until("released", || goes.is_set());
                if waits {
                    yield_now().await;
                    unreachable!("it is not polled again");
                }
            });
            until("it runs", || running.is_set());
            handle.cancel();
            assert_eq!(dropped(), 0);
            go.set();
            let result = handle.join();
            assert_eq!(dropped(), 1);
            assert_eq!(result.is_err(), waits, "what is done is done");
        }
    });
}

#[test]
fn a_future_cancels_itself() {
    within(LIMIT, || {
        let pool = pool(1);
        let own: Arc<Mutex<Option<CancelHandle>>> = Arc::default();
        let seen = own.clone();
        let handle = pool.spawn_future(async move {
            until("the handle is here", || seen.lock().unwrap().is_some());
            seen.lock().unwrap().take().unwrap().cancel();
            pending::<()>().await;
        });
        *own.lock().unwrap() = Some(handle.cancel_handle());
        assert!(handle.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn a_detached_future_goes_on() {
    within(LIMIT, || {
        let pool = pool(1);
        let (manual, done) = (Manual::default(), Flag::default());
        let (wait, set) = (manual.clone().wait(), done.clone());
        pool.spawn_future(async move {
            wait.await;
            set.set();
        })
        .detach();
        until("it waits", || manual.polls() == 1);
        manual.finish();
        until("it is done", || done.is_set());
    });
}

#[test]
fn a_panic_reaches_the_handle() {
    within(LIMIT, || {
        let panics = Panics::default();
        let pool = panics.pool(1);
        for late in [false, true] {
            let (guard, dropped) = counted();
            let handle: FutureHandle<()> = pool.spawn_future(async move {
                let _guard = guard;
                if late {
                    yield_now().await;
                }
                quiet_panic("no luck");
            });
            let error = handle.join().unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
            assert_eq!(dropped(), 1);
        }
        assert_eq!(panics.count(), 0);
        pool.spawn_future(async { quiet_panic("detached") })
            .detach();
        until("the pool reports it", || panics.count() == 1);
        let handle = pool.spawn_future(async { quiet_panic("dropped") });
        until("it is done", || handle.is_finished());
        drop(handle);
        assert_eq!(panics.take(), ["detached", "dropped"]);
    });
}

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        quiet_panic("in a destructor");
    }
}

#[test]
fn panics_in_destructors_are_contained() {
    within(LIMIT, || {
        let pool = pool(1);
        // Of the future, which is done, cancelled, or has panicked itself.
        let grenade = Grenade;
        let done = pool.spawn_future(async move {
            let _grenade = grenade;
            7
        });
        let _ = done.join(); // the destructor runs inside the poll
        let grenade = Grenade;
        let stuck = pool.spawn_future(async move {
            let _grenade = grenade;
            pending::<()>().await;
        });
        stuck.cancel();
        assert!(stuck.join().unwrap_err().is_panic());
        // Of the output, with and without a handle.
        let handle = pool.spawn_future(async { Grenade });
        until("it is done", || handle.is_finished());
        drop(handle);
        pool.spawn_future(async { Grenade }).detach();
        // Of a waker that is called.
        assert_eq!(pool.spawn_future(async { 1 }).join().unwrap(), 1);
    });
}

/// The message of the panic in an error.
fn message_of(error: FutureError) -> &'static str {
    message(&*error.into_panic())
}

#[test]
fn a_panic_in_the_destructor_of_an_cancelled_future_reaches_the_handle() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let panics = Panics::default();
            let pool = panics.pool(workers);
            let stuck = |grenade: Grenade| {
                pool.spawn_future(async move {
                    let _grenade = grenade;
                    pending::<()>().await;
                })
            };
            // Before its first poll, and idle.
            let queued = stuck(Grenade);
            queued.cancel();
            assert_eq!(message_of(queued.join().unwrap_err()), "in a destructor");
            let idle = stuck(Grenade);
            pool.spawn_future(async {}).join().unwrap();
            idle.cancel();
            assert_eq!(message_of(idle.join().unwrap_err()), "in a destructor");
            // By the end of the pool.
            let evicted = stuck(Grenade);
            pool.spawn_future(async {}).join().unwrap();
            assert_eq!(panics.count(), 0, "all had handles");
            // Without a handle it is reported.
            let detached = stuck(Grenade);
            let cancel = detached.cancel_handle();
            detached.detach();
            cancel.cancel();
            pool.shutdown();
            assert_eq!(message_of(evicted.join().unwrap_err()), "in a destructor");
            assert_eq!(panics.take(), ["in a destructor"]);
        }
    });
}

/// Records whether its thread was unwinding when it was dropped, and may panic itself.
struct SeesPanic(Arc<Mutex<Vec<bool>>>, bool);

impl Drop for SeesPanic {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::panicking());
        if self.1 {
            quiet_panic("in a destructor");
        }
    }
}

#[test]
fn destructors_that_run_because_of_a_panic_see_it() {
    within(LIMIT, || {
        for panics_too in [false, true] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let pool = pool(1);
            // Not in the frame of the poll that panics: only the end of the future drops it.
            let (mut kept, seen_here) = (None, seen.clone());
            let bad = pool.spawn_future(poll_fn(move |_| -> Poll<()> {
                kept.get_or_insert_with(|| SeesPanic(seen_here.clone(), panics_too));
                quiet_panic("in the poll")
            }));
            assert_eq!(message_of(bad.join().unwrap_err()), "in the poll");
            assert_eq!(*seen.lock().unwrap(), [true]);
            // Otherwise they don't.
            let kept = SeesPanic(seen.clone(), false);
            let good = pool.spawn_future(poll_fn(move |_| {
                let _here = &kept;
                Poll::Ready(())
            }));
            good.join().unwrap();
            assert_eq!(*seen.lock().unwrap(), [true, false]);
        }
    });
}

#[test]
fn shapes() {
    #[repr(align(256))]
    struct Wide([u8; 256]);

    within(LIMIT, || {
        let pool = pool(1);
        pool.spawn_future(std::future::ready(())).join().unwrap();
        let large = [7_u8; 64 << 10];
        let handle = pool.spawn_future(async move {
            yield_now().await;
            large
        });
        assert_eq!(handle.join().unwrap(), [7; 64 << 10]);
        let wide = Wide([3; 256]);
        let handle = pool.spawn_future(async move {
            yield_now().await;
            assert!((&raw const wide).addr().is_multiple_of(256));
            wide
        });
        assert_eq!(handle.join().unwrap().0, [3; 256]);
        assert_eq!(pool.spawn_future(async {}).join().unwrap(), ());
    });
}

#[test]
fn another_waker_for_the_handle() {
    within(LIMIT, || {
        let pool = pool(1);
        let manual = Manual::default();
        let mut handle = pool.spawn_future(manual.clone().wait());
        until("it waits", || manual.polls() == 1);
        // Polled with one waker here, and with another one there.
        let mut cx = std::task::Context::from_waker(Waker::noop());
        assert!(std::pin::Pin::new(&mut handle).poll(&mut cx).is_pending());
        let waiter = thread::spawn(move || handle.join().unwrap());
        manual.finish();
        waiter.join().unwrap();
    });
}

#[test]
fn two_pools_on_one_thread() {
    within(LIMIT, || {
        let (a, b) = (pool(1), pool(1));
        let (a2, b2) = (a.clone(), b.clone());
        let outer = a.spawn_future(async move {
            let there = b2.spawn_future(async { 1 });
            // The worker of one pool waits for another one, which waits for the first.
            let both = b2.block_on(async move {
                let back = a2.spawn_future(async { 2 });
                there.await.unwrap() + back.await.unwrap()
            });
            both + filch::spawn_future(async { 3 }).await.unwrap()
        });
        assert_eq!(outer.join().unwrap(), 6);
    });
}

#[test]
fn handles_may_be_shared_and_sent() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<FutureHandle<Vec<u8>>>();
    check::<CancelHandle>();
}
