//! What a pool promises: its threads, its handles, its end, and tasks without a handle.

use crate::support::{
    Drops, Flag, LIMIT, Panics, counting, get, in_a_child, panic_of, pool, quiet_panic, until,
    within,
};
use filch::{Pool, current_worker};
use std::{
    cell::Cell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

#[test]
fn dropping_the_last_handle_runs_what_is_queued() {
    within(LIMIT, || {
        for workers in [0, 1, 3] {
            let (ran, count) = counting();
            let pool = pool(workers);
            for n in 0..300 {
                let count = count.clone();
                // Some of them spawn more, also in the middle of the end.
                pool.spawn(move || {
                    count();
                    if n % 3 == 0 {
                        filch::spawn(count);
                    }
                });
            }
            drop(pool.clone());
            drop(pool);
            assert_eq!(get(&ran), 400, "{workers} workers");
        }
    });
}

#[test]
fn the_threads_are_gone_when_the_last_handle_is() {
    within(LIMIT, || {
        let (gone, count) = counting();
        let pool = Pool::builder().workers(3).on_exit(move |_| count());
        let pool = pool.build().unwrap();
        let clone = pool.clone();
        drop(pool);
        assert_eq!(get(&gone), 0, "there is a handle left");
        assert_eq!(clone.join(|| 1, || 2), (1, 2));
        drop(clone);
        assert_eq!(get(&gone), 3);
    });
}

#[test]
fn shutdown_waits_for_everything() {
    within(LIMIT, || {
        let (ran, count) = counting();
        let pool = pool(2);
        for _ in 0..20 {
            let count = count.clone();
            pool.spawn(move || {
                thread::sleep(Duration::from_millis(1));
                count();
            });
        }
        pool.shutdown();
        assert_eq!(get(&ran), 20);
    });
}

#[test]
fn shutdown_with_a_limit_says_whether_all_was_done() {
    within(LIMIT, || {
        let pool = pool(1);
        let (go_on, ended) = (Flag::default(), Flag::default());
        let (wait, end) = (go_on.clone(), ended.clone());
        let started = Flag::default();
        let start = started.clone();
        pool.spawn(move || {
            start.set();
            wait.wait("the test lets it go on");
            end.set();
        });
        started.wait("the task starts");
        let begin = Instant::now();
        assert!(!pool.shutdown_timeout(Duration::from_millis(20)));
        assert!(begin.elapsed() >= Duration::from_millis(20) && !ended.is_set());
        go_on.set();
        ended.wait("what was running goes on");

        let (ran, count) = counting();
        let quick = crate::support::pool(2);
        (0..50).for_each(|_| quick.spawn(count.clone()));
        assert!(quick.shutdown_timeout(LIMIT));
        assert_eq!(get(&ran), 50);
    });
}

#[test]
fn shutdown_with_a_limit_runs_what_a_pool_without_threads_has_queued() {
    within(LIMIT, || {
        let (ran, count) = counting();
        let alone = pool(0);
        (0..10).for_each(|_| alone.spawn(count.clone()));
        assert!(alone.shutdown_timeout(Duration::from_secs(1)));
        assert_eq!(get(&ran), 10);
    });
}

#[test]
fn handles_work_after_the_shutdown() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let (pool, (ran, count)) = (pool(workers), counting());
            let handle = pool.clone();
            pool.shutdown();
            assert_eq!(handle.join(|| 1, || 2), (1, 2));
            assert_eq!(handle.install(|| filch::join(|| 3, || 4)), (3, 4));
            handle.scope(|s| {
                for _ in 0..10 {
                    s.spawn(|_| count());
                    s.spawn_fifo(|_| count());
                }
                thread::scope(|threads| _ = threads.spawn(|| s.spawn(|_| count())));
            });
            assert_eq!(get(&ran), 21);
            handle.spawn(count.clone());
            assert_eq!(get(&ran), 22, "the caller does the work");
            let handle = handle.clone();
            assert_eq!(
                panic_of(|| handle.install(|| quiet_panic("inside"))),
                "inside"
            );
        }
    });
}

#[test]
fn what_is_spawned_inside_a_call_after_the_shutdown_runs() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let (pool, (ran, count)) = (pool(workers), counting());
            let handle = pool.clone();
            pool.shutdown();
            let inner = count.clone();
            handle.install(|| filch::spawn(inner));
            // One spawned task that spawns another.
            handle.spawn(move || filch::spawn(count));
            drop(handle);
            assert_eq!(get(&ran), 2, "{workers} workers");
        }
    });
}

#[test]
fn a_scope_after_the_shutdown_gets_tasks_of_another_guest() {
    within(LIMIT, || {
        let (pool, (ran, count)) = (pool(1), counting());
        let handle = pool.clone();
        pool.shutdown();
        handle.scope(|s| {
            thread::scope(|threads| {
                threads.spawn(|| handle.install(|| s.spawn(|_| count())));
            });
        });
        assert_eq!(get(&ran), 1);
    });
}

#[test]
fn a_broadcast_after_the_shutdown_returns() {
    within(LIMIT, || {
        let pool = pool(2);
        let handle = pool.clone();
        pool.shutdown();
        // By the caller: the workers have exited.
        assert!(handle.broadcast(|_| 1).len() <= 2);
    });
}

#[test]
fn a_task_may_drop_the_last_handle() {
    within(LIMIT, || {
        let (gone, count) = counting();
        let pool = Pool::builder().workers(2).on_exit(move |_| count());
        let pool = pool.build().unwrap();
        let (send, receive) = mpsc::channel::<Pool>();
        let (done, (ran, count)) = (Flag::default(), counting());
        let told = done.clone();
        pool.spawn(move || {
            let last = receive.recv().unwrap();
            (0..50).for_each(|_| last.spawn(count.clone()));
            drop(last); // does not wait for this very task
            (0..50).for_each(|_| filch::spawn(count.clone()));
            told.set();
        });
        send.send(pool).unwrap();
        done.wait("the task does not wait for itself");
        until("everything runs", || get(&ran) == 100);
        until("the threads end", || get(&gone) == 2);
    });
}

#[test]
fn a_task_may_shut_its_pool_down() {
    within(LIMIT, || {
        let (pool, (ran, count)) = (pool(2), counting());
        let handle = pool.clone();
        pool.spawn(move || {
            handle.shutdown();
            count();
        });
        until("the task goes on", || get(&ran) == 1);
        drop(pool);
    });
}

#[test]
fn a_guest_may_shut_its_pool_down() {
    // A thread from outside is a worker for the time of its call, and must not wait for itself
    // either.
    within(LIMIT, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            let handle = pool.clone();
            let (a, b) = pool.install(|| {
                handle.shutdown();
                filch::join(|| 1, || 2)
            });
            assert_eq!(a + b, 3, "{workers} workers");
        }
    });
}

#[test]
fn a_shutdown_waits_for_guests() {
    within(LIMIT, || {
        let (pool, inside) = (pool(1), Flag::default());
        let (handle, entered, left) = (pool.clone(), inside.clone(), Flag::default());
        let leave = left.clone();
        let guest = thread::spawn(move || {
            handle.scope(|s| {
                entered.set();
                thread::sleep(Duration::from_millis(20));
                s.spawn(|_| leave.set());
            });
        });
        inside.wait("the guest is in");
        pool.shutdown();
        guest.join().unwrap();
        assert!(left.is_set());
    });
}

#[test]
fn pools_come_and_go_quickly() {
    within(LIMIT, || {
        for round in 0..200 {
            let (pool, (ran, count)) = (pool(round % 4), counting());
            (0..round % 5).for_each(|_| pool.spawn(count.clone()));
            if round % 2 == 0 {
                pool.join(&count, &count);
            }
            drop(pool);
            assert_eq!(get(&ran), round % 5 + if round % 2 == 0 { 2 } else { 0 });
        }
    });
}

#[test]
fn spawned_tasks_run_and_their_panics_are_reported() {
    within(LIMIT, || {
        for workers in [0, 1, 3] {
            let (told, drops) = (Panics::default(), Drops::default());
            let (pool, (ran, count)) = (told.pool(workers), counting());
            for n in 0..100 {
                let (count, value) = (count.clone(), drops.value());
                pool.spawn(move || {
                    let _value = value;
                    count();
                    if n % 10 == 0 {
                        quiet_panic("every tenth");
                    }
                });
            }
            drop(pool);
            assert_eq!((get(&ran), drops.seen()), (100, 100));
            assert_eq!(told.take(), ["every tenth"; 10]);
        }
    });
}

#[test]
fn panics_do_no_harm_without_a_handler_or_if_the_handler_panics() {
    within(LIMIT, || {
        let listener = Pool::builder().on_panic(|_| quiet_panic("the listener"));
        for pool in [pool(1), listener.workers(1).build().unwrap()] {
            (0..10).for_each(|_| pool.spawn(|| quiet_panic("a task")));
            assert_eq!(pool.join(|| 1, || 2), (1, 2));
        }
    });
}

#[test]
fn a_payload_that_panics_does_no_harm_either() {
    // Alone, and together with a listener that panics.
    in_a_child("basics::a_payload_that_panics_does_no_harm_either", || {
        let drops = Drops::default();
        let listener = Pool::builder().on_panic(|_| quiet_panic("the listener"));
        for pool in [pool(1), listener.workers(1).build().unwrap()] {
            for _ in 0..10 {
                let payload = drops.bomb("the payload");
                pool.spawn(move || std::panic::resume_unwind(Box::new(payload)));
            }
        }
        assert_eq!(drops.seen(), 20);
    });
}

#[test]
fn a_guest_leaves_its_spawned_tasks_to_the_others() {
    within(LIMIT, || {
        let (pool, (ran, count)) = (pool(1), counting());
        pool.install(|| (0..100).for_each(|_| filch::spawn(count.clone())));
        until("the worker runs them", || get(&ran) == 100);
    });
}

#[test]
fn a_panic_in_a_call_from_outside_gives_the_place_back() {
    within(LIMIT, || {
        let pool = pool(1);
        for _ in 0..100 {
            assert_eq!(
                panic_of(|| pool.install(|| quiet_panic("inside"))),
                "inside"
            );
        }
        // All places are free: a second half can be stolen from here.
        let stolen = Flag::default();
        pool.join(
            || stolen.wait("the worker sees this place"),
            || stolen.set(),
        );
        assert!(pool.shutdown_timeout(LIMIT), "nothing counts as running");
    });
}

#[test]
fn broadcast_calls_every_worker_once() {
    within(LIMIT, || {
        for workers in [1, 2, 5] {
            let pool = pool(workers);
            let calls = AtomicUsize::new(0);
            let told = pool.broadcast(|worker| {
                calls.fetch_add(1, Ordering::SeqCst);
                (worker, current_worker(), thread::current().id())
            });
            assert_eq!(get(&calls), workers);
            for (n, &(worker, current, thread)) in told.iter().enumerate() {
                assert_eq!(
                    (worker, current),
                    (n, Some(n)),
                    "on the worker's own thread"
                );
                assert_eq!(told.iter().filter(|t| t.2 == thread).count(), 1);
            }
            // From a worker: all at once, and one inside the other.
            let (send, receive) = mpsc::channel();
            for _ in 0..4 {
                let send = send.clone();
                pool.spawn(move || send.send(filch::broadcast(|worker| worker)).unwrap());
            }
            for _ in 0..4 {
                assert!(receive.recv().unwrap().into_iter().eq(0..workers));
            }
        }
        let nested = pool(2).broadcast(|_| filch::broadcast(|worker| worker));
        assert_eq!(nested, [[0, 1], [0, 1]]);
        let here = thread::current().id();
        let alone = pool(0).broadcast(|worker| (worker, thread::current().id()));
        assert_eq!(alone, [(0, here)], "only the caller is there");
    });
}

#[test]
fn broadcasts_panic_after_all_calls() {
    within(LIMIT, || {
        let told = Panics::default();
        let pool = told.pool(4);
        let calls = AtomicUsize::new(0);
        let text = panic_of(|| {
            pool.broadcast(|worker| {
                calls.fetch_add(1, Ordering::SeqCst);
                if worker % 2 == 1 {
                    quiet_panic("odd");
                }
            })
        });
        assert_eq!((text, get(&calls)), ("odd", 4));
        assert_eq!(told.take(), ["odd"], "the other one");
        assert_eq!(
            panic_of(|| crate::support::pool(0).broadcast(|_| quiet_panic("alone"))),
            "alone"
        );
    });
}

#[test]
fn a_broadcast_waits_for_busy_workers() {
    within(LIMIT, || {
        let pool = pool(2);
        let ended = Flag::default();
        let (end, started) = (ended.clone(), Flag::default());
        let start = started.clone();
        pool.spawn(move || {
            start.set();
            thread::sleep(Duration::from_millis(20));
            end.set();
        });
        started.wait("the task starts");
        pool.broadcast(|_| ());
        assert!(ended.is_set(), "each worker runs it between two tasks");
    });
}

#[test]
fn a_broadcast_crosses_pools() {
    // A task of a pool calls another pool, inside which the first is called again.
    within(LIMIT, || {
        let (first, second) = (pool(1), pool(1));
        let (send, receive) = mpsc::channel();
        let back = first.clone();
        first.spawn(move || {
            let told = second.install(|| back.broadcast(|worker| worker));
            send.send(told).unwrap();
        });
        let told = receive.recv_timeout(LIMIT / 2);
        assert_eq!(told, Ok(vec![0]), "its own worker waits on its own stack");
    });
}

#[test]
fn yielding_runs_an_older_task() {
    assert!(!filch::yield_now(), "on a thread that is no worker");
    in_a_child("basics::yielding_runs_an_older_task", || {
        for workers in [0, 1] {
            let (pool, (ran, count)) = (pool(workers), counting());
            pool.install(|| {
                (0..3).for_each(|_| filch::spawn(count.clone()));
                while get(&ran) < 3 {
                    filch::yield_now();
                }
                (0..1_000).for_each(|_| assert!(!filch::yield_now(), "there is nothing"));
                assert_eq!(filch::join(|| 1, || 2), (1, 2));
            });
        }
        // The oldest first, on a worker alone.
        let order = Arc::new(Mutex::new(vec![]));
        let alone = pool(0);
        alone.install(|| {
            for n in 0..4 {
                let order = order.clone();
                filch::spawn(move || order.lock().unwrap().push(n));
            }
            while filch::yield_now() {}
        });
        assert_eq!(order.lock().unwrap()[0], 0);
        assert_eq!(order.lock().unwrap().len(), 4);
    });
}

#[test]
fn a_worker_that_yielded_in_vain_still_wakes_others() {
    in_a_child(
        "basics::a_worker_that_yielded_in_vain_still_wakes_others",
        || {
            let (pool, taken) = (pool(2), Flag::default());
            let (done, told) = (Flag::default(), taken.clone());
            let end = done.clone();
            pool.spawn(move || {
                while filch::yield_now() {}
                // Time for the other one to fall asleep.
                thread::sleep(Duration::from_millis(20));
                filch::spawn(move || told.set());
                taken.wait("the other worker takes it");
                end.set();
            });
            done.wait("the task ends");
        },
    );
}

#[test]
fn two_tasks_that_yield_take_turns() {
    // One worker: each task waits for the other by yielding.
    in_a_child("basics::two_tasks_that_yield_take_turns", || {
        let pool = pool(1);
        let (first, second) = (Flag::default(), Flag::default());
        let done = Arc::new(AtomicUsize::new(0));
        for (own, other) in [(first.clone(), second.clone()), (second, first)] {
            let done = done.clone();
            pool.spawn(move || {
                own.set();
                until("the other one has begun", || {
                    filch::yield_now();
                    other.is_set()
                });
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        until("both end", || get(&done) == 2);
    });
}

#[test]
fn the_current_pool_is_the_innermost() {
    within(LIMIT, || {
        assert!(Pool::current().is_none());
        let (two, three) = (pool(2), pool(3));
        let workers = || Pool::current().map(|pool| pool.workers());
        two.install(|| {
            assert_eq!(workers(), Some(2));
            three.install(|| assert_eq!(workers(), Some(3)));
            assert_eq!(workers(), Some(2));
            _ = panic_of(|| three.install(|| quiet_panic("inside")));
            assert_eq!(workers(), Some(2), "also after a panic");
        });
        assert!(Pool::current().is_none());
        assert_eq!(three.broadcast(|_| workers()), [Some(3); 3]);
        assert_eq!(two.join(workers, workers), (Some(2), Some(2)));
        // A handle from inside is one like all others.
        let inside = two.install(Pool::current).unwrap();
        drop(two);
        assert_eq!(inside.broadcast(|worker| worker), [0, 1]);
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let error = Pool::builder().workers(1 << 20).build().unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("too many"),
        "{error}"
    );
    let text = panic_of(|| {
        Pool::builder()
            .workers(usize::MAX)
            .build()
            .map_err(|error| quiet_panic(if error.is_config() { "config" } else { "other" }))
    });
    assert_eq!(text, "config", "as many workers as can be asked for");
}

#[test]
fn a_start_hook_that_panics_fails_the_build() {
    within(LIMIT, || {
        let (gone, count) = counting();
        let result = Pool::builder()
            .workers(3)
            .on_start(|worker| {
                if worker == 1 {
                    quiet_panic("no start today");
                }
            })
            .on_exit(move |_| count())
            .build();
        let error = result.unwrap_err();
        assert!(error.is_init(), "{error}");
        assert!(error.to_string().contains("no start today"), "{error}");
        assert!(error.to_string().contains('1'), "which worker: {error}");
        assert!(get(&gone) >= 2, "the other threads have ended");
    });
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn threads_have_names_and_hooks() {
    within(LIMIT, || {
        let default = pool(1);
        let name = || thread::current().name().map(str::to_owned);
        assert_eq!(default.broadcast(|_| name()), [Some("filch-0".to_owned())]);
        let ended = Arc::new(Mutex::new(vec![]));
        let ends = ended.clone();
        let pool = Pool::builder()
            .workers(3)
            .name(|worker| format!("pool-{worker}"))
            .on_start(|worker| OWN.set(100 + worker))
            .on_exit(move |worker| ends.lock().unwrap().push((worker, OWN.get())))
            .build()
            .unwrap();
        let expected = [0, 1, 2].map(|n| (Some(format!("pool-{n}")), 100 + n));
        assert_eq!(pool.broadcast(|_| (name(), OWN.get())), expected);
        drop(pool);
        let mut ended = ended.lock().unwrap().clone();
        ended.sort_unstable();
        assert_eq!(ended, [(0, 100), (1, 101), (2, 102)], "on the same threads");
        assert_eq!(OWN.get(), 0, "and on no other");
    });
}

#[test]
fn threads_have_the_stack_that_was_asked_for() {
    fn deep(kibibytes: usize) -> usize {
        let frame = std::hint::black_box([1_u8; 1024]);
        match kibibytes {
            0 => 0,
            _ => usize::from(frame[kibibytes % 1024]) + deep(kibibytes - 1),
        }
    }
    in_a_child("basics::threads_have_the_stack_that_was_asked_for", || {
        let pool = Pool::builder().workers(1).stack_size(24 << 20).build();
        assert_eq!(pool.unwrap().broadcast(|_| deep(8 << 10)), [8 << 10]);
    });
}

#[test]
fn small_queues_grow() {
    within(LIMIT, || {
        for capacity in [0, 1, 2, 3] {
            let pool = Pool::builder().workers(2).queue_capacity(capacity);
            let (pool, (ran, count)) = (pool.build().unwrap(), counting());
            pool.scope(|s| (0..2_000).for_each(|_| s.spawn(|_| count())));
            assert_eq!(get(&ran), 2_000, "from {capacity}");
        }
    });
}

#[test]
fn eager_sleepers_and_seeds_change_nothing() {
    within(LIMIT, || {
        for seed in 0..20 {
            let pool = Pool::builder().workers(3).spin_rounds(0).seed(seed);
            let (pool, (ran, count)) = (pool.build().unwrap(), counting());
            for _ in 0..50 {
                pool.scope(|s| (0..5).for_each(|_| s.spawn(|_| count())));
                pool.join(&count, &count);
            }
            assert_eq!(get(&ran), 350, "seed {seed}");
        }
    });
}

#[test]
fn metrics_add_up() {
    within(LIMIT, || {
        let (pool, (ran, count)) = (pool(2), counting());
        let shares = pool.metrics().workers.len();
        assert!(shares > 2, "those of guests come after the two workers");
        for _ in 0..300 {
            let count = count.clone();
            pool.spawn(move || {
                count();
                filch::spawn(count);
            });
        }
        pool.scope(|s| (0..400).for_each(|_| s.spawn(|_| count())));
        until("all have run", || get(&ran) == 1_000);
        // A worker counts a task before it runs it.
        let total = pool.metrics().total();
        assert_eq!(total.executed, 1_000);
        assert_eq!(total.executed, total.local + total.injected + total.stolen);
        assert_eq!(total.spawned_local + total.spawned_global, 700);
        assert!(total.steal_attempts >= total.stolen);

        // Halves that are not stolen are no tasks; stolen ones count once.
        let before = pool.metrics().total();
        let stolen = Flag::default();
        pool.join(|| stolen.wait("a worker steals it"), || stolen.set());
        let after = pool.metrics().total();
        assert_eq!(after.stolen - before.stolen, 1);
        let alone = crate::support::pool(0);
        alone.join(|| 1, || 2);
        assert_eq!(alone.metrics().total().executed, 0);
    });
}

#[test]
fn debug_shows_the_pool() {
    let text = format!("{:?}", pool(2));
    assert!(text.contains("workers: 2"), "{text}");
    assert!(format!("{:?}", Pool::builder()).contains("PoolBuilder"));
}

#[test]
fn a_closure_of_no_size_may_be_aligned_as_it_likes() {
    #[repr(align(128))]
    struct Aligned;
    let (ran, count) = counting();
    let pool = pool(1);
    for inside in [false, true] {
        let (aligned, count) = (Aligned, count.clone());
        let task = move || {
            let _aligned = &aligned;
        };
        assert_eq!((size_of_val(&task), align_of_val(&task)), (0, 128));
        match inside {
            true => pool.install(|| pool.spawn(task)),
            false => pool.spawn(task),
        }
        pool.spawn(count);
    }
    drop(pool);
    assert_eq!(get(&ran), 2);
}

#[test]
fn a_pool_without_workers_that_ends_inside_runs_what_is_queued() {
    within(LIMIT, || {
        for panics in [false, true] {
            let (ran, count) = counting();
            let pool = pool(0);
            (0..5).for_each(|_| pool.spawn(count.clone()));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.install(|| {
                    pool.clone().shutdown();
                    if panics {
                        quiet_panic("on the way out");
                    }
                });
            }));
            assert_eq!(ended.is_err(), panics);
            drop(pool);
            assert_eq!(get(&ran), 5);
        }
    });
}

#[test]
fn metrics_show_only_used_places() {
    for workers in [0, 1, 3] {
        let pool = pool(workers);
        let rows = || pool.metrics().to_string().lines().count() - 2;
        assert_eq!(rows(), workers);
        pool.install(|| filch::spawn(|| ()));
        assert_eq!(rows(), workers + 1);
        pool.install(|| filch::spawn(|| ()));
        assert_eq!(rows(), workers + 1, "the same place again");
        let metrics = pool.metrics();
        assert_eq!(metrics.workers.len() - metrics.guests, workers);
        assert!(metrics.guests > 1);
    }
}

#[test]
fn a_queue_that_does_not_fit_into_memory_is_an_error() {
    within(LIMIT, || {
        for capacity in [usize::MAX, usize::MAX / 2, 1 << 40, 1 << 27] {
            let built = Pool::builder().workers(2).queue_capacity(capacity).build();
            let error = built.unwrap_err();
            assert!(error.is_config(), "{error}");
            assert!(error.to_string().contains("ask for at most"), "{error}");
        }
        let built = Pool::builder().workers(1).queue_capacity(0).build();
        assert_eq!(built.unwrap().on_worker(|| 1), 1);
    });
}

#[test]
fn a_refusal_does_not_say_executor() {
    within(LIMIT, || {
        let pool = pool(1);
        pool.clone().shutdown();
        let refused = pool.task(|| 1).submit().unwrap_err();
        let text = refused.to_string();
        assert!(refused.is_closed() && !text.contains("executor"), "{text}");
        assert!(text.contains("into_inner"), "{text}");
    });
}

#[test]
fn a_guard_makes_the_free_functions_use_its_pool() {
    within(LIMIT, || {
        let workers = || Pool::current().map(|pool| pool.workers());
        let (one, two) = (pool(1), pool(2));
        assert_eq!(workers(), None);
        let first = one.enter();
        let second = two.enter();
        assert_eq!(workers(), Some(2), "the newest counts");
        assert_eq!(
            filch::submit(|| filch::broadcast(|_| ()).len())
                .join()
                .unwrap(),
            2
        );
        drop(first);
        assert_eq!(workers(), Some(2), "in any order");
        assert_eq!(
            one.install(workers),
            Some(1),
            "the closure form comes first"
        );
        assert_eq!(one.block_on(async { workers() }), Some(1));
        let inside = one.block_on(async { two.enter() });
        assert_eq!(workers(), Some(2));
        drop((inside, second));
        assert_eq!(workers(), None);
        let name = thread::scope(|scope| {
            let _entered = one.enter();
            scope.spawn(workers).join().unwrap()
        });
        assert_eq!(name, None, "the guard is that of its thread");
    });
}

#[test]
fn a_forgotten_guard_does_not_keep_its_pool() {
    // On a thread of its own, which stays in the pool.
    within(LIMIT, || {
        let pool = pool(1);
        std::mem::forget(pool.enter());
        assert_eq!(Pool::current().map(|pool| pool.workers()), Some(1));
        drop(pool);
        assert!(Pool::current().is_none());
    });
}
