//! Cycles of waits through runs of graphs, scopes, halves of joins and locks are reported.

use crate::support::{Flag, LIMIT, pool, until, within};
use filch::{
    Graph, Pool, TaskError, TaskHandle,
    graph::{RunError, RunHandle},
    sync::{Mutex, RwLock},
};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{self, Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

/// Joins a task, whose handle is sent, that returns nothing. Returns the error.
struct Joiner(sync::Mutex<mpsc::Receiver<TaskHandle<()>>>);

impl Joiner {
    fn new() -> (mpsc::Sender<TaskHandle<()>>, Self) {
        let (send, receive) = mpsc::channel();
        (send, Self(sync::Mutex::new(receive)))
    }

    fn join(&self) -> Option<TaskError> {
        let task = self.0.lock().unwrap().recv().unwrap();
        task.join().err()
    }
}

/// Calls `compute` in a task with the name `caller`, whose handle is sent to the joiner. `compute`
/// must call the joiner on another worker than its own. Returns the error of that join.
fn join_from_elsewhere(
    compute: impl FnOnce(&Pool, &Joiner) -> Option<TaskError> + Send + 'static,
) -> TaskError {
    let pool = pool(2);
    let (send, joiner) = Joiner::new();
    let (told, heard) = mpsc::channel();
    let inside = pool.clone();
    let task = pool.task(move || told.send(compute(&inside, &joiner)).unwrap());
    send.send(task.name("caller").submit().unwrap()).unwrap();
    let error = heard.recv().unwrap();
    pool.shutdown();
    error.expect("a deadlock")
}

fn assert_cycle(error: &TaskError, through: &str) {
    assert!(error.is_deadlock(), "{error}");
    let text = error.to_string();
    let party = format!("waits for {through}");
    assert!(
        text.contains("task `caller`") && text.contains(&party),
        "{text}"
    );
}

/// Calls `both` on two workers at the same time, with whether it is the worker of the caller.
fn on_both(
    run: impl FnOnce(&(dyn Fn() + Sync)),
    other: impl Fn() -> Option<TaskError> + Sync,
) -> Option<TaskError> {
    let (here, both) = (thread::current().id(), Barrier::new(2));
    let found = sync::Mutex::new(None);
    run(&|| {
        both.wait();
        if thread::current().id() != here {
            *found.lock().unwrap() = other();
        }
    });
    found.into_inner().unwrap()
}

/// Checks that the cycle is reported if `run` calls a function on two workers, of which the one
/// that is not the caller's joins the caller.
fn assert_reported(through: &str, run: fn(&Pool, &(dyn Fn() + Sync))) {
    for _ in 0..20 {
        let error = within(LIMIT, move || {
            join_from_elsewhere(move |pool, joiner| {
                on_both(|half| run(pool, half), || joiner.join())
            })
        });
        assert_cycle(&error, through);
    }
}

#[test]
fn a_task_of_a_run_that_joins_the_caller_of_the_run_is_reported() {
    assert_reported("a run of a graph", |pool, half| {
        let graph = Graph::new();
        graph.task("one", half);
        graph.task("two", half);
        graph.plan().unwrap().run_on(pool).unwrap();
    });
}

/// The same with a plan that is not plain, and a run inside one of its tasks.
#[test]
fn a_task_of_a_subflow_that_joins_the_caller_of_the_run_is_reported() {
    assert_reported("a run of a graph", |pool, half| {
        let graph = Graph::new();
        graph.subflow("inside", |inside| {
            inside.task("one", half);
            inside.task("two", half);
        });
        graph.plan().unwrap().run_on(pool).unwrap();
    });
}

#[test]
fn a_task_of_a_scope_that_joins_the_caller_is_reported() {
    assert_reported("a scope", |pool, half| {
        pool.scope(|s| {
            s.spawn(|_| half());
            s.spawn(|_| half());
        });
    });
}

/// The wait of the scope closes two cycles at once. Both joins return.
#[test]
fn two_tasks_of_a_scope_that_wait_for_the_caller_are_reported() {
    within(LIMIT, || {
        let pool = pool(3);
        let [(to_first, first), (to_second, second)] = [Joiner::new(), Joiner::new()];
        let (told, heard) = mpsc::channel();
        let (inside, begun) = (pool.clone(), Arc::new(Barrier::new(3)));
        let task = pool.task(move || {
            inside.scope(|s| {
                for joiner in [&first, &second] {
                    let (told, begun) = (told.clone(), begun.clone());
                    s.spawn(move |_| {
                        begun.wait();
                        told.send(joiner.join()).unwrap();
                    });
                }
                begun.wait();
                thread::sleep(Duration::from_millis(50)); // both are about to sleep, most likely
            });
        });
        let task = task.name("caller").submit().unwrap();
        to_second.send(pool.submit_after(&task, || ())).unwrap();
        to_first.send(task).unwrap();
        for _ in 0..2 {
            let error = heard.recv().unwrap().expect("a deadlock");
            assert!(error.is_deadlock(), "{error}");
        }
    });
}

/// Each task has one predecessor, which both keeps it and may fail it: the check must not visit it
/// twice, and so on.
#[test]
fn a_long_chain_of_held_tasks_is_checked_in_time() {
    within(LIMIT, || {
        let pool = pool(1);
        let (begun, end) = (Flag::default(), Flag::default());
        let (begins, ends) = (begun.clone(), end.clone());
        let mut last = pool.submit(move || {
            begins.set();
            ends.wait("the end of the first task");
        });
        begun.wait("the first task");
        for _ in 0..2_000 {
            last = pool.submit_after(&last, || ());
        }
        let joiner = thread::spawn(move || last.join());
        until("the join is listed", || !filch::waits().is_empty());
        assert!(filch::deadlocks().is_empty());
        end.set();
        joiner.join().unwrap().unwrap();
    });
}

#[test]
fn a_reader_that_reads_again_behind_a_writer_panics() {
    within(LIMIT, || {
        let table = Arc::new(RwLock::new(1));
        let first = table.read().unwrap();
        let writes = table.clone();
        let writer = thread::spawn(move || *writes.write().unwrap() += 1);
        until("the writer waits", || table.try_read().is_err());
        let again = catch_unwind(AssertUnwindSafe(|| drop(table.read())));
        let payload = again.expect_err("it would wait for itself");
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or("another payload");
        assert!(text.contains("for reading already"), "{text}");
        drop(first);
        writer.join().unwrap();
        assert_eq!(*table.read().unwrap(), 2);
    });
}

#[test]
fn a_half_of_a_join_that_joins_the_caller_is_reported() {
    assert_reported("the other half of a join", |_, half| {
        filch::join(half, half);
    });
}

/// A task of a launched run joins a submitted task, which joins the run.
fn run_and_task() -> (Option<TaskError>, Option<RunError>) {
    let pool = pool(2);
    let (to_graph, joiner) = Joiner::new();
    let (to_task, run) = mpsc::channel::<RunHandle>();
    let (told, heard) = mpsc::channel();
    let (told_too, heard_too) = mpsc::channel();
    let both = Arc::new(Barrier::new(2));
    let also = both.clone();
    let graph = Graph::new();
    graph.task("waits", move || {
        both.wait();
        told.send(joiner.join()).unwrap();
    });
    let task = pool.task(move || {
        also.wait();
        let joined = run.recv().unwrap().join();
        told_too.send(joined.err()).unwrap();
    });
    to_graph
        .send(task.name("caller").submit().unwrap())
        .unwrap();
    to_task.send(pool.launch(graph.plan().unwrap())).unwrap();
    let errors = (heard.recv().unwrap(), heard_too.recv().unwrap());
    pool.shutdown();
    errors
}

#[test]
fn a_run_and_a_task_that_join_each_other_end_and_one_gets_an_error() {
    for _ in 0..50 {
        match within(LIMIT, run_and_task) {
            (Some(error), None) => assert_cycle(&error, "a run of a graph"),
            (None, Some(error)) => {
                assert!(error.is_deadlock() && !error.is_recursive(), "{error}");
                let text = error.to_string();
                assert!(
                    text.contains("task `caller`") && text.contains("a run of a graph"),
                    "{text}"
                );
                assert_eq!(error.cycle().unwrap().parties().len(), 2);
            }
            both => panic!("one of them: {both:?}"),
        }
    }
}

/// A launched run that ends is joined by a task that another run's task waits for.
#[test]
fn runs_that_wait_for_each_other_in_a_chain_are_not_reported() {
    for _ in 0..50 {
        within(LIMIT, || {
            // Two pools, or a worker may run the task of the second graph on top of the task that
            // waits for the first, and wait for itself.
            let (pool, other) = (pool(2), pool(2));
            let (first, second) = (Graph::new(), Graph::new());
            first.task("slow", || thread::sleep(Duration::from_millis(1)));
            let run = pool.launch(first.plan().unwrap());
            let task = pool.submit(move || run.join().map(drop).unwrap());
            let task = sync::Mutex::new(Some(task));
            second.task("waits", move || {
                let task = task.lock().unwrap().take().unwrap();
                task.join().unwrap();
            });
            other.launch(second.plan().unwrap()).join().unwrap();
        });
    }
}

/// A task holds a lock and joins another one that wants it. The join fails, and the lock is free
/// then.
#[test]
fn a_lock_held_across_the_join_of_a_task_that_wants_it_is_reported() {
    for last in [Duration::ZERO, Duration::from_millis(5)] {
        for wait in [Duration::ZERO, Duration::from_millis(5)] {
            let error = within(LIMIT, move || {
                let pool = pool(2);
                let mutex = Arc::new(Mutex::new(0));
                let (wanted, (begin, begun)) = (mutex.clone(), mpsc::channel());
                let locked = Flag::default();
                let is_locked = locked.clone();
                let task = pool.task(move || {
                    begin.send(()).unwrap();
                    is_locked.wait("the lock");
                    thread::sleep(last);
                    *wanted.lock().unwrap() += 1;
                });
                let task = task.name("wants").submit().unwrap();
                begun.recv().unwrap();
                let holder = pool.task(move || {
                    let mut guard = mutex.lock().unwrap();
                    locked.set();
                    thread::sleep(wait);
                    let error = task.join().unwrap_err();
                    *guard += 1;
                    drop(guard);
                    until("the other task", || *mutex.lock().unwrap() == 2);
                    error
                });
                holder.name("holder").submit().unwrap().join().unwrap()
            });
            assert!(error.is_deadlock(), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("task `wants` waits for a lock (task `holder`), which waits"),
                "{text}"
            );
        }
    }
}

#[test]
fn locks_in_opposite_orders_panic_once() {
    for _ in 0..20 {
        within(LIMIT, || {
            let locks = Arc::new((Mutex::new(0), Mutex::new(0)));
            let both = Arc::new(Barrier::new(2));
            let threads = [false, true].map(|is_second| {
                let (locks, both) = (locks.clone(), both.clone());
                thread::spawn(move || {
                    let (first, second) = match is_second {
                        false => (&locks.0, &locks.1),
                        true => (&locks.1, &locks.0),
                    };
                    let guard = first.lock().unwrap();
                    both.wait();
                    let nested = catch_unwind(AssertUnwindSafe(|| drop(second.lock().unwrap())));
                    drop(guard);
                    nested
                })
            });
            let ends = threads.map(|thread| thread.join().unwrap());
            let panics: Vec<_> = ends.into_iter().filter_map(Result::err).collect();
            let [panic] = &panics[..] else {
                panic!("one of them: {}", panics.len());
            };
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(
                text.starts_with("this lock would never be free: a lock"),
                "{text}"
            );
            // The guard was dropped while its thread did not unwind.
            assert!(!locks.0.is_poisoned() && !locks.1.is_poisoned());
        });
    }
}

#[test]
fn a_second_lock_of_the_same_thread_panics() {
    let relock = |f: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        let text = panic.downcast_ref::<&str>().unwrap();
        assert!(text.starts_with("this thread has locked it already"));
    };
    let (mutex, table) = (Mutex::new(()), RwLock::new(()));
    let guard = mutex.lock().unwrap();
    relock(&|| drop(mutex.lock()));
    assert!(mutex.try_lock().is_err());
    drop(guard);
    drop(mutex.lock().unwrap());

    let guard = table.write().unwrap();
    relock(&|| drop(table.write()));
    relock(&|| drop(table.read()));
    drop(guard);
    let guard = table.read().unwrap();
    relock(&|| drop(table.write()));
    drop(table.read().unwrap());
    drop(guard);
    drop(table.write().unwrap());
}

/// A thread holds a lock across a call on a worker that wants it.
#[test]
fn a_lock_held_across_a_call_on_a_worker_is_reported() {
    let text = within(LIMIT, || {
        let (pool, mutex) = (pool(1), Mutex::new(()));
        let _guard = mutex.lock().unwrap();
        let call = || {
            pool.on_worker(|| {
                // The other way round the cycle is listed, but neither of the waits can end.
                let is_call =
                    |wait: &filch::pool::Wait| wait.subject().to_string() == "a call on a worker";
                until("the call", || filch::waits().iter().any(is_call));
                thread::sleep(Duration::from_millis(1));
                drop(mutex.lock());
            });
        };
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    });
    assert!(text.starts_with("this lock would never be free"), "{text}");
}

/// A writer waits for the task that reads and joins it, or a reader for the one that writes.
#[test]
fn a_lock_for_readers_and_writers_held_across_a_join_is_reported() {
    for reads in [true, false] {
        let error = within(LIMIT, move || {
            let pool = pool(2);
            let table = Arc::new(RwLock::new(0));
            let (wanted, (begin, begun)) = (table.clone(), mpsc::channel());
            let locked = Flag::default();
            let is_locked = locked.clone();
            let task = pool.submit(move || {
                begin.send(()).unwrap();
                is_locked.wait("the lock");
                match reads {
                    true => *wanted.write().unwrap() += 1,
                    false => drop(wanted.read().unwrap()),
                }
            });
            begun.recv().unwrap();
            let holder = pool.submit(move || match reads {
                true => {
                    let _guard = table.read().unwrap();
                    locked.set();
                    task.join().unwrap_err()
                }
                false => {
                    let _guard = table.write().unwrap();
                    locked.set();
                    task.join().unwrap_err()
                }
            });
            holder.join().unwrap()
        });
        assert!(error.is_deadlock(), "{error}");
    }
}

/// Readers beside a reader that waits for them.
#[test]
fn readers_do_not_wait_for_a_reader() {
    within(LIMIT, || {
        let pool = pool(2);
        let table = Arc::new(RwLock::new(1));
        for _ in 0..200 {
            let (guard, wanted) = (table.read().unwrap(), table.clone());
            let task = pool.submit(move || *wanted.read().unwrap());
            assert_eq!(*guard, task.join().unwrap());
        }
    });
}

thread_local! {
    static KEPT: RefCell<Option<filch::sync::MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A guard in a thread-local variable, which a job drops that runs on top of the wait with which
/// the lock is listed. The task that the wait is for can get the lock then.
#[test]
fn a_guard_that_a_nested_job_drops_is_no_cycle() {
    static MUTEX: Mutex<()> = Mutex::new(());
    within(LIMIT, || {
        let (pool, outside) = (pool(1), pool(1));
        let (dropped, held) = (Flag::default(), Flag::default());
        let third = {
            let (dropped, held) = (dropped.clone(), held.clone());
            thread::spawn(move || {
                dropped.wait("the nested job");
                let _guard = MUTEX.lock().unwrap();
                held.set();
                thread::sleep(Duration::from_millis(30));
            })
        };
        let waits = || filch::waits().into_iter();
        let (inside, begun) = (pool.clone(), Flag::default());
        let has_begun = begun.clone();
        let wants = outside.task(move || {
            has_begun.set();
            until("the wait", || {
                waits().any(|wait| wait.subject().name() == Some("wants later"))
            });
            let found = inside.broadcast(|_| KEPT.take().is_some());
            assert_eq!(found, [true], "it runs on top of the wait");
            dropped.set();
            held.wait("the third thread");
            drop(MUTEX.lock().unwrap());
        });
        let wants = wants.name("wants later").submit().unwrap();
        // Else the thread that joins it would run it.
        begun.wait("the task");
        let (told, heard) = mpsc::channel();
        pool.spawn(move || {
            KEPT.set(Some(MUTEX.lock().unwrap()));
            told.send(wants.join()).unwrap();
        });
        heard.recv().unwrap().unwrap();
        third.join().unwrap();
    });
}
