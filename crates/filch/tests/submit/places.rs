//! Submitted tasks in unusual places: in another pool, deep in a stack, in isolation, in a
//! destructor, at the end of a pool.

use crate::support::{LIMIT, pool, until, within};
use filch::{Affinity, Priority, TaskHandle, current_task, is_cancelled, submit, task};
use std::{
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

/// The result of a task that the caller does not run itself.
fn result_of<T>(task: TaskHandle<T>) -> T {
    until("the task is done", || task.is_finished());
    task.join().unwrap()
}

/// Calls `f` with some 1.4 MiB of the worker's 2 MiB of stack in use.
fn deep<R>(steps: usize, f: &mut dyn FnMut() -> R) -> R {
    let frame = [0_u8; 4096];
    std::hint::black_box(&frame);
    let result = match steps {
        0 => f(),
        _ => deep(steps - 1, f),
    };
    std::hint::black_box(&frame);
    result
}

const STEPS: usize = 300;

#[test]
fn a_task_for_this_worker_is_joined_from_inside_another_pool() {
    within(LIMIT, || {
        let (a, b) = (pool(1), pool(1));
        let inner = a.clone();
        let joined = a.submit(move || {
            let own = inner.task(|| 7).affinity(Affinity::Worker(0));
            let own = own.submit().unwrap();
            b.install(|| own.join().unwrap())
        });
        assert_eq!(result_of(joined), 7);
    });
}

#[test]
fn a_task_for_another_worker_is_joined_deep_in_a_stack_and_in_isolation() {
    fn ask() -> u32 {
        let other = 1 - filch::current_worker().unwrap().min(1);
        let there = task(|| 7).affinity(Affinity::Worker(other));
        there.submit().unwrap().join().unwrap()
    }
    within(LIMIT, || {
        let pool = pool(2);
        // The other worker is busy for all of the time.
        let (free, wait) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let busy = pool.submit(move || {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
        has_begun.recv().unwrap();
        assert_eq!(result_of(pool.submit(|| deep(STEPS, &mut ask))), 7);
        assert_eq!(result_of(pool.submit(|| filch::isolate(ask))), 7);
        drop(free);
        busy.join().unwrap();
    });
}

#[test]
fn join_timeout_deep_in_the_stack_of_the_only_worker_gets_the_result() {
    within(LIMIT, || {
        let mut ask = || submit(|| 7).join_timeout(2 * LIMIT).unwrap().unwrap();
        let joined = pool(1).submit(move || deep(STEPS, &mut ask));
        assert_eq!(result_of(joined), 7);
    });
}

#[test]
fn a_pool_without_workers_that_ends_inside_runs_its_tasks() {
    within(LIMIT, || {
        for priority in Priority::ALL {
            let ran = Arc::new(AtomicUsize::new(0));
            let count = || {
                let ran = ran.clone();
                move || ran.fetch_add(1, SeqCst)
            };
            let alone = pool(0);
            let queue = || alone.task(count()).priority(priority).submit().unwrap();
            (0..5).for_each(|_| queue().detach());
            alone.install(|| alone.clone().shutdown());
            assert_eq!(ran.load(SeqCst), 5, "{priority:?}");

            // The same when the last handle is dropped in a task.
            let alone = pool(0);
            let last = alone.clone();
            let end = alone.submit(move || drop(last));
            let behind = alone.task(count()).priority(priority).submit().unwrap();
            drop(alone);
            end.join().unwrap();
            assert!(behind.is_finished(), "{priority:?}");
        }
    });
}

#[test]
fn a_task_sees_a_shutdown_now_wherever_it_asks() {
    type Ask = fn() -> bool;
    let asks: [Ask; 3] = [
        || current_task().unwrap().is_cancelled(),
        || pool(0).install(is_cancelled),
        || {
            let me = current_task().unwrap();
            thread::spawn(move || me.is_cancelled()).join().unwrap()
        },
    ];
    for ask in asks {
        within(LIMIT, move || {
            let pool = pool(1);
            let (begun, has_begun) = mpsc::channel();
            let task = pool.submit(move || {
                let before = ask();
                begun.send(()).unwrap();
                while !ask() {
                    thread::yield_now();
                }
                before
            });
            has_begun.recv().unwrap();
            pool.shutdown_now();
            assert!(!task.join().unwrap());
        });
    }
}

/// Joins a task when it is dropped, and sends the result.
struct Joins(
    Arc<Mutex<Option<TaskHandle<()>>>>,
    mpsc::Sender<Result<(), filch::TaskError>>,
);

impl Drop for Joins {
    fn drop(&mut self) {
        let task = self.0.lock().unwrap().take();
        if let Some(task) = task {
            self.1.send(task.join()).unwrap();
        }
    }
}

#[test]
fn a_closure_that_joins_its_own_task_when_it_is_cancelled_gets_an_error() {
    within(LIMIT, || {
        let pool = pool(0);
        let (tell, told) = mpsc::channel();
        let slot = Arc::new(Mutex::new(None));
        let joins = Joins(slot.clone(), tell);
        let token = filch::CancelToken::new();
        let queued = pool.task(move || drop(joins)).token(&token);
        *slot.lock().unwrap() = Some(queued.submit().unwrap());
        token.cancel();
        assert!(told.recv().unwrap().unwrap_err().is_deadlock());
    });
}

#[test]
fn a_thread_from_outside_joins_the_end_of_a_long_chain() {
    within(LIMIT * 6, || {
        let pool = pool(1);
        let (free, wait) = mpsc::channel::<()>();
        let mut last = pool.submit(move || {
            let _ = wait.recv();
            0
        });
        let links = 20_000;
        for _ in 0..links {
            last = pool.submit(move || last.join().unwrap() + 1);
        }
        let joiner = thread::spawn(move || last.join().unwrap());
        // It goes down the chain as far as it dares, and meets the worker.
        thread::sleep(Duration::from_millis(20));
        drop(free);
        assert_eq!(joiner.join().unwrap(), links);
    });
}

#[test]
fn tickets_of_cancelled_and_moved_tasks_don_t_pile_up_in_a_worker_s_queue() {
    const ROUNDS: u64 = 5000;
    within(LIMIT, || {
        let pool = pool(0);
        let taken = || pool.metrics().total().local;
        pool.install(|| {
            for _ in 0..ROUNDS {
                assert!(submit(|| ()).cancel());
            }
            assert_eq!(taken(), ROUNDS, "all are out of the queue by now");
            let moved = submit(|| ());
            for _ in 0..ROUNDS {
                assert!(moved.set_priority(Priority::Low));
                assert!(moved.set_priority(Priority::Normal));
            }
            assert_eq!(taken(), 2 * ROUNDS);
            assert!(moved.cancel());
        });
    });
}

#[test]
fn a_handle_that_has_given_its_result_says_so() {
    let pool = pool(0);
    type Use = fn(TaskHandle<u32>);
    let uses: [Use; 3] = [
        |task| drop(task.join()),
        |task| drop(task.try_join()),
        |task| drop(task.join_timeout(Duration::ZERO)),
    ];
    for again in uses {
        let mut task = pool.submit(|| 1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Future::poll(Pin::new(&mut task), &mut cx).is_ready());
        let said = panic::catch_unwind(AssertUnwindSafe(|| again(task))).unwrap_err();
        let said = said.downcast_ref::<&str>().unwrap();
        assert!(said.contains("after it had given the result"), "{said}");
    }
}

#[test]
fn jobs_of_other_pools_are_not_in_the_task_of_their_worker() {
    within(LIMIT, || {
        let a = pool(1);
        let closed = pool(1);
        closed.clone().shutdown();
        let seen = a.submit(move || {
            let (tell, told) = mpsc::channel();
            let ask = || {
                let tell = tell.clone();
                move || tell.send(current_task().map(|task| task.id())).unwrap()
            };
            let ended = pool(0);
            ended.spawn(ask());
            drop(ended);
            closed.spawn(ask());
            closed.install(|| filch::spawn(ask()));
            assert!(current_task().is_some());
            drop(tell);
            told.into_iter().collect::<Vec<_>>()
        });
        assert_eq!(result_of(seen), [None; 3]);
    });
}
