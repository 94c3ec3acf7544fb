//! What the best executors promise about futures, beyond the everyday: the order of ends, races
//! with them, odd shapes and odd places.

use crate::support::{Flag, LIMIT, add, counter, get, pool, quiet_panic, until, within};
use filch::{FutureHandle, Pool, future::yield_now};
use std::{
    cell::RefCell,
    future::{pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

/// Writes down its end.
struct Note(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Drop for Note {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits for ever.
async fn hold<T>(value: T) {
    let _value = value;
    pending::<()>().await;
}

#[test]
fn a_future_is_dropped_before_its_end_is_visible() {
    within(LIMIT, || {
        for workers in [0, 1] {
            for end in ["done", "panicked", "cancelled"] {
                let (pool, notes) = (pool(workers), Arc::default());
                let note = |name| Note(name, Arc::clone(&notes));
                let (outer, inner, value) = (note("captured"), note("local"), note("value"));
                let future = async move {
                    let _outer = outer;
                    let _inner = inner;
                    yield_now().await;
                    match end {
                        "done" => value,
                        "panicked" => quiet_panic("as planned"),
                        _ => pending().await,
                    }
                };
                let handle = pool.spawn_future(future);
                if end == "cancelled" {
                    handle.cancel();
                }
                // Another future is woken as well, and checks before it has dropped the result.
                let (seen, listener) = (notes.clone(), pool.clone());
                let heard = listener.spawn_future(async move {
                    let result = handle.await;
                    let ends = seen.lock().unwrap().clone();
                    drop(result);
                    ends
                });
                let ends = heard.join().unwrap();
                let last = ends.iter().filter(|name| **name != "value");
                assert_eq!(last.count(), 2, "all that it held, of one that is {end}");
                assert_eq!(notes.lock().unwrap().len(), 3, "each once");
                assert_eq!(ends.contains(&"value"), end != "done");
            }
        }
    });
}

#[test]
fn a_cancelled_future_ends_on_a_worker() {
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .name(|_| "worker".into())
            .build()
            .unwrap();
        let (send, receive) = mpsc::channel();
        let waits = Flag::default();
        let set = waits.clone();
        let guard = OnDrop(move || {
            // Free functions mean the pool, as in a poll.
            filch::spawn_future(async {}).detach();
            send.send(thread::current().name().map(str::to_owned))
                .unwrap();
        });
        let handle = pool.spawn_future(async move {
            let _guard = guard;
            set.set();
            pending::<()>().await;
        });
        waits.wait("it waits");
        handle.cancel();
        assert_eq!(receive.recv().unwrap().as_deref(), Some("worker"));
        assert!(handle.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn cancels_race_with_wakes_and_ends() {
    within(LIMIT, || {
        let pool = pool(2);
        for round in 0..500 {
            let dropped = Arc::new(counter());
            let count = dropped.clone();
            let guard = OnDrop(move || add(&count));
            let (send, receive) = mpsc::channel::<Waker>();
            let handle = pool.spawn_future(async move {
                let _guard = guard;
                let mut polls = 0;
                poll_fn(|cx| {
                    polls += 1;
                    let _ = send.send(cx.waker().clone());
                    match polls > 2 {
                        true => Poll::Ready(7),
                        false => Poll::Pending,
                    }
                })
                .await
            });
            let (cancel, another) = (handle.cancel_handle(), handle.cancel_handle());
            let waker = receive.recv().unwrap();
            thread::scope(|s| {
                s.spawn(|| {
                    waker.wake_by_ref();
                    if round % 2 == 0 {
                        thread::yield_now();
                    }
                    waker.wake_by_ref();
                });
                s.spawn(|| cancel.cancel());
                another.cancel();
            });
            match handle.join() {
                Ok(value) => assert_eq!(value, 7),
                Err(error) => assert!(error.is_cancelled()),
            }
            assert_eq!(get(&dropped), 1);
            waker.wake();
            cancel.cancel();
            assert_eq!(get(&dropped), 1);
        }
    });
}

#[test]
fn spawns_during_the_end_are_done_or_cancelled() {
    within(LIMIT, || {
        for round in 0..50 {
            let pool = pool(1 + round % 2);
            let (made, dropped, done) = (counter(), Arc::new(counter()), Arc::new(counter()));
            let began = Flag::default();
            let late = pool.clone();
            thread::scope(|s| {
                let spawner = s.spawn(|| {
                    let mut handles: Vec<FutureHandle<()>> = Vec::new();
                    for n in 0..200 {
                        let (count, ended) = (dropped.clone(), done.clone());
                        let guard = OnDrop(move || add(&count));
                        handles.push(late.spawn_future(async move {
                            let _guard = guard;
                            if n % 2 == 0 {
                                yield_now().await;
                            }
                            add(&ended);
                        }));
                        add(&made);
                        began.set();
                    }
                    handles
                });
                began.wait("they come in");
                pool.shutdown();
                let handles = spawner.join().unwrap();
                let fine = handles
                    .into_iter()
                    .map(|handle| handle.join())
                    .filter(|result| match result {
                        Ok(()) => true,
                        Err(error) => !error.is_cancelled(),
                    });
                assert_eq!(fine.count(), get(&done));
            });
            assert_eq!((get(&made), get(&dropped)), (200, 200), "each once");
        }
    });
}

#[test]
fn a_storm_in_the_pool() {
    // All futures wake each other all the time; each is polled while it has something to do.
    within(LIMIT, || {
        for workers in [1, 2] {
            let (pool, futures, rounds) = (pool(workers), 50, 40);
            let wakers: Arc<Vec<Mutex<Option<Waker>>>> =
                Arc::new((0..futures).map(|_| Mutex::default()).collect());
            let handles: Vec<_> = (0..futures)
                .map(|own| {
                    let (wakers, mut polls) = (wakers.clone(), 0);
                    pool.spawn_future(poll_fn(move |cx| {
                        *wakers[own].lock().unwrap() = Some(cx.waker().clone());
                        polls += 1;
                        for other in wakers.iter() {
                            let waker = other.lock().unwrap().clone();
                            if let Some(waker) = waker {
                                waker.wake();
                            }
                        }
                        match polls >= rounds {
                            true => Poll::Ready(polls),
                            false => Poll::Pending,
                        }
                    }))
                })
                .collect();
            for handle in handles {
                assert_eq!(handle.join().unwrap(), rounds);
            }
        }
    });
}

#[test]
fn futures_that_wake_themselves_do_not_starve_waits_on_their_worker() {
    within(LIMIT, || {
        let (pool, end) = (pool(1), Flag::default());
        let inside = end.clone();
        let result = pool.submit(move || {
            for _ in 0..3 {
                let end = inside.clone();
                filch::spawn_future(async move {
                    while !end.is_set() {
                        yield_now().await;
                    }
                })
                .detach();
            }
            // A closure, a future, a scope, a join; and a wake from outside.
            let a = filch::submit(|| 1).join().unwrap();
            let b = filch::block_on(async { filch::spawn_future(async { 2 }).await.unwrap() });
            let mut c = 0;
            filch::scope(|s| s.spawn(|_| c = 3));
            let (d, e) = filch::join(|| 4, || 5);
            let (send, receive) = mpsc::channel::<Waker>();
            let woken = Flag::default();
            let set = woken.clone();
            let waker = thread::spawn(move || {
                let waker = receive.recv().unwrap();
                set.set();
                waker.wake();
            });
            let outside = filch::spawn_future(poll_fn(move |cx| {
                let _ = send.send(cx.waker().clone());
                match woken.is_set() {
                    true => Poll::Ready(6),
                    false => Poll::Pending,
                }
            }));
            let f = outside.join().unwrap();
            waker.join().unwrap();
            inside.set();
            a + b + c + d + e + f
        });
        assert_eq!(result.join().unwrap(), 21);
        end.set();
    });
}

/// A future of no size that is pending once.
struct Nothing;

thread_local! {
    static POLLED: RefCell<u32> = const { RefCell::new(0) };
}

impl Future for Nothing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        POLLED.with_borrow_mut(|polled| {
            *polled += 1;
            if *polled % 2 == 1 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
    }
}

#[test]
fn futures_of_any_size_and_alignment() {
    #[derive(Clone)]
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    assert_eq!(size_of::<Nothing>(), 0);
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            for _ in 0..10 {
                pool.spawn_future(Nothing).join().unwrap();
            }
            let page = Page([5; 4096]);
            let handles: Vec<_> = (0..20_u8)
                .map(|n| {
                    let (page, bytes) = (page.clone(), [n; 64 << 10]);
                    pool.spawn_future(async move {
                        yield_now().await;
                        assert!((&raw const page).addr().is_multiple_of(4096));
                        assert!(bytes.iter().all(|byte| *byte == n));
                        yield_now().await;
                        (n, page)
                    })
                })
                .collect();
            for (n, handle) in handles.into_iter().enumerate() {
                let (number, page) = handle.join().unwrap();
                assert_eq!((usize::from(number), page.0), (n, [5; 4096]));
            }
            // Cancelled, dropped with the pool, with an outcome that is not taken.
            let (page, other, last) = (page.clone(), page.clone(), page);
            let cancelled = pool.spawn_future(hold(page));
            cancelled.cancel();
            pool.spawn_future(hold(other)).detach();
            pool.spawn_future(async move { last }).detach();
            assert!(cancelled.join().unwrap_err().is_cancelled());
        }
    });
}

#[test]
fn two_pools_without_threads_on_one_thread() {
    within(LIMIT, || {
        let (a, b) = (pool(0), pool(0));
        let there = b.spawn_future(async { 1 });
        let here = a.spawn_future(async move { there.await.unwrap() + 1 });
        assert_eq!(a.run_until_stalled(), 1);
        assert!(!here.is_finished(), "the other pool has done nothing yet");
        assert_eq!(b.run_until_stalled(), 1);
        assert!(!here.is_finished(), "it is woken, not polled");
        assert_eq!((b.run_until_stalled(), a.run_until_stalled()), (0, 1));
        assert!(here.is_finished());
        assert_eq!(here.join().unwrap(), 2);
        // One works for the other while it waits.
        let inner = b.clone();
        let nested = a.block_on(async move {
            let there = inner.spawn_future(async {
                yield_now().await;
                3
            });
            inner.block_on(there).unwrap()
        });
        assert_eq!(nested, 3);
    });
}

#[test]
fn a_whole_life_in_a_thread_local_destructor() {
    struct Last(Option<(Pool, FutureHandle<u32>, mpsc::Sender<u32>)>);
    impl Drop for Last {
        fn drop(&mut self) {
            let Some((pool, handle, send)) = self.0.take() else {
                return;
            };
            let first = handle.join().unwrap();
            let second = pool.spawn_future(async {
                yield_now().await;
                2
            });
            let third = pool.block_on(async { filch::spawn_future(async { 3 }).await.unwrap() });
            let cancelled = pool.spawn_future(pending::<()>());
            cancelled.cancel();
            assert!(cancelled.join().is_err());
            send.send(first + second.join().unwrap() + third).unwrap();
        }
    }
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(Last(None)) };
    }
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            let (send, receive) = mpsc::channel();
            let end = thread::spawn(move || {
                let handle = pool.spawn_future(async { 1 });
                // Before, so that the thread's own places are gone by then.
                pool.block_on(async { filch::spawn_future(async {}).await.unwrap() });
                LAST.with_borrow_mut(|last| last.0 = Some((pool, handle, send)));
            });
            assert_eq!(receive.recv().unwrap(), 6);
            end.join().unwrap();
        }
    });
}

/// A waker whose every function panics that can.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        quiet_panic("a waker");
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("the end of a waker");
        }
    }
}

#[test]
fn wakers_that_panic_do_no_harm() {
    within(LIMIT, || {
        let pool = pool(1);
        for _ in 0..10 {
            let go = Flag::default();
            let goes = go.clone();
            let mut handle = pool.spawn_future(async move {
                while !goes.is_set() {
                    yield_now().await;
                }
            });
            let bad = Waker::from(Arc::new(Bad));
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&bad));
            assert!(polled.is_pending());
            std::mem::forget(bad); // or it would panic here
            go.set();
            until("it is done", || handle.is_finished());
            assert!(handle.join().is_ok());
        }
        assert_eq!(pool.spawn_future(async { 1 }).join().unwrap(), 1);
    });
}

/// As often as `FILCH_STRESS=long` says.
fn trials() -> usize {
    match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => 1_000_000,
        _ => 10_000,
    }
}

#[test]
fn nothing_from_several_threads_is_lost() {
    let limit = LIMIT.max(Duration::from_secs(trials() as u64 / 500));
    within(limit, || {
        let pool = Pool::builder().workers(2).spin_rounds(2).build().unwrap();
        let threads = 3;
        thread::scope(|s| {
            for thread in 0..threads {
                let pool = &pool;
                s.spawn(move || trial(pool, thread, trials() / 2 / threads));
            }
        });
    });
}

/// One thread wakes a future of its own, and spawns others, in turns.
fn trial(pool: &Pool, thread: usize, trials: usize) {
    let state = Arc::new((AtomicUsize::new(0), Mutex::new(None::<Waker>)));
    let (inside, (send, receive)) = (state.clone(), mpsc::channel());
    let asked = pool.spawn_future(async move {
        for n in 1..=trials {
            poll_fn(|cx| {
                *inside.1.lock().unwrap() = Some(cx.waker().clone());
                match inside.0.load(SeqCst) >= n {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            send.send(n).unwrap();
        }
    });
    for n in 1..=trials {
        state.0.store(n, SeqCst);
        let waker = state.1.lock().unwrap().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
        assert_eq!(receive.recv(), Ok(n), "woken");
        assert_eq!(pool.spawn_future(async move { n }).join().unwrap(), n);
        if n % 128 == thread {
            // All workers are asleep by then, if the others wait too.
            thread::sleep(Duration::from_micros(300));
        }
    }
    asked.join().unwrap();
}
