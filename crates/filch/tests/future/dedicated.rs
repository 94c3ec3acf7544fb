//! Workers that are kept for futures: beside tasks without checkpoints, futures are polled at once;
//! and nothing else changes.

use crate::support::{
    Drops, Flag, LIMIT, Panics, Signals, add, counter, counting, get, quiet_panic, until, within,
};
use filch::{Pool, PoolBuilder, Priority, future};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    thread,
    time::Duration,
};

fn builder() -> PoolBuilder {
    Pool::builder().workers(1).future_workers(1)
}

fn dedicated() -> Pool {
    builder().build().unwrap()
}

/// A closure without checkpoints that keeps a worker until it is released.
struct Long {
    end: Flag,
    done: Flag,
}

impl Long {
    fn on(pool: &Pool) -> Self {
        let (begun, end, done) = (Flag::default(), Flag::default(), Flag::default());
        pool.spawn({
            let (begun, end, done) = (begun.clone(), end.clone(), done.clone());
            move || {
                begun.set();
                while !end.is_set() {
                    thread::sleep(Duration::from_micros(200));
                }
                done.set();
            }
        });
        begun.wait("the long task begins");
        Self { end, done }
    }

    fn ends(self) {
        self.end.set();
        self.done.wait("the long task ends");
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        self.end.set();
    }
}

#[test]
fn a_future_is_polled_beside_a_long_task() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        assert_eq!(pool.spawn_future(async { 1 }).join().unwrap(), 1);
        // Woken from outside.
        let signals = Arc::<Signals>::default();
        let reader = pool.spawn_future({
            let signals = signals.clone();
            async move { signals.receive().await }
        });
        until("it waits", || signals.is_awaited());
        signals.send();
        reader.join().unwrap();
        // Spawned and woken by another future.
        let chain = pool.spawn_future(async {
            let signals = Arc::<Signals>::default();
            let reader = filch::spawn_future({
                let signals = signals.clone();
                async move { signals.receive().await }
            });
            while !signals.is_awaited() {
                future::yield_now().await;
            }
            signals.send();
            reader.await.unwrap();
        });
        chain.join().unwrap();
        assert!(!long.done.is_set());
        long.ends();
    });
}

#[test]
fn one_that_the_long_task_spawns_or_wakes_does_not_wait_for_it() {
    within(LIMIT, || {
        let pool = dedicated();
        let signals = Arc::<Signals>::default();
        let reader = pool.spawn_future({
            let signals = signals.clone();
            async move { signals.receive().await }
        });
        until("it waits", || signals.is_awaited());
        let both = pool.submit(move || {
            signals.send();
            let spawned = filch::spawn_future(async {});
            until("the reader is done", || reader.is_finished());
            until("the other is done", || spawned.is_finished());
        });
        both.join().unwrap();
    });
}

#[test]
fn one_that_is_woken_while_it_is_polled_does_not_come_behind_long_tasks() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        // Takes the worker that is kept, so that the other one polls what follows.
        let (begun, go) = (Flag::default(), Flag::default());
        let first = pool.spawn_future({
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                begun.set();
                go.wait("released");
            }
        });
        begun.wait("it is taken");
        long.ends();
        let (polled, woken, end) = (Flag::default(), Flag::default(), Flag::default());
        let waker = Arc::new(Mutex::new(None));
        let second = pool.spawn_future({
            let (polled, woken, end) = (polled.clone(), woken.clone(), end.clone());
            let (waker, mut again) = (waker.clone(), false);
            poll_fn(move |cx| {
                if again {
                    return Poll::Ready(());
                }
                again = true;
                let end = end.clone();
                filch::spawn(move || end.wait("the end of a long task"));
                *waker.lock().unwrap() = Some(cx.waker().clone());
                polled.set();
                woken.wait("woken");
                Poll::Pending
            })
        });
        polled.wait("the other worker polls");
        let waker: Option<Waker> = waker.lock().unwrap().take();
        waker.unwrap().wake();
        go.set();
        first.join().unwrap();
        woken.set();
        // Before the long task ends.
        second.join().unwrap();
        end.set();
    });
}

#[test]
fn without_it_a_future_waits_for_the_long_task() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let long = Long::on(&pool);
        let future = pool.spawn_future(async {});
        thread::sleep(Duration::from_millis(50));
        assert!(!future.is_finished());
        long.ends();
        future.join().unwrap();
    });
}

#[test]
fn one_that_is_delayed_delays_no_other() {
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .future_workers(3)
            .build()
            .unwrap();
        let long = Long::on(&pool);
        let end = Flag::default();
        let stuck: Vec<_> = (0..2)
            .map(|_| {
                let (begun, end) = (Flag::default(), end.clone());
                let future = pool.spawn_future({
                    let begun = begun.clone();
                    async move {
                        begun.set();
                        end.wait("the end");
                    }
                });
                (future, begun)
            })
            .collect();
        stuck
            .iter()
            .for_each(|(_, begun)| begun.wait("it is polled"));
        for n in 0..100 {
            assert_eq!(pool.spawn_future(async move { n }).join().unwrap(), n);
        }
        assert!(!long.done.is_set());
        end.set();
        for (future, _) in stuck {
            future.join().unwrap();
        }
    });
}

#[test]
fn what_a_future_submits_is_left_to_the_others() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        let (runs, task) = (Flag::default(), Flag::default());
        let asks = pool.spawn_future({
            let (runs, task) = (runs.clone(), task.clone());
            async move {
                let handle = filch::submit(move || task.set());
                runs.set();
                handle.await.unwrap();
            }
        });
        runs.wait("the future is polled");
        // The only other worker is busy, and the one that is kept stays free.
        for _ in 0..100 {
            pool.spawn_future(async {}).join().unwrap();
        }
        assert!(!task.is_set() && !asks.is_finished());
        long.ends();
        asks.join().unwrap();
        assert!(task.is_set());
    });
}

#[test]
fn futures_there_may_join_and_block() {
    within(LIMIT, || {
        fn fib(n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        let pool = dedicated();
        let futures: Vec<_> = (0..20)
            .map(|n| {
                pool.spawn_future(async move {
                    let submitted = filch::submit(move || n);
                    let scoped = future::scope(|s| s.spawn(async { fib(10) }).join().unwrap());
                    let blocked = filch::block_on(async { filch::spawn_future(async { 1 }).await });
                    fib(12) + scoped + blocked.unwrap() + submitted.join().unwrap()
                })
            })
            .collect();
        for (n, future) in (0..).zip(futures) {
            assert_eq!(future.join().unwrap(), 144 + 55 + 1 + n);
        }
        // The same where no other worker can help.
        let long = Long::on(&pool);
        let alone = pool.spawn_future(async { filch::block_on(async { fib(8) }) + fib(12) });
        assert_eq!(alone.join().unwrap(), 144 + 21);
        assert!(!long.done.is_set());
    });
}

#[test]
fn those_that_yield_take_turns_with_the_others() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        let (end, turns) = (Flag::default(), Arc::new([counter(), counter(), counter()]));
        for at in 0..3 {
            let (end, turns) = (end.clone(), turns.clone());
            pool.spawn_future(async move {
                while !end.is_set() {
                    add(&turns[at]);
                    future::yield_now().await;
                }
            })
            .detach();
        }
        // They don't keep others waiting, nor each other.
        for n in 0..100 {
            assert_eq!(pool.spawn_future(async move { n }).join().unwrap(), n);
        }
        until("all of them get on", || {
            turns.iter().all(|turn| get(turn) > 100)
        });
        assert!(!long.done.is_set());
        // Nor ordinary tasks.
        long.ends();
        for n in 0..100 {
            assert_eq!(pool.submit(move || n).join().unwrap(), n);
        }
        end.set();
    });
}

#[test]
fn no_wake_is_lost() {
    within(LIMIT, || {
        for futures in [1, 2] {
            let pool = Pool::builder()
                .workers(1)
                .future_workers(futures)
                .build()
                .unwrap();
            let long = Long::on(&pool);
            let (ping, pong) = (Arc::<Signals>::default(), Arc::<Signals>::default());
            let echo = pool.spawn_future({
                let (ping, pong) = (ping.clone(), pong.clone());
                async move {
                    for _ in 0..3000 {
                        ping.receive().await;
                        pong.send();
                    }
                }
            });
            for _ in 0..3000 {
                ping.send();
                crate::support::block_on(pong.receive());
            }
            echo.join().unwrap();
            // Many at a time.
            let spawns = |count: usize| {
                let futures: Vec<_> = (0..count)
                    .map(|n| {
                        pool.spawn_future(
                            async move { filch::spawn_future(async move { n }).await },
                        )
                    })
                    .collect();
                for (n, future) in futures.into_iter().enumerate() {
                    assert_eq!(future.join().unwrap().unwrap(), n);
                }
            };
            thread::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| spawns(1000));
                }
            });
            assert!(!long.done.is_set());
        }
    });
}

#[test]
fn the_end_drops_every_future() {
    for seed in 0..50 {
        within(LIMIT, move || {
            let (pool, counts) = (dedicated(), Drops::default());
            let signals = Arc::<Signals>::default();
            for n in 0..20 {
                let (value, signals) = (counts.value(), signals.clone());
                pool.spawn_future(async move {
                    let _value = value;
                    match n % 3 {
                        0 => std::future::pending::<()>().await,
                        1 => signals.receive().await,
                        _ => loop {
                            future::yield_now().await;
                        },
                    }
                })
                .detach();
            }
            // Wakes all the time, the end in the middle.
            let end = Flag::default();
            let wakes = thread::spawn({
                let (signals, end) = (signals.clone(), end.clone());
                move || {
                    while !end.is_set() {
                        signals.send();
                    }
                }
            });
            if seed % 2 == 0 {
                thread::sleep(Duration::from_micros(seed * 20));
            }
            drop(pool);
            assert_eq!(counts.seen(), 20);
            end.set();
            wakes.join().unwrap();
        });
    }
}

#[test]
fn the_end_does_not_wait_for_a_worker_to_drop_what_is_queued() {
    within(LIMIT, || {
        let (pool, counts) = (dedicated(), Drops::default());
        let long = Long::on(&pool);
        let (polled, go) = (Flag::default(), Flag::default());
        pool.spawn_future({
            let (polled, go) = (polled.clone(), go.clone());
            async move {
                polled.set();
                go.wait("released");
            }
        })
        .detach();
        polled.wait("the worker for futures is taken");
        let value = counts.value();
        pool.spawn_future(async move { drop(value) }).detach();
        let ends = thread::spawn(move || drop(pool));
        go.set();
        until("the future is dropped or done", || counts.seen() == 1);
        assert!(!long.done.is_set() && !ends.is_finished());
        long.ends();
        ends.join().unwrap();
    });
}

#[test]
fn a_pool_may_be_dropped_by_a_future_there() {
    within(LIMIT, || {
        let exits = Arc::new(counter());
        let pool = builder()
            .on_exit({
                let exits = exits.clone();
                move |_| add(&exits)
            })
            .build()
            .unwrap();
        let long = Long::on(&pool);
        let (sent, last) = (Flag::default(), pool.clone());
        pool.spawn_future({
            let sent = sent.clone();
            async move {
                sent.wait("the other handle is gone");
                drop(last);
            }
        })
        .detach();
        drop(pool);
        sent.set();
        long.ends();
        until("both threads end", || get(&exits) == 2);
    });
}

#[test]
fn the_threads_have_names_hooks_and_an_end() {
    within(LIMIT, || {
        let names = Arc::new(Mutex::new(BTreeSet::new()));
        let (started, ended) = (Arc::new(Mutex::new(Vec::new())), counting());
        let pool = Pool::builder()
            .workers(1)
            .future_workers(2)
            .on_start({
                let (names, started) = (names.clone(), started.clone());
                move |number| {
                    let name = thread::current().name().unwrap().to_owned();
                    names.lock().unwrap().insert(name);
                    started.lock().unwrap().push(number);
                }
            })
            .on_exit({
                let end = ended.1;
                move |_| end()
            })
            .build()
            .unwrap();
        assert_eq!(pool.workers(), 1);
        let long = Long::on(&pool);
        let worker = pool.spawn_future(async { filch::current_worker() });
        assert_eq!(worker.join().unwrap(), None);
        long.ends();
        started.lock().unwrap().sort_unstable();
        assert_eq!(*started.lock().unwrap(), [0, 1, 2]);
        let expected = ["filch-0", "filch-future-0", "filch-future-1"];
        assert!(names.lock().unwrap().iter().eq(&expected));
        drop(pool);
        assert_eq!(get(&ended.0), 3);
        let named = builder().name(|number| format!("mine-{number}"));
        let pool = named.build().unwrap();
        let _long = Long::on(&pool);
        let name = pool.spawn_future(async { thread::current().name().map(str::to_owned) });
        assert_eq!(name.join().unwrap().as_deref(), Some("mine-1"));
    });
}

#[test]
fn a_hook_that_panics_leaves_no_thread() {
    for bad in 0..3 {
        within(LIMIT, move || {
            let (ended, end) = counting();
            let error = Pool::builder()
                .workers(1)
                .future_workers(2)
                .on_start(move |number| {
                    if number == bad {
                        quiet_panic("no");
                    }
                })
                .on_exit(move |_| end())
                .build()
                .unwrap_err();
            assert!(error.is_init(), "{error}");
            // Those that had been started have ended.
            let all = if bad == 0 { 3 } else { 2 };
            assert_eq!(get(&ended), all);
        });
    }
}

#[test]
fn settings_are_checked() {
    let error = Pool::builder()
        .workers(0)
        .future_workers(1)
        .build()
        .unwrap_err();
    assert!(error.is_config() && error.to_string().contains("without workers"));
    for many in [usize::MAX, 40_000, 0x7ffe] {
        let error = builder().future_workers(many).build().unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("too many"),
            "{error}"
        );
    }
    for error in [
        builder().with_current_thread().build().unwrap_err(),
        builder().build_on(|_| unreachable!()).unwrap_err(),
    ] {
        assert!(
            error.is_config() && error.to_string().contains("dedicated to futures"),
            "{error}"
        );
    }
    let none = Pool::builder().workers(0).future_workers(0);
    assert_eq!(none.build().unwrap().workers(), 0);
}

#[test]
fn panics_there_reach_the_handle_or_the_handler() {
    within(LIMIT, || {
        let panics = Panics::default();
        let pool = panics.listen(builder()).build().unwrap();
        let long = Long::on(&pool);
        let panicked = pool.spawn_future(async { quiet_panic("told") });
        assert!(panicked.join().unwrap_err().is_panic());
        pool.spawn_future(async { quiet_panic("heard") }).detach();
        pool.spawn_future(async {}).join().unwrap();
        until("the handler hears of it", || panics.take() == ["heard"]);
        assert!(!long.done.is_set());
    });
}

#[test]
fn urgent_tasks_may_run_there_too() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        let urgent = pool
            .task(|| "run")
            .priority(Priority::Critical)
            .submit()
            .unwrap();
        // The worker that takes the future finds both.
        pool.spawn_future(async {}).join().unwrap();
        until("it has run", || urgent.is_finished());
        assert!(!long.done.is_set());
        assert_eq!(urgent.join().unwrap(), "run");
    });
}

#[test]
fn the_lists_of_places_add_up() {
    within(LIMIT, || {
        let pool = dedicated();
        let long = Long::on(&pool);
        for _ in 0..10 {
            pool.spawn_future(async {}).join().unwrap();
        }
        long.ends();
        let metrics = pool.metrics();
        assert_eq!(metrics.workers.len(), 1 + metrics.guests);
        let last = metrics.workers.last().unwrap();
        assert!(last.executed >= 10, "{last:?}");
    });
}
