//! What rayon-core's documentation promises, on any pool.

use rayon_core::{
    FnContext, Scope, ThreadPool, ThreadPoolBuilder, Yield, broadcast, current_num_threads,
    current_thread_has_pending_tasks, current_thread_index, in_place_scope, in_place_scope_fifo,
    join, join_context, scope, scope_fifo, spawn, spawn_broadcast, spawn_fifo, yield_local,
    yield_now,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const LONG: Duration = Duration::from_secs(30);

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
}

fn panics<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("a panic");
    match payload.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(other) => *other.downcast::<String>().unwrap(),
    }
}

/// Calls `f` on this thread, in a pool, and in a pool called from another pool.
fn everywhere(f: impl Fn() + Send + Sync) {
    f();
    for threads in [1, 2, 5] {
        pool(threads).install(&f);
        pool(2).install(|| pool(threads).install(&f));
    }
}

#[test]
fn user_code_runs_on_threads_of_a_pool() {
    let check = || {
        let index = current_thread_index().expect("a thread of a pool");
        assert!(index < current_num_threads());
    };
    let here = thread::current().id();
    let elsewhere = || {
        check();
        assert_ne!(thread::current().id(), here);
    };
    join(elsewhere, elsewhere);
    join_context(|_| elsewhere(), |_| elsewhere());
    scope(|s| {
        elsewhere();
        for _ in 0..50 {
            s.spawn(|s| {
                elsewhere();
                s.spawn(|_| elsewhere());
            });
        }
    });
    scope_fifo(|s| s.spawn_fifo(|_| elsewhere()));
    in_place_scope(|s| {
        assert_eq!(current_thread_index(), None);
        assert_eq!(thread::current().id(), here);
        for _ in 0..50 {
            s.spawn(|_| elsewhere());
        }
    });
    in_place_scope_fifo(|s| s.spawn_fifo(|_| elsewhere()));
    broadcast(|_| elsewhere());
    pool(2).install(elsewhere);
    assert_eq!(current_thread_index(), None);
}

#[test]
fn the_index_is_that_of_the_pool_that_is_asked() {
    let (a, b) = (pool(1), pool(3));
    assert_eq!(a.current_thread_index(), None);
    a.install(|| {
        assert_eq!(
            (a.current_thread_index(), b.current_thread_index()),
            (Some(0), None)
        );
        assert_eq!(current_num_threads(), 1);
        assert_eq!((a.yield_now(), b.yield_now()), (Some(Yield::Idle), None));
        assert_eq!(
            (a.yield_local(), b.yield_local()),
            (Some(Yield::Idle), None)
        );
        assert_eq!(a.current_thread_has_pending_tasks(), Some(false));
        assert_eq!(b.current_thread_has_pending_tasks(), None);
        b.install(|| {
            assert!(b.current_thread_index().is_some_and(|index| index < 3));
            assert_eq!(a.current_thread_index(), None);
            assert_eq!((current_num_threads(), a.current_num_threads()), (3, 1));
        });
        assert_eq!(current_thread_index(), Some(0));
    });
}

#[test]
fn joins_borrow_and_nest() {
    fn sort(numbers: &mut [u32]) {
        if numbers.len() < 2 {
            return;
        }
        let pivot = numbers[numbers.len() / 2];
        let mut rest: Vec<u32> = numbers.to_vec();
        rest.sort_by_key(|n| (*n > pivot) as u32 * 2 + (*n == pivot) as u32);
        numbers.copy_from_slice(&rest);
        let (low, high) = (
            rest.partition_point(|n| *n < pivot),
            rest.partition_point(|n| *n <= pivot),
        );
        let (left, right) = numbers.split_at_mut(high);
        join(|| sort(&mut left[..low]), || sort(right));
    }
    everywhere(|| {
        let mut numbers: Vec<u32> = (0..500_u32).map(|n| n.wrapping_mul(7919) % 251).collect();
        sort(&mut numbers);
        assert!(numbers.is_sorted());
    });
}

#[test]
fn closures_know_whether_they_moved() {
    let one = pool(1);
    let moved = |cx: FnContext| cx.migrated();
    assert_eq!(one.install(|| join_context(moved, moved)), (false, false));
    // From outside both closures run on another thread.
    assert_eq!(join_context(moved, moved), (true, true));
    // The first closure blocks until the second one runs, so the second is stolen.
    let stolen = pool(2).install(|| {
        let barrier = Barrier::new(2);
        join_context(
            |cx| {
                barrier.wait();
                cx.migrated()
            },
            |cx| {
                barrier.wait();
                cx.migrated()
            },
        )
    });
    assert_eq!(stolen, (false, true));
}

#[test]
fn panics_reach_the_caller_after_both_halves() {
    everywhere(|| {
        let done = AtomicBool::new(false);
        let a = || panic!("a");
        let message = panics(|| join(a, || done.store(true, Ordering::Relaxed)));
        assert_eq!((message.as_str(), done.into_inner()), ("a", true));
        assert_eq!(panics(|| join(|| (), || panic!("b"))), "b");
        assert_eq!(panics(|| join(|| panic!("a"), || panic!("b"))), "a");
        assert_eq!(panics(|| scope(|s| s.spawn(|_| panic!("task")))), "task");
        assert_eq!(
            panics(|| scope_fifo(|s| s.spawn_fifo(|_| panic!("task")))),
            "task"
        );
        assert_eq!(
            panics(|| in_place_scope(|s| s.spawn(|_| panic!("task")))),
            "task"
        );
        assert_eq!(panics(|| scope(|_| panic!("op"))), "op");
        assert_eq!(panics(|| broadcast(|_| panic!("everywhere"))), "everywhere");
        let message = panics(|| scope(|s| s.spawn_broadcast(|_, _| panic!("everywhere"))));
        assert_eq!(message, "everywhere");
    });
    assert_eq!(
        panics(|| pool(2).install(|| panic!("installed"))),
        "installed"
    );
}

#[test]
fn a_scope_finishes_everything_before_a_panic_goes_on() {
    let done = AtomicUsize::new(0);
    panics(|| {
        pool(3).scope(|s| {
            for n in 0..100 {
                let done = &done;
                s.spawn(move |_| {
                    assert!(n != 13, "one of them");
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            panic!("and the scope");
        })
    });
    assert_eq!(done.into_inner(), 99);
}

#[test]
fn scopes_within_scopes() {
    fn walk<'s>(s: &Scope<'s>, depth: u32, seen: &'s AtomicUsize) {
        seen.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            return;
        }
        s.spawn(move |s| walk(s, depth - 1, seen));
        scope(|inner| inner.spawn(move |_| scope(|s| walk(s, depth - 1, seen))));
    }
    everywhere(|| {
        let seen = AtomicUsize::new(0);
        scope(|s| walk(s, 6, &seen));
        assert_eq!(seen.into_inner(), 127);
    });
}

#[test]
fn a_scope_takes_tasks_from_other_threads_and_pools() {
    let (a, b) = (pool(1), pool(1));
    let (done, on_a) = (AtomicUsize::new(0), AtomicUsize::new(0));
    a.scope(|s| {
        let count = |_: &Scope<'_>| {
            done.fetch_add(1, Ordering::Relaxed);
            on_a.fetch_add(
                a.current_thread_index().is_some() as usize,
                Ordering::Relaxed,
            );
        };
        b.install(|| s.spawn(count));
        thread::scope(|threads| {
            threads.spawn(|| s.spawn(count));
        });
        s.spawn(count);
    });
    assert_eq!((done.into_inner(), on_a.into_inner()), (3, 3));
}

#[test]
fn scopes_in_place_run_here_and_spawn_there() {
    let (a, b) = (pool(1), pool(2));
    a.install(|| {
        let mut places = vec![None; 20];
        b.in_place_scope(|s| {
            assert_eq!(
                (a.current_thread_index(), current_num_threads()),
                (Some(0), 1)
            );
            for place in &mut places {
                let b = &b;
                s.spawn(move |_| *place = b.current_thread_index());
            }
        });
        assert!(
            places
                .iter()
                .all(|place| place.is_some_and(|index| index < 2))
        );
        // On a worker of the same pool.
        let mut sum = 0;
        a.in_place_scope(|s| s.spawn(|_| sum += 1));
        in_place_scope(|s| s.spawn(|_| sum += 1));
        assert_eq!(sum, 2);
    });
}

#[test]
fn the_newest_first_or_the_oldest() {
    let one = pool(1);
    let run = |spawns: &(dyn Fn(&Mutex<Vec<u32>>) + Sync)| {
        let order = Mutex::new(vec![]);
        one.install(|| spawns(&order));
        order.into_inner().unwrap()
    };
    let lifo = run(&|order| {
        scope(|s| (0..5).for_each(|n| s.spawn(move |_| order.lock().unwrap().push(n))));
    });
    assert_eq!(lifo, [4, 3, 2, 1, 0]);
    let fifo = run(&|order| {
        scope_fifo(|s| (0..5).for_each(|n| s.spawn_fifo(move |_| order.lock().unwrap().push(n))));
    });
    assert_eq!(fifo, [0, 1, 2, 3, 4]);
    let in_place = Mutex::new(vec![]);
    let order = &in_place;
    one.in_place_scope_fifo(|s| {
        (0..5).for_each(|n| s.spawn_fifo(move |_| order.lock().unwrap().push(n)));
    });
    assert_eq!(in_place.into_inner().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn spawned_tasks_keep_the_order_of_their_kind() {
    for inside in [true, false] {
        let one = pool(1);
        let (send, receive) = mpsc::channel();
        let held = Arc::new(Barrier::new(2));
        if !inside {
            // Holds the worker, so that all tasks are queued when the first starts.
            let held = held.clone();
            one.spawn(move || {
                held.wait();
            });
        }
        let spawns = {
            let one = &one;
            move || {
                for n in 0..20 {
                    let send = send.clone();
                    if n % 2 == 0 {
                        one.spawn_fifo(move || send.send(n).unwrap());
                    } else if inside {
                        spawn_fifo(move || send.send(n).unwrap());
                    } else {
                        one.spawn_fifo(move || send.send(n).unwrap());
                    }
                }
            }
        };
        if inside {
            one.install(spawns);
        } else {
            spawns();
            held.wait();
        }
        assert_eq!(
            receive.iter().take(20).collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_broadcast_reaches_every_thread_once() {
    for threads in [1, 2, 7] {
        let pool = pool(threads);
        let check = |indices: Vec<(usize, usize, Option<usize>)>| {
            let expected: Vec<_> = (0..threads).map(|n| (n, threads, Some(n))).collect();
            assert_eq!(indices, expected);
        };
        let said = || pool.broadcast(|cx| (cx.index(), cx.num_threads(), current_thread_index()));
        check(said());
        pool.install(|| check(said()));
        pool.install(|| {
            check(broadcast(|cx| {
                (cx.index(), cx.num_threads(), current_thread_index())
            }));
        });
        // From a worker of another pool.
        self::pool(1).install(|| check(said()));

        let (send, receive) = mpsc::channel();
        let sends = [send.clone(), send];
        pool.spawn_broadcast({
            let send = sends[0].clone();
            move |cx| send.send(cx.index()).unwrap()
        });
        pool.install(|| {
            let [_, send] = sends;
            spawn_broadcast(move |cx| send.send(cx.index()).unwrap());
        });
        let mut indices: Vec<usize> = receive.iter().collect();
        indices.sort_unstable();
        assert_eq!(
            indices,
            (0..threads).flat_map(|n| [n, n]).collect::<Vec<_>>()
        );
    }
}

#[test]
fn broadcasts_in_scopes() {
    let pool = pool(3);
    let calls = AtomicUsize::new(0);
    let add = |amount| {
        calls.fetch_add(amount, Ordering::Relaxed);
    };
    pool.scope(|s| {
        s.spawn_broadcast(|s, cx| {
            assert_eq!(
                (cx.num_threads(), current_thread_index()),
                (3, Some(cx.index()))
            );
            s.spawn(|_| add(1));
        });
    });
    pool.in_place_scope(|s| s.spawn_broadcast(|_, cx| add(10 * (cx.index() + 1))));
    pool.scope_fifo(|s| s.spawn_broadcast(|_, _| add(100)));
    assert_eq!(calls.into_inner(), 3 + 60 + 300);
}

#[test]
fn yielding() {
    assert_eq!((yield_now(), yield_local()), (None, None));
    assert_eq!(current_thread_has_pending_tasks(), None);
    let one = pool(1);
    one.install(|| {
        assert_eq!(yield_now(), Some(Yield::Idle));
        assert_eq!(current_thread_has_pending_tasks(), Some(false));
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let ran = ran.clone();
            spawn(move || {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(current_thread_has_pending_tasks(), Some(true));
        assert_eq!(yield_local(), Some(Yield::Executed));
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(
            (yield_now(), yield_local()),
            (Some(Yield::Idle), Some(Yield::Idle))
        );
        assert_eq!(ran.load(Ordering::Relaxed), 3);
        assert_eq!(current_thread_has_pending_tasks(), Some(false));
    });
}

#[test]
fn a_worker_can_wait_for_a_flag_by_yielding() {
    // The only worker waits for a task that it has to run itself.
    let one = pool(1);
    let (send, receive) = mpsc::channel();
    one.spawn(move || {
        let flag = Arc::new(AtomicBool::new(false));
        let raised = flag.clone();
        spawn(move || raised.store(true, Ordering::Release));
        while !flag.load(Ordering::Acquire) {
            assert!(yield_now().is_some());
        }
        send.send(()).unwrap();
    });
    receive.recv_timeout(LONG).unwrap();
}

#[test]
fn pools_that_call_each_other_do_not_wait_for_ever() {
    // One worker each: while `a` waits for `b`, it must run the calls from `b`.
    let (a, b) = (pool(1), pool(1));
    fn bounce(to: &ThreadPool, back: &ThreadPool, times: u32) -> u32 {
        if times == 0 {
            return 0;
        }
        to.install(|| bounce(back, to, times - 1) + 1)
    }
    assert_eq!(bounce(&a, &b, 50), 50);
}

#[test]
fn many_threads_from_outside_at_once() {
    let pool = pool(2);
    let sum = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..50 {
            threads.spawn(|| {
                let (a, b) = pool.join(current_thread_index, current_thread_index);
                assert!(a.unwrap() < 2 && b.unwrap() < 2);
                pool.scope(|s| {
                    s.spawn(|_| {
                        sum.fetch_add(1, Ordering::Relaxed);
                    });
                });
                let below = join(current_thread_index, current_num_threads);
                assert!(below.0.unwrap() < below.1);
            });
        }
    });
    assert_eq!(sum.into_inner(), 50);
}
