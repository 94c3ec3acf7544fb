//! Executors that get more and fewer workers while they work.

use crate::support::{Flag, LIMIT, counting, get, quiet_panic, until, within};
use filch::{
    Executor, Rng,
    engine::Shared,
    executor::{ExecutorBuilder, Handle},
};
use std::{
    error::Error as _,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

/// A scratch value that is counted while it lives, and says which worker it was made for.
struct Counted {
    worker: usize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.alive.fetch_sub(1, SeqCst) > 0);
    }
}

/// A function that makes scratch values, and the number of those that live.
fn counted() -> (Arc<AtomicUsize>, impl Fn(usize) -> Counted + Clone) {
    let alive = Arc::new(AtomicUsize::new(0));
    let made = alive.clone();
    let make = move |worker| {
        made.fetch_add(1, SeqCst);
        let alive = made.clone();
        Counted { worker, alive }
    };
    (alive, make)
}

#[test]
fn an_executor_grows_and_shrinks() {
    within(LIMIT, || {
        let (alive, scratch) = counted();
        let builder = Executor::builder().workers(2).max_workers(5);
        let executor = builder.build(scratch, |_: u8, _| {}).unwrap();
        assert_eq!((executor.workers(), executor.max_workers()), (2, 5));
        for workers in [5, 5, 1, 3, 4, 2] {
            executor.resize(workers).unwrap();
            assert_eq!(executor.workers(), workers);
            executor.spawn_batch([0; 50]).unwrap();
            until("the others leave", || get(&alive) == workers);
        }
        let summary = executor.finish();
        assert_eq!(summary.metrics.total().executed, 300);
        let workers: Vec<usize> = summary
            .scratch
            .iter()
            .map(|scratch| scratch.worker)
            .collect();
        assert_eq!(workers, [0, 1]);
        drop(summary);
        assert_eq!(get(&alive), 0);
    });
}

#[test]
fn scratch_values_are_in_the_order_of_the_workers() {
    within(LIMIT, || {
        for round in 0..30 {
            let (alive, scratch) = counted();
            let builder = Executor::builder().workers(4).max_workers(4);
            let (began, go_on) = (Flag::default(), Flag::default());
            let flags = (began.clone(), go_on.clone());
            let runner = move |_: u8, _: &mut filch::executor::Context<'_, '_, u8, Counted>| {
                flags.0.set();
                flags.1.wait("the task may end");
            };
            let executor = builder.build(scratch, runner).unwrap();
            // One worker is busy, and may be one that leaves: then it stays.
            executor.spawn(0).unwrap();
            began.wait("the task");
            executor.resize(1).unwrap();
            if round % 2 == 0 {
                until("idle workers leave", || get(&alive) <= 2);
            }
            executor.resize(4).unwrap();
            go_on.set();
            let summary = executor.finish();
            let workers = summary.scratch.iter().map(|scratch| scratch.worker);
            assert!(workers.eq(0..4));
        }
    });
}

#[test]
fn a_number_that_is_not_allowed_changes_nothing() {
    let executor = Executor::builder().workers(2).max_workers(3);
    let executor = executor.build(|_| (), |_: u8, _| {}).unwrap();
    for (asked, text) in [
        (0, "an executor cannot have 0 workers; ask for 1 to 3"),
        (
            4,
            "an executor cannot have 4 workers; ask for 1 to 3, \
             or build it with a larger `max_workers`",
        ),
    ] {
        let error = executor.resize(asked).unwrap_err();
        assert!(error.is_out_of_range() && !error.is_closed() && error.to_string() == text);
        assert_eq!(executor.workers(), 2);
    }
    let fixed = Executor::builder().workers(1).build(|_| (), |_: u8, _| {});
    assert!(fixed.unwrap().resize(2).unwrap_err().is_out_of_range());
    let less = Executor::builder().workers(2).max_workers(1);
    let error = less.build(|_| (), |_: u8, _| {}).unwrap_err();
    assert!(error.is_config() && error.to_string().contains("maximum of 1"));
}

#[test]
fn an_executor_that_has_ended_is_not_resized() {
    within(LIMIT, || {
        let executor = Executor::builder().workers(2);
        let executor = executor.build(|_| (), |_: u8, _| {}).unwrap();
        let handle = executor.handle();
        executor.finish();
        let error = handle.resize(1).unwrap_err();
        assert!(error.is_closed());
        assert_eq!(
            error.to_string(),
            "the executor has been shut down, and cannot be resized to 1 workers; build another one"
        );
    });
}

#[test]
fn an_executor_of_a_scope_is_not_resized() {
    let builder = ExecutorBuilder::new().workers(2).max_workers(3);
    let (error, summary) = builder
        .scope(
            |_| (),
            |_: u8, _| {},
            |handle| handle.resize(1).unwrap_err(),
        )
        .unwrap();
    assert!(error.is_unsupported() && error.to_string().contains("scope"));
    assert_eq!(summary.scratch.len(), 2);
}

#[test]
fn hooks_cannot_resize_their_executor() {
    within(LIMIT, || {
        let handle: Arc<OnceLock<Handle<u8>>> = Arc::default();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (here, seen) = (handle.clone(), errors.clone());
        let hook = move |_| {
            if let Some(handle) = here.get() {
                let error = handle.resize(1).unwrap_err();
                seen.lock().unwrap().push(error.is_unsupported());
            }
        };
        let executor = Executor::builder().workers(1).max_workers(2);
        let executor = executor.on_start(hook.clone()).on_exit(hook);
        let executor = executor.build(|_| (), |_: u8, _| {}).unwrap();
        assert!(handle.set(executor.handle()).is_ok());
        executor.resize(2).unwrap();
        executor.resize(1).unwrap();
        until("the hooks", || errors.lock().unwrap().len() == 2);
        assert_eq!(*errors.lock().unwrap(), [true, true]);
    });
}

#[test]
fn a_thread_that_does_not_start_leaves_the_executor_as_it_was() {
    within(LIMIT, || {
        let (alive, scratch) = counted();
        let fails = Arc::new(AtomicUsize::new(3));
        let (made, limit) = (scratch, fails.clone());
        let executor = Executor::builder().workers(1).max_workers(4);
        let executor = executor.build(
            move |worker| {
                if worker == get(&limit) {
                    quiet_panic("no memory");
                }
                made(worker)
            },
            |_: u8, _| {},
        );
        let executor = executor.unwrap();
        let error = executor.resize(4).unwrap_err();
        assert!(error.is_start() && error.source().is_some());
        let text = error.to_string();
        assert!(text.contains("no memory") && text.contains("has 1 workers as before"));
        assert_eq!(executor.workers(), 1);
        until("those that have started leave", || get(&alive) == 1);
        fails.store(9, SeqCst);
        executor.resize(4).unwrap();
        assert_eq!(executor.finish().scratch.len(), 4);
    });
}

#[test]
fn tasks_of_a_leaving_worker_run_on_others() {
    within(LIMIT, || {
        let (began, go_on) = (Flag::default(), Flag::default());
        let flags = (began.clone(), go_on.clone());
        let (ran, count) = counting();
        let executor = Executor::builder().workers(2).build(
            |_| (),
            move |task: u8, cx| {
                if task == 0 {
                    (1..=100).for_each(|_| cx.spawn(1));
                    flags.0.set();
                    flags.1.wait("the executor is smaller");
                }
                count();
            },
        );
        let executor = executor.unwrap();
        executor.spawn(0).unwrap();
        began.wait("the first task");
        executor.resize(1).unwrap();
        go_on.set();
        executor.finish();
        assert_eq!(get(&ran), 101);
    });
}

#[test]
fn tasks_resize_their_executor() {
    within(LIMIT, || {
        let handle: Arc<OnceLock<Handle<usize>>> = Arc::default();
        let here = handle.clone();
        let executor = Executor::builder().workers(3).max_workers(6).build(
            |_| (),
            move |workers: usize, _| here.get().unwrap().resize(workers).unwrap(),
        );
        let executor = executor.unwrap();
        assert!(handle.set(executor.handle()).is_ok());
        for _ in 0..20 {
            executor.spawn_batch([1, 6, 2, 5, 3, 4]).unwrap();
        }
        until("the tasks", || executor.is_idle());
        executor.spawn(2).unwrap();
        until("the last task", || executor.is_idle());
        assert_eq!(executor.workers(), 2);
        let summary = executor.finish();
        assert_eq!(summary.metrics.total().executed, 121);
        // Workers that have been asked to leave may not have left yet.
        assert!(summary.scratch.len() >= 2);
    });
}

#[test]
fn sleeping_workers_leave_when_they_are_asked() {
    within(LIMIT, || {
        let (alive, scratch) = counted();
        let executor = Executor::builder().workers(4);
        let executor = executor.build(scratch, |_: u8, _| {}).unwrap();
        thread::sleep(Duration::from_millis(20)); // all sleep
        executor.resize(1).unwrap();
        until("they leave", || get(&alive) == 1);
    });
}

#[test]
fn an_executor_ends_while_it_is_resized() {
    within(LIMIT, || {
        for round in 0..60 {
            let (alive, scratch) = counted();
            let (ran, count) = counting();
            let executor = Executor::builder().workers(1 + round % 3).max_workers(4);
            let executor = executor.build(scratch, move |_: usize, _| count());
            let executor = executor.unwrap();
            let handle = executor.handle();
            thread::scope(|s| {
                s.spawn(move || {
                    let mut rng = Rng::new(round as u64);
                    for _ in 0..4 + round % 5 {
                        match handle.resize(1 + rng.below(4)) {
                            Ok(()) => {}
                            Err(error) => assert!(error.is_closed(), "{error}"),
                        }
                    }
                });
                executor.spawn_batch((0..100).collect::<Vec<_>>()).unwrap();
                let not_run = match round % 3 {
                    0 => executor.shutdown_now().unwrap().not_run.len(),
                    1 => executor.finish().not_run.len(),
                    _ => {
                        drop(executor);
                        0
                    }
                };
                // Every thread has ended, those of the resizes included.
                assert_eq!((get(&alive), get(&ran) + not_run), (0, 100));
            });
        }
    });
}

/// The resize adds its thread after the executor has ended and the first worker has exited.
#[test]
fn a_resize_beside_the_end_loses_no_scratch() {
    within(LIMIT, || {
        let ((begun, has_begun), (exit, exited)) = (channel(), channel());
        let exited = Mutex::new(exited);
        let scratch = move |worker: usize| {
            if worker == 1 {
                begun.send(()).unwrap();
                exited.lock().unwrap().recv().unwrap();
                // The thread of the other worker ends soon after its last hook.
                thread::sleep(Duration::from_millis(20));
            }
            worker
        };
        let executor = Executor::builder()
            .workers(1)
            .max_workers(2)
            .on_exit(move |worker| {
                if worker == 0 {
                    _ = exit.send(());
                }
            })
            .build(scratch, |(), _| ())
            .unwrap();
        let handle = executor.handle();
        let resize = thread::spawn(move || _ = handle.resize(2));
        has_begun.recv().unwrap();
        assert!(executor.finish().scratch.contains(&0));
        resize.join().unwrap();
    });
}

#[test]
fn everything_runs_once_while_the_executor_is_resized() {
    fn run<Q: filch::engine::Strategy>(executor: ExecutorBuilder<u32, Q>) {
        let (ran, count) = counting();
        let executor = executor.workers(2).max_workers(5).build(
            |_| (),
            move |depth: u32, cx| {
                count();
                if depth > 0 {
                    (0..3).for_each(|_| cx.spawn(depth - 1));
                }
            },
        );
        let executor = executor.unwrap();
        let handle = executor.handle();
        thread::scope(|s| {
            s.spawn(move || {
                let mut rng = Rng::new(7);
                for _ in 0..200 {
                    handle.resize(1 + rng.below(5)).unwrap();
                }
            });
            for _ in 0..40 {
                while executor.spawn(5).is_err() {
                    thread::yield_now(); // the queue from outside is bounded, and full
                }
            }
        });
        executor.finish();
        assert_eq!(get(&ran), 40 * 364);
    }
    within(LIMIT, || {
        run(Executor::builder());
        run(Executor::builder().strategy::<Shared>(Default::default()));
        run(Executor::builder().capacity(4));
    });
}
