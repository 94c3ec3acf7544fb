//! Pools that get more and fewer workers while they work.

use crate::support::{Flag, LIMIT, add, counter, counting, get, quiet_panic, until, within};
use filch::{Affinity, Graph, Pool, PoolBuilder, Rng, join};
use std::{
    collections::HashSet,
    error::Error as _,
    panic,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// A pool, and the number of its threads that have ended their work.
fn resizable(workers: usize, most: usize) -> (Pool, Arc<AtomicUsize>) {
    let (ended, count) = counting();
    let pool = Pool::builder()
        .workers(workers)
        .max_workers(most)
        .on_exit(move |_| count())
        .build()
        .unwrap();
    (pool, ended)
}

/// Waits until this number of threads has ended, in all.
#[track_caller]
fn until_ended(ended: &AtomicUsize, threads: usize) {
    until("the workers leave", || get(ended) == threads);
}

/// Occupies `worker` until the flag is set, and returns when it runs.
fn occupy(pool: &Pool, worker: usize) -> Flag {
    let (began, go_on) = (Flag::default(), Flag::default());
    loop {
        let (here, flags) = (Flag::default(), (began.clone(), go_on.clone()));
        let done = Flag::default();
        let (inside, end) = (here.clone(), done.clone());
        let task = pool.task(move || {
            if filch::current_worker() == Some(worker) {
                inside.set();
                flags.0.set();
                flags.1.wait("the task may go on");
            }
            end.set();
        });
        let task = task.affinity(Affinity::Worker(worker)).submit().unwrap();
        until("the task began", || here.is_set() || done.is_set());
        task.detach();
        if here.is_set() {
            return go_on;
        }
    }
}

#[test]
fn a_pool_grows_and_shrinks() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 5);
        assert_eq!((pool.workers(), pool.max_workers()), (2, 5));
        pool.resize(5).unwrap();
        assert_eq!(pool.workers(), 5);
        assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2, 3, 4]);
        pool.resize(5).unwrap();
        assert_eq!(pool.workers(), 5);
        pool.resize(1).unwrap();
        assert_eq!(pool.workers(), 1);
        assert_eq!(pool.broadcast(|worker| worker), [0]);
        until_ended(&ended, 4);
        pool.resize(3).unwrap();
        assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2]);
        assert_eq!(pool.join(|| 1, || 2), (1, 2));
        pool.shutdown();
        assert_eq!(get(&ended), 7);
    });
}

#[test]
fn threads_of_a_larger_pool_have_names_and_hooks() {
    within(LIMIT, || {
        let started = Arc::new(Mutex::new(vec![]));
        let numbers = started.clone();
        let pool = Pool::builder()
            .workers(1)
            .max_workers(3)
            .name(|worker| format!("late-{worker}"))
            .on_start(move |worker| numbers.lock().unwrap().push(worker))
            .build()
            .unwrap();
        pool.resize(3).unwrap();
        assert_eq!(*started.lock().unwrap(), [0, 1, 2]);
        let names = pool.broadcast(|_| thread::current().name().map(str::to_owned));
        let expected = ["late-0", "late-1", "late-2"].map(|name| Some(name.to_owned()));
        assert_eq!(names, expected);
    });
}

#[test]
fn a_number_that_is_not_allowed_changes_nothing() {
    let (pool, ended) = resizable(2, 3);
    for (asked, text) in [
        (0, "a pool cannot have 0 workers; ask for 1 to 3"),
        (
            4,
            "a pool cannot have 4 workers; ask for 1 to 3, or build it with a larger `max_workers`",
        ),
        (
            100_000,
            "a pool cannot have 100000 workers; ask for 1 to 3, \
             or build it with a larger `max_workers`",
        ),
    ] {
        let error = pool.resize(asked).unwrap_err();
        assert!(error.is_out_of_range() && !error.is_closed() && !error.is_unsupported());
        assert_eq!(error.to_string(), text);
        assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
    }
    assert_eq!(get(&ended), 0);
}

#[test]
fn a_maximum_that_is_impossible_is_an_error() {
    let error = |builder: PoolBuilder| {
        let error = builder.build().unwrap_err();
        assert!(error.is_config());
        error.to_string()
    };
    let builder = Pool::builder;
    let less = error(builder().workers(3).max_workers(2));
    assert!(
        less.contains("maximum of 2") && less.contains("3 to"),
        "{less}"
    );
    let none = error(builder().workers(3).max_workers(0));
    assert!(none.contains("maximum of 0"), "{none}");
    let many = error(builder().workers(3).max_workers(100_000));
    assert!(many.contains("100000") && many.contains("16"), "{many}");
    let without = error(builder().workers(0).max_workers(4));
    assert!(without.contains("without workers"), "{without}");
    let external = builder().workers(2).max_workers(2);
    let external = external.build_on(|_| unreachable!()).unwrap_err();
    assert!(
        external.to_string().contains("starts all its threads"),
        "{external}"
    );
    // The default number of workers is within the maximum.
    let one = builder().max_workers(1).build().unwrap();
    assert_eq!((one.workers(), one.max_workers()), (1, 1));
}

#[test]
fn only_pools_that_start_their_threads_are_resized() {
    within(LIMIT, || {
        let alone = Pool::builder().workers(0).build().unwrap();
        let external = Pool::builder().workers(2).build_on(|thread| {
            thread::spawn(|| thread.run());
            Ok(())
        });
        for pool in [alone, external.unwrap()] {
            let before = pool.workers();
            let error = pool.resize(1).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            assert_eq!(pool.workers(), before);
        }
        thread::spawn(|| {
            let here = Pool::builder().workers(2).with_current_thread();
            let pool = here.build().unwrap();
            assert!(pool.resize(1).unwrap_err().is_unsupported());
        })
        .join()
        .unwrap();
    });
}

#[test]
fn a_pool_that_was_shut_down_is_not_resized() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 4);
        pool.clone().shutdown();
        for workers in [1, 4] {
            let error = pool.resize(workers).unwrap_err();
            assert!(error.is_closed() && error.to_string().contains("shut down"));
        }
        assert_eq!(get(&ended), 2);
    });
}

#[test]
fn a_hook_cannot_resize_its_pool() {
    within(LIMIT, || {
        let place: Arc<Mutex<Option<Pool>>> = Arc::default();
        let (seen, errors) = (place.clone(), Arc::new(Mutex::new(vec![])));
        let noted = errors.clone();
        let pool = Pool::builder()
            .workers(1)
            .max_workers(2)
            .on_start(move |_| {
                let pool = seen.lock().unwrap().clone();
                if let Some(pool) = pool {
                    noted.lock().unwrap().push(pool.resize(1).unwrap_err());
                }
            });
        let pool = pool.build().unwrap();
        *place.lock().unwrap() = Some(pool.clone());
        pool.resize(2).unwrap();
        place.lock().unwrap().take();
        let errors = errors.lock().unwrap();
        assert!(errors.len() == 1 && errors[0].is_unsupported());
    });
}

#[test]
fn a_thread_that_does_not_start_leaves_the_pool_as_it_was() {
    within(LIMIT, || {
        let bad = Arc::new(AtomicBool::new(true));
        let (broken, (ended, count)) = (bad.clone(), counting());
        let pool = Pool::builder()
            .workers(2)
            .max_workers(5)
            .on_start(move |worker| {
                if worker == 4 && broken.load(SeqCst) {
                    quiet_panic("no licence");
                }
            })
            .on_exit(move |_| count())
            .build()
            .unwrap();
        for round in 1..=3 {
            let error = pool.resize(5).unwrap_err();
            assert!(error.is_start() && error.source().is_some());
            let text = error.to_string();
            assert!(
                text.contains("no licence") && text.contains("2 workers"),
                "{text}"
            );
            assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
            // Two that had started, and the one that had not.
            until_ended(&ended, 3 * round);
        }
        bad.store(false, SeqCst);
        pool.resize(5).unwrap();
        assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn tasks_of_a_leaving_worker_move_to_others() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 2);
        let (count, done) = counting();
        let (queued, go_on) = (Flag::default(), Flag::default());
        // Neither the worker that stays nor this thread helps before the other is about to leave.
        let held = occupy(&pool, 0);
        let inside = (queued.clone(), go_on.clone());
        pool.spawn(move || {
            for _ in 0..1000 {
                let done = done.clone();
                filch::spawn(move || {
                    assert_eq!(filch::current_worker(), Some(0));
                    done();
                });
            }
            inside.0.set();
            inside.1.wait("the pool is smaller");
        });
        queued.wait("the tasks are queued");
        pool.resize(1).unwrap();
        go_on.set();
        until_ended(&ended, 1);
        assert_eq!(get(&count), 0);
        held.set();
        until("all tasks ran", || get(&count) == 1000);
    });
}

/// A worker that leaves returns the rest of a batch in the order of its producer.
#[test]
fn tasks_of_a_leaving_worker_keep_the_order_of_their_producer() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 2);
        let busy = [0, 1].map(|worker| occupy(&pool, worker));
        let order = Arc::new(Mutex::new(Vec::new()));
        for task in 0..16 {
            let (inside, order) = (pool.clone(), order.clone());
            pool.spawn(move || {
                order.lock().unwrap().push(task);
                if task == 4 {
                    inside.resize(1).unwrap();
                }
            });
        }
        busy[1].set();
        until_ended(&ended, 1);
        busy[0].set();
        until("all tasks have run", || order.lock().unwrap().len() == 16);
        let mut order = order.lock().unwrap().clone();
        // Worker 1 has taken about half of them, and has returned its rest to another part of the
        // injector than that with the others.
        order.retain(|&task| task < 8);
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn a_task_may_resize_its_own_worker_away_and_back() {
    within(LIMIT, || {
        let (pool, ended) = resizable(3, 3);
        for _ in 0..20 {
            let here = pool.clone();
            let task = pool.task(move || {
                let worker = filch::current_worker();
                here.resize(1).unwrap();
                assert_eq!(here.broadcast(|worker| worker), [0]);
                assert_eq!(filch::current_worker(), worker);
                // It still works as a worker: it waits, and its parts run.
                assert_eq!(join(|| 1, || 2), (1, 2));
                here.resize(3).unwrap();
                here.broadcast(|worker| worker)
            });
            let task = task.affinity(Affinity::Worker(2)).submit().unwrap();
            assert_eq!(task.join().unwrap(), [0, 1, 2]);
        }
        pool.resize(1).unwrap();
        until("the workers leave", || get(&ended) >= 2);
    });
}

#[test]
fn a_worker_that_is_busy_stays_if_the_pool_grows_again() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 2);
        let go_on = occupy(&pool, 1);
        pool.resize(1).unwrap();
        pool.resize(2).unwrap();
        go_on.set();
        assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
        assert_eq!(get(&ended), 0, "no thread was replaced");
    });
}

#[test]
fn affinity_to_a_worker_that_left_is_for_another() {
    within(LIMIT, || {
        let (pool, ended) = resizable(4, 6);
        // Queued before, while the worker is busy.
        let go_on = occupy(&pool, 3);
        let held = [0, 1, 2].map(|worker| occupy(&pool, worker));
        let where_it_runs = || filch::current_worker().unwrap();
        let to = |worker| pool.task(where_it_runs).affinity(Affinity::Worker(worker));
        let before = [(); 8].map(|()| to(3).submit().unwrap());
        pool.resize(2).unwrap();
        go_on.set();
        held[2].set();
        until_ended(&ended, 2);
        let after = to(3).submit().unwrap();
        held.iter().for_each(Flag::set);
        for task in before {
            assert!(task.join().unwrap() < 2);
        }
        assert!(after.join().unwrap() < 2);
        // The numbers that the pool has never had are refused.
        let refused = to(4).submit().unwrap_err();
        assert!(refused.is_misplaced());
        assert_eq!(
            refused.to_string(),
            "there is no worker 4; the workers are 0 to 1"
        );
        pool.resize(6).unwrap();
        assert!(to(5).submit().unwrap().join().unwrap() < 6);
    });
}

#[test]
fn counters_keep_what_workers_have_counted_that_left() {
    within(LIMIT, || {
        let (pool, ended) = resizable(3, 3);
        pool.broadcast(|_| ());
        let before = pool.metrics();
        assert!((0..3).all(|worker| before.workers[worker].executed > 0));
        pool.resize(1).unwrap();
        until_ended(&ended, 2);
        let after = pool.metrics();
        assert_eq!(
            (after.workers.len(), after.guests),
            (before.workers.len(), before.guests)
        );
        assert!(
            (0..3).all(|worker| after.workers[worker].executed >= before.workers[worker].executed)
        );
        pool.resize(3).unwrap();
        pool.broadcast(|_| ());
        let again = pool.metrics();
        assert!(again.workers[2].executed > before.workers[2].executed);
    });
}

#[test]
fn sleeping_workers_leave_when_they_are_asked() {
    within(LIMIT, || {
        let (pool, ended) = resizable(4, 4);
        for round in 1..=50 {
            if round % 2 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
            pool.resize(1).unwrap();
            until_ended(&ended, 3 * round);
            pool.resize(4).unwrap();
        }
    });
}

/// Jobs that a worker has stolen may be waited for by a wait that takes nothing from shared queues.
#[test]
fn a_leaving_worker_runs_what_an_isolated_wait_needs() {
    within(LIMIT, || {
        for round in 0..20 {
            let (pool, ended) = resizable(2, 2);
            let (count, began, go_on) = (counter(), Flag::default(), Flag::default());
            thread::scope(|s| {
                s.spawn(|| {
                    began.wait("a task was stolen");
                    pool.resize(1).unwrap();
                    go_on.set();
                });
                pool.on_worker(|| {
                    let thief = 1 - filch::current_worker().unwrap();
                    filch::isolate(|| {
                        filch::scope(|s| {
                            for _ in 0..400 {
                                s.spawn(|_| {
                                    if filch::current_worker() == Some(thief) && round % 2 == 0 {
                                        began.set();
                                        go_on.wait("the pool is smaller");
                                    }
                                    add(&count);
                                });
                            }
                            // The other worker takes a batch meanwhile.
                            if round % 2 == 0 && thief == 1 {
                                began.wait("a task was stolen");
                            }
                            began.set();
                        });
                    });
                });
            });
            assert_eq!(get(&count), 400);
            until_ended(&ended, 1);
        }
    });
}

/// A job of a broadcast that arrives after its worker has left reaches an isolated wait.
#[test]
fn a_broadcast_in_an_isolated_wait_ends_if_a_worker_leaves() {
    within(LIMIT, || {
        let (pool, _ended) = resizable(2, 2);
        for round in 0..300 {
            pool.resize(2).unwrap();
            let began = Flag::default();
            thread::scope(|s| {
                s.spawn(|| {
                    began.wait("the task runs");
                    (0..round % 50 * 20).for_each(|_| std::hint::spin_loop());
                    pool.resize(1).unwrap();
                });
                pool.on_worker(|| {
                    began.set();
                    for _ in 0..20 {
                        let results = filch::isolate(|| filch::broadcast(|worker| worker));
                        assert!(results.len() <= 2);
                    }
                });
            });
        }
    });
}

#[test]
fn futures_and_tasks_that_go_on_for_ever_keep_no_worker() {
    within(LIMIT, || {
        let (pool, ended) = resizable(3, 3);
        let stop = Flag::default();
        let futures: Vec<_> = (0..6)
            .map(|_| {
                let stop = stop.clone();
                pool.spawn_future(async move {
                    while !stop.is_set() {
                        filch::future::yield_now().await;
                    }
                })
            })
            .collect();
        fn again(stop: Flag) {
            if !stop.is_set() {
                filch::spawn(move || again(stop));
            }
        }
        for _ in 0..6 {
            let stop = stop.clone();
            pool.spawn(move || again(stop));
        }
        thread::sleep(Duration::from_millis(5));
        pool.resize(1).unwrap();
        until_ended(&ended, 2);
        pool.resize(3).unwrap();
        pool.resize(2).unwrap();
        until_ended(&ended, 3);
        stop.set();
        for future in futures {
            future.join().unwrap();
        }
    });
}

#[test]
fn a_worker_in_a_blocking_call_leaves_after_it() {
    within(LIMIT, || {
        let (pool, ended) = resizable(2, 2);
        let (began, go_on) = (Flag::default(), Flag::default());
        let inside = (began.clone(), go_on.clone());
        let task = pool.task(move || {
            filch::blocking(|| {
                inside.0.set();
                inside.1.wait("the call may end");
            });
            filch::current_worker()
        });
        let task = task.affinity(Affinity::Worker(1)).submit().unwrap();
        began.wait("the call began");
        pool.resize(1).unwrap();
        assert_eq!(pool.submit(|| 6 * 7).join().unwrap(), 42);
        go_on.set();
        task.join().unwrap();
        until("a worker leaves", || get(&ended) >= 1);
        assert_eq!(pool.broadcast(|worker| worker), [0]);
    });
}

#[test]
fn dedicated_workers_stay() {
    within(LIMIT, || {
        let numbers = Arc::new(Mutex::new(HashSet::new()));
        let seen = numbers.clone();
        let pool = Pool::builder()
            .workers(2)
            .max_workers(3)
            .future_workers(1)
            .on_start(move |number| _ = seen.lock().unwrap().insert(number))
            .build()
            .unwrap();
        for workers in [1, 3, 2] {
            pool.resize(workers).unwrap();
            assert_eq!(pool.spawn_future(async { 6 * 7 }).join().unwrap(), 42);
            assert_eq!(pool.broadcast(|worker| worker).len(), workers);
        }
        // The dedicated worker has the number after those that workers may have.
        assert_eq!(*numbers.lock().unwrap(), HashSet::from([0, 1, 2, 3]));
    });
}

#[test]
fn a_pool_may_end_while_it_is_resized() {
    within(LIMIT, || {
        for round in 0..60 {
            let (pool, ended) = resizable(1 + round % 3, 4);
            let (count, done) = counting();
            thread::scope(|s| {
                for seed in 0..2 {
                    let pool = pool.clone();
                    s.spawn(move || {
                        let mut rng = Rng::new(seed);
                        for _ in 0..4 + round % 5 {
                            match pool.resize(1 + rng.below(4)) {
                                Ok(()) => {}
                                Err(error) => assert!(error.is_closed(), "{error}"),
                            }
                        }
                    });
                }
                for _ in 0..100 {
                    let done = done.clone();
                    pool.spawn(done);
                }
                pool.clone().shutdown();
            });
            drop(pool);
            assert_eq!(get(&count), 100);
            until("every thread has ended", || get(&ended) >= 1);
        }
    });
}

/// A shutdown waits for the threads that a resize is starting.
#[test]
fn a_shutdown_waits_for_a_resize() {
    within(LIMIT, || {
        let (started, go_on) = (Flag::default(), Flag::default());
        let (hook_runs, may_start) = (started.clone(), go_on.clone());
        let (ended, count) = counting();
        let pool = Pool::builder()
            .workers(1)
            .max_workers(2)
            .on_start(move |worker| {
                if worker == 1 {
                    hook_runs.set();
                    may_start.wait("the thread may start");
                }
            })
            .on_exit(move |_| count())
            .build()
            .unwrap();
        thread::scope(|s| {
            let resize = s.spawn(|| pool.resize(2));
            started.wait("the hook runs");
            let shutdown = s.spawn(|| {
                pool.clone().shutdown();
                get(&ended)
            });
            // A shutdown that does not wait returns in this time.
            for _ in 0..500 {
                if shutdown.is_finished() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            go_on.set();
            assert_eq!(shutdown.join().unwrap(), 2, "a thread was left behind");
            resize.join().unwrap().unwrap();
        });
        assert!(pool.resize(1).unwrap_err().is_closed());
    });
}

/// What a thread of [`everything_completes_while_the_pool_is_resized`] does in one of its rounds.
fn one_call(pool: &Pool, what: usize, worker: usize) -> usize {
    fn fib(n: usize) -> usize {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    match what {
        0 => pool.install(|| fib(16)),
        1 => pool.on_worker(|| fib(12)),
        2 => {
            let tasks: Vec<_> = (0..20)
                .map(|n| {
                    let task = pool.task(move || fib(n % 8));
                    task.affinity(Affinity::Worker(worker)).submit().unwrap()
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum()
        }
        3 => {
            let futures: Vec<_> = (0..20)
                .map(|n| {
                    pool.spawn_future(async move {
                        for _ in 0..n {
                            filch::future::yield_now().await;
                        }
                        n
                    })
                })
                .collect();
            futures
                .into_iter()
                .map(|future| future.join().unwrap())
                .sum()
        }
        4 => {
            let sum = counter();
            let graph = Graph::new();
            let layers: Vec<Vec<_>> = (0..6)
                .map(|_| (0..6).map(|_| graph.task("", || add(&sum))).collect())
                .collect();
            for pair in layers.windows(2) {
                for (&from, &to) in pair[0].iter().zip(&pair[1]) {
                    from.precede(to);
                }
            }
            let mut plan = graph.plan().unwrap();
            plan.run_with(&filch::graph::RunOptions::new().on(pool))
                .unwrap();
            drop(plan);
            get(&sum)
        }
        5 => {
            let workers = pool.broadcast(|worker| worker);
            assert!(!workers.is_empty() && workers.is_sorted());
            workers[0] + 1
        }
        6 => {
            let sum = counter();
            pool.scope(|s| {
                for _ in 0..50 {
                    s.spawn(|s| {
                        add(&sum);
                        s.spawn(|_| add(&sum));
                    });
                }
                s.spawn_broadcast(|_, _| ());
            });
            get(&sum)
        }
        7 => {
            let sum = counter();
            filch::over(0..2_000).on(pool).for_each(|_| add(&sum));
            get(&sum)
        }
        _ => pool.submit(|| filch::blocking(|| 6 * 7)).join().unwrap(),
    }
}

/// The results of [`one_call`].
const RESULTS: [usize; 9] = [987, 144, 70, 190, 36, 1, 100, 2_000, 42];

#[test]
fn everything_completes_while_the_pool_is_resized() {
    let (rounds, resizes) = match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => (20_000, 20_000),
        _ => (150, 150),
    };
    within(20 * LIMIT, move || {
        let (pool, ended) = resizable(3, 4);
        pool.resize(4).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|s| {
            let callers: Vec<_> = (0..3)
                .map(|seed| {
                    let pool = &pool;
                    s.spawn(move || {
                        let mut rng = Rng::new(seed);
                        for _ in 0..rounds {
                            let what = rng.below(9);
                            let result = one_call(pool, what, rng.below(4));
                            assert_eq!(result, RESULTS[what], "call {what}");
                        }
                    })
                })
                .collect();
            // From outside, and from inside of tasks.
            let resizer = s.spawn(|| {
                let mut rng = Rng::new(7);
                for number in 0.. {
                    if number >= resizes && stop.load(SeqCst) {
                        break;
                    }
                    let (workers, inside) = (1 + rng.below(4), pool.clone());
                    match rng.below(3) {
                        0 => pool.resize(workers).unwrap(),
                        1 => pool
                            .submit(move || inside.resize(workers).unwrap())
                            .join()
                            .unwrap(),
                        _ => {
                            pool.spawn(move || inside.resize(workers).unwrap());
                        }
                    }
                    if rng.below(4) == 0 {
                        thread::sleep(Duration::from_micros(rng.below(500) as u64));
                    }
                }
            });
            let results: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
            stop.store(true, SeqCst);
            resizer.join().unwrap();
            results.into_iter().for_each(|result| {
                if let Err(payload) = result {
                    panic::resume_unwind(payload);
                }
            });
        });
        let executed = pool.metrics().total();
        let sources = executed.local + executed.injected + executed.stolen;
        assert!(executed.executed >= sources);
        pool.shutdown();
        assert!(get(&ended) >= 4);
    });
}
