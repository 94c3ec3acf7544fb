//! What fork-join promises: join, scopes, waiting and its manners.

use crate::support::{
    Drops, Flag, LIMIT, Panics, in_a_child, panic_of, pool, quiet_panic, until, within,
};
use filch::{Pool, Rng, Scope};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = filch::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

/// A join whose second half is stolen for sure, if the pool has a worker: the first waits for it.
fn join_stolen<A: Send, B: Send>(
    pool: &Pool,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let begun = Flag::default();
    pool.join(
        || {
            begun.wait("the second half is stolen");
            a()
        },
        || {
            begun.set();
            b()
        },
    )
}

#[test]
fn join_without_a_thief_runs_both_in_order() {
    let order = Mutex::new(vec![]);
    let alone = pool(0);
    let note = |what| order.lock().unwrap().push(what);
    let results = alone.join(
        || {
            note("a");
            1_u8
        },
        || {
            note("b");
            "two"
        },
    );
    assert_eq!(results, (1, "two"));
    assert_eq!(order.into_inner().unwrap(), ["a", "b"]);
}

#[test]
fn join_nests_on_any_number_of_workers() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let pool = pool(workers);
            // From outside, and on one of its threads where there is one.
            assert_eq!(pool.install(|| fibonacci(16)), 987, "{workers} workers");
            if workers > 0 {
                assert_eq!(pool.broadcast(|_| fibonacci(10)), vec![55; workers]);
            }
        }
        assert_eq!(fibonacci(16), 987, "on the global pool");
    });
}

#[test]
fn join_context_says_whether_it_migrated() {
    let alone = pool(0);
    let (a, b) = alone.join_context(|cx| cx.migrated(), |cx| cx.migrated());
    assert!(!a && !b, "there is no thief");

    let pool = pool(1);
    let begun = Flag::default();
    let here = thread::current().id();
    let (a, b) = pool.join_context(
        |cx| {
            begun.wait("the second half is stolen");
            (cx.migrated(), thread::current().id())
        },
        |cx| {
            begun.set();
            (cx.migrated(), thread::current().id())
        },
    );
    assert_eq!(a, (false, here));
    assert!(b.0 && b.1 != here, "the second one was stolen");
    let (a, _) = filch::join_context(|cx| cx.migrated(), |_| ());
    assert!(!a);
}

#[test]
fn join_lends_disjoint_halves() {
    fn raise(numbers: &mut [u32]) {
        if let [number] = numbers {
            *number += 1;
        } else {
            let (left, right) = numbers.split_at_mut(numbers.len() / 2);
            filch::join(|| raise(left), || raise(right));
        }
    }
    let pool = pool(3);
    let mut numbers: Vec<u32> = (0..20_000).collect();
    pool.install(|| raise(&mut numbers));
    assert!(numbers.iter().zip(1..).all(|(&number, n)| number == n));
}

#[test]
fn a_spine_of_joins_is_as_deep_as_the_stack() {
    const DEPTH: usize = 20_000;
    fn spine(depth: usize, seen: &AtomicUsize) -> usize {
        if depth == 0 {
            return 0;
        }
        let count = || seen.fetch_add(1, Ordering::Relaxed);
        1 + filch::join(|| spine(depth - 1, seen), count).0
    }
    for workers in [0, 2] {
        let deep = move || {
            let (pool, seen) = (pool(workers), AtomicUsize::new(0));
            assert_eq!(pool.install(|| spine(DEPTH, &seen)), DEPTH);
            assert_eq!(seen.into_inner(), DEPTH, "every second half ran once");
        };
        let thread = thread::Builder::new().stack_size(256 << 20);
        let thread = thread.spawn(deep).unwrap();
        within(LIMIT, || thread.join().unwrap());
    }
}

#[test]
fn a_panic_of_either_half_comes_after_both() {
    within(LIMIT, || {
        let told = Panics::default();
        // (workers, whether a panics, whether b does, the panic of the call, the reported panics)
        type Case = (usize, bool, bool, &'static str, &'static [&'static str]);
        let cases: [Case; 6] = [
            (0, true, false, "a", &[]),
            (0, false, true, "b", &[]),
            (0, true, true, "a", &["b"]),
            (1, true, false, "a", &[]),
            (1, false, true, "b", &[]),
            (1, true, true, "a", &["b"]),
        ];
        for (workers, a_panics, b_panics, comes, is_told) in cases {
            let case = format!("{workers} workers, a panics: {a_panics}, b panics: {b_panics}");
            let pool = told.pool(workers);
            let (captured, results) = (Drops::default(), Drops::default());
            let ran = AtomicUsize::new(0);
            let half = |panics: bool, name: &'static str| {
                let (captured, result, ran) = (captured.value(), results.value(), &ran);
                move || {
                    let _captured = captured;
                    ran.fetch_add(1, Ordering::SeqCst);
                    if panics {
                        quiet_panic(name);
                    }
                    result
                }
            };
            let (a, b) = (half(a_panics, "a"), half(b_panics, "b"));
            let text = panic_of(|| match workers {
                0 => pool.join(a, b),
                _ => join_stolen(&pool, a, b),
            });
            assert_eq!(text, comes, "{case}");
            assert_eq!(ran.into_inner(), 2, "both are over: {case}");
            assert_eq!(captured.seen(), 2, "captured values go once: {case}");
            assert_eq!(results.seen(), 2, "results go once: {case}");
            assert_eq!(told.take(), is_told, "{case}");
            // And the pool goes on.
            assert_eq!(pool.join(|| 1, || 2), (1, 2));
        }
    });
}

#[test]
fn the_rest_of_a_tree_runs_when_a_leaf_panics() {
    fn tree(depth: u32, leaf: usize, bad: usize, seen: &AtomicUsize) {
        if depth == 0 {
            seen.fetch_add(1, Ordering::Relaxed);
            if leaf == bad {
                quiet_panic("the leaf");
            }
            return;
        }
        filch::join(
            || tree(depth - 1, 2 * leaf, bad, seen),
            || tree(depth - 1, 2 * leaf + 1, bad, seen),
        );
    }
    within(LIMIT, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            for bad in [0, 77, 255] {
                let seen = AtomicUsize::new(0);
                let text = panic_of(|| pool.install(|| tree(8, 0, bad, &seen)));
                assert_eq!((text, seen.into_inner()), ("the leaf", 256));
            }
        }
    });
}

#[test]
fn a_result_that_panics_when_dropped_is_reported() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let (told, drops) = (Panics::default(), Drops::default());
            let pool = told.pool(workers);
            let a = || -> () { quiet_panic("a") };
            let b = || drops.bomb("the result of b");
            let text = panic_of(|| match workers {
                0 => pool.join(a, b),
                _ => join_stolen(&pool, a, b),
            });
            assert_eq!((text, drops.seen()), ("a", 1));
            assert_eq!(told.take(), ["the result of b"]);
        }
    });
}

#[test]
fn the_second_half_is_not_part_of_the_first_ones_panic() {
    // A lock that is held by a panicking task is poisoned, wherever the task runs.
    let (told, lock) = (Panics::default(), Mutex::new(()));
    let alone = told.pool(0);
    let b = || {
        let _held = lock.lock().unwrap();
        assert!(!thread::panicking(), "this task has not panicked");
        quiet_panic("b");
    };
    assert_eq!(panic_of(|| alone.join(|| quiet_panic("a"), b)), "a");
    assert_eq!(told.take(), ["b"]);
    assert!(lock.is_poisoned());
}

#[test]
fn what_the_first_half_spawns_does_not_hide_the_second() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let (pool, ran) = (pool(workers), Arc::new(AtomicUsize::new(0)));
            for round in 0..200 {
                let spawned = || {
                    for _ in 0..round % 5 {
                        let ran = ran.clone();
                        filch::spawn(move || _ = ran.fetch_add(1, Ordering::SeqCst));
                    }
                    round
                };
                assert_eq!(pool.join(spawned, || "b"), (round, "b"));
            }
            drop(pool);
            assert_eq!(ran.load(Ordering::SeqCst), 40 * (1 + 2 + 3 + 4));
        }
    });
}

#[test]
fn what_is_queued_at_the_place_of_a_second_half_that_has_run_is_not_taken_for_it() {
    // Without other workers every place in the queue is known.
    let alone = pool(0);
    let (seconds, spawned) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let later = spawned.clone();
    let first = || {
        assert!(filch::yield_local(), "it runs the second half");
        filch::spawn(move || {
            later.fetch_add(1, Ordering::Relaxed);
        });
    };
    let second = || seconds.fetch_add(1, Ordering::Relaxed);
    assert_eq!(alone.join(first, second), ((), 0));
    alone.shutdown();
    assert_eq!(seconds.into_inner(), 1);
    assert_eq!(spawned.load(Ordering::Relaxed), 1);
}

#[test]
fn a_million_joins_with_panics_here_and_there() {
    const JOINS: usize = if cfg!(debug_assertions) {
        200_000
    } else {
        1_000_000
    };
    /// Joins below this one, itself included; panics wherever the generator says so.
    fn tree(size: usize, mut rng: Rng, over: &AtomicUsize) -> usize {
        if size == 0 {
            return 0;
        }
        over.fetch_add(1, Ordering::Relaxed);
        let left = rng.below(size);
        let (a, b) = (Rng::new(rng.next_u64()), Rng::new(rng.next_u64()));
        let bad = rng.one_in(100);
        let (l, r) = filch::join(|| tree(left, a, over), || tree(size - 1 - left, b, over));
        if bad {
            quiet_panic("here and there");
        }
        1 + l + r
    }
    within(LIMIT, || {
        let told = Panics::default();
        let pool = told.pool(2);
        let (mut joins, mut seed, mut panics) = (0, 1, 0);
        while joins < JOINS {
            let (size, over) = (1 + seed as usize % 200, AtomicUsize::new(0));
            let f = || pool.install(|| tree(size, Rng::new(seed), &over));
            match panic::catch_unwind(AssertUnwindSafe(f)) {
                Ok(n) => assert_eq!(n, size, "seed {seed}"),
                Err(_) => panics += 1,
            }
            assert_eq!(over.into_inner(), size, "nothing is left out: seed {seed}");
            joins += size;
            seed += 1;
        }
        assert!(panics > seed / 10, "{panics} panics in {seed} trees");
        let others = told.take();
        assert!(others.iter().all(|&text| text == "here and there"));
    });
}

#[test]
fn a_scope_returns_what_its_closure_does() {
    for workers in [0, 1, 2] {
        let pool = pool(workers);
        assert_eq!(pool.scope(|_| "nothing spawned"), "nothing spawned");
        let mut numbers = vec![0; 100];
        let length = pool.scope(|s| {
            let numbers = &mut numbers;
            let length = numbers.len();
            for (n, number) in numbers.iter_mut().enumerate() {
                s.spawn(move |_| *number = n);
            }
            length
        });
        assert_eq!(length, 100);
        assert!(numbers.into_iter().eq(0..100));
    }
    assert_eq!(filch::scope(|_| 1), 1, "on the global pool");
}

#[test]
fn scopes_nest_and_tasks_spawn_more() {
    fn tree<'s>(depth: u32, seen: &'s AtomicUsize, s: &Scope<'s>) {
        seen.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            for _ in 0..3 {
                s.spawn(move |s| tree(depth - 1, seen, s));
            }
        }
    }
    within(LIMIT, || {
        for workers in [0, 1, 3] {
            let pool = pool(workers);
            let seen = AtomicUsize::new(0);
            pool.scope(|s| tree(6, &seen, s));
            assert_eq!(seen.into_inner(), 1 + 3 + 9 + 27 + 81 + 243 + 729);

            // What an inner scope spawned is over when it returns, what the outer one did need not
            // be.
            let (outer, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
            pool.scope(|s| {
                for _ in 0..20 {
                    s.spawn(|_| {
                        let own = AtomicUsize::new(0);
                        filch::scope(|s| {
                            for _ in 0..20 {
                                s.spawn(|_| _ = own.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                        assert_eq!(own.load(Ordering::Relaxed), 20);
                        inner.fetch_add(own.into_inner(), Ordering::Relaxed);
                        outer.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!((outer.into_inner(), inner.into_inner()), (20, 400));
        }
    });
}

#[test]
fn a_scope_may_be_used_from_the_inside_of_another() {
    // The inner scope's tasks spawn into the outer one, which outlives them.
    let pool = pool(2);
    let late = AtomicUsize::new(0);
    pool.scope(|outer| {
        filch::scope(|inner| {
            for _ in 0..50 {
                inner.spawn(|_| outer.spawn(|_| _ = late.fetch_add(1, Ordering::Relaxed)));
            }
        });
    });
    assert_eq!(late.into_inner(), 50);
}

#[test]
fn threads_from_outside_spawn_into_a_scope() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            for _ in 0..20 {
                let seen = AtomicUsize::new(0);
                pool.scope(|s| {
                    thread::scope(|threads| {
                        for _ in 0..3 {
                            threads.spawn(|| {
                                for _ in 0..10 {
                                    s.spawn(|_| _ = seen.fetch_add(1, Ordering::Relaxed));
                                    s.spawn_fifo(|_| _ = seen.fetch_add(1, Ordering::Relaxed));
                                }
                            });
                        }
                    });
                });
                assert_eq!(seen.into_inner(), 60);
            }
        }
    });
}

#[test]
fn a_thread_spawns_into_a_scope_while_its_owner_sleeps() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let (pool, ran) = (pool(workers), AtomicBool::new(false));
            let held = Flag::default();
            pool.scope(|s| {
                s.spawn(|s| {
                    // On whichever thread: the task waits for a foreign one, which takes its time.
                    thread::scope(|threads| {
                        threads.spawn(|| {
                            thread::sleep(Duration::from_millis(20));
                            s.spawn(|_| ran.store(true, Ordering::SeqCst));
                            held.set();
                        });
                    });
                });
            });
            assert!(held.is_set() && ran.into_inner());
        }
    });
}

#[test]
fn panics_in_a_scope_come_after_all_tasks() {
    within(LIMIT, || {
        for workers in [0, 1, 3] {
            let told = Panics::default();
            let pool = told.pool(workers);
            // Each task holds a value, so the values that are gone are the tasks that are over.
            let (captured, count) = (Drops::default(), 50);
            let spawn_all = |s: &Scope<'_>, bad: usize| {
                for n in 0..count {
                    let value = captured.value();
                    s.spawn(move |_| {
                        let _value = value;
                        if n < bad {
                            quiet_panic("a task");
                        }
                    });
                }
            };
            let text = panic_of(|| pool.scope(|s| spawn_all(s, 1)));
            assert_eq!((text, captured.seen()), ("a task", count));
            assert!(told.take().is_empty());

            let text = panic_of(|| pool.scope(|s| spawn_all(s, 3)));
            assert_eq!((text, captured.seen()), ("a task", 2 * count));
            assert_eq!(
                told.take(),
                ["a task"; 2],
                "the first is propagated, the others are reported"
            );

            let text = panic_of(|| {
                pool.scope(|s| {
                    spawn_all(s, 0);
                    quiet_panic("the closure");
                })
            });
            assert_eq!((text, captured.seen()), ("the closure", 3 * count));
            assert!(told.take().is_empty());

            let text = panic_of(|| {
                pool.scope(|s| {
                    spawn_all(s, 2);
                    quiet_panic("the closure");
                })
            });
            assert_eq!((text, captured.seen()), ("the closure", 4 * count));
            assert_eq!(told.take(), ["a task"; 2]);
        }
    });
}

#[test]
fn a_value_that_panics_when_dropped_costs_its_task_only() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let (told, drops) = (Panics::default(), Drops::default());
            let pool = told.pool(workers);
            let text = panic_of(|| {
                pool.scope(|s| {
                    for _ in 0..10 {
                        let value = drops.bomb("a captured value");
                        s.spawn(move |_| drop(value));
                        let value = drops.bomb("a captured value");
                        s.spawn(move |_| _ = &value);
                    }
                });
            });
            assert_eq!((text, drops.seen()), ("a captured value", 20));
            assert_eq!(told.take().len(), 19);
        }
    });
}

#[test]
fn tasks_of_every_size_and_alignment() {
    #[repr(align(128))]
    struct Aligned(u8);

    let pool = pool(1);
    let sum = AtomicUsize::new(0);
    let add = |n: usize| _ = sum.fetch_add(n, Ordering::Relaxed);
    pool.scope(|s| {
        s.spawn(|_| {}); // nothing captured
        for n in 0..100 {
            let (word, large, aligned) = (n, [n; 100], Aligned(n as u8));
            s.spawn(move |_| add(word));
            s.spawn(move |_| add(large[99]));
            s.spawn(move |_| {
                let aligned = aligned;
                let address = &raw const aligned;
                assert!(address.is_aligned());
                add(usize::from(aligned.0));
            });
            let list = Vec::from([n; 10]);
            s.spawn_fifo(move |_| add(list[9]));
        }
    });
    assert_eq!(sum.into_inner(), 4 * 4950);
}

#[test]
fn fifo_tasks_run_oldest_first_and_others_newest_first() {
    let order = Mutex::new(vec![]);
    let note = |n: usize| order.lock().unwrap().push(n);
    let taken = || std::mem::take(&mut *order.lock().unwrap());
    let alone = pool(0);
    alone.scope(|s| (0..100).for_each(|n| s.spawn_fifo(move |_| note(n))));
    assert!(taken().into_iter().eq(0..100));
    alone.scope(|s| (0..100).for_each(|n| s.spawn(move |_| note(n))));
    assert!(taken().into_iter().eq((0..100).rev()));

    // What a fifo task spawns comes after what was there before.
    alone.scope(|s| {
        for n in 0..10 {
            s.spawn_fifo(move |s| {
                note(n);
                s.spawn_fifo(move |_| note(n + 10));
            });
        }
    });
    assert!(taken().into_iter().eq(0..20));

    // Each worker by itself keeps the order too.
    let pool = pool(3);
    let lists = Mutex::new(std::collections::HashMap::<_, Vec<usize>>::new());
    pool.scope(|s| {
        for n in 0..1_000 {
            let lists = &lists;
            s.spawn_fifo(move |_| {
                let mut lists = lists.lock().unwrap();
                lists.entry(thread::current().id()).or_default().push(n);
            });
        }
    });
    let lists = lists.into_inner().unwrap();
    assert!(lists.values().all(|list| list.is_sorted()));
    assert_eq!(lists.values().map(Vec::len).sum::<usize>(), 1_000);
}

#[test]
fn many_short_scopes_from_many_threads() {
    within(LIMIT, || {
        let pool = pool(2);
        let seen = AtomicUsize::new(0);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for round in 0..500 {
                        pool.scope(|s| {
                            for _ in 0..round % 7 {
                                s.spawn(|_| _ = seen.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                    }
                });
            }
        });
        let each: usize = (0..500).map(|round| round % 7).sum();
        assert_eq!(seen.into_inner(), 4 * each);
    });
}

/// The calling thread waits for a stolen half; while it does, `probe` is queued from a thread
/// outside. `done` decides when the stolen half is over, once `probe` is queued.
fn probe_a_wait(
    wait: impl FnOnce(&(dyn Fn() + Sync), &(dyn Fn() + Sync)) + Send,
    pool: &Pool,
    done: impl Fn(&Flag) + Sync,
) -> bool {
    let (begun, probed) = (Flag::default(), Flag::default());
    let a = || begun.wait("the second half is stolen");
    let b = || {
        begun.set();
        // The first half is over soon, and its worker waits for this one. All the pool's own
        // workers are here, so only the waiting worker can run the probe.
        thread::scope(|threads| {
            threads.spawn(|| {
                let probed = probed.clone();
                pool.spawn(move || probed.set());
            });
        });
        done(&probed);
    };
    pool.install(|| wait(&a, &b));
    probed.is_set()
}

#[test]
fn a_worker_that_waits_runs_other_tasks() {
    within(LIMIT, || {
        let pool = pool(1);
        let ran = probe_a_wait(
            |a, b| _ = filch::join(a, b),
            &pool,
            |probed| probed.wait("the waiting worker helps"),
        );
        assert!(ran);
    });
}

#[test]
fn a_worker_that_waits_in_isolation_does_not() {
    within(LIMIT, || {
        let pool = pool(1);
        let quiet = |probed: &Flag| {
            thread::sleep(Duration::from_millis(30));
            assert!(!probed.is_set(), "run by a wait that should not");
        };
        probe_a_wait(
            |a, b| filch::isolate(|| _ = filch::join(a, b)),
            &pool,
            quiet,
        );
        // Nor does a scope, nor a nested isolation.
        probe_a_wait(
            |a, b| {
                filch::isolate(|| {
                    filch::isolate(|| ());
                    filch::scope(|s| {
                        s.spawn(|_| b());
                        a();
                    });
                });
            },
            &pool,
            quiet,
        );
        // After it, waits help again.
        let ran = probe_a_wait(
            |a, b| {
                filch::isolate(|| ());
                _ = panic::catch_unwind(|| filch::isolate(|| quiet_panic("inside")));
                _ = filch::join(a, b);
            },
            &pool,
            |probed| probed.wait("the isolation is over"),
        );
        assert!(ran);
    });
}

#[test]
fn isolation_returns_and_passes_panics_on() {
    let pool = pool(1);
    assert_eq!(filch::isolate(|| 1), 1, "on a thread that is no worker");
    assert_eq!(pool.install(|| filch::isolate(|| 2)), 2);
    let text = panic_of(|| pool.install(|| filch::isolate(|| quiet_panic("inside"))));
    assert_eq!(text, "inside");
}

#[test]
fn a_lock_may_be_held_across_a_join_in_isolation() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let (pool, lock) = (pool(workers), Mutex::new([0_u32; 2]));
            pool.scope(|s| {
                for _ in 0..200 {
                    s.spawn(|_| {
                        let mut held = lock.lock().unwrap();
                        filch::isolate(|| {
                            let [left, right] = &mut *held;
                            filch::join(|| *left += 1, || *right += 1);
                        });
                    });
                }
            });
            assert_eq!(lock.into_inner().unwrap(), [200, 200]);
        }
    });
}

/// The only worker waits in isolation for a task that is not in its own queue: `spawn` is called on
/// another thread.
fn isolated_with_a_task_from(spawn: impl Fn(&Pool, &dyn Fn()) + Send + Sync + 'static) {
    within(LIMIT, move || {
        let (pool, ran) = (pool(1), Flag::default());
        let (handle, told) = (pool.clone(), ran.clone());
        pool.spawn(move || {
            let inner = told.clone();
            filch::isolate(|| {
                filch::scope(|s| {
                    thread::scope(|threads| {
                        threads.spawn(|| spawn(&handle, &|| s.spawn(|_| inner.set())));
                    });
                });
            });
        });
        ran.wait("the isolated scope's task runs");
    });
}

#[test]
fn an_isolated_scope_ends_when_its_task_comes_from_a_thread_outside() {
    isolated_with_a_task_from(|_, spawn| spawn());
}

#[test]
fn an_isolated_scope_ends_when_its_task_comes_from_a_guest() {
    // What a guest leaves behind goes where the isolated worker takes no jobs.
    isolated_with_a_task_from(|pool, spawn| pool.install(spawn));
}

const STACK: usize = 4 << 20;

/// The only worker waits, in the way of `wait`, for a scope of many tasks; meanwhile a guest steals
/// from it and leaves, and hands on what it has not run.
fn a_guest_takes_some_away(wait: impl FnOnce(&mut (dyn FnMut() + Send)) + Send + 'static) {
    const TASKS: usize = 500;
    let pool = Pool::builder().workers(1).stack_size(STACK);
    let (pool, ran) = (pool.build().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (spawned, gone, done) = (Flag::default(), Flag::default(), Flag::default());
    let (count, go, left, end) = (ran.clone(), spawned.clone(), gone.clone(), done.clone());
    pool.spawn(move || {
        wait(&mut || {
            filch::scope(|s| {
                for _ in 0..TASKS {
                    s.spawn(|_| _ = count.fetch_add(1, Ordering::SeqCst));
                }
                go.set();
                left.wait("the guest has come and gone");
            });
        });
        end.set();
    });
    spawned.wait("the tasks are spawned");
    pool.install(|| until("the guest steals", filch::yield_now));
    gone.set();
    done.wait("the scope ends");
    assert_eq!(ran.load(Ordering::SeqCst), TASKS);
}

#[test]
fn an_isolated_scope_ends_when_a_guest_has_taken_some_of_it() {
    within(LIMIT, || {
        a_guest_takes_some_away(|scope| filch::isolate(scope));
    });
}

#[test]
fn a_scope_deep_in_the_stack_ends_when_a_guest_has_taken_some_of_it() {
    /// Calls `scope` with three quarters of the stack in use.
    fn deep(top: usize, scope: &mut (dyn FnMut() + Send)) {
        let frame = std::hint::black_box([1_u8; 1024]);
        if top - frame.as_ptr().addr() < STACK / 4 * 3 {
            deep(top, scope);
        } else {
            scope();
        }
        std::hint::black_box(frame);
    }
    // What a guest leaves behind goes where a worker deep in its stack takes no jobs.
    in_a_child(
        "basics::a_scope_deep_in_the_stack_ends_when_a_guest_has_taken_some_of_it",
        || a_guest_takes_some_away(|scope| deep((&raw const scope).addr(), scope)),
    );
}

#[test]
fn a_broadcast_in_isolation_reaches_its_own_worker() {
    within(LIMIT, || {
        let (pool, done) = (pool(2), Flag::default());
        let told = done.clone();
        pool.spawn(move || {
            assert_eq!(filch::isolate(|| filch::broadcast(|worker| worker)), [0, 1]);
            told.set();
        });
        done.wait("the broadcast ends");
    });
}

/// Tasks, each of which waits for another one that comes after all the rest: every wait picks up
/// the next task on top of the stack, which waits too.
fn pile_up(pool: &Pool, tasks: usize) -> usize {
    fn burn(seen: &AtomicUsize) {
        let frame = std::hint::black_box([1_u8; 4096]);
        filch::scope(|s| {
            thread::scope(|threads| {
                threads.spawn(|| s.spawn(|_| _ = seen.fetch_add(1, Ordering::Relaxed)));
            });
        });
        std::hint::black_box(&frame);
    }
    let seen = Arc::new(AtomicUsize::new(0));
    for _ in 0..tasks {
        let seen = seen.clone();
        pool.spawn(move || burn(&seen));
    }
    until("all tasks run", || seen.load(Ordering::Relaxed) == tasks);
    seen.load(Ordering::Relaxed)
}

#[test]
fn waits_that_pile_up_stay_within_the_stack() {
    in_a_child("basics::waits_that_pile_up_stay_within_the_stack", || {
        let pool = pool(2);
        assert_eq!(pile_up(&pool, 1_000), 1_000);
    });
}

#[test]
fn waits_that_pile_up_stay_within_the_stack_of_one_worker() {
    in_a_child(
        "basics::waits_that_pile_up_stay_within_the_stack_of_one_worker",
        || {
            let pool = pool(1);
            assert_eq!(pile_up(&pool, 1_000), 1_000);
        },
    );
}

#[test]
fn waits_that_pile_up_stay_within_a_small_stack() {
    in_a_child(
        "basics::waits_that_pile_up_stay_within_a_small_stack",
        || {
            let pool = Pool::builder().workers(2).stack_size(256 << 10);
            assert_eq!(pile_up(&pool.build().unwrap(), 300), 300);
        },
    );
}

#[test]
fn many_tasks_that_join_stay_within_the_stack() {
    const TASKS: usize = if cfg!(debug_assertions) {
        20_000
    } else {
        100_000
    };
    in_a_child("basics::many_tasks_that_join_stay_within_the_stack", || {
        for workers in [1, 2, 4] {
            let pool = Pool::builder().workers(workers).stack_size(1 << 20);
            let (pool, seen) = (pool.build().unwrap(), AtomicUsize::new(0));
            let count = || _ = seen.fetch_add(1, Ordering::Relaxed);
            pool.scope(|s| {
                for _ in 0..TASKS {
                    s.spawn(move |_| _ = filch::join(count, count));
                }
            });
            assert_eq!(seen.into_inner(), 2 * TASKS);
        }
    });
}

#[test]
fn pools_call_each_other() {
    /// To and fro, both halves of every join.
    fn to_and_fro(here: &Pool, there: &Pool, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let go_on = || to_and_fro(there, here, depth - 1);
        let (a, b) = here.join(go_on, go_on);
        a + b
    }
    within(LIMIT, || {
        for (first, second) in [(1, 1), (2, 2), (0, 1), (0, 0)] {
            let (first, second) = (pool(first), pool(second));
            assert_eq!(to_and_fro(&first, &second, 8), 256);
            // From a task of one of them, too.
            if first.workers() > 0 {
                let sums = first.broadcast(|_| to_and_fro(&first, &second, 6));
                assert!(sums.iter().all(|&sum| sum == 64));
            }
        }
    });
}

#[test]
fn a_chain_of_calls_between_pools_may_be_longer_than_there_are_places() {
    fn chain(here: &Pool, there: &Pool, depth: usize) -> usize {
        match depth {
            0 => 0,
            _ => 1 + here.scope(|_| chain(there, here, depth - 1)),
        }
    }
    within(LIMIT, || {
        let (first, second) = (pool(1), pool(1));
        assert_eq!(chain(&first, &second, 150), 150);
    });
}

#[test]
fn a_task_of_one_pool_spawns_into_a_scope_of_another() {
    within(LIMIT, || {
        let (first, second) = (pool(1), pool(1));
        let seen = AtomicUsize::new(0);
        first.scope(|s| {
            second.scope(|t| {
                for _ in 0..20 {
                    t.spawn(|_| {
                        s.spawn(|_| {
                            assert_eq!(Pool::current().unwrap().workers(), 1);
                            seen.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                }
            });
        });
        assert_eq!(seen.into_inner(), 20);
    });
}

/// Calls `f` on a hundred threads, all of them inside the pool at the same time.
fn a_crowd<R: Send>(pool: &Pool, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let all_in = Barrier::new(100);
    thread::scope(|threads| {
        let crowd: Vec<_> = (0..100)
            .map(|n| {
                let (all_in, f) = (&all_in, &f);
                threads.spawn(move || {
                    pool.install(|| {
                        all_in.wait();
                        let result = panic::catch_unwind(AssertUnwindSafe(|| f(n)));
                        all_in.wait();
                        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
                    })
                })
            })
            .collect();
        crowd.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn more_threads_call_at_once_than_there_are_places() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            let sums = a_crowd(&pool, |n| {
                let seen = AtomicUsize::new(0);
                pool.scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|_| _ = seen.fetch_add(1, Ordering::Relaxed));
                    }
                });
                let (a, b) = pool.join(|| n, || seen.load(Ordering::Relaxed));
                a + b + filch::join(|| 1, || 2).1
            });
            assert!(sums.into_iter().eq(12..112));
        }
    });
}

#[test]
fn many_workers_get_broadcasts_and_panics() {
    within(LIMIT, || {
        let told = Panics::default();
        let pool = told.pool(2);
        let results = a_crowd(&pool, |_| pool.broadcast(|worker| worker));
        let short = results.iter().filter(|r| r.len() != 2).count();
        assert_eq!(short, 0, "every broadcast reaches both workers");
        a_crowd(&pool, |_| {
            let both = || pool.join(|| quiet_panic("a"), || quiet_panic("b"));
            assert_eq!(panic_of(both), "a");
        });
        assert_eq!(told.take().len(), 100, "the second panics are reported");
    });
}

#[test]
fn work_behind_a_long_task_is_taken_by_others() {
    within(LIMIT, || {
        let (pool, start) = (pool(2), Instant::now());
        let done = Arc::new(AtomicUsize::new(0));
        let (count, all) = (done.clone(), Flag::default());
        let over = all.clone();
        pool.spawn(move || {
            for _ in 0..100 {
                let count = count.clone();
                filch::spawn(move || _ = count.fetch_add(1, Ordering::SeqCst));
            }
            // A long task, which never takes from its queue, and ends when others have emptied it.
            until("others take the tasks", || {
                count.load(Ordering::SeqCst) == 100
            });
            over.set();
        });
        all.wait("the long task ends");
        assert!(start.elapsed() < LIMIT);
        assert_eq!(done.load(Ordering::SeqCst), 100);
    });
}

/// The owner of a scope sleeps, is woken for a task that came from outside, and runs it: meanwhile
/// it is no searcher that others could count on.
#[test]
fn an_owner_that_runs_a_task_from_outside_is_no_searcher() {
    within(LIMIT, || {
        let pool = pool(2);
        let (started, first, second) = (Flag::default(), Flag::default(), Flag::default());
        let done = Flag::default();
        pool.scope(|s| {
            s.spawn(|s| {
                started.set();
                // The owner falls asleep, last of all.
                thread::sleep(Duration::from_millis(50));
                let from_outside = || {
                    s.spawn(|_| {
                        first.set();
                        second.wait("a worker that is idle is woken for the second task");
                        done.set();
                    });
                    first.wait("the first task begins");
                    s.spawn(|_| second.set());
                    // The worker that has lent us the scope stays busy.
                    done.wait("the first task ends");
                };
                thread::scope(|t| t.spawn(from_outside).join().unwrap());
            });
            started.wait("a worker takes it");
            // The other worker falls asleep.
            thread::sleep(Duration::from_millis(20));
        });
    });
}

/// All workers wait in the other pool, for a task that only they may run.
#[test]
fn pools_may_broadcast_to_each_other() {
    within(LIMIT, || {
        let (here, there) = (pool(2), pool(2));
        thread::scope(|s| {
            for (from, to) in [(&here, &there), (&there, &here)] {
                s.spawn(move || {
                    for _ in 0..20 {
                        let answers = from.broadcast(|_| to.broadcast(|worker| worker));
                        assert_eq!(answers, [[0, 1], [0, 1]]);
                    }
                });
            }
        });
    });
}

#[test]
fn the_second_half_runs_if_the_first_panics_with_a_lock() {
    within(LIMIT, || {
        let pool = pool(1);
        let (lock, ran) = (filch::sync::Mutex::new(()), AtomicBool::new(false));
        let joined = panic::catch_unwind(AssertUnwindSafe(|| {
            pool.on_worker(|| {
                filch::join(
                    || {
                        std::mem::forget(lock.lock());
                        quiet_panic("first half")
                    },
                    || ran.store(true, Ordering::SeqCst),
                )
            })
        }));
        assert!(joined.is_err() && ran.into_inner());
    });
}
