//! Tasks that join tasks which were submitted before them: whatever a worker runs inside another
//! task, such a join ends. Only a real cycle is a deadlock.

use crate::support::{LIMIT, pool, within};
use filch::{Pool, Priority, TaskError, TaskHandle, prelude::*};
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Submits a task, and then `links` more, each of which joins the one before it.
fn chain(
    links: u32,
    work: Duration,
    submit: impl Fn(Box<dyn FnOnce() -> Result<u32, TaskError> + Send>) -> Link,
) -> Link {
    let mut last = submit(Box::new(|| Ok(0)));
    for _ in 0..links {
        last = submit(Box::new(move || {
            spin(work);
            let before = last.join()??;
            spin(work);
            Ok(before + 1)
        }));
    }
    last
}

type Link = TaskHandle<Result<u32, TaskError>>;

const WORK: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_micros(20),
    Duration::from_micros(300),
];

#[test]
fn tasks_from_outside_join_those_before_them() {
    within(LIMIT, || {
        for workers in 1..=4 {
            for work in WORK {
                let pool = pool(workers);
                let last = chain(300, work, |task| pool.submit(task));
                while !last.is_finished() {
                    thread::sleep(Duration::from_millis(1)); // not a guest
                }
                assert_eq!(last.join().unwrap().unwrap(), 300, "{workers} workers");
            }
        }
    });
}

#[test]
fn tasks_of_a_worker_join_those_before_them() {
    within(LIMIT, || {
        for workers in 1..=4 {
            for work in WORK {
                let pool = pool(workers);
                let driver = pool.submit(move || {
                    let last = chain(300, work, filch::submit);
                    while !last.is_finished() && workers > 1 {
                        thread::sleep(Duration::from_millis(1));
                    }
                    last.join()
                });
                let last = driver.join().unwrap();
                assert_eq!(last.unwrap().unwrap(), 300, "{workers} workers");
            }
        }
    });
}

/// Leaves of 300 µs, on a few levels of joins.
fn tree(levels: u32) -> u32 {
    if levels == 0 {
        spin(Duration::from_micros(300));
        return 1;
    }
    let (a, b) = filch::join(|| tree(levels - 1), || tree(levels - 1));
    a + b
}

fn parallel_loop() -> u32 {
    (0..128_u32)
        .into_par()
        .map(|_| {
            spin(Duration::from_micros(300));
            1
        })
        .sum()
}

/// A task that joins a long computation is submitted beside it, at each priority.
fn beside(computation: fn() -> u32) {
    within(LIMIT, move || {
        for workers in 1..=3 {
            for priority in Priority::ALL {
                let pool = pool(workers);
                let (begin, begun) = mpsc::channel();
                let long = pool.submit(move || {
                    begin.send(()).unwrap();
                    computation()
                });
                begun.recv().unwrap();
                let next = move || long.join().map(|sum| sum + 1);
                let next = pool.task(next).priority(priority).submit().unwrap();
                while !next.is_finished() {
                    thread::sleep(Duration::from_millis(1)); // not a guest
                }
                let sum = next.join().unwrap();
                assert_eq!(sum.unwrap(), 129, "{workers} workers, {priority:?}");
            }
        }
    });
}

#[test]
fn a_task_joins_a_tree_of_joins_that_keeps_all_workers_busy() {
    beside(|| tree(7));
}

#[test]
fn a_task_joins_a_loop_that_keeps_all_workers_busy() {
    beside(parallel_loop);
}

#[test]
fn a_task_joins_tasks_that_join_many() {
    fn many() -> u32 {
        let leaf = || {
            spin(Duration::from_micros(300));
            1
        };
        let tasks: Vec<_> = (0..128).map(|_| filch::submit(leaf)).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    }
    beside(many);
}

#[test]
fn a_detached_closure_joins_a_tree_that_keeps_all_workers_busy() {
    within(LIMIT, || {
        for workers in 1..=3 {
            let pool = pool(workers);
            let ((begin, begun), (send, receive)) = (mpsc::channel(), mpsc::channel());
            let long = pool.submit(move || {
                begin.send(()).unwrap();
                tree(7)
            });
            begun.recv().unwrap();
            pool.spawn(move || send.send(long.join()).unwrap());
            assert_eq!(receive.recv().unwrap().unwrap(), 128, "{workers} workers");
        }
    });
}

/// A task that waits for a message of the computation beside which it starts.
#[test]
fn a_task_receives_from_a_computation_that_keeps_all_workers_busy() {
    within(LIMIT, || {
        for workers in 1..=2 {
            let pool = pool(workers);
            let ((begin, begun), (send, receive)) = (mpsc::channel(), mpsc::channel());
            let long = pool.submit(move || {
                begin.send(()).unwrap();
                let sum = tree(7);
                send.send(sum).unwrap();
            });
            begun.recv().unwrap();
            let next = pool.submit(move || receive.recv().unwrap());
            while !next.is_finished() {
                thread::sleep(Duration::from_millis(1)); // not a guest
            }
            assert_eq!(next.join().unwrap(), 128);
            long.join().unwrap();
        }
    });
}

/// More tasks that wait for one another than a pool may have threads for them.
#[test]
fn more_tasks_wait_than_there_are_threads() {
    within(LIMIT, || {
        let pool = pool(2);
        let (send, receive) = mpsc::channel::<()>();
        let first = pool.submit(move || {
            let _ = receive.recv();
            Ok(0)
        });
        let mut last = first;
        for _ in 0..200 {
            last = pool.submit(move || Ok(last.join()?? + 1));
        }
        thread::sleep(Duration::from_millis(50)); // as many as can have begun to wait
        drop(send);
        while !last.is_finished() {
            thread::sleep(Duration::from_millis(1)); // not a guest
        }
        let count: Result<u32, TaskError> = last.join().unwrap();
        assert_eq!(count.unwrap(), 200);
    });
}

#[test]
fn a_task_blocks_on_a_task_before_it() {
    within(LIMIT, || {
        for workers in 1..=3 {
            let pool = Pool::builder().workers(workers).build().unwrap();
            let mut last = pool.submit(|| Ok::<u32, TaskError>(0));
            // Fewer than there may be substitutes: `block_on` does not run the task itself.
            for _ in 0..12 {
                last = pool.submit(move || {
                    spin(Duration::from_micros(20));
                    Ok(filch::block_on(last)?? + 1)
                });
            }
            while !last.is_finished() {
                thread::sleep(Duration::from_millis(1)); // not a guest
            }
            let count = last.join().unwrap();
            assert_eq!(count.unwrap(), 12, "{workers} workers");
        }
    });
}

/// A blocking call in a task that a substitute runs gets a substitute too.
#[test]
fn a_task_on_another_thread_blocks() {
    within(LIMIT, || {
        let pool = pool(1);
        let ((begin, begun), (send, receive)) = (mpsc::channel(), mpsc::channel());
        let (give, given) = mpsc::channel::<TaskHandle<u32>>();
        let waits = pool.submit(move || {
            begin.send(()).unwrap();
            given.recv().unwrap().join().unwrap()
        });
        begun.recv().unwrap();
        let blocks = pool.submit(move || filch::blocking(|| receive.recv().unwrap()));
        let other = pool.submit(|| thread::sleep(Duration::from_millis(5)));
        give.send(blocks).unwrap();
        thread::sleep(Duration::from_millis(20));
        pool.spawn(move || send.send(7).unwrap());
        while !waits.is_finished() {
            thread::sleep(Duration::from_millis(1)); // not a guest
        }
        assert_eq!(waits.join().unwrap(), 7);
        other.join().unwrap();
    });
}

/// A substitute that is blocked in a way that the pool does not see does not keep a wait from what
/// it needs.
#[test]
fn a_blocked_task_does_not_stop_a_wait_for_a_future() {
    within(LIMIT, || {
        let pool = pool(1);
        let ((begin, begun), (send, receive)) = (mpsc::channel(), mpsc::channel());
        let (tell, told) = filch_channel();
        let waits = pool.submit(move || {
            begin.send(()).unwrap();
            let value = filch::block_on(told);
            send.send(()).unwrap();
            value
        });
        begun.recv().unwrap();
        let blocks = pool.submit(move || receive.recv().unwrap());
        thread::sleep(Duration::from_millis(20));
        pool.spawn(move || tell(5));
        while !waits.is_finished() {
            thread::sleep(Duration::from_millis(1)); // not a guest
        }
        assert_eq!(waits.join().unwrap(), 5);
        blocks.join().unwrap();
    });
}

/// A function that gives a value, and a future that waits for it.
fn filch_channel() -> (impl FnOnce(u32) + Send, impl Future<Output = u32> + Send) {
    let (send, receive) = futures::channel::oneshot::channel();
    (move |value| send.send(value).unwrap(), async {
        receive.await.unwrap()
    })
}

/// After a shutdown a thread runs its work alone, also what it would hand off otherwise.
#[test]
fn a_pool_that_has_shut_down_hands_nothing_off() {
    within(LIMIT, || {
        let pool = pool(1);
        let other = pool.clone();
        // So that a substitute exists.
        let long = pool.submit(|| tree(4));
        pool.submit(move || long.join().unwrap()).join().unwrap();
        pool.shutdown();
        let (send, receive) = mpsc::channel();
        other.install(|| {
            let (one, two) = (send.clone(), send);
            filch::spawn(move || one.send(1).unwrap());
            filch::spawn(move || {
                filch::block_on(filch::time::sleep(Duration::from_millis(2)));
                two.send(2).unwrap();
            });
        });
        let mut got: Vec<i32> = receive.iter().collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

/// A task that drives a future which wakes itself lets other tasks run in between, and one of them
/// joins it.
#[test]
fn a_task_joins_one_that_drives_a_future_which_yields() {
    within(LIMIT, || {
        for workers in 1..=2 {
            let pool = pool(workers);
            let (begin, begun) = mpsc::channel();
            let drives = pool.submit(move || {
                filch::block_on(async move {
                    begin.send(()).unwrap();
                    for _ in 0..20_000 {
                        filch::future::yield_now().await;
                    }
                    7
                })
            });
            begun.recv().unwrap();
            let joins = pool.submit(move || drives.join());
            while !joins.is_finished() {
                thread::sleep(Duration::from_millis(1)); // not a guest
            }
            assert_eq!(joins.join().unwrap().unwrap(), 7, "{workers} workers");
        }
    });
}
