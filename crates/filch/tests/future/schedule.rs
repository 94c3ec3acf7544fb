//! When futures are polled: wakes, fairness, chains, checkpoints.

use crate::support::{Flag, LIMIT, Signals, pool, until, within};
use filch::{
    CancelToken, Graph, Pool, Priority,
    future::{checkpoint, yield_now},
};
use std::{
    cell::RefCell,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Two futures that wake each other, until the flag is set.
fn chat(pool: &Pool, end: &Flag) {
    let (a, b) = (Arc::new(Signals::default()), Arc::new(Signals::default()));
    for (own, other, first) in [(a.clone(), b.clone(), true), (b, a, false)] {
        let end = end.clone();
        pool.spawn_future(async move {
            if first {
                other.send();
            }
            while !end.is_set() {
                own.receive().await;
                other.send();
            }
        })
        .detach();
    }
}

#[test]
fn a_chatty_pair_starves_no_other_future() {
    within(LIMIT, || {
        let (pool, end) = (pool(1), Flag::default());
        chat(&pool, &end);
        // From outside, by a task, and what was there before.
        assert_eq!(pool.spawn_future(async { 1 }).join().unwrap(), 1);
        assert_eq!(pool.submit(|| 2).join().unwrap(), 2);
        let inside = pool.spawn_future(async {
            let queued = filch::spawn_future(async { 3 });
            let closure = filch::submit(|| 4);
            (queued.await.unwrap(), closure.await.unwrap())
        });
        assert_eq!(inside.join().unwrap(), (3, 4));
        end.set();
    });
}

#[test]
fn a_future_that_wakes_itself_starves_no_other() {
    within(LIMIT, || {
        let (pool, end) = (pool(1), Flag::default());
        for _ in 0..3 {
            let end = end.clone();
            pool.spawn_future(poll_fn(move |cx| {
                if end.is_set() {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
            .detach();
        }
        for n in 0..100 {
            assert_eq!(pool.spawn_future(async move { n }).join().unwrap(), n);
            assert_eq!(pool.submit(move || n).join().unwrap(), n);
        }
        let inside = pool.spawn_future(async {
            let mut sum = 0;
            for n in 0..100 {
                sum += filch::spawn_future(async move { n }).await.unwrap();
            }
            sum
        });
        assert_eq!(inside.join().unwrap(), 4950);
        end.set();
    });
}

/// A chain of futures, each of which spawns the next one and awaits it. Counts those that are
/// alive, and their maximum.
fn chain(depth: usize, alive: Arc<AtomicUsize>, most: Arc<AtomicUsize>) -> BoxedFuture {
    Box::pin(async move {
        most.fetch_max(alive.fetch_add(1, SeqCst) + 1, SeqCst);
        if depth > 1 {
            let next = chain(depth - 1, alive.clone(), most);
            filch::spawn_future(next).await.unwrap();
        }
        alive.fetch_sub(1, SeqCst);
    })
}

#[test]
// An interpreted chain takes longer than older tasks have to wait.
#[cfg_attr(miri, ignore)]
fn futures_that_await_what_they_spawn_run_depth_first() {
    const CHAINS: usize = 300;
    const DEPTH: usize = 10;
    within(LIMIT, || {
        let pool = pool(1);
        let counts: (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let (alive, most) = counts.clone();
        let root = pool.spawn_future(async move {
            let spawn = |_| filch::spawn_future(chain(DEPTH, alive.clone(), most.clone()));
            for chain in (0..CHAINS).map(spawn).collect::<Vec<_>>() {
                chain.await.unwrap();
            }
        });
        root.join().unwrap();
        let (alive, most) = (counts.0.load(SeqCst), counts.1.load(SeqCst));
        assert_eq!(alive, 0);
        assert!(most < CHAINS * DEPTH / 3, "{most} were alive at a time");
    });
}

#[test]
fn futures_that_spawn_their_successors_starve_no_other() {
    fn successor(end: Flag) -> BoxedFuture {
        Box::pin(async move {
            if !end.is_set() {
                filch::spawn_future(successor(end)).detach();
            }
        })
    }
    within(LIMIT, || {
        let pool = pool(1);
        let end = Flag::default();
        let root = pool.spawn_future(async move {
            // The oldest task of its worker.
            let ends = end.clone();
            let oldest = filch::spawn_future(async move { ends.set() });
            filch::spawn_future(successor(end)).detach();
            oldest.await.unwrap();
        });
        root.join().unwrap();
    });
}

#[test]
fn a_yield_goes_behind_every_ready_task() {
    within(LIMIT, || {
        let pool = pool(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        let root = pool.spawn_future(async move {
            for n in 0..20 {
                let order = order.clone();
                filch::spawn_future(async move { order.lock().unwrap().push(n) }).detach();
                let order = filch::submit(|| ());
                drop(order);
            }
            yield_now().await;
            order.lock().unwrap().len()
        });
        assert_eq!(root.join().unwrap(), 20, "all of them came first");
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn yields_take_turns() {
    within(LIMIT, || {
        let pool = pool(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        for name in ["a", "b", "c"] {
            let order = order.clone();
            pool.spawn_future(async move {
                for _ in 0..3 {
                    order.lock().unwrap().push(name);
                    yield_now().await;
                }
            })
            .detach();
        }
        pool.run_until_stalled();
        let order = order.lock().unwrap();
        for round in order.chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, ["a", "b", "c"], "of {order:?}");
        }
    });
}

#[test]
fn a_long_chain_of_spawns_needs_no_stack() {
    fn next(left: usize, done: Flag) {
        filch::spawn_future(async move {
            match left {
                0 => done.set(),
                _ => next(left - 1, done),
            }
        })
        .detach();
    }
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .stack_size(256 << 10)
            .build()
            .unwrap();
        let done = Flag::default();
        let end = done.clone();
        pool.spawn_future(async move { next(100_000, end) })
            .detach();
        until("the end of the chain", || done.is_set());
    });
}

#[test]
fn a_long_chain_of_awaits_needs_no_stack() {
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .stack_size(256 << 10)
            .build()
            .unwrap();
        let mut last = pool.spawn_future(async { 0_usize });
        for _ in 0..20_000 {
            last = pool.spawn_future(async move { last.await.unwrap() + 1 });
        }
        assert_eq!(last.join().unwrap(), 20_000);
    });
}

/// A future that counts its polls, sends its waker once, and ends when it is polled after `end` was
/// set.
fn sends_waker(
    end: &Flag,
    polls: &Arc<AtomicUsize>,
) -> (impl Future<Output = ()> + use<>, mpsc::Receiver<Waker>) {
    let (send, receive) = mpsc::channel();
    let (end, polls, mut sent) = (end.clone(), polls.clone(), false);
    let future = poll_fn(move |cx| {
        polls.fetch_add(1, SeqCst);
        if !sent {
            sent = true;
            send.send(cx.waker().clone()).unwrap();
        }
        match end.is_set() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    (future, receive)
}

#[test]
fn a_storm_of_wakes() {
    within(LIMIT, || {
        let pool = pool(2);
        let (polls, end) = (Arc::new(AtomicUsize::new(0)), Flag::default());
        let (future, receive) = sends_waker(&end, &polls);
        let handle = pool.spawn_future(future);
        let waker = receive.recv().unwrap();
        let rounds = 5_000;
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let waker = waker.clone();
                thread::spawn(move || {
                    for _ in 0..rounds {
                        match n % 2 {
                            0 => waker.wake_by_ref(),
                            _ => {
                                let another = waker.clone();
                                another.wake();
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        end.set();
        waker.wake_by_ref();
        handle.join().unwrap();
        assert!(polls.load(SeqCst) <= 4 * rounds + 2);
        waker.wake();
    });
}

#[test]
fn a_waker_in_a_thread_local_destructor() {
    struct Last(Option<Waker>);
    impl Drop for Last {
        fn drop(&mut self) {
            if let Some(waker) = self.0.take() {
                waker.wake();
            }
        }
    }
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(Last(None)) };
    }
    within(LIMIT, || {
        for on_worker in [false, true] {
            let pools = (pool(1), pool(1));
            let done = Flag::default();
            let (future, receive) = sends_waker(&done, &Arc::default());
            let handle = pools.0.spawn_future(future);
            let waker = receive.recv().unwrap();
            let keep = move || LAST.with_borrow_mut(|last| last.0 = Some(waker));
            done.set();
            if on_worker {
                // The worker of another pool ends with it.
                pools.1.spawn(keep);
                pools.1.shutdown();
            } else {
                thread::spawn(keep).join().unwrap();
            }
            handle.join().unwrap();
        }
    });
}

#[test]
fn a_woken_future_comes_at_a_checkpoint() {
    within(LIMIT, || {
        for workers in [1, 2] {
            let pool = pool(workers);
            let signals = Arc::new(Signals::default());
            let (answered, waits) = (Flag::default(), Flag::default());
            let (inside, answer, waiting) = (signals.clone(), answered.clone(), waits.clone());
            pool.spawn_future(async move {
                waiting.set();
                inside.receive().await;
                // Spawned and awaited while every worker is busy: still at checkpoints.
                filch::spawn_future(async {}).await.unwrap();
                answer.set();
            })
            .detach();
            waits.wait("it waits");
            // Every worker is in a task that does not end before the future is done.
            let busy: Vec<_> = (0..workers)
                .map(|_| {
                    let (began, answered) = (Flag::default(), answered.clone());
                    let begins = began.clone();
                    pool.spawn(move || {
                        begins.set();
                        while !answered.is_set() {
                            checkpoint();
                        }
                    });
                    began
                })
                .collect();
            busy.iter().for_each(|began| began.wait("all are busy"));
            signals.send();
            answered.wait("a checkpoint lets it in");
        }
    });
}

#[test]
fn a_future_that_is_woken_in_a_poll_at_a_checkpoint_comes_at_the_next() {
    within(LIMIT, || {
        for by_itself in [true, false] {
            let (pool, polled) = (pool(1), Arc::new(AtomicUsize::new(0)));
            let (counts, signals) = (polled.clone(), Arc::new(Signals::default()));
            let (inside, waits) = (signals.clone(), Flag::default());
            let waiting = waits.clone();
            pool.spawn_future(async move {
                waiting.set();
                inside.receive().await;
                poll_fn(move |cx| {
                    let waker = cx.waker().clone();
                    match by_itself {
                        true => waker.wake(),
                        // The poll is still running when this thread wakes it.
                        false => thread::spawn(|| waker.wake()).join().unwrap(),
                    }
                    match polled.fetch_add(1, SeqCst) {
                        4 => Poll::Ready(()),
                        _ => Poll::Pending,
                    }
                })
                .await;
            })
            .detach();
            waits.wait("it waits");
            // This thread does not help, so all polls are at checkpoints.
            let (send, receive) = mpsc::channel();
            pool.spawn(move || {
                signals.send();
                let mut most = 0;
                while counts.load(SeqCst) < 5 {
                    let before = counts.load(SeqCst);
                    checkpoint();
                    most = most.max(counts.load(SeqCst) - before);
                }
                send.send(most).unwrap();
            });
            let most = receive.recv().unwrap();
            assert!(!by_itself || most == 1, "{most} polls at one checkpoint");
        }
    });
}

#[test]
fn a_wake_by_a_busy_task_comes_at_its_checkpoint() {
    within(LIMIT, || {
        let pool = pool(1);
        let (signals, answered) = (Arc::new(Signals::default()), Flag::default());
        let (inside, answer) = (signals.clone(), answered.clone());
        pool.spawn_future(async move {
            inside.receive().await;
            answer.set();
        })
        .detach();
        let end = answered.clone();
        pool.spawn(move || {
            signals.send();
            while !answered.is_set() {
                checkpoint();
            }
        });
        end.wait("its own checkpoint lets it in");
    });
}

#[test]
fn a_woken_future_comes_between_two_tasks_of_a_chain() {
    within(LIMIT, || {
        let (pool, signals, polled) = (pool(1), Arc::new(Signals::default()), Flag::default());
        let waiting = {
            let (signals, polled) = (signals.clone(), polled.clone());
            pool.spawn_future(async move {
                signals.receive().await;
                polled.set();
            })
        };
        until("it waits", || signals.is_awaited());
        let (seen, done) = (Flag::default(), Flag::default());
        let graph = Graph::new();
        let first = graph.task("first", move || signals.send());
        let second = graph.task("second", {
            let seen = seen.clone();
            move || {
                if polled.is_set() {
                    seen.set();
                }
            }
        });
        first.precede([second]);
        let (mut plan, end) = (graph.plan().unwrap(), done.clone());
        pool.spawn(move || {
            plan.run().unwrap();
            end.set();
        });
        done.wait("the only worker has run it");
        assert!(seen.is_set(), "the chain goes on before the future");
        waiting.join().unwrap();
    });
}

#[test]
fn a_busy_worker_wakes_sleeps_that_are_due() {
    /// Before that no worker takes over from the timer's thread.
    const GRACE: Duration = Duration::from_millis(100);
    within(LIMIT, || {
        let (pool, end) = (pool(1), Flag::default());
        let stop = end.clone();
        pool.spawn(move || {
            while !stop.is_set() {
                checkpoint();
            }
        });
        // On a machine that is busy with other things it may take longer than that, but not always.
        let in_time = (0..100).any(|_| {
            let (token, stuck, release) = (CancelToken::new(), Flag::default(), Flag::default());
            let (tells, until) = (stuck.clone(), release.clone());
            let callback = token.on_cancel(move || {
                tells.set();
                until.wait("the future is done");
            });
            token.cancel_after(Duration::from_millis(1)).unwrap();
            stuck.wait("the thread of the timer is in the callback");
            let since = Instant::now();
            let woken = pool.spawn_future(async {
                filch::time::sleep(Duration::from_millis(1)).await;
                filch::time::sleep(Duration::from_millis(1)).await;
                Instant::now()
            });
            let woken = woken.join().unwrap();
            release.set();
            drop(callback);
            woken - since < GRACE / 2
        });
        assert!(in_time, "only the thread of the timer wakes");
        end.set();
    });
}

#[test]
fn long_tasks_let_those_from_outside_in() {
    /// A task of a millisecond that is followed by the next one.
    fn again(count: Arc<AtomicUsize>, end: Flag) {
        thread::sleep(Duration::from_millis(1));
        count.fetch_add(1, SeqCst);
        if !end.is_set() {
            filch::spawn(move || again(count, end));
        }
    }
    within(LIMIT, || {
        let (pool, end, count) = (pool(1), Flag::default(), Arc::new(AtomicUsize::new(0)));
        let first = (count.clone(), end.clone());
        pool.spawn(move || again(first.0, first.1));
        until("the first is done", || count.load(SeqCst) > 0);
        for _ in 0..3 {
            let before = count.load(SeqCst);
            let came = Flag::default();
            let comes = came.clone();
            pool.spawn(move || comes.set());
            came.wait("it comes");
            // By the engine's count of tasks it would be 60 and more.
            let passed = count.load(SeqCst) - before;
            assert!(passed < 30, "{passed} tasks came first");
        }
        end.set();
    });
}

#[test]
fn checkpoints_nest_only_once_and_respect_isolation() {
    within(LIMIT, || {
        let pool = pool(1);
        let ran = Flag::default();
        let inside = ran.clone();
        let (other, done) = (pool.clone(), Flag::default());
        let end = done.clone();
        // Not a task that the caller may run itself: the only worker is to be busy.
        pool.spawn(move || {
            filch::isolate(|| {
                thread::scope(|s| {
                    s.spawn(|| other.spawn_future(async move { inside.set() }).detach());
                });
                for _ in 0..100 {
                    checkpoint();
                }
                assert!(!ran.is_set(), "nothing runs in an isolated task");
            });
            while !ran.is_set() {
                checkpoint();
            }
            end.set();
        });
        done.wait("the checkpoint lets it in");
        checkpoint(); // no worker: nothing happens
    });
}

#[test]
fn block_on_helps_on_a_worker() {
    within(LIMIT, || {
        let pool = pool(1);
        let result = pool.submit(|| {
            filch::block_on(async {
                let a = filch::spawn_future(async { filch::join(|| 1, || 2) });
                let b =
                    filch::submit(|| filch::block_on(filch::spawn_future(async { 3 })).unwrap());
                let (x, y) = a.await.unwrap();
                x + y + b.await.unwrap()
            })
        });
        assert_eq!(result.join().unwrap(), 6);
    });
}

#[test]
fn block_on_of_a_root_that_yields_lets_others_run() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            let flag = Flag::default();
            let (set, seen) = (flag.clone(), flag);
            let spin = async move {
                filch::spawn_future(async move { set.set() }).detach();
                while !seen.is_set() {
                    yield_now().await;
                }
            };
            match workers {
                0 => pool.block_on(spin),
                _ => pool.submit(|| filch::block_on(spin)).join().unwrap(),
            }
        }
    });
}

/// As often as `FILCH_STRESS=long` says.
fn trials() -> usize {
    match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => 1_000_000,
        _ => 20_000,
    }
}

#[test]
fn no_spawn_and_no_wake_from_outside_is_lost() {
    within(
        LIMIT.max(Duration::from_secs(trials() as u64 / 500)),
        || {
            let pool = Pool::builder().workers(2).spin_rounds(2).build().unwrap();
            let (ask, answer) = (Arc::new(Signals::default()), mpsc::channel::<usize>());
            let (inside, send) = (ask.clone(), answer.0);
            let asked = pool.spawn_future(async move {
                for n in 0..trials() / 2 {
                    inside.receive().await;
                    send.send(n).unwrap();
                }
            });
            for n in 0..trials() / 2 {
                ask.send();
                assert_eq!(answer.1.recv(), Ok(n), "woken");
                assert_eq!(pool.spawn_future(async move { n }).join().unwrap(), n);
                if n % 64 == 0 {
                    // All workers are asleep by then.
                    thread::sleep(Duration::from_micros(200));
                }
            }
            asked.join().unwrap();
        },
    );
}

/// Futures of three priorities that record when they are polled: at first, when they are woken, and
/// when they have yielded.
#[test]
fn futures_are_polled_by_their_priority() {
    within(LIMIT, || {
        let pool = pool(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let signals: Vec<_> = (0..3).map(|_| Arc::new(Signals::default())).collect();
        let levels = [Priority::Low, Priority::Normal, Priority::Critical];
        let spawn = |(level, signals): (Priority, &Arc<Signals>)| {
            let (order, signals) = (order.clone(), signals.clone());
            let future = async move {
                let record = || order.lock().unwrap().push(level);
                record();
                signals.receive().await;
                record();
                yield_now().await;
                record();
            };
            pool.future(future).priority(level).spawn()
        };
        let handles: Vec<_> = levels.into_iter().zip(&signals).map(spawn).collect();
        let expected = [Priority::Critical, Priority::Normal, Priority::Low];
        pool.run_until_stalled();
        assert_eq!(std::mem::take(&mut *order.lock().unwrap()), expected);
        signals.iter().for_each(|signals| signals.send());
        pool.run_until_stalled();
        let polls = std::mem::take(&mut *order.lock().unwrap());
        // The urgent one is woken and yields before the others are polled, the low one after them.
        assert_eq!(polls[..2], [Priority::Critical; 2]);
        assert_eq!(
            polls[2..],
            [
                Priority::Normal,
                Priority::Normal,
                Priority::Low,
                Priority::Low
            ]
        );
        assert!(handles.iter().all(|handle| handle.is_finished()));
    });
}

/// An urgent future that yields all the time does not keep other tasks from running.
#[test]
fn an_urgent_future_starves_no_task() {
    within(LIMIT, || {
        let (pool, end) = (pool(1), Flag::default());
        let ended = end.clone();
        let busy = pool.future(async move {
            while !ended.is_set() {
                yield_now().await;
            }
        });
        let busy = busy.priority(Priority::Critical).spawn();
        let low = pool
            .future(async move { end.set() })
            .priority(Priority::Low)
            .spawn();
        // Awaited on this thread, which does not run what it waits for.
        crate::support::block_on(low).unwrap();
        crate::support::block_on(busy).unwrap();
    });
}

#[test]
fn a_priority_has_no_effect_with_dedicated_workers() {
    within(LIMIT, || {
        let pool = Pool::builder()
            .workers(1)
            .future_workers(1)
            .build()
            .unwrap();
        let (end, ended) = (Flag::default(), Flag::default());
        let release = end.clone();
        let busy = pool.submit(move || release.wait("the future to be polled"));
        for level in [Priority::Low, Priority::Critical] {
            let (end, ended) = (end.clone(), ended.clone());
            let future = async move {
                yield_now().await;
                end.set();
                ended.set();
            };
            crate::support::block_on(pool.future(future).priority(level).spawn()).unwrap();
        }
        assert!(ended.is_set());
        busy.join().unwrap();
    });
}
