//! Submitted tasks: results, panics, cancellation, waiting.

use crate::support::{
    Drops, Flag, LIMIT, Panics, block_on, message, pool, quiet_panic, until, within,
};
use filch::{Affinity, CancelToken, Pool, Priority, TaskHandle};
use std::{
    cell::RefCell,
    collections::HashSet,
    future::Future,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

/// Keeps every worker of a pool busy until it is released.
struct Busy {
    end: Flag,
    tasks: Vec<TaskHandle<()>>,
}

impl Busy {
    fn all_of(pool: &Pool) -> Self {
        let (end, begun) = (Flag::default(), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..pool.workers())
            .map(|_| {
                let (end, begun) = (end.clone(), begun.clone());
                pool.submit(move || {
                    begun.fetch_add(1, SeqCst);
                    end.wait("the end of a busy task");
                })
            })
            .collect();
        until("every worker is busy", || {
            begun.load(SeqCst) == pool.workers()
        });
        Self { end, tasks }
    }

    fn end(self) {
        self.end.set();
        self.tasks.into_iter().for_each(|task| task.join().unwrap());
    }
}

/// Submits a task for each recursive call, and joins it.
fn parallel_fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let a = filch::submit(move || parallel_fibonacci(n - 1));
    let b = filch::submit(move || parallel_fibonacci(n - 2));
    a.join().unwrap() + b.join().unwrap()
}

#[test]
fn recursive_tasks_work_on_any_number_of_workers() {
    for workers in [0, 1, 2, 4] {
        let sum = within(LIMIT, move || {
            let pool = pool(workers);
            let inside = pool.install(|| parallel_fibonacci(16));
            let outside = pool.submit(|| parallel_fibonacci(16)).join().unwrap();
            (inside, outside)
        });
        assert_eq!(sum, (987, 987), "{workers} workers");
    }
}

#[test]
fn tickets_of_tasks_that_were_joined_don_t_pile_up() {
    let pool = pool(0);
    assert_eq!(pool.install(|| parallel_fibonacci(12)), 144);
    // Every ticket has been taken out of the queue by the time in which the last task was joined.
    let submitted = pool.task_metrics().total().submitted;
    assert_eq!(pool.metrics().total().executed, submitted);
    // In an `isolate` too.
    pool.install(|| filch::isolate(|| assert_eq!(parallel_fibonacci(12), 144)));
    assert_eq!(pool.metrics().total().executed, 2 * submitted);
}

#[test]
fn results_come_back_from_any_thread() {
    let pool = pool(2);
    let handles: Vec<_> = (0..5_000_u64).map(|n| pool.submit(move || n)).collect();
    let ids: HashSet<_> = handles.iter().map(TaskHandle::id).collect();
    assert_eq!(ids.len(), 5_000, "numbers are unique");
    let sum: u64 = handles.into_iter().rev().map(|h| h.join().unwrap()).sum();
    assert_eq!(sum, 12_497_500);
    let total = pool.task_metrics().total();
    assert_eq!((total.submitted, total.finished), (5_000, 5_000));
    assert_eq!(total.panicked + total.cancelled + total.refused, 0);
}

#[test]
fn closures_and_results_of_any_size_and_alignment() {
    #[repr(align(256))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Wide(u8);
    let pool = pool(1);
    pool.submit(|| ()).join().unwrap();
    for size in 0..3 {
        let big = [size; 3000];
        assert_eq!(pool.submit(move || big).join().unwrap(), [size; 3000]);
        let wide = Wide(size);
        assert_eq!(pool.submit(move || wide).join().unwrap(), wide);
        let (a, b, c) = (size, [u64::from(size); 9], vec![size; 5]);
        let task = pool.submit(move || (a, b, c));
        assert_eq!(
            task.join().unwrap(),
            (size, [u64::from(size); 9], vec![size; 5])
        );
    }
}

#[test]
fn handles_may_go_anywhere_and_outlive_the_pool() {
    let pool = pool(1);
    let task = pool.submit(|| 7);
    let other = thread::spawn(move || task.join().unwrap());
    assert_eq!(other.join().unwrap(), 7);
    let (kept, cancelled) = (pool.submit(|| 8), pool.submit(|| 9));
    pool.shutdown();
    assert!(kept.is_finished());
    assert_eq!(kept.join().unwrap(), 8);
    assert!(!cancelled.cancel() && !cancelled.set_priority(Priority::High));
    assert_eq!(cancelled.priority(), Priority::Normal);
    drop(cancelled);
}

#[test]
fn try_join_and_join_timeout_give_the_handle_back() {
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let task = pool.submit(|| 1);
    assert!(!task.is_finished());
    let task = task.try_join().unwrap_err();
    let task = task.join_timeout(Duration::from_millis(5)).unwrap_err();
    busy.end();
    let task = task.join_timeout(LIMIT);
    assert_eq!(task.unwrap().unwrap(), 1);
    let task = pool.submit(|| 2);
    until("it is done", || task.is_finished());
    assert_eq!(task.try_join().unwrap().unwrap(), 2);
}

#[test]
fn join_timeout_in_a_worker_ends_in_time_and_helps_meanwhile() {
    within(LIMIT, || {
        let pool = pool(1);
        // Another thread runs the task, so the worker can only wait for it.
        let (hold, held) = (Flag::default(), Flag::default());
        let outside = {
            let (pool, hold, held) = (pool.clone(), hold.clone(), held.clone());
            thread::spawn(move || {
                pool.install(|| {
                    held.set();
                    hold.wait("the end");
                });
            })
        };
        held.wait("the guest");
        let elsewhere = crate::support::pool(1);
        let (hold_too, begun) = (hold.clone(), Flag::default());
        let begun_too = begun.clone();
        let slow = elsewhere.submit(move || {
            begun_too.set();
            hold_too.wait("the end");
            5
        });
        begun.wait("the slow task");
        let helped = Flag::default();
        let helped_too = helped.clone();
        let waiter = pool.submit(move || {
            filch::spawn(move || helped_too.set());
            match slow.join_timeout(Duration::from_millis(20)) {
                Ok(_) => unreachable!("it is held"),
                Err(slow) => slow,
            }
        });
        let slow = waiter.join().unwrap();
        assert!(helped.is_set(), "the worker has run what it had queued");
        hold.set();
        assert_eq!(slow.join().unwrap(), 5);
        outside.join().unwrap();
    });
}

#[test]
fn a_panic_reaches_the_handle_and_costs_nothing_else() {
    let told = Panics::default();
    let pool = told.pool(1);
    let task = pool.task(|| -> u32 { quiet_panic("bad") }).name("sum");
    let error = task.submit().unwrap().join().unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled() && !error.is_deadlock());
    assert_eq!(error.name(), Some("sum"));
    assert_eq!(error.to_string(), "task `sum` panicked: bad");
    assert_eq!(message(&*error.into_panic()), "bad");
    let resumed = panic::catch_unwind(AssertUnwindSafe(|| {
        let error = pool.submit(|| quiet_panic("again")).join().unwrap_err();
        error.resume()
    }));
    assert_eq!(message(&*resumed.unwrap_err()), "again");
    assert_eq!(pool.submit(|| 1).join().unwrap(), 1, "the worker lives");
    assert!(told.take().is_empty(), "its handle was joined");
    let total = pool.task_metrics().total();
    assert_eq!((total.finished, total.panicked), (1, 2));
}

#[test]
fn detached_panics_are_reported_to_the_pool() {
    let (told, drops) = (Panics::default(), Drops::default());
    let pool = told.pool(1);
    pool.submit(|| quiet_panic("detached")).detach();
    let busy = Busy::all_of(&pool);
    let value = drops.bomb("result");
    let dropped_first = pool.submit(move || value);
    drop(dropped_first);
    busy.end();
    // Finished before their handles are dropped.
    let value = drops.bomb("late result");
    let finished = [
        pool.submit(move || Some(value)),
        pool.submit(|| quiet_panic("late")),
    ];
    until("both are done", || {
        finished.iter().all(TaskHandle::is_finished)
    });
    drop(finished);
    pool.shutdown();
    assert_eq!(told.take(), ["detached", "late", "late result", "result"]);
    assert_eq!(drops.seen(), 2);
}

#[test]
fn a_payload_that_panics_when_it_is_dropped_does_no_harm() {
    let drops = Drops::default();
    let pool = pool(1);
    let bomb = drops.bomb("payload");
    let task = pool.submit(move || panic::resume_unwind(Box::new(bomb)));
    until("it is done", || task.is_finished());
    drop(task);
    let bomb = drops.bomb("payload");
    pool.submit(move || panic::resume_unwind(Box::new(bomb)))
        .detach();
    assert_eq!(pool.submit(|| 3).join().unwrap(), 3);
    pool.shutdown();
    assert_eq!(drops.seen(), 2);
}

#[test]
fn a_cancelled_task_never_starts_and_its_closure_is_dropped_at_once() {
    let (told, drops) = (Panics::default(), Drops::default());
    let pool = told.pool(1);
    let busy = Busy::all_of(&pool);
    let (value, bomb) = (drops.value(), drops.bomb("closure"));
    let queued = pool.submit(move || drop(value));
    let explosive = pool.submit(move || drop(bomb));
    assert!(queued.cancel());
    assert_eq!(drops.seen(), 1);
    assert!(explosive.cancel(), "also when the closure does not like it");
    assert_eq!((drops.seen(), told.take()), (2, vec!["closure"]));
    assert!(!queued.cancel(), "once");
    assert!(queued.is_finished());
    let error = queued.join().unwrap_err();
    assert!(error.is_cancelled() && !error.is_deadline() && !error.is_refused());
    assert!(
        error
            .to_string()
            .ends_with("was cancelled before it started")
    );
    busy.end();
    let total = pool.task_metrics().total();
    assert_eq!(
        (total.submitted, total.finished, total.cancelled),
        (3, 1, 2)
    );
}

#[test]
fn a_running_task_can_ask_whether_it_was_cancelled() {
    assert!(!filch::is_cancelled(), "no task at all");
    let pool = pool(1);
    let begun = Flag::default();
    let begun_too = begun.clone();
    let task = pool.submit(move || {
        let before = filch::is_cancelled();
        begun_too.set();
        until("it is cancelled", filch::is_cancelled);
        let info = filch::current_task().unwrap();
        (before, info.is_cancelled(), info.token().is_cancelled())
    });
    begun.wait("the task");
    assert!(!task.cancel(), "it runs");
    assert_eq!(task.join().unwrap(), (false, true, true));
    let done = pool.submit(filch::is_cancelled);
    until("it is done", || done.is_finished());
    assert!(!done.cancel());
    assert!(!done.join().unwrap());
}

#[test]
fn tokens_cancel_what_was_submitted_with_them() {
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let root = CancelToken::new();
    let (one, other) = (root.child(), root.child());
    let submit = |token: &CancelToken| pool.task(|| 1).token(token).submit().unwrap();
    let (first, second, third) = (submit(&one), submit(&other), submit(&other));
    one.cancel();
    assert!(first.is_finished() && !second.is_finished());
    assert!(second.cancel(), "alone");
    assert!(!other.is_cancelled() && !third.is_finished());
    root.cancel();
    assert!(third.join().unwrap_err().is_cancelled());
    let late = submit(&root);
    assert!(late.is_finished(), "cancelled before it was submitted");
    assert!(late.join().unwrap_err().is_cancelled());
    busy.end();
    let total = pool.task_metrics().total();
    assert_eq!((total.submitted, total.cancelled), (5, 4));
}

#[test]
fn a_token_tells_a_running_task() {
    let pool = pool(1);
    let (token, begun) = (CancelToken::new(), Flag::default());
    let begun_too = begun.clone();
    let task = pool.task(move || {
        begun_too.set();
        until("its token is cancelled", filch::is_cancelled);
    });
    let task = task.token(&token).submit().unwrap();
    begun.wait("the task");
    token.cancel();
    task.join().unwrap();
}

#[test]
fn a_task_that_does_not_start_in_time_expires() {
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let soon = pool.task(|| ()).timeout(Duration::from_millis(5));
    let soon = soon.name("soon").submit().unwrap();
    let past = Instant::now();
    let past = pool.task(|| ()).deadline(past).submit().unwrap();
    assert!(past.join().unwrap_err().is_deadline());
    // Only the timer can end it.
    until("the time is up", || soon.is_finished());
    let error = soon.join().unwrap_err();
    assert!(error.is_deadline() && error.is_cancelled());
    assert!(error.to_string().starts_with("task `soon` did not start"));
    busy.end();
    let total = pool.task_metrics().total();
    assert_eq!((total.cancelled, total.expired), (0, 2));
}

#[test]
fn a_deadline_tells_a_running_task_and_forgets_a_finished_one() {
    let pool = pool(1);
    let task = pool.task(|| until("the time is up", filch::is_cancelled));
    // Long enough that it has started before.
    let task = task.timeout(Duration::from_millis(200)).submit().unwrap();
    match task.join() {
        Ok(()) => {}
        Err(error) => assert!(error.is_deadline(), "it started late: {error}"),
    }
    let quick = pool.task(|| 1).timeout(Duration::MAX).submit().unwrap();
    assert_eq!(quick.join().unwrap(), 1);
    let quick = pool.task(|| 2).timeout(LIMIT).submit().unwrap();
    assert_eq!(quick.join().unwrap(), 2);
}

#[test]
fn join_runs_a_queued_task_right_there() {
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let here = thread::current().id();
    let task = pool.submit(|| thread::current().id());
    assert_eq!(task.join().unwrap(), here);
    // What it submits in turn is joined in the same way.
    let nested = pool.submit(|| filch::submit(|| thread::current().id()).join().unwrap());
    assert_eq!(nested.join().unwrap(), here);
    assert_eq!(pool.task_metrics().total().inlined, 3);
    busy.end();
}

#[test]
fn a_task_for_another_worker_is_not_run_by_its_joiner() {
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let task = pool.task(filch::current_worker);
    let task = task.affinity(Affinity::Worker(0)).submit().unwrap();
    let joiner = thread::spawn(move || task.join().unwrap());
    thread::sleep(Duration::from_millis(5));
    busy.end();
    assert_eq!(joiner.join().unwrap(), Some(0));
}

#[test]
fn more_threads_than_places_join_at_the_same_time() {
    within(LIMIT, || {
        let pool = pool(0);
        let all_here = Arc::new(std::sync::Barrier::new(40));
        let threads: Vec<_> = (0..40_u64)
            .map(|n| {
                let (pool, all_here) = (pool.clone(), all_here.clone());
                thread::spawn(move || {
                    let task = pool.submit(move || {
                        all_here.wait();
                        filch::submit(move || n).join().unwrap()
                    });
                    task.join().unwrap()
                })
            })
            .collect();
        let sum: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(sum, 780);
        assert!(pool.task_metrics().total().finished >= 40);
    });
}

#[test]
fn a_task_that_joins_itself_gets_an_error() {
    for workers in [0, 1, 2] {
        within(LIMIT, move || {
            let pool = pool(workers);
            let (send, receive) = mpsc::channel::<TaskHandle<bool>>();
            let (told, heard) = mpsc::channel();
            let task = pool.submit(move || {
                let me = receive.recv().unwrap();
                let error = me.join().unwrap_err();
                told.send((error.is_deadlock(), error.to_string())).unwrap();
                true
            });
            send.send(task).unwrap();
            // With no workers, dropping the pool runs it.
            drop(pool);
            let (deadlock, text) = heard.recv().unwrap();
            assert!(deadlock, "{text}");
        });
    }
}

#[test]
fn a_task_on_top_of_the_one_that_it_joins_gets_an_error() {
    within(LIMIT, || {
        let pool = pool(1);
        let (send, receive) = mpsc::channel::<TaskHandle<()>>();
        // While `outer` waits for a task of another pool, its worker runs `inner`, which joins
        // `outer`.
        let elsewhere = crate::support::pool(1);
        let (begun, end) = (Flag::default(), Flag::default());
        let held = {
            let (begun, end) = (begun.clone(), end.clone());
            elsewhere.submit(move || {
                begun.set();
                end.wait("the end");
            })
        };
        begun.wait("the task that is waited for");
        let (told, heard) = mpsc::channel();
        let outer = pool.submit(move || {
            filch::submit(move || {
                let error = receive.recv().unwrap().join().unwrap_err();
                told.send(error.is_deadlock()).unwrap();
            })
            .detach();
            held.join().unwrap();
        });
        send.send(outer).unwrap();
        assert!(heard.recv().unwrap());
        end.set();
        pool.shutdown();
    });
}

#[test]
fn a_worker_of_one_pool_waits_for_a_task_of_another() {
    within(LIMIT, || {
        let (left, right) = (pool(1), pool(1));
        let busy = Busy::all_of(&right);
        let queued = {
            let right = right.clone();
            left.submit(move || {
                let outer = filch::current_task().unwrap().id();
                let inner = right.submit(|| filch::current_task().unwrap().id());
                let id = inner.id();
                // No other thread is free: it runs here, as a task of the other pool.
                assert_eq!(inner.join().unwrap(), id);
                assert_eq!(filch::current_task().unwrap().id(), outer);
            })
        };
        until("it is done", || queued.is_finished());
        queued.join().unwrap();
        busy.end();
        assert_eq!(right.task_metrics().total().inlined, 1);
    });
}

#[test]
fn the_current_task_is_the_one_whose_closure_runs() {
    let pool = pool(1);
    assert!(filch::current_task().is_none());
    let outer = pool.task(|| {
        let outer = filch::current_task().unwrap();
        assert_eq!(
            (outer.name(), outer.priority()),
            (Some("outer"), Priority::High)
        );
        let inner = filch::submit(|| filch::current_task().unwrap());
        let (id, inner) = (inner.id(), inner.join().unwrap());
        assert_eq!((inner.id(), inner.name()), (id, None));
        // What the worker runs while the task waits is no part of it.
        let (send, receive) = mpsc::channel();
        filch::scope(|s| {
            filch::spawn(move || send.send(filch::current_task().is_none()).unwrap());
            s.spawn(|_| ());
        });
        let seen = receive.try_recv();
        assert_ne!(seen, Ok(false));
        assert_eq!(filch::current_task().unwrap().id(), outer.id());
        outer
    });
    let outer = outer.name("outer").priority(Priority::High);
    let outer = outer.submit().unwrap();
    let id = outer.id();
    until("it is done", || outer.is_finished());
    assert_eq!(
        outer.join().unwrap().id(),
        id,
        "what is known about it stays"
    );
    assert!(filch::current_task().is_none());
}

#[test]
fn the_token_of_a_task_is_the_parent_of_its_children() {
    let pool = pool(2);
    let (begun, ended) = (Flag::default(), Flag::default());
    let task = {
        let (begun, ended) = (begun.clone(), ended.clone());
        pool.submit(move || {
            let me = filch::current_task().unwrap();
            let child = filch::task(move || {
                begun.set();
                until("the child is cancelled", filch::is_cancelled);
                ended.set();
            });
            child.token(&me.token()).submit().unwrap().join()
        })
    };
    begun.wait("the child");
    task.cancel();
    task.join().unwrap().unwrap();
    assert!(ended.is_set());
}

#[test]
fn a_task_that_was_submitted_in_an_isolate_is_isolated() {
    within(LIMIT, || {
        let pool = pool(1);
        let cache = Arc::new(Mutex::new(0));
        for _ in 0..20 {
            let cache = cache.clone();
            pool.spawn(move || {
                let mut cache = cache.lock().unwrap();
                // The task waits in a scope; there the others, which want the lock, must not run.
                *cache += filch::isolate(|| {
                    let task = filch::submit(|| {
                        let mut n = 0;
                        filch::scope(|s| s.spawn(|_| n = 1));
                        n
                    });
                    task.join().unwrap()
                });
            });
        }
        pool.shutdown();
        assert_eq!(*cache.lock().unwrap(), 20);
    });
}

#[test]
fn handles_can_be_awaited() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let sum: u64 = (0..100)
                .map(|n| pool.submit(move || n))
                .map(|task| block_on(task).unwrap())
                .sum();
            assert_eq!(sum, 4950);
            let error = block_on(pool.submit(|| quiet_panic("awaited"))).unwrap_err();
            assert!(error.is_panic());
        }
        let pool = pool(1);
        let busy = Busy::all_of(&pool);
        let (first, second) = (pool.submit(|| 1), pool.submit(|| 2));
        let waiter = thread::spawn(move || (block_on(first).unwrap(), block_on(second)));
        thread::sleep(Duration::from_millis(5));
        busy.end();
        let (first, second) = waiter.join().unwrap();
        assert_eq!(first + second.unwrap(), 3);
    });
}

#[test]
fn a_poll_with_another_waker_wakes_that_one() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let mut task = pool.submit(|| 1);
    let counts: [_; 2] = std::array::from_fn(|_| Arc::new(Count(AtomicUsize::new(0))));
    for count in &counts {
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        }
    }
    assert_eq!(
        Arc::strong_count(&counts[0]),
        1,
        "the first waker was dropped"
    );
    busy.end();
    until("it is done", || counts[1].0.load(SeqCst) == 1);
    let woken = counts.each_ref().map(|count| count.0.load(SeqCst));
    assert_eq!(woken, [0, 1]);
    assert_eq!(task.join().unwrap(), 1);
    // A handle that is dropped takes its waker with it.
    let busy = Busy::all_of(&pool);
    let mut task = pool.submit(|| 1);
    let waker = Waker::from(counts[0].clone());
    assert!(
        Pin::new(&mut task)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop((task, waker));
    assert_eq!(Arc::strong_count(&counts[0]), 1);
    busy.end();
}

#[test]
fn a_waker_that_panics_costs_nothing_else() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            quiet_panic("waker");
        }
    }
    let pool = pool(1);
    let busy = Busy::all_of(&pool);
    let mut task = pool.submit(|| 1);
    let waker = Waker::from(Arc::new(Bomb));
    assert!(
        Pin::new(&mut task)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    busy.end();
    assert_eq!(task.join().unwrap(), 1);
    assert_eq!(pool.submit(|| 2).join().unwrap(), 2);
}

#[test]
fn a_polled_handle_has_given_its_result() {
    let pool = pool(0);
    let mut task = pool.submit(|| 1);
    let id = task.id();
    assert_eq!(block_on(&mut task).unwrap(), 1);
    assert!(task.is_finished() && task.id() == id);
    let again = panic::catch_unwind(AssertUnwindSafe(|| block_on(&mut task)));
    let text = again.unwrap_err();
    assert!(
        text.downcast_ref::<&str>()
            .unwrap()
            .contains("polled after")
    );
}

#[test]
fn a_closed_pool_refuses_and_gives_the_closure_back() {
    let drops = Drops::default();
    let pool = pool(1);
    pool.clone().shutdown();
    let value = drops.value();
    let refused = pool.submit(move || drop(value));
    assert!(refused.is_finished());
    assert_eq!(drops.seen(), 1, "the closure was dropped");
    let error = refused.join().unwrap_err();
    assert!(error.is_refused() && error.is_cancelled());
    let value = drops.value();
    let refused = pool.task(move || drop(value)).submit().unwrap_err();
    assert!(refused.is_closed());
    assert_eq!(drops.seen(), 1);
    refused.into_inner()();
    assert_eq!(drops.seen(), 2);
    assert!(
        block_on(pool.task(|| ()).submit_async())
            .unwrap_err()
            .is_closed()
    );
    let total = pool.task_metrics().total();
    assert_eq!((total.submitted, total.refused), (0, 3));
}

#[test]
fn a_shutdown_runs_what_is_queued_and_what_that_submits() {
    for workers in [0, 1, 2] {
        let pool = pool(workers);
        let sum = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let sum = sum.clone();
                pool.submit(move || {
                    sum.fetch_add(1, SeqCst);
                    filch::submit(move || sum.fetch_add(1, SeqCst)).detach();
                })
            })
            .collect();
        pool.shutdown();
        assert_eq!(sum.load(SeqCst), 200);
        assert!(tasks.iter().all(TaskHandle::is_finished));
    }
}

#[test]
fn a_shutdown_now_cancels_what_is_queued() {
    for workers in [1, 2] {
        let pool = pool(workers);
        let begun = Arc::new(AtomicUsize::new(0));
        let running: Vec<_> = (0..workers)
            .map(|_| {
                let begun = begun.clone();
                pool.submit(move || {
                    begun.fetch_add(1, SeqCst);
                    until("the shutdown", filch::is_cancelled);
                })
            })
            .collect();
        until("all are busy", || begun.load(SeqCst) == workers);
        let queued: Vec<_> = (0..50).map(|n| pool.submit(move || n)).collect();
        let spawned = Flag::default();
        let spawned_too = spawned.clone();
        pool.spawn(move || spawned_too.set());
        let other = pool.clone();
        pool.shutdown_now();
        running.into_iter().for_each(|task| task.join().unwrap());
        for task in queued {
            let error = task.try_join().unwrap().unwrap_err();
            assert!(error.is_cancelled() && error.is_refused(), "{error}");
        }
        assert!(spawned.is_set(), "what was spawned cannot be refused");
        let total = other.task_metrics().total();
        assert_eq!(total.submitted, total.finished + total.cancelled);
    }
}

#[test]
fn a_task_submitted_from_a_destructor_of_a_thread_local() {
    struct Late(Pool, mpsc::Sender<u32>);
    impl Drop for Late {
        fn drop(&mut self) {
            let task = self.0.submit(|| 11);
            self.1.send(task.join().unwrap()).unwrap();
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let (pool, (send, receive)) = (pool(1), mpsc::channel());
    let thread = thread::spawn(move || {
        LATE.set(Some(Late(pool.clone(), send)));
        pool.submit(|| ()).join().unwrap();
    });
    thread.join().unwrap();
    assert_eq!(receive.recv().unwrap(), 11);
}

#[test]
fn times_are_measured_when_asked_for() {
    let pool = Pool::builder().workers(1).task_latencies(true);
    let pool = pool.build().unwrap();
    let tasks: Vec<_> = (0..10)
        .map(|_| pool.submit(|| thread::sleep(Duration::from_millis(2))))
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    let metrics = pool.task_metrics();
    let (wait, run) = (metrics.queue_wait.unwrap(), metrics.run_time.unwrap());
    assert_eq!((wait.count(), run.count()), (10, 10));
    assert!(run.quantile(0.0) >= Duration::from_millis(2));
    assert!(wait.max() >= Duration::from_millis(2), "they queued up");
    let silent = crate::support::pool(1);
    silent.submit(|| ()).join().unwrap();
    assert!(silent.task_metrics().queue_wait.is_none());
}

#[test]
fn a_name_is_for_people() {
    let pool = pool(0);
    let named = pool
        .task(|| ())
        .name(String::from("report"))
        .submit()
        .unwrap();
    assert_eq!(named.name(), Some("report"));
    let text = format!("{named:?}");
    assert!(text.contains("report") && text.contains("queued"), "{text}");
    named.cancel();
    let error = named.join().unwrap_err();
    assert_eq!(
        error.to_string(),
        "task `report` was cancelled before it started"
    );
    let nameless = pool.submit(|| ());
    let id = nameless.id();
    nameless.cancel();
    let text = nameless.join().unwrap_err().to_string();
    assert_eq!(text, format!("task {id} was cancelled before it started"));
}
