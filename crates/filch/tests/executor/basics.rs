//! What the typed executor promises.

use crate::support::{message, quiet_panic};
use filch::{
    Executor,
    engine::{
        Capacity, Distances, Event, IdleAction, IdlePolicy, Observer, PerWorker, PerWorkerSpec,
        Shared, SharedSpec, Source, WakePolicy,
    },
    executor::{Context, QueueOverflow},
};
use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

#[test]
fn runs_every_task_once_from_everywhere() {
    for workers in [1, 2, 3, 8] {
        let executor = Executor::builder()
            .workers(workers)
            .build(
                |_| vec![0_u32; 3_000],
                |n: usize, cx| {
                    cx.scratch()[n] += 1;
                    // Each of the first thousand spawns one locally and one globally.
                    if n < 1_000 {
                        cx.spawn(n + 1_000);
                        cx.spawn_fifo(n + 2_000);
                    }
                },
            )
            .unwrap();
        let producers: Vec<_> = (0..2)
            .map(|half| {
                let handle = executor.handle();
                thread::spawn(move || {
                    for n in 0..250 {
                        handle.spawn(half * 500 + n).unwrap();
                    }
                    let rest: Vec<_> = (250..500).map(|n| half * 500 + n).collect();
                    handle.spawn_batch(rest).unwrap();
                })
            })
            .collect();
        producers.into_iter().for_each(|p| p.join().unwrap());
        let summary = executor.finish();
        let mut sum = vec![0; 3_000];
        for scratch in &summary.scratch {
            sum.iter_mut().zip(scratch).for_each(|(a, b)| *a += b);
        }
        assert!(sum.iter().all(|&n| n == 1), "{workers} workers");
        let total = summary.metrics.total();
        assert_eq!(total.executed, 3_000);
        assert_eq!(total.executed, total.local + total.injected + total.stolen);
        assert_eq!((total.spawned_local, total.spawned_global), (1_000, 1_000));
        assert!(total.steal_attempts >= total.stolen);
        assert_eq!(summary.scratch.len(), workers);
    }
}

#[test]
fn a_panic_costs_one_task_and_reaches_join() {
    for workers in [1, 2, 4] {
        let ran = Arc::new(AtomicUsize::new(0));
        let counter = ran.clone();
        let executor = Executor::builder()
            .workers(workers)
            .build(
                |_| (),
                move |n: usize, _| {
                    if n == 0 {
                        quiet_panic("the first");
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                },
            )
            .unwrap();
        executor
            .spawn_batch((0..=1_000).collect::<Vec<_>>())
            .unwrap();
        let error = executor.try_finish().unwrap_err();
        assert_eq!(ran.load(Ordering::Relaxed), 1_000);
        assert_eq!(error.panics(), 1);
        assert_eq!(message(&*error.into_payload()), "the first");
    }
}

#[test]
fn join_raises_the_first_panic_after_everything_ran() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| (),
            move |n: usize, _| {
                counter.fetch_add(1, Ordering::Relaxed);
                match n {
                    10 => quiet_panic("ten"),
                    20 => quiet_panic("twenty"),
                    _ => {}
                }
            },
        )
        .unwrap();
    executor.spawn_batch((0..100).collect::<Vec<_>>()).unwrap();
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| executor.finish()))
        .expect_err("must be raised again");
    assert_eq!(message(&*payload), "ten");
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

#[test]
fn the_gate_still_counts_after_panics() {
    // Panics while others keep spawning: nothing hangs, nothing is lost.
    let handler = Arc::new(AtomicUsize::new(0));
    let calls = handler.clone();
    let executor = Executor::builder()
        .workers(3)
        .on_panic(move |worker, payload| {
            assert!(worker < 3 && message(&**payload) == "odd");
            calls.fetch_add(1, Ordering::Relaxed);
            quiet_panic("a handler that panics itself");
        })
        .build(
            |_| 0_usize,
            |n: usize, cx| {
                *cx.scratch() += 1;
                if n > 0 {
                    cx.spawn(n - 1);
                }
                if n % 2 == 1 {
                    quiet_panic("odd");
                }
            },
        )
        .unwrap();
    (0..50).for_each(|_| executor.spawn(99).unwrap());
    let error = executor.try_finish().unwrap_err();
    assert_eq!(error.panics(), 50 * 50);
    assert_eq!(handler.load(Ordering::Relaxed), 50 * 50);
    assert_eq!(error.into_summary().scratch.iter().sum::<usize>(), 50 * 100);
}

#[test]
fn a_closed_executor_gives_the_tasks_back() {
    let executor = Executor::builder()
        .workers(2)
        .build(|_| (), |_: String, _| {})
        .unwrap();
    let handle = executor.handle();
    assert!(handle.is_accepting());
    executor.finish();
    assert!(!handle.is_accepting());
    let refused = handle.spawn("one".into()).unwrap_err();
    assert!(refused.is_closed() && !refused.is_full());
    assert_eq!(refused.into_inner(), "one");
    let batch = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(
        handle.spawn_batch(batch.clone()).unwrap_err().into_inner(),
        batch
    );
}

#[test]
fn spawn_and_join_race_without_loss() {
    // Producers spawn until they are refused; whatever was accepted has run when join returns.
    for round in 0..200 {
        let ran = Arc::new(AtomicUsize::new(0));
        let counter = ran.clone();
        let executor = Executor::builder()
            .workers(1 + round % 3)
            .build(
                |_| (),
                move |(), _| {
                    counter.fetch_add(1, Ordering::Relaxed);
                },
            )
            .unwrap();
        let start = Arc::new(Barrier::new(3));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (handle, start) = (executor.handle(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    let mut accepted = 0;
                    while handle.spawn(()).is_ok() {
                        accepted += 1;
                    }
                    accepted
                })
            })
            .collect();
        start.wait();
        let summary = executor.finish();
        let at_join = ran.load(Ordering::Relaxed);
        let accepted: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
        assert_eq!(at_join, accepted);
        assert_eq!(summary.metrics.total().executed, accepted as u64);
        assert!(summary.not_run.is_empty());
    }
}

#[test]
fn shutdown_gives_back_what_was_not_run() {
    for round in 0..50 {
        let executor = Executor::builder()
            .workers(1 + round % 3)
            .build(
                |_| vec![],
                |n: usize, cx| {
                    cx.scratch().push(n);
                    if n < 1_000 {
                        cx.spawn(n + 1_000);
                    }
                },
            )
            .unwrap();
        executor
            .spawn_batch((0..1_000).collect::<Vec<_>>())
            .unwrap();
        let spawned = |summary: &filch::executor::Summary<usize, Vec<usize>>| {
            1_000 + summary.metrics.total().spawned_local as usize
        };
        let summary = executor.shutdown_now().unwrap();
        let mut seen: Vec<_> = summary.scratch.iter().flatten().copied().collect();
        seen.extend(&summary.not_run);
        assert_eq!(seen.len(), spawned(&summary), "run or given back");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), spawned(&summary), "each once");
    }
}

#[test]
fn shutdown_races_with_producers_without_loss() {
    for _ in 0..100 {
        let executor = Executor::builder()
            .workers(2)
            .build(|_| 0_usize, |(), cx| *cx.scratch() += 1)
            .unwrap();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let handle = executor.handle();
                thread::spawn(move || (0..).take_while(|_| handle.spawn(()).is_ok()).count())
            })
            .collect();
        thread::yield_now();
        let summary = executor.shutdown_now().unwrap();
        let accepted: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
        let ran: usize = summary.scratch.iter().sum();
        assert_eq!(ran + summary.not_run.len(), accepted);
    }
}

#[test]
fn a_handle_can_shut_down() {
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| 0,
            |_: u32, cx: &mut Context<'_, '_, u32, i32>| {
                *cx.scratch() += 1;
                cx.handle().shutdown_now(); // from inside a task
            },
        )
        .unwrap();
    executor.spawn_batch(vec![0; 10]).unwrap_or_default();
    let summary = executor.finish();
    assert_eq!(summary.scratch, [1]);
    assert_eq!(summary.not_run.len(), 9);
}

#[test]
fn dropping_runs_everything() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_| (),
            move |n: usize, cx| {
                counter.fetch_add(1, Ordering::Relaxed);
                if n > 0 {
                    cx.spawn(n - 1);
                }
            },
        )
        .unwrap();
    (0..100).for_each(|_| executor.spawn(9).unwrap());
    drop(executor);
    assert_eq!(ran.load(Ordering::Relaxed), 1_000);
}

#[test]
fn an_executor_dropped_by_its_own_worker_does_not_hang() {
    type Slot = Arc<Mutex<Option<Executor<u32>>>>;
    let slot: Slot = Arc::default();
    let (done, finished) = mpsc::channel();
    let mine = slot.clone();
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_| (),
            move |n: u32, _| {
                if n == 0 {
                    drop(mine.lock().unwrap().take());
                }
                done.send(n).unwrap();
            },
        )
        .unwrap();
    let handle = executor.handle();
    *slot.lock().unwrap() = Some(executor);
    handle.spawn_batch([0, 1, 2]).unwrap();
    let mut seen: Vec<_> = (0..3).map(|_| finished.recv().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn joining_from_its_own_worker_is_an_error_and_no_hang() {
    let slot: Arc<Mutex<Option<Executor<()>>>> = Arc::default();
    let (done, finished) = mpsc::channel();
    let mine = slot.clone();
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| (),
            move |(), _| {
                let executor = mine.lock().unwrap().take().unwrap();
                let hook = std::panic::take_hook();
                std::panic::set_hook(Box::new(|_| {}));
                let joined =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| executor.finish()));
                std::panic::set_hook(hook);
                done.send(joined.is_err()).unwrap();
            },
        )
        .unwrap();
    let handle = executor.handle();
    *slot.lock().unwrap() = Some(executor);
    handle.spawn(()).unwrap();
    assert!(finished.recv().unwrap());
}

#[test]
fn bad_settings_are_reported() {
    let build = |b: filch::executor::ExecutorBuilder<u32>| {
        b.build(|_| (), |_, _| {}).unwrap_err().to_string()
    };
    let b = Executor::<u32>::builder;
    assert!(build(b().workers(0)).contains("at least one worker"));
    assert!(build(b().workers(100_000)).contains("at most"));
    assert!(build(b().workers(1).capacity(0)).contains("capacity"));
    assert!(build(b().workers(2).distances(Distances::flat(3))).contains("distances"));
    let spec = PerWorkerSpec {
        steal_batch: 0,
        ..Default::default()
    };
    let error = b()
        .workers(1)
        .strategy::<PerWorker>(spec)
        .build(|_| (), |_, _| {});
    assert!(error.unwrap_err().to_string().contains("steal_batch"));
    let spec = SharedSpec { capacity: Some(0) };
    let error = b()
        .workers(1)
        .strategy::<Shared>(spec)
        .build(|_| (), |_, _| {});
    assert!(error.unwrap_err().is_config());
}

#[test]
fn an_initialiser_that_panics_is_an_error() {
    let ended = Arc::new(AtomicUsize::new(0));
    let exits = ended.clone();
    let error = Executor::<u32>::builder()
        .workers(4)
        .on_exit(move |_| {
            exits.fetch_add(1, Ordering::Relaxed);
        })
        .build(
            |worker| {
                if worker == 2 {
                    quiet_panic("no scratch today");
                }
            },
            |_, _| {},
        )
        .unwrap_err();
    assert!(error.is_init());
    assert!(
        error.to_string().contains("worker 2") && error.to_string().contains("no scratch today")
    );
    assert_eq!(ended.load(Ordering::Relaxed), 4, "every thread has ended");
}

#[test]
fn a_thread_that_cannot_start_is_an_error() {
    let error = Executor::<u32>::builder()
        .workers(2)
        .stack_size(usize::MAX / 2)
        .build(|_| (), |_, _| {});
    assert!(error.unwrap_err().is_thread());
}

#[test]
fn names_hooks_and_ids_are_the_workers_own() {
    let log = Arc::new(Mutex::new(vec![]));
    let (starts, exits) = (log.clone(), log.clone());
    let executor = Executor::builder()
        .workers(3)
        .name(|worker| format!("pool-{worker}"))
        .on_start(move |worker| starts.lock().unwrap().push(("start", worker)))
        .on_exit(move |worker| exits.lock().unwrap().push(("exit", worker)))
        .build(
            |worker| worker,
            |(), cx| {
                assert_eq!(filch::current_worker(), Some(cx.id()));
                let id = cx.id();
                assert_eq!(*cx.scratch(), id);
                assert_eq!(
                    thread::current().name(),
                    Some(&*format!("pool-{}", cx.id()))
                );
            },
        )
        .unwrap();
    assert_eq!(filch::current_worker(), None);
    executor.spawn_batch(vec![(); 100]).unwrap();
    assert_eq!(executor.finish().scratch, [0, 1, 2]);
    let mut log = log.lock().unwrap().clone();
    log.sort_unstable();
    assert_eq!(
        log,
        [
            ("exit", 0),
            ("exit", 1),
            ("exit", 2),
            ("start", 0),
            ("start", 1),
            ("start", 2)
        ]
    );
}

#[test]
fn a_bounded_injector_refuses_and_loses_nothing() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let started = Arc::new(AtomicBool::new(false));
    let flag = started.clone();
    let executor = Executor::builder()
        .workers(1)
        .capacity(3)
        .build(
            |_| vec![],
            move |n: u32, cx| {
                if n == 0 {
                    flag.store(true, Ordering::Release);
                    gate.lock().unwrap().recv().unwrap();
                    // A worker's own spawns are never refused.
                    (100..110).for_each(|child| cx.spawn_fifo(child));
                }
                cx.scratch().push(n);
            },
        )
        .unwrap();
    executor.spawn(0).unwrap();
    while !started.load(Ordering::Acquire) {
        thread::yield_now();
    }
    executor.spawn(1).unwrap();
    assert!(executor.spawn_batch([2, 3, 4]).unwrap_err().is_full());
    executor.spawn_batch([2, 3]).unwrap();
    let refused = executor.spawn(5).unwrap_err();
    assert!(refused.is_full() && refused.into_inner() == 5);
    release.send(()).unwrap();
    let summary = executor.finish();
    let mut seen = summary.scratch[0].clone();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..4).chain(100..110)));
}

#[test]
fn injected_work_runs_while_a_worker_feeds_itself() {
    // One worker, kept busy by a task that spawns itself for ever: a task from outside still runs.
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| (),
            move |outside: bool, cx| {
                if outside {
                    flag.store(true, Ordering::Relaxed);
                } else if !flag.load(Ordering::Relaxed) {
                    cx.spawn(false);
                }
            },
        )
        .unwrap();
    executor.spawn(false).unwrap();
    thread::sleep(Duration::from_millis(5));
    executor.spawn(true).unwrap();
    executor.finish(); // would never return
    assert!(stop.load(Ordering::Relaxed));
}

/// The same if the worker has taken both in one batch, so that the task from outside is below the
/// others in its own queue.
#[test]
fn the_rest_of_a_batch_runs_while_a_worker_feeds_itself() {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| (),
            move |outside: Option<bool>, cx| match outside {
                None => released.lock().unwrap().recv().unwrap(),
                Some(true) => flag.store(true, Ordering::Relaxed),
                Some(false) if flag.load(Ordering::Relaxed) => {}
                Some(false) => cx.spawn(Some(false)),
            },
        )
        .unwrap();
    executor.spawn(None).unwrap();
    // Both are queued while the worker is in the first task.
    executor.spawn(Some(false)).unwrap();
    executor.spawn(Some(true)).unwrap();
    release.send(()).unwrap();
    executor.finish(); // would never return
    assert!(stop.load(Ordering::Relaxed));
}

#[test]
fn work_behind_a_long_task_is_taken_by_others() {
    let executor = Executor::builder()
        .workers(2)
        .build(
            |_| (),
            |task: Option<mpsc::Sender<usize>>, cx| {
                let Some(done) = task else { return };
                // Spawns into its own queue, then waits, in this very task, until another worker
                // has run what it spawned.
                let (send, receive) = mpsc::channel();
                cx.spawn(None);
                cx.spawn(None);
                let begin = Instant::now();
                while cx.has_queued_tasks() {
                    assert!(
                        begin.elapsed() < Duration::from_secs(20),
                        "no worker took the work"
                    );
                    thread::yield_now();
                }
                send.send(1).unwrap();
                done.send(receive.recv().unwrap()).unwrap();
            },
        )
        .unwrap();
    let (send, receive) = mpsc::channel();
    for _ in 0..50 {
        executor.spawn(Some(send.clone())).unwrap();
        assert_eq!(receive.recv().unwrap(), 1);
    }
    executor.finish();
}

#[test]
fn every_wake_policy_runs_everything() {
    for wake in [
        WakePolicy::EveryPush,
        WakePolicy::OncePerBatch,
        WakePolicy::EveryKth(7),
        WakePolicy::OnHoard(WakePolicy::HOARD),
    ] {
        let executor = Executor::builder()
            .workers(3)
            .wake(wake)
            .build(
                |_| 0_u64,
                |depth: u32, cx| {
                    *cx.scratch() += 1;
                    if depth > 0 {
                        cx.spawn(depth - 1);
                        cx.spawn(depth - 1);
                    }
                },
            )
            .unwrap();
        executor.spawn(12).unwrap();
        assert_eq!(
            executor.finish().scratch.iter().sum::<u64>(),
            (1 << 13) - 1,
            "{wake:?}"
        );
    }
}

#[test]
fn bounded_queues_overflow_as_configured() {
    for overflow in [QueueOverflow::Spill, QueueOverflow::Inline] {
        for workers in [1, 3] {
            let executor = Executor::builder()
                .workers(workers)
                .strategy::<PerWorker>(PerWorkerSpec {
                    capacity: Capacity::bounded(4),
                    ..Default::default()
                })
                .overflow(overflow)
                .build(
                    |_| 0_u64,
                    |depth: u32, cx| {
                        *cx.scratch() += 1;
                        (0..if depth > 0 { 20 } else { 0 }).for_each(|_| cx.spawn(depth - 1));
                    },
                )
                .unwrap();
            executor.spawn(3).unwrap();
            let summary = executor.finish();
            assert_eq!(summary.scratch.iter().sum::<u64>(), 1 + 20 + 400 + 8_000);
            let total = summary.metrics.total();
            assert_eq!(total.executed, 8_421);
            assert_eq!(total.executed, total.local + total.injected + total.stolen);
            assert_eq!(overflow == QueueOverflow::Spill, total.spilled > 0);
        }
    }
}

#[test]
fn running_inline_does_not_overflow_the_stack() {
    // Every task spawns two more into a full queue of one: unbounded nesting would be 100,000 deep.
    let executor = Executor::builder()
        .workers(1)
        .stack_size(256 * 1024)
        .strategy::<PerWorker>(PerWorkerSpec {
            capacity: Capacity::bounded(1),
            ..Default::default()
        })
        .overflow(QueueOverflow::Inline)
        .build(
            |_| 0_u32,
            |n: u32, cx| {
                *cx.scratch() += 1;
                if n > 0 {
                    cx.spawn(0);
                    cx.spawn(n - 1);
                }
            },
        )
        .unwrap();
    executor.spawn(100_000).unwrap();
    assert_eq!(executor.finish().scratch, [200_001]);
}

#[test]
fn a_full_queue_can_refuse() {
    let executor = Executor::builder()
        .workers(1)
        .strategy::<PerWorker>(PerWorkerSpec {
            capacity: Capacity::bounded(2),
            ..Default::default()
        })
        .build(
            |_| 0,
            |n: u32, cx| {
                *cx.scratch() += 1;
                if n == 9 {
                    cx.try_spawn(1).unwrap();
                    cx.try_spawn(2).unwrap();
                    let refused = cx.try_spawn(3).unwrap_err();
                    assert!(refused.is_full() && refused.into_inner() == 3);
                }
            },
        )
        .unwrap();
    executor.spawn(9).unwrap();
    assert_eq!(executor.finish().scratch, [3]);
}

#[test]
fn the_shared_strategy_runs_in_order_and_any_number() {
    let executor = Executor::builder()
        .workers(1)
        .strategy::<Shared>(SharedSpec::default())
        .build(
            |_| vec![],
            |n: u32, cx| {
                cx.scratch().push(n);
                if n == 0 {
                    (1..100_000).for_each(|child| cx.spawn(child));
                }
            },
        )
        .unwrap();
    executor.spawn(0).unwrap();
    assert!(executor.finish().scratch[0].iter().copied().eq(0..100_000));

    let executor = Executor::builder()
        .workers(4)
        .strategy::<Shared>(SharedSpec { capacity: Some(8) })
        .build(
            |_| 0,
            |depth: u32, cx| {
                *cx.scratch() += 1;
                (0..if depth > 0 { 5 } else { 0 }).for_each(|_| cx.spawn(depth - 1));
            },
        )
        .unwrap();
    executor.spawn(5).unwrap();
    assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 3_906);
}

#[test]
fn more_than_64_workers() {
    let executor = Executor::builder()
        .workers(130)
        .spin_rounds(2)
        .build(
            |_| 0_u64,
            |depth: u32, cx| {
                *cx.scratch() += 1;
                if depth > 0 {
                    (0..4).for_each(|_| cx.spawn(depth - 1));
                }
            },
        )
        .unwrap();
    executor.spawn(7).unwrap();
    let summary = executor.finish();
    assert_eq!(summary.scratch.len(), 130);
    assert_eq!(summary.scratch.iter().sum::<u64>(), (4_u64.pow(8) - 1) / 3);
}

#[test]
fn a_yield_lets_outside_work_run() {
    // A task that yields for ever on the only worker does not keep a task from outside waiting.
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let executor = Executor::builder()
        .workers(1)
        .inject_interval(0) // so it is the yield that does it
        .build(
            |_| 0_u64,
            move |outside: bool, cx| {
                *cx.scratch() += 1;
                if outside {
                    flag.store(true, Ordering::Relaxed);
                } else if !flag.load(Ordering::Relaxed) {
                    cx.yield_now(false);
                }
            },
        )
        .unwrap();
    executor.spawn(false).unwrap();
    thread::sleep(Duration::from_millis(2));
    executor.spawn(true).unwrap();
    executor.finish();
}

#[test]
fn park_timeouts_and_custom_idle_policies_work() {
    struct Eager;
    impl IdlePolicy for Eager {
        fn idle(&self, rounds: u32) -> IdleAction {
            match rounds {
                0..3 => IdleAction::Yield,
                _ => IdleAction::Park(Some(Duration::from_micros(50))),
            }
        }
    }
    let eager = Executor::builder()
        .workers(3)
        .idle(Eager)
        .build(|_| 0, |n: u32, cx| *cx.scratch() += n);
    let timed = Executor::builder()
        .workers(3)
        .spin_rounds(0)
        .park_timeout(Duration::from_micros(20))
        .build(|_| 0, |n: u32, cx| *cx.scratch() += n);
    for executor in [eager.unwrap(), timed.unwrap()] {
        for _ in 0..200 {
            executor.spawn(1).unwrap();
            thread::sleep(Duration::from_micros(30));
        }
        let summary = executor.finish();
        assert_eq!(summary.scratch.iter().sum::<u32>(), 200);
        assert!(summary.metrics.total().parks > 0);
    }
}

#[test]
fn wakes_are_never_lost() {
    // One task at a time into an idle executor, with every kind of pause: if a wake were lost, this
    // would hang.
    for workers in [1, 2, 4] {
        let executor = Executor::builder()
            .workers(workers)
            .spin_rounds(3)
            .build(
                |_| (),
                |reply: mpsc::Sender<()>, cx| {
                    if cx.rng().one_in(2) {
                        reply.send(()).unwrap();
                    } else {
                        cx.spawn_fifo(reply);
                    }
                },
            )
            .unwrap();
        let (send, receive) = mpsc::channel();
        for round in 0..3_000 {
            executor.spawn(send.clone()).unwrap();
            receive
                .recv_timeout(Duration::from_secs(30))
                .expect("a wake was lost");
            for _ in 0..round % 200 {
                std::hint::spin_loop();
            }
        }
        executor.finish();
    }
}

#[test]
fn an_observer_sees_what_the_counters_count() {
    #[derive(Default)]
    struct Seen {
        started: AtomicUsize,
        stolen: AtomicUsize,
        finished: AtomicUsize,
    }
    impl Observer for Seen {
        fn event(&self, _worker: usize, event: Event) {
            match event {
                Event::Started { source } => {
                    self.started.fetch_add(1, Ordering::Relaxed);
                    if matches!(source, Source::Steal { .. }) {
                        self.stolen.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Event::Finished => {
                    self.finished.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }
    let seen = Arc::new(Seen::default());
    let executor = Executor::builder()
        .workers(2)
        .observer(seen.clone())
        .build(|_| (), |n: u32, cx| (0..n).for_each(|_| cx.spawn(0)))
        .unwrap();
    executor.spawn(5_000).unwrap();
    let total = executor.finish().metrics.total();
    assert_eq!(seen.started.load(Ordering::Relaxed), 5_001);
    assert_eq!(seen.finished.load(Ordering::Relaxed), 5_001);
    assert_eq!(seen.stolen.load(Ordering::Relaxed) as u64, total.stolen);
}

#[test]
fn busy_and_idle_time_are_distinguished() {
    let executor = Executor::builder()
        .workers(1)
        .build(
            |_| (),
            |ms: u64, _| thread::sleep(Duration::from_millis(ms)),
        )
        .unwrap();
    thread::sleep(Duration::from_millis(30));
    executor.spawn(30).unwrap();
    let total = executor.finish().metrics.total();
    assert!(total.busy >= Duration::from_millis(29), "{total:?}");
    assert!(total.idle >= Duration::from_millis(20), "{total:?}");
}

#[test]
fn tasks_that_are_never_run_are_dropped_once() {
    let token = Arc::new(());
    let executor = Executor::builder()
        .workers(2)
        .build(|_| (), |_: Arc<()>, _| {})
        .unwrap();
    let handle = executor.handle();
    let batch: Vec<_> = (0..1_000).map(|_| token.clone()).collect();
    handle.spawn_batch(batch).unwrap();
    handle.shutdown_now();
    drop(executor); // the rest is not run
    drop(handle);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn what_a_shared_queue_gives_is_not_stolen() {
    for _ in 0..100 {
        let executor = Executor::builder()
            .workers(2)
            .strategy::<Shared>(SharedSpec::default())
            .build(
                |_| (),
                |n: u32, cx| {
                    if n > 0 {
                        cx.spawn(n - 1);
                    }
                },
            )
            .unwrap();
        executor.spawn_batch(vec![100; 2]).unwrap();
        let total = executor.finish().metrics.total();
        assert_eq!(total.stolen, 0, "{total:?}");
    }
}
