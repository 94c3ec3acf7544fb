//! Futures and the end of their pool.

use crate::support::{Flag, LIMIT, Panics, pool, quiet_panic, until, within};
use filch::{
    FutureHandle, Pool,
    future::{CancelHandle, yield_now},
};
use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

/// Counts its end, which comes once.
struct Once(Arc<AtomicUsize>, bool);

impl Once {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        Self(count.clone(), false)
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        assert!(!self.1, "dropped twice");
        self.1 = true;
        self.0.fetch_add(1, SeqCst);
    }
}

async fn hold<T>(value: T) {
    let _value = value;
    pending::<()>().await;
}

#[test]
fn what_waits_is_dropped_once_before_the_end() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            for explicit in [false, true] {
                let pool = pool(workers);
                let count = Arc::new(AtomicUsize::new(0));
                let handles: Vec<_> = (0..100)
                    .map(|n| {
                        let once = Once::new(&count);
                        let future = async move {
                            if n % 3 == 0 {
                                yield_now().await;
                            }
                            hold(once).await;
                        };
                        pool.spawn_future(future)
                    })
                    .collect();
                let mut handles = handles.into_iter();
                handles.by_ref().take(50).for_each(FutureHandle::detach);
                match explicit {
                    true => pool.shutdown(),
                    false => drop(pool),
                }
                assert_eq!(count.load(SeqCst), 100);
                for handle in handles {
                    assert!(handle.join().unwrap_err().is_cancelled());
                }
            }
        }
    });
}

#[test]
fn what_yields_for_ever_ends_too() {
    within(LIMIT, || {
        let pool = pool(1);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let once = Once::new(&count);
            pool.spawn_future(async move {
                let _once = once;
                loop {
                    yield_now().await;
                }
            })
            .detach();
        }
        // And one that spawns for ever.
        fn again(once: Once) {
            assert!(!once.1, "it is alive");
            filch::spawn_future(async move { again(once) }).detach();
        }
        let once = Once::new(&count);
        pool.spawn_future(async move { again(once) }).detach();
        drop(pool);
        assert_eq!(count.load(SeqCst), 4);
    });
}

#[test]
fn spawns_after_the_end_are_cancelled() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            let late = pool.clone();
            pool.shutdown();
            let count = Arc::new(AtomicUsize::new(0));
            let handle = late.spawn_future(hold(Once::new(&count)));
            assert_eq!(count.load(SeqCst), 1, "dropped at once");
            assert!(handle.is_finished());
            assert!(handle.join().unwrap_err().is_cancelled());
            let inside = late.install(|| filch::spawn_future(hold(Once::new(&count))));
            assert!(inside.join().unwrap_err().is_cancelled());
            assert_eq!(count.load(SeqCst), 2);
        }
    });
}

#[test]
fn a_future_that_is_dropped_spawns_another() {
    struct Spawns(Pool, Arc<AtomicUsize>, u32);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            if self.2 > 0 {
                let next = Self(self.0.clone(), self.1.clone(), self.2 - 1);
                self.0.spawn_future(hold(next)).detach();
            }
        }
    }
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let (pool, count) = (pool(workers), Arc::new(AtomicUsize::new(0)));
            let spawns = Spawns(pool.clone(), count.clone(), 5);
            pool.spawn_future(hold(spawns)).detach();
            pool.shutdown();
            assert_eq!(count.load(SeqCst), 6);
        }
    });
}

#[test]
fn wakes_and_cancels_after_the_end_do_nothing() {
    within(LIMIT, || {
        let pool = pool(1);
        let (send, receive) = mpsc::channel::<Waker>();
        let mut sent = false;
        let handle = pool.spawn_future(poll_fn(move |cx| -> Poll<()> {
            if !sent {
                sent = true;
                send.send(cx.waker().clone()).unwrap();
            }
            Poll::Pending
        }));
        let (waker, cancel) = (receive.recv().unwrap(), handle.cancel_handle());
        drop(pool);
        waker.wake_by_ref();
        cancel.cancel();
        assert!(handle.is_finished() && cancel.is_finished());
        drop(handle);
        let another = waker.clone();
        another.wake();
        drop(cancel);
        waker.wake();
    });
}

#[test]
fn wakes_during_the_end() {
    // Hundreds of threads start and end one after the other here, which takes long on a busy
    // machine.
    within(LIMIT, || {
        for round in 0..100 {
            let pool = pool(1 + round % 2);
            let count = Arc::new(AtomicUsize::new(0));
            let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
            let futures = 10;
            for _ in 0..futures {
                let (once, wakers) = (Once::new(&count), wakers.clone());
                pool.spawn_future(async move {
                    let _once = once;
                    poll_fn(|cx| -> Poll<()> {
                        wakers.lock().unwrap().push(cx.waker().clone());
                        Poll::Pending
                    })
                    .await;
                })
                .detach();
            }
            until("all wait", || wakers.lock().unwrap().len() >= futures);
            let wakers = wakers.lock().unwrap().clone();
            let storm = thread::spawn(move || wakers.into_iter().for_each(Waker::wake));
            drop(pool);
            // Also those that were woken when no worker was left to poll them.
            assert_eq!(count.load(SeqCst), futures);
            storm.join().unwrap();
        }
    });
}

#[test]
fn a_future_that_holds_its_pool_leaks_nothing() {
    within(LIMIT, || {
        // It drops the last handle, on a worker, in the middle of a poll.
        let alive = Arc::new(());
        let (pool, done) = (pool(2), Flag::default());
        let (own, kept, set) = (pool.clone(), alive.clone(), done.clone());
        let (go, gone) = (Flag::default(), Flag::default());
        let goes = go.clone();
        pool.spawn_future(hold((alive.clone(), gone.clone())))
            .detach();
        pool.spawn_future(async move {
            until("released", || goes.is_set());
            drop(own);
            let _kept = kept;
            set.set();
        })
        .detach();
        drop(pool);
        assert!(!done.is_set());
        go.set();
        done.wait("it ends");
        until("nothing is left", || Arc::strong_count(&alive) == 1);
        // It waits with a handle: a shutdown ends it.
        let pool = crate::support::pool(1);
        let own = pool.clone();
        pool.spawn_future(hold((own, alive.clone()))).detach();
        pool.shutdown();
        assert_eq!(Arc::strong_count(&alive), 1);
        // Its destructor has the last one.
        let pool = crate::support::pool(1);
        let handle = pool.spawn_future(hold((pool.clone(), alive.clone())));
        drop(pool);
        handle.cancel();
        assert!(handle.join().unwrap_err().is_cancelled());
        until("nothing is left", || Arc::strong_count(&alive) == 1);
    });
}

#[test]
fn a_shutdown_by_a_future() {
    within(LIMIT, || {
        let pool = pool(2);
        let (own, count) = (pool.clone(), Arc::new(AtomicUsize::new(0)));
        pool.spawn_future(hold(Once::new(&count))).detach();
        let handle = pool.spawn_future(async move {
            own.shutdown();
            filch::spawn_future(async {}).join().unwrap_err()
        });
        assert!(handle.join().unwrap().is_cancelled(), "it went on");
        drop(pool);
        until("the other is dropped", || count.load(SeqCst) == 1);
    });
}

#[test]
fn a_shutdown_with_a_limit_drops_what_waits() {
    within(LIMIT, || {
        let pool = pool(1);
        let count = Arc::new(AtomicUsize::new(0));
        pool.spawn_future(hold(Once::new(&count))).detach();
        assert!(pool.shutdown_timeout(Duration::from_secs(5)));
        assert_eq!(count.load(SeqCst), 1);
    });
}

#[test]
fn panics_at_the_end_lose_no_future() {
    struct Bad(Once);
    impl Drop for Bad {
        fn drop(&mut self) {
            let _ = &self.0;
            quiet_panic("at the end");
        }
    }
    within(LIMIT, || {
        let panics = Panics::default();
        let pool = panics.pool(1);
        let count = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let (bad, waits) = (Bad(Once::new(&count)), waiting.clone());
            pool.spawn_future(async move {
                waits.fetch_add(1, SeqCst);
                hold(bad).await;
            })
            .detach();
        }
        until("all wait", || waiting.load(SeqCst) == 10);
        drop(pool);
        assert_eq!((count.load(SeqCst), panics.count()), (10, 10));
    });
}

#[test]
fn waiters_for_a_future_of_a_pool_that_ends_are_woken() {
    within(LIMIT, || {
        let (a, b) = (pool(1), pool(1));
        let there = a.spawn_future(pending::<()>());
        let waits = Flag::default();
        let set = waits.clone();
        let here = b.spawn_future(async move {
            set.set();
            there.await.unwrap_err().is_cancelled()
        });
        waits.wait("it waits");
        drop(a);
        assert!(here.join().unwrap());
    });
}

#[test]
fn a_shutdown_waits_for_what_another_one_ends() {
    struct Slow(Flag, Flag, Arc<AtomicUsize>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.set();
            self.1.wait("released");
            thread::sleep(Duration::from_millis(20));
            self.2.fetch_add(1, SeqCst);
        }
    }
    within(LIMIT, || {
        let (pool, count) = (pool(1), Arc::new(AtomicUsize::new(0)));
        let (began, go, waits) = (Flag::default(), Flag::default(), Flag::default());
        let (slow, set) = (
            Slow(began.clone(), go.clone(), count.clone()),
            waits.clone(),
        );
        pool.spawn_future(async move {
            set.set();
            hold(slow).await;
        })
        .detach();
        waits.wait("it is polled");
        // The poll has ended, so that the future is dropped by one of the two threads below. The
        // worker would drop it for the first of them only.
        pool.on_worker(|| ());
        let other = pool.clone();
        let first = thread::spawn(move || other.shutdown());
        began.wait("one of them drops it");
        let second = thread::spawn(move || pool.shutdown());
        go.set();
        second.join().unwrap();
        assert_eq!(count.load(SeqCst), 1, "it is dropped in either case");
        first.join().unwrap();
    });
}

#[test]
fn the_last_handle_of_a_pool_without_threads_in_a_future() {
    within(LIMIT, || {
        let alive = Arc::new(());
        // Done, cancelled, and dropped with others that wait.
        for end in 0..3 {
            let pool = pool(0);
            let (own, kept) = (pool.clone(), alive.clone());
            pool.spawn_future(hold(alive.clone())).detach();
            let handle = pool.spawn_future(async move {
                let _kept = kept;
                filch::spawn_future(hold(_kept.clone())).detach();
                if end > 0 {
                    pending::<()>().await;
                }
                drop(own);
            });
            if end == 2 {
                pool.run_until_stalled();
            }
            drop(pool);
            if end > 0 {
                handle.cancel();
            }
            assert_eq!(handle.join().is_err(), end > 0);
            assert_eq!(Arc::strong_count(&alive), 1, "of {end}");
        }
    });
}

#[test]
fn handles_that_outlive_everything_keep_only_their_cell() {
    within(LIMIT, || {
        let value = Arc::new(());
        let weak: Weak<()> = Arc::downgrade(&value);
        let pool = pool(1);
        let handle = pool.spawn_future(async move { value });
        let cancel: CancelHandle = handle.cancel_handle();
        until("done", || handle.is_finished());
        drop(pool);
        assert_eq!(weak.strong_count(), 1);
        drop(handle);
        assert_eq!(weak.strong_count(), 0, "the result goes with the handle");
        drop(cancel);
    });
}

/// A task shuts its own pool down, which cannot wait there; dropping the pool still waits.
#[test]
fn a_pool_that_was_shut_down_by_a_task_is_waited_for() {
    within(LIMIT, || {
        for workers in [1, 2] {
            for _ in 0..50 {
                let pool = pool(workers);
                let count = Arc::new(AtomicUsize::new(0));
                for _ in 0..20 {
                    pool.spawn_future(hold(Once::new(&count))).detach();
                }
                let same = pool.clone();
                let told = pool.submit(move || same.shutdown());
                told.join().unwrap();
                drop(pool);
                assert_eq!(count.load(SeqCst), 20, "some are still there");
            }
        }
    });
}
