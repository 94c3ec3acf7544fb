//! Scopes of which a limited number of tasks run at the same time.

use crate::support::{
    Gauge, LIMIT, Panics, add, counter, get, panic_of, pool, quiet_panic, within,
};
use filch::{Pool, Scope};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Barrier, Mutex},
    thread,
};

/// Spawns tasks of several kinds, which spawn others.
fn spawn_some<'s>(gauge: &'s Gauge, s: &Scope<'s>) {
    for n in 0..100 {
        let task = move |s: &Scope<'s>| {
            gauge.call(|| (0..n % 7).for_each(|_| thread::yield_now()));
            if n % 3 == 0 {
                s.spawn(|_| gauge.call(thread::yield_now));
                s.spawn_fifo(|_| gauge.call(|| ()));
            }
        };
        match n % 2 {
            0 => s.spawn(task),
            _ => s.spawn_fifo(task),
        }
    }
}

/// The number of tasks of [`spawn_some`].
const SOME: usize = 100 + 2 * 34;

#[test]
fn no_more_tasks_than_asked_for() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let pool = pool(workers);
            for limit in 1..6 {
                let gauge = Gauge::default();
                pool.scope(|s| {
                    s.at_most(limit);
                    spawn_some(&gauge, s);
                });
                assert_eq!(get(&gauge.ran), SOME);
                assert!(get(&gauge.most) <= limit);
                let gauge = Gauge::default();
                pool.in_place_scope(|s| {
                    s.at_most(limit);
                    spawn_some(&gauge, s);
                });
                assert_eq!(get(&gauge.ran), SOME);
                assert!(get(&gauge.most) <= limit);
            }
        }
    });
}

#[test]
fn as_many_tasks_as_asked_for() {
    within(LIMIT, || {
        let (pool, barrier) = (pool(4), Barrier::new(2));
        for _ in 0..100 {
            pool.scope(|s| {
                s.at_most(2);
                for _ in 0..6 {
                    // Each task needs another one.
                    s.spawn(|_| _ = barrier.wait());
                }
            });
        }
    });
}

#[test]
fn tasks_from_outside_and_in_isolation_count_too() {
    within(LIMIT, || {
        let pool = pool(2);
        let gauge = Gauge::default();
        pool.scope(|s| {
            s.at_most(1);
            // The thread is not a worker of the pool.
            thread::scope(|threads| {
                threads.spawn(|| spawn_some(&gauge, s));
            });
        });
        assert_eq!((get(&gauge.ran), get(&gauge.most)), (SOME, 1));
        let gauge = Gauge::default();
        pool.install(|| {
            filch::isolate(|| {
                filch::scope(|s| {
                    s.at_most(2);
                    spawn_some(&gauge, s);
                });
            });
        });
        assert_eq!(get(&gauge.ran), SOME);
        assert!(get(&gauge.most) <= 2);
    });
}

#[test]
fn tasks_that_panic_free_their_place() {
    within(LIMIT, || {
        let panics = Panics::default();
        let pool = panics.pool(2);
        let count = counter();
        let panic = panic_of(|| {
            pool.scope(|s| {
                s.at_most(1);
                for n in 0..20 {
                    let count = &count;
                    s.spawn(move |_| {
                        add(count);
                        if n % 4 == 0 {
                            quiet_panic("every fourth");
                        }
                    });
                }
            });
        });
        assert_eq!(
            (panic, get(&count), panics.count()),
            ("every fourth", 20, 4)
        );
    });
}

#[test]
fn a_limit_of_none_changes_nothing() {
    within(LIMIT, || {
        let pool = pool(2);
        let caught = |f: &dyn Fn()| panic::catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        let error = caught(&|| pool.scope(|s| s.at_most(0)));
        let text = error.downcast_ref::<String>().unwrap();
        let expected = "0 at a time are too few for workers of a scope: allow at least one";
        assert_eq!(text, expected);
        let twice = caught(&|| {
            pool.scope(|s| {
                s.at_most(1);
                s.at_most(2);
            });
        });
        let text = twice.downcast_ref::<&str>().unwrap();
        assert_eq!(*text, "a scope has one limit: set it once");
        assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
    });
}

#[test]
fn other_work_runs_beside_a_limited_scope() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(2).build().unwrap();
        let (limited, free) = (counter(), counter());
        pool.scope(|s| {
            s.at_most(1);
            for _ in 0..50 {
                s.spawn(|_| {
                    // Not limited: what a task does in parallel itself.
                    filch::scope(|s| (0..4).for_each(|_| s.spawn(|_| add(&free))));
                    add(&limited);
                });
            }
            s.spawn_broadcast(|_, _| add(&free));
        });
        assert_eq!((get(&limited), get(&free)), (50, 202));
    });
}

/// One worker runs all tasks, so the order is that of the spawns, for any limit.
#[test]
fn fifo_tasks_keep_their_order_with_a_limit() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            for limit in 1..5 {
                let order = Mutex::new(vec![]);
                pool.scope(|s| spawn_in_order(s, limit, &order));
                assert!(order.lock().unwrap().drain(..).eq(0..12), "limit {limit}");
                pool.in_place_scope(|s| spawn_in_order(s, limit, &order));
                let order = order.into_inner().unwrap();
                assert!(order.iter().copied().eq(0..12), "limit {limit}: {order:?}");
            }
        }
    });
}

fn spawn_in_order<'s>(s: &Scope<'s>, limit: usize, order: &'s Mutex<Vec<usize>>) {
    s.at_most(limit);
    for n in 0..12 {
        s.spawn_fifo(move |_| order.lock().unwrap().push(n));
    }
}

/// With a limit of one, tasks start in the order of their spawns on any number of workers, also
/// while tasks end.
#[test]
fn fifo_tasks_keep_their_order_while_others_end() {
    within(LIMIT, || {
        let pool = pool(3);
        for _ in 0..50 {
            let order = Mutex::new(vec![]);
            pool.in_place_scope(|s| {
                s.at_most(1);
                for n in 0..200 {
                    let order = &order;
                    s.spawn_fifo(move |_| order.lock().unwrap().push(n));
                }
            });
            let order = order.into_inner().unwrap();
            assert!(order.is_sorted() && order.len() == 200, "{order:?}");
        }
    });
}
