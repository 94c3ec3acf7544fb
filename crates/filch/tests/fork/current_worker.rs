//! The worker that a program passes from call to call: `filch::with`.
#![expect(
    unsafe_code,
    reason = "a scoped thread-local variable, as some crates have them"
)]

use crate::support::{Drops, Flag, LIMIT, panic_of, pool, quiet_panic, within};
use filch::{CurrentWorker, Pool};
use std::{
    cell::Cell,
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn fibonacci(cx: &CurrentWorker, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = cx.join(|cx| fibonacci(cx, n - 1), |cx| fibonacci(cx, n - 2));
    a + b
}

/// A scoped thread-local variable: shared references that come back on the same thread, wherever
/// that is. Programs may have such a variable without unsafe code of their own.
mod scoped {
    use super::{Cell, CurrentWorker, ptr};

    thread_local! {
        static CARRIED: Cell<*const CurrentWorker> = const { Cell::new(ptr::null()) };
    }

    pub(crate) fn set<R>(cx: &CurrentWorker, f: impl FnOnce() -> R) -> R {
        struct Restore(*const CurrentWorker);
        impl Drop for Restore {
            fn drop(&mut self) {
                CARRIED.set(self.0);
            }
        }
        let _restore = Restore(CARRIED.replace(cx));
        f()
    }

    pub(crate) fn get<R>(f: impl FnOnce(Option<&CurrentWorker>) -> R) -> R {
        // SAFETY: it is null or points to what a call of `set` on this thread borrows.
        f(unsafe { CARRIED.get().as_ref() })
    }
}

#[test]
fn joins_nest_on_any_number_of_workers() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let pool = pool(workers);
            assert_eq!(pool.with(|cx| fibonacci(cx, 16)), 987, "{workers} workers");
            if workers > 0 {
                let on_worker = || filch::with(|cx| fibonacci(cx, 10));
                assert_eq!(pool.broadcast(|_| on_worker()), vec![55; workers]);
            }
        }
        assert_eq!(filch::with(|cx| fibonacci(cx, 16)), 987, "the global pool");
    });
}

#[test]
fn a_stolen_half_gets_the_worker_that_runs_it() {
    within(LIMIT, || {
        let pool = pool(1);
        let begun = Flag::default();
        let (here, there) = pool.with(|cx| {
            cx.join(
                |cx| {
                    begun.wait("the second half is stolen");
                    (format!("{cx:?}"), thread::current().id())
                },
                |cx| {
                    begun.set();
                    assert_eq!(fibonacci(cx, 10), 55);
                    (format!("{cx:?}"), thread::current().id())
                },
            )
        });
        assert_ne!(here.1, there.1);
        assert_eq!(there.0, "CurrentWorker { worker: 0, .. }");
        assert_ne!(here.0, there.0);
    });
}

#[test]
fn a_panic_of_either_half_comes_after_both() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            let ran = AtomicUsize::new(0);
            let first = panic_of(|| {
                pool.with(|cx| {
                    cx.join(
                        |_| quiet_panic("first"),
                        |_| ran.fetch_add(1, Ordering::Relaxed),
                    )
                })
            });
            let second = panic_of(|| {
                pool.with(|cx| {
                    cx.join(
                        |_| ran.fetch_add(1, Ordering::Relaxed),
                        |cx| {
                            assert_eq!(fibonacci(cx, 8), 21);
                            quiet_panic("second")
                        },
                    )
                })
            });
            assert_eq!((first, second), ("first", "second"));
            assert_eq!(ran.into_inner(), 2);
        }
    });
}

#[test]
fn results_and_captures_are_dropped_once() {
    let pool = pool(2);
    let drops = Drops::default();
    for _ in 0..100 {
        let (a, b) = (drops.value(), drops.value());
        let kept = pool.with(|cx| cx.join(move |_| a, move |_| b));
        drop(kept);
    }
    assert_eq!(drops.seen(), 200);
}

#[test]
fn a_worker_opens_scopes() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let pool = pool(workers);
            let mut numbers = [1, 2, 3];
            let answer = pool.with(|cx| {
                cx.scope(|s| {
                    for n in &mut numbers {
                        s.spawn(move |_| *n += filch::with(|cx| fibonacci(cx, 10)));
                    }
                    42
                })
            });
            assert_eq!((answer, numbers), (42, [56, 57, 58]));
        }
    });
}

/// Which pool a job is of, by its number of workers.
fn workers_here() -> usize {
    Pool::current().unwrap().workers()
}

#[test]
fn what_it_runs_inside_of_another_pool_is_of_its_own() {
    within(LIMIT, || {
        let (own, other) = (pool(0), pool(1));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = || {
            let seen = seen.clone();
            move || seen.lock().unwrap().push(workers_here())
        };
        own.with(|cx| {
            other.install(|| {
                // A younger job, which the join has to run before its second half.
                cx.join(|_| own.install(|| filch::spawn(note())), |_| ());
                assert_eq!(workers_here(), 1);
                cx.scope(|s| s.spawn(|_| note()()));
                assert_eq!(workers_here(), 1);
            });
            let first = panic_of(|| {
                other.install(|| cx.join(|_| quiet_panic("first"), |_| note()()));
            });
            assert_eq!(first, "first");
        });
        assert_eq!(*seen.lock().unwrap(), [0, 0, 0]);
    });
}

#[test]
fn an_outer_worker_can_be_used_in_a_task_that_a_wait_runs() {
    within(LIMIT, || {
        let pool = Arc::new(pool(1));
        let (begun, used) = (Flag::default(), Arc::new(Flag::default()));
        pool.with(|cx| {
            scoped::set(cx, || {
                cx.join(
                    |_| {
                        begun.wait("the second half is stolen");
                        // The only other worker waits, so this one runs it, in its wait.
                        let used = used.clone();
                        thread::scope(|s| {
                            s.spawn(|| {
                                pool.spawn(move || {
                                    scoped::get(|cx| {
                                        let cx = cx.expect("the wait is on this stack");
                                        assert_eq!(fibonacci(cx, 8), 21);
                                        let inner = filch::with(|inner| {
                                            inner.join(
                                                |inner| fibonacci(inner, 5),
                                                |_| scoped::get(|cx| fibonacci(cx.unwrap(), 6)),
                                            )
                                        });
                                        assert_eq!(inner, (5, 8));
                                        assert_eq!(filch::join(|| 1, || 2), (1, 2));
                                        cx.scope(|s| s.spawn(|_| ()));
                                    });
                                    used.set();
                                });
                            });
                        });
                    },
                    |_| {
                        begun.set();
                        used.wait("the wait runs the task");
                    },
                )
            })
        });
    });
}

#[test]
fn it_can_be_used_while_a_panic_unwinds() {
    struct JoinsWhenDropped<'a>(&'a CurrentWorker, &'a Cell<u64>);
    impl Drop for JoinsWhenDropped<'_> {
        fn drop(&mut self) {
            self.1.set(fibonacci(self.0, 8));
        }
    }
    let got = Cell::new(0);
    let panic = panic_of(|| {
        pool(2).with(|cx| {
            let _joins = JoinsWhenDropped(cx, &got);
            quiet_panic("outside")
        })
    });
    assert_eq!((panic, got.get()), ("outside", 21));
}

#[test]
fn isolation_holds_for_carried_joins() {
    within(LIMIT, || {
        let (alone, seen) = (pool(0), Arc::new(AtomicUsize::new(0)));
        let later = seen.clone();
        alone.with(|cx| {
            filch::spawn(move || {
                later.fetch_add(1, Ordering::Relaxed);
            });
            filch::isolate(|| {
                assert_eq!(fibonacci(cx, 8), 21);
                cx.scope(|s| s.spawn(|_| ()));
                assert_eq!(seen.load(Ordering::Relaxed), 0, "it was queued before");
            });
        });
        alone.shutdown();
        assert_eq!(seen.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn it_works_after_the_shutdown_of_its_pool() {
    within(LIMIT, || {
        // On a thread that is a worker for good, and leaves the pool.
        let pool = Pool::builder()
            .workers(2)
            .with_current_thread()
            .build()
            .unwrap();
        pool.clone().with(|cx| {
            pool.shutdown();
            assert_eq!(fibonacci(cx, 12), 144);
            cx.scope(|s| s.spawn(|_| ()));
        });
        let pool = crate::support::pool(2);
        pool.clone().with(|cx| {
            pool.shutdown();
            assert_eq!(fibonacci(cx, 12), 144);
        });
    });
}

#[test]
fn deep_recursion_grows_the_queue() {
    // More than a queue holds at first.
    fn spine(cx: &CurrentWorker, depth: usize) -> usize {
        match depth {
            0 => 0,
            _ => {
                let (below, one) = cx.join(move |cx| spine(cx, depth - 1), |_| 1);
                below + one
            }
        }
    }
    for workers in [0, 2] {
        assert_eq!(pool(workers).with(|cx| spine(cx, 600)), 600);
    }
}
