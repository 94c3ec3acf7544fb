//! Blocking calls: other threads work in the place of the workers meanwhile.

use crate::support::{Flag, LIMIT, Signals, panic_of, pool, quiet_panic, until, within};
use filch::{Pool, blocking};
use std::{
    cell::RefCell,
    collections::HashSet,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

/// The maximum number of substitutes, as documented.
const MAX_SUBSTITUTES: usize = 16;

/// Blocks in a task until another one has sent the result of `f`. This thread does not help.
fn block_once<R: Send + 'static>(pool: &Pool, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    let (send_on, received) = mpsc::channel();
    pool.spawn(move || {
        let result = blocking(|| receive.recv().unwrap());
        send_on.send(result).unwrap();
    });
    pool.spawn(move || send.send(f()).unwrap());
    received.recv().unwrap()
}

#[test]
fn the_only_worker_blocks_and_tasks_run() {
    within(LIMIT, || {
        assert_eq!(block_once(&pool(1), || 5), 5);
    });
}

#[test]
fn a_pool_that_ends_has_substitutes_too() {
    within(LIMIT, || {
        let (send, receive) = mpsc::channel();
        let pool = pool(1);
        pool.spawn(move || blocking(|| receive.recv().unwrap()));
        pool.spawn(move || send.send(()).unwrap());
        drop(pool);
    });
}

#[test]
fn queued_work_of_a_blocked_worker_runs() {
    within(LIMIT, || {
        let pool = pool(1);
        pool.on_worker(|| {
            let (send, receive) = mpsc::channel();
            // In the queue of the worker that blocks.
            filch::spawn(move || send.send(()).unwrap());
            blocking(|| receive.recv().unwrap());
            // The second half of a join, while its first half blocks.
            let (send, receive) = mpsc::channel();
            filch::join(
                move || blocking(|| receive.recv().unwrap()),
                move || send.send(()).unwrap(),
            );
        });
    });
}

#[test]
fn a_future_and_an_outside_task_run_beside_blocked_workers() {
    within(LIMIT, || {
        let pool = pool(2);
        let (end, both) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
        for _ in 0..2 {
            let (end, both) = (end.clone(), both.clone());
            pool.spawn(move || {
                blocking(|| {
                    both.wait();
                    end.wait();
                });
            });
        }
        both.wait();
        assert_eq!(pool.spawn_future(async { 1 }).join().unwrap(), 1);
        assert_eq!(pool.submit(|| 2).join().unwrap(), 2);
        assert_eq!(pool.on_worker(|| 3), 3);
        end.wait();
    });
}

#[test]
fn as_many_calls_as_there_are_substitutes_keep_the_parallelism() {
    within(LIMIT, || {
        let pool = pool(1);
        let all = Arc::new(Barrier::new(MAX_SUBSTITUTES + 1));
        let end = Flag::default();
        for _ in 0..=MAX_SUBSTITUTES {
            let all = all.clone();
            pool.spawn(move || {
                blocking(|| all.wait());
            });
        }
        // They block at the same time, or the barrier would never open.
        let last = end.clone();
        pool.spawn(move || last.set());
        end.wait("all have gone on");
    });
}

#[test]
fn threads_are_reused_and_end_with_the_pool() {
    within(LIMIT, || {
        let (started, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (starts, ends) = (started.clone(), ended.clone());
        let pool = Pool::builder()
            .workers(1)
            .on_start(move |_| _ = starts.fetch_add(1, SeqCst))
            .on_exit(move |_| _ = ends.fetch_add(1, SeqCst))
            .build()
            .unwrap();
        let names = Arc::new(Mutex::new(HashSet::new()));
        for _ in 0..100 {
            let names = names.clone();
            block_once(&pool, move || {
                let name = thread::current().name().map(str::to_owned);
                names.lock().unwrap().insert(name.unwrap());
            });
        }
        drop(pool);
        let started = started.load(SeqCst);
        assert!(
            (2..=3).contains(&started),
            "{started} threads for one call at a time"
        );
        assert_eq!(started, ended.load(SeqCst));
        let names = names.lock().unwrap();
        assert!(names.contains("filch-blocking-0"), "{names:?}");
    });
}

#[test]
fn a_surplus_thread_leaves() {
    within(LIMIT, || {
        let pool = pool(1);
        block_once(&pool, || ());
        // From now on one thread runs tasks, perhaps after a task or two of the other one.
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..2_000)
            .map(|n| {
                let (running, most) = (running.clone(), most.clone());
                pool.submit(move || {
                    let now = running.fetch_add(1, SeqCst) + 1;
                    if n >= 100 {
                        most.fetch_max(now, SeqCst);
                    }
                    thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                })
            })
            .collect::<Vec<_>>();
        // A thread that joins would help.
        until("all are done", || {
            tasks.iter().all(|task| task.is_finished())
        });
        assert_eq!(most.load(SeqCst), 1);
    });
}

#[test]
fn panics_pass_and_the_call_is_over() {
    within(LIMIT, || {
        let pool = pool(1);
        for _ in 0..3 {
            let outcome = pool.submit(|| panic_of(|| blocking(|| quiet_panic("in a call"))));
            assert_eq!(outcome.join().unwrap(), "in a call");
        }
        assert_eq!(pool.join(|| 1, || 2), (1, 2));
    });
}

#[test]
fn elsewhere_it_is_a_plain_call() {
    assert_eq!(blocking(|| 1), 1);
    let none = Pool::builder().workers(0).build().unwrap();
    assert_eq!(none.install(|| blocking(|| 2)), 2);
    thread::scope(|s| {
        let pool = Pool::builder().workers(1).build_on(|thread| {
            s.spawn(move || thread.run());
            Ok(())
        });
        let pool = pool.unwrap();
        assert_eq!(pool.install(|| blocking(|| blocking(|| 3))), 3);
        assert_eq!(pool.on_worker(|| blocking(|| blocking(|| 4))), 4);
    });
}

#[test]
fn calls_in_joins_scopes_and_futures() {
    fn tree(depth: u32) -> usize {
        if depth == 0 {
            return blocking(|| {
                thread::yield_now();
                1
            });
        }
        let (a, b) = filch::join(|| tree(depth - 1), || tree(depth - 1));
        a + b
    }
    within(LIMIT, || {
        for workers in [1, 2, 4] {
            let pool = pool(workers);
            assert_eq!(pool.install(|| tree(8)), 256);
            let count = AtomicUsize::new(0);
            pool.scope(|s| {
                for _ in 0..200 {
                    s.spawn(|_| _ = blocking(|| count.fetch_add(1, SeqCst)));
                }
            });
            assert_eq!(count.into_inner(), 200);
            let futures = (0..200).map(|n| pool.spawn_future(async move { blocking(|| n) }));
            let futures = futures.collect::<Vec<_>>();
            let sum = futures.into_iter().map(|future| future.join().unwrap());
            assert_eq!(sum.sum::<usize>(), 199 * 100);
        }
    });
}

#[test]
fn a_substitute_is_a_thread_of_the_pool() {
    within(LIMIT, || {
        let pool = pool(1);
        let same = pool.clone();
        // On the substitute, while the only worker blocks.
        let sum = block_once(&pool, move || {
            let mut sum = same.on_worker(|| 1);
            same.in_place_scope(|s| s.spawn(|_| sum += 1));
            sum
        });
        assert_eq!(sum, 2);
    });
}

#[test]
fn a_worker_that_blocks_in_another_pool_is_covered() {
    within(LIMIT, || {
        let (outer, inner) = (pool(1), pool(1));
        let (send, receive) = mpsc::channel();
        let (send_on, received) = mpsc::channel();
        outer.spawn(move || {
            inner.install(|| blocking(|| receive.recv().unwrap()));
            send_on.send(()).unwrap();
        });
        outer.spawn(move || send.send(()).unwrap());
        received.recv().unwrap();
    });
}

/// Waits in a scope when it is dropped.
struct WaitsWhenDropped(Pool);

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        wait_in_a_scope(&self.0);
    }
}

thread_local! {
    static LATE: RefCell<Option<WaitsWhenDropped>> = const { RefCell::new(None) };
}

/// A worker runs a task that ends last, so the caller has to sleep.
fn wait_in_a_scope(pool: &Pool) {
    let begun = Flag::default();
    pool.scope(|s| {
        s.spawn(|_| {
            begun.set();
            thread::sleep(Duration::from_millis(20));
        });
        begun.wait("the task of the scope");
    });
}

#[test]
fn a_thread_waits_in_the_destructor_of_a_thread_local() {
    within(LIMIT, || {
        let pool = pool(1);
        let thread = thread::spawn(move || {
            LATE.set(Some(WaitsWhenDropped(pool.clone())));
            wait_in_a_scope(&pool);
        });
        thread.join().unwrap();
    });
}

/// A task that joins in a blocking call sleeps once, and does not count as two sleeping threads:
/// then the queued task would run on top of the one that it joins.
#[test]
fn a_join_in_a_blocking_call_is_one_sleeping_thread() {
    within(LIMIT, || {
        let no_substitutes = |number| {
            if number >= 3 {
                quiet_panic("no more than three");
            }
        };
        let builder = Pool::builder().workers(3).on_start(no_substitutes);
        let pool = builder.build().unwrap();
        let (begun, end) = (Flag::default(), Flag::default());
        let (begins, ends) = (begun.clone(), end.clone());
        let long = pool.submit(move || {
            begins.set();
            ends.wait("the end of the long task");
        });
        begun.wait("the long task");
        let calling = Flag::default();
        let calls = calling.clone();
        let blocked = pool.submit(move || {
            calls.set();
            blocking(|| long.join())
        });
        calling.wait("the blocking call");
        thread::sleep(Duration::from_millis(5));
        let (waiting, woken) = (Flag::default(), mpsc::channel::<()>());
        let (waits, (wake, sleeps)) = (waiting.clone(), woken);
        let below = pool.submit(move || {
            waits.set();
            filch::block_on(filch::spawn_future(async move {
                while sleeps.try_recv().is_err() {
                    filch::time::sleep(Duration::from_millis(1)).await;
                }
            }))
        });
        waiting.wait("the task that blocks");
        let joins = pool.submit(move || below.join().map(drop));
        thread::sleep(Duration::from_millis(30));
        wake.send(()).unwrap();
        end.set();
        until("the tasks end", || {
            joins.is_finished() && blocked.is_finished()
        });
        joins.join().unwrap().unwrap();
    });
}

#[test]
fn a_thread_that_cannot_start_is_tried_once() {
    within(LIMIT, || {
        let starts = Arc::new(AtomicUsize::new(0));
        let counts = starts.clone();
        let hook = move |number| {
            counts.fetch_add(1, SeqCst);
            if number > 0 {
                quiet_panic("no more than one");
            }
        };
        let pool = Pool::builder().workers(1).on_start(hook).build().unwrap();
        for _ in 0..3 {
            assert_eq!(pool.on_worker(|| blocking(|| 1)), 1);
        }
        drop(pool);
        assert_eq!(starts.load(SeqCst), 2);
    });
}

#[test]
fn a_substitute_waits_for_a_free_slot() {
    within(LIMIT, || {
        let pool = pool(1);
        let (inside, leave) = (Barrier::new(33), Barrier::new(33));
        thread::scope(|s| {
            for _ in 0..32 {
                s.spawn(|| {
                    pool.install(|| {
                        inside.wait();
                        leave.wait();
                    });
                });
            }
            inside.wait();
            let (send, receive) = mpsc::channel();
            let (began, blocked) = (Flag::default(), Flag::default());
            let (begins, ends) = (began.clone(), blocked.clone());
            pool.spawn(move || {
                blocking(|| {
                    begins.set();
                    receive.recv().unwrap();
                });
                ends.set();
            });
            began.wait("the worker blocks, and no slot is free");
            leave.wait();
            pool.spawn(move || send.send(()).unwrap());
            blocked.wait("a substitute has found a slot");
        });
    });
}

#[test]
fn futures_that_a_substitute_has_woken_are_polled() {
    within(LIMIT, || {
        let (pool, signals) = (pool(1), Arc::new(Signals::default()));
        let (waits, polled, over) = (Flag::default(), Flag::default(), Flag::default());
        let (inside, waiting, done) = (signals.clone(), waits.clone(), Flag::default());
        let ends = done.clone();
        pool.spawn_future(async move {
            waiting.set();
            inside.receive().await;
            ends.set();
        })
        .detach();
        waits.wait("it waits");
        let (polls, is_over) = (polled.clone(), over.clone());
        let (began, finished) = (Flag::default(), done.clone());
        let begins = began.clone();
        pool.spawn(move || {
            blocking(|| {
                begins.set();
                polls.wait("the other future is polled");
            });
            is_over.set();
            while !finished.is_set() {
                filch::checkpoint();
            }
        });
        began.wait("the worker blocks");
        // On the substitute, which is surplus when it wakes the first future.
        pool.spawn_future(async move {
            polled.set();
            over.wait("the call is over");
            signals.send();
        })
        .detach();
        done.wait("the woken future is polled");
    });
}

#[test]
fn a_substitute_serves_work_from_outside() {
    within(LIMIT, || {
        let pool = pool(1);
        let (began, ran) = (Flag::default(), Flag::default());
        let (begins, runs, end) = (began.clone(), ran.clone(), Flag::default());
        let last = end.clone();
        pool.spawn(move || blocking(|| last.wait("the loop is over")));
        let items = Arc::new(AtomicUsize::new(0));
        let counts = items.clone();
        pool.spawn(move || {
            begins.set();
            filch::over(0..10_000).for_each(|_| {
                counts.fetch_add(1, SeqCst);
                if !runs.is_set() {
                    thread::sleep(Duration::from_micros(100));
                }
            });
            end.set();
        });
        began.wait("the substitute runs the loop");
        let before = items.clone();
        let (send, receive) = mpsc::channel();
        pool.spawn(move || {
            ran.set();
            send.send(before.load(SeqCst)).unwrap();
        });
        assert!(receive.recv().unwrap() < 10_000, "only after the loop");
    });
}
