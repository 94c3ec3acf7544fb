//! Locks that are held across waits.

use crate::support::{Flag, LIMIT, pool, pool_without_substitutes, quiet_panic, within};
use filch::{
    Pool,
    sync::{Isolated, Mutex, MutexGuard, isolated},
};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        self, Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// How long to wait for what must not happen.
const SHORT: Duration = Duration::from_millis(60);

/// A lock across a join, as in rayon's issue 592: task A holds a lock and waits in a join for the
/// half that the other worker has stolen. Then comes task B. True when the worker runs B on top of
/// A: if B took the lock, it would wait for ever.
fn runs_on_top<G>(limit: Duration, lock: impl FnOnce() -> G + Send + 'static) -> bool {
    task_runs_on_top(&pool_without_substitutes(2), limit, lock)
}

/// [`runs_on_top`] in this pool of two workers.
fn task_runs_on_top<G>(
    pool: &Pool,
    limit: Duration,
    lock: impl FnOnce() -> G + Send + 'static,
) -> bool {
    let (stolen, on_top) = (Flag::default(), Flag::default());
    let holder = Arc::new(sync::Mutex::new(None::<ThreadId>));
    let task = {
        let (stolen, on_top, holder) = (stolen.clone(), on_top.clone(), holder.clone());
        pool.submit(move || {
            let _guard = lock();
            *holder.lock().unwrap() = Some(thread::current().id());
            filch::join(
                || stolen.wait("the thief"),
                || {
                    stolen.set();
                    let start = Instant::now();
                    while !on_top.is_set() && start.elapsed() < limit {
                        thread::yield_now();
                    }
                },
            );
            *holder.lock().unwrap() = None;
        })
    };
    stolen.wait("the second half");
    // Both workers are in the first task, and one of them waits.
    let other = {
        let on_top = on_top.clone();
        pool.submit(move || {
            if *holder.lock().unwrap() == Some(thread::current().id()) {
                on_top.set();
            }
        })
    };
    crate::support::until("both", || task.is_finished() && other.is_finished());
    on_top.is_set()
}

#[test]
fn a_waiting_worker_runs_tasks_that_want_a_lock_of_std() {
    // The hazard, seen without walking into it.
    assert!(within(LIMIT, || {
        let mutex: &sync::Mutex<()> = Box::leak(Box::new(sync::Mutex::new(())));
        runs_on_top(LIMIT / 2, || mutex.lock().unwrap())
    }));
}

/// The same in a pool that hands such tasks off: rayon's issue 592 with a lock of `std`.
#[test]
fn a_task_that_wants_a_lock_of_std_runs_on_another_thread() {
    assert!(!within(LIMIT, || {
        let mutex: &sync::Mutex<()> = Box::leak(Box::new(sync::Mutex::new(())));
        task_runs_on_top(&pool(2), SHORT, || mutex.lock().unwrap())
    }));
    within(LIMIT, || {
        let (pool, mutex) = (pool(2), Arc::new(sync::Mutex::new(0)));
        for _ in 0..100 {
            let mutex = mutex.clone();
            pool.spawn(move || {
                let mut count = mutex.lock().unwrap();
                filch::join(thread::yield_now, thread::yield_now);
                *count += 1;
            });
        }
        crate::support::until("all", || *mutex.lock().unwrap() == 100);
    });
}

#[test]
fn a_worker_that_waits_with_the_lock_runs_no_such_task() {
    assert!(!within(LIMIT, || {
        let mutex = Box::leak(Box::new(Mutex::new(())));
        runs_on_top(SHORT, || mutex.lock().unwrap())
    }));
    assert!(!within(LIMIT, || {
        let mutex = Box::leak(Box::new(Mutex::new(())));
        runs_on_top(SHORT, || mutex.try_lock().unwrap())
    }));
    assert!(!within(LIMIT, || {
        let lock = Box::leak(Box::new(sync::RwLock::new(())));
        runs_on_top(SHORT, || (isolated(), lock.read().unwrap()))
    }));
}

/// Guards that are gone isolate nothing, in whatever order they were dropped.
#[test]
fn no_trace_is_left_of_guards_that_were_dropped() {
    assert!(within(LIMIT, || runs_on_top(LIMIT / 2, || {
        let (one, two, three) = (Mutex::new(1), Mutex::new(2), Mutex::new(3));
        let (a, b, c) = (
            one.lock().unwrap(),
            two.lock().unwrap(),
            three.lock().unwrap(),
        );
        drop(b);
        drop(a);
        drop(c);
    })));
    assert!(within(LIMIT, || runs_on_top(LIMIT / 2, || {
        let guard = filch::isolate(isolated);
        filch::isolate(move || drop(guard));
        filch::isolate(|| drop(isolated()));
    })));
    assert!(within(LIMIT, || runs_on_top(LIMIT / 2, || {
        let mutex = Mutex::new(());
        let held = AssertUnwindSafe(|| {
            let _guard = mutex.lock().unwrap();
            let _alone = isolated();
            quiet_panic("with the lock");
        });
        panic::catch_unwind(held).unwrap_err();
        assert!(mutex.is_poisoned());
        drop(mutex.lock().unwrap_err());
        mutex.clear_poison();
        drop(mutex.lock().unwrap());
    })));
    assert!(within(LIMIT, || runs_on_top(LIMIT / 2, || {
        let other = pool(1);
        let alone = isolated();
        other.install(move || drop(alone));
    })));
    assert!(within(LIMIT, || runs_on_top(LIMIT / 2, || {
        let other = pool(1);
        drop(other.install(isolated));
    })));
}

/// As long as one guard lives, waits are isolated.
#[test]
fn the_last_guard_counts() {
    let keep: [fn() -> Isolated; 6] = [
        || {
            let (first, last) = (isolated(), isolated());
            drop(first);
            last
        },
        || {
            let (first, last) = (isolated(), isolated());
            drop(last);
            first
        },
        || {
            let (first, middle, last) = (isolated(), isolated(), isolated());
            drop(middle);
            drop(last);
            first
        },
        // Out of a call that is isolated itself.
        || filch::isolate(isolated),
        || {
            let guard = isolated();
            filch::isolate(|| ());
            guard
        },
        // Out of another pool.
        || pool(1).install(isolated),
    ];
    for (number, keep) in keep.into_iter().enumerate() {
        assert!(
            !within(LIMIT, move || runs_on_top(SHORT, keep)),
            "case {number}"
        );
    }
}

/// A guard that was made outside of every pool, or in another one, isolates too.
#[test]
fn a_guard_from_outside_counts_where_its_thread_becomes_a_worker() {
    let ran = within(LIMIT, || {
        let pool = pool(1);
        let (begun, end, ran) = (Flag::default(), Flag::default(), Flag::default());
        let guard = isolated();
        let busy = {
            let (begun, end) = (begun.clone(), end.clone());
            pool.submit(move || {
                begun.set();
                end.wait("the end");
            })
        };
        begun.wait("the worker");
        // The only worker is busy, so a guest that helps would run it.
        let other = {
            let ran = ran.clone();
            pool.submit(move || ran.set())
        };
        let looked = pool.install(|| {
            filch::yield_now();
            let nested = Pool::builder().workers(0).build().unwrap();
            nested.install(|| pool.install(filch::yield_now));
            ran.is_set()
        });
        drop(guard);
        end.set();
        busy.join().unwrap();
        other.join().unwrap();
        looked
    });
    assert!(!ran);
}

/// Many tasks that use one lock, with parallel work inside: with a lock of `std` this hangs sooner
/// or later.
#[test]
fn loops_inside_of_locks_end() {
    for workers in [1, 2, 4] {
        let sum = within(LIMIT, move || {
            let pool = pool(workers);
            let sums = Mutex::new(vec![0_u64; 64]);
            let rounds = AtomicUsize::new(0);
            pool.scope(|s| {
                for _ in 0..200 {
                    s.spawn(|_| {
                        let mut sums = sums.lock().unwrap();
                        filch::for_each(&mut sums[..], |sum| {
                            *sum += 1;
                            // Not each time: on a loaded machine a yield takes a whole time slice.
                            if sum.is_multiple_of(16) {
                                thread::yield_now();
                            }
                        });
                        filch::join(|| add_one(&rounds), || add_one(&rounds));
                    });
                }
            });
            assert_eq!(rounds.load(SeqCst), 400);
            sums.into_inner().unwrap().into_iter().sum::<u64>()
        });
        assert_eq!(sum, 64 * 200);
    }
}

fn add_one(count: &AtomicUsize) {
    count.fetch_add(1, SeqCst);
}

/// Waits with a lock run what was queued since it was locked, on one worker and on none, also when
/// an inner lock has come and gone meanwhile.
#[test]
fn what_was_queued_with_the_lock_runs() {
    for workers in [0, 1] {
        within(LIMIT, move || {
            let pool = pool(workers);
            let (outer, inner) = (Mutex::new(0), Mutex::new(0));
            pool.install(|| {
                let mut outer = outer.lock().unwrap();
                let count = AtomicUsize::new(0);
                filch::scope(|s| {
                    (0..4).for_each(|_| s.spawn(|_| add_one(&count)));
                    let guard = inner.lock().unwrap();
                    filch::join(|| add_one(&count), || add_one(&count));
                    drop(guard);
                });
                let task = filch::submit(|| 1);
                *outer += task.join().unwrap() + count.load(SeqCst);
            });
            assert_eq!(outer.into_inner().unwrap(), 7);
        });
    }
}

/// Dropped in the other order than usual: the marks of the guards that are left count.
#[test]
fn guards_that_are_dropped_out_of_order_hold_up_nothing() {
    within(LIMIT, || {
        pool(0).install(|| {
            let count = AtomicUsize::new(0);
            filch::scope(|s| {
                let one = isolated();
                s.spawn(|_| add_one(&count));
                let two = isolated();
                s.spawn(|_| add_one(&count));
                let three = isolated();
                drop(two);
                drop(three);
                // In the queue above the first guard, and below the others.
                while filch::has_local_tasks() && filch::yield_local() {}
                assert_eq!(count.load(SeqCst), 2);
                drop(one);
            });
        });
    });
}

#[test]
fn it_is_a_mutex() {
    let mut mutex = Mutex::from(1);
    *mutex.get_mut().unwrap() += 1;
    {
        let mut guard = mutex.lock().unwrap();
        *guard += 1;
        assert_eq!(format!("{guard:?} {guard}"), "3 3");
        assert!(mutex.try_lock().is_err());
        assert!(format!("{mutex:?}").contains("locked"));
    }
    assert!(!mutex.is_poisoned());
    assert_eq!(mutex.into_inner().unwrap(), 3);
    let slice: &Mutex<[i32]> = &Mutex::new([1, 2, 3]);
    assert_eq!(slice.lock().unwrap().len(), 3);
    assert_eq!(*Mutex::<u8>::default().lock().unwrap(), 0);
    within(LIMIT, || {
        let mutex = Arc::new(Mutex::new(0));
        let threads = [(); 4].map(|()| {
            let mutex = mutex.clone();
            thread::spawn(move || (0..1000).for_each(|_| *mutex.lock().unwrap() += 1))
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 4000);
    });
}

#[test]
fn a_guard_may_be_shared_but_not_sent() {
    fn is_sync<T: Sync>() {}
    is_sync::<MutexGuard<'static, u8>>();
    is_sync::<Isolated>();
}

/// A guard in a thread-local that is dropped when the thread ends.
#[test]
fn guards_of_threads_that_end_do_no_harm() {
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<Isolated>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let threads = [(); 4].map(|()| {
        thread::spawn(|| {
            KEPT.with(|kept| kept.borrow_mut().push(isolated()));
            pool(1).install(|| KEPT.with(|kept| kept.borrow_mut().push(isolated())));
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

thread_local! {
    /// Guards that outlive the calls in which they were made.
    static KEPT: std::cell::RefCell<Vec<Isolated>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Calls `f` on the pool, in a context whose place on the stack is the same at each call.
#[inline(never)]
fn install_here(pool: &Pool, f: &mut dyn FnMut()) {
    pool.install(f);
}

/// Whether a task that is spawned here runs in an isolated wait.
fn waits_run_what_is_spawned() -> bool {
    let ran = AtomicUsize::new(0);
    filch::scope(|s| {
        s.spawn(|_| add_one(&ran));
        while filch::has_local_tasks() && filch::yield_local() {}
        let in_wait = ran.load(SeqCst) == 1;
        KEPT.with(|kept| kept.borrow_mut().clear()); // for the scope to end in any case
        in_wait
    })
}

/// A guard in a thread-local outlives its context. The next context may have the same address, and
/// a guard that is dropped there must not restore the mark of the other, which may be one of
/// another pool.
#[test]
fn a_guard_that_outlives_its_context_is_not_taken_for_one_of_another() {
    within(LIMIT, || {
        let (pool_a, pool_b) = (pool(0), pool(0));
        install_here(&pool_a, &mut || {
            // The mark of the guard is far above those of the other pool.
            (0..100).for_each(|_| filch::spawn(|| ()));
            KEPT.with(|kept| kept.borrow_mut().push(isolated()));
        });
        let mut in_wait = false;
        install_here(&pool_b, &mut || {
            drop(isolated());
            in_wait = waits_run_what_is_spawned();
        });
        assert!(in_wait, "the wait would never end");
    });
}

/// A context that is isolated because the thread holds a guard from elsewhere: a guard that was
/// made and dropped here leaves the mark as it was.
#[test]
fn a_guard_inside_of_a_guard_from_elsewhere_holds_up_nothing() {
    within(LIMIT, || {
        KEPT.with(|kept| kept.borrow_mut().push(isolated()));
        let in_wait = pool(0).install(|| {
            let ran = AtomicUsize::new(0);
            filch::scope(|s| {
                s.spawn(|_| add_one(&ran));
                let (first, second) = (isolated(), isolated());
                drop(first);
                drop(second);
                while filch::has_local_tasks() && filch::yield_local() {}
                let in_wait = ran.load(SeqCst) == 1;
                KEPT.with(|kept| kept.borrow_mut().clear()); // for the scope to end in any case
                in_wait
            })
        });
        assert!(in_wait, "the wait would never end");
    });
}

/// A call of `isolate` stays isolated when a guard from outside of it is dropped inside, and what
/// was queued before it runs again afterwards.
#[test]
fn a_guard_that_is_dropped_in_an_isolated_call_does_not_end_its_isolation() {
    within(LIMIT, || {
        pool(0).install(|| {
            let ran = AtomicUsize::new(0);
            filch::scope(|s| {
                let one = isolated();
                s.spawn(|_| add_one(&ran));
                let two = isolated();
                filch::isolate(|| {
                    drop(two);
                    assert!(!filch::yield_local(), "it was queued before the call");
                });
                assert!(filch::yield_local());
                assert_eq!(ran.load(SeqCst), 1);
                drop(one);
            });
        });
    });
}

/// A call of `isolate` that returns a guard, while the thread holds another one.
#[test]
fn a_guard_that_an_isolated_call_returns_isolates_from_where_it_was_made() {
    within(LIMIT, || {
        pool(0).install(|| {
            let ran = AtomicUsize::new(0);
            filch::scope(|s| {
                let one = isolated();
                s.spawn(|_| add_one(&ran));
                let two = filch::isolate(isolated);
                assert!(
                    !filch::yield_local(),
                    "it was queued before the second guard"
                );
                drop(two);
                assert!(filch::yield_local());
                assert_eq!(ran.load(SeqCst), 1);
                drop(one);
            });
        });
    });
}
