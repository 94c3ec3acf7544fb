//! Executors: waiting for their end, how much they have to do, tokens, budgets, tasks that borrow.

use crate::support::{Drops, Flag, LIMIT, message, quiet_panic, until, within};
use filch::{
    BuildError, CancelToken, Executor, Permit, Semaphore,
    engine::{Core, NoObserver, Settings, Shared, SharedSpec, Step, Strategy},
    executor::ExecutorBuilder,
};
use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// A task that sets a flag and waits for another one.
type Gate = (Flag, Flag);

fn gates(workers: usize) -> Executor<Gate> {
    Executor::builder()
        .workers(workers)
        .build(
            |_| (),
            |(begun, end): Gate, _| {
                begun.set();
                end.wait("the end of a task");
            },
        )
        .unwrap()
}

#[test]
fn a_join_with_a_limit_gives_the_executor_back() {
    within(LIMIT, || {
        let executor = gates(2);
        let (begun, end) = (Flag::default(), Flag::default());
        executor.spawn((begun.clone(), end.clone())).unwrap();
        begun.wait("the task");
        let executor = executor
            .finish_timeout(Duration::from_millis(5))
            .err()
            .unwrap();
        assert!(
            executor
                .spawn((begun, end.clone()))
                .unwrap_err()
                .is_closed()
        );
        let executor = executor.finish_timeout(Duration::ZERO).err().unwrap();
        end.set();
        let summary = executor.finish_timeout(LIMIT).unwrap().unwrap();
        assert_eq!(summary.metrics.total().executed, 1);
    });
}

#[test]
fn a_join_with_a_limit_reports_panics() {
    within(LIMIT, || {
        let executor = Executor::builder()
            .workers(1)
            .build(|_| (), |_: u8, _| quiet_panic("bad task"))
            .unwrap();
        executor.spawn(1).unwrap();
        let error = executor.finish_timeout(LIMIT).unwrap().unwrap_err();
        assert_eq!(message(&*error.into_payload()), "bad task");
    });
}

#[test]
fn an_executor_is_idle_when_nothing_is_queued_or_running() {
    within(LIMIT, || {
        let executor = gates(1);
        assert!(executor.is_idle() && executor.pending() == 0);
        let (begun, end) = (Flag::default(), Flag::default());
        for _ in 0..5 {
            executor.spawn((begun.clone(), end.clone())).unwrap();
        }
        begun.wait("the first task");
        assert!(!executor.is_idle());
        assert_eq!(executor.pending(), 5, "one runs, four are queued");
        end.set();
        until("it is idle", || executor.is_idle());
        assert_eq!(executor.handle().pending(), 0);
        // Tasks from outside have been finished: new ones are still seen.
        let (begun, end) = (Flag::default(), Flag::default());
        executor.spawn((begun.clone(), end.clone())).unwrap();
        begun.wait("the last task");
        assert!(!executor.is_idle() && executor.pending() == 1);
        end.set();
        executor.finish();
    });
}

#[test]
fn a_token_shuts_an_executor_down() {
    within(LIMIT, || {
        let parent = CancelToken::new();
        let begun = Flag::default();
        let started = begun.clone();
        let executor = Executor::builder()
            .workers(1)
            .token(&parent)
            .build(
                |_| (),
                move |_: u32, cx| {
                    started.set();
                    until("the executor is cancelled", || cx.is_cancelled());
                },
            )
            .unwrap();
        executor.spawn_batch([1, 2, 3]).unwrap();
        begun.wait("the first task");
        let token = executor.token();
        parent.cancel();
        assert!(token.is_cancelled() && executor.spawn(4).unwrap_err().is_closed());
        let summary = executor.finish();
        // The first task may see the token before the executor is shut down, and then others start.
        let executed = summary.metrics.total().executed as usize;
        assert!(executed >= 1);
        assert_eq!(executed + summary.not_run.len(), 3);

        let executor = gates(1);
        let token = executor.token();
        executor.shutdown_now().unwrap();
        assert!(token.is_cancelled(), "and a shutdown cancels it");
        let executor = gates(1);
        executor.token().cancel();
        assert!(!executor.handle().is_accepting());
        drop(executor);
    });
}

#[test]
fn tasks_that_wait_for_units_hold_no_worker() {
    within(LIMIT, || {
        let budget = Semaphore::new(10);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, peak) = (running.clone(), most.clone());
        // One worker: if it waited for units, the task that has them would never run.
        for workers in [1, 3] {
            let (now, peak) = (now.clone(), peak.clone());
            let executor = Executor::builder()
                .workers(workers)
                .build(
                    |_| 0_u64,
                    move |permit: Permit<'static>, cx| {
                        let units = permit.units() as usize;
                        peak.fetch_max(now.fetch_add(units, SeqCst) + units, SeqCst);
                        *cx.scratch() += permit.units();
                        now.fetch_sub(units, SeqCst);
                    },
                )
                .unwrap();
            let held = budget.acquire_many(10).unwrap();
            for n in 0..100 {
                executor
                    .spawn_when(&budget, 1 + n % 7, |permit| permit)
                    .unwrap();
            }
            assert!(!executor.is_idle(), "they wait");
            assert_eq!(executor.metrics().total().executed, 0);
            drop(held);
            let summary = executor.finish();
            let expected: u64 = (0..100).map(|n| 1 + n % 7).sum();
            assert_eq!(summary.scratch.iter().sum::<u64>(), expected);
            assert_eq!(budget.available(), 10);
        }
        assert!(most.load(SeqCst) <= 10);
    });
}

#[test]
fn a_shutdown_drops_the_tasks_that_wait_for_units() {
    within(LIMIT, || {
        let (budget, drops) = (Semaphore::new(1), Drops::default());
        let executor = Executor::builder()
            .workers(1)
            .build(|_| (), |_: Permit<'static>, _| {})
            .unwrap();
        let held = budget.acquire().unwrap();
        let spawn = || {
            let owned = drops.value();
            let make = move |permit| {
                drop(owned);
                permit
            };
            executor.handle().spawn_when(&budget, 1, make)
        };
        (0..3).for_each(|_| spawn().ok().unwrap());
        executor.handle().shutdown_now();
        assert_eq!(drops.seen(), 3);
        assert!(spawn().err().unwrap().is_closed());
        assert!(executor.finish().not_run.is_empty());
        drop(held);
        assert_eq!(budget.available(), 1, "nothing is left in the queue");
    });
}

#[test]
fn a_semaphore_that_cannot_serve_refuses() {
    within(LIMIT, || {
        let (budget, drops) = (Semaphore::new(2), Drops::default());
        let executor = Executor::builder()
            .workers(1)
            .build(|_| (), |_: Permit<'static>, _| {})
            .unwrap();
        let refused = executor
            .spawn_when(&budget, 3, |permit| permit)
            .err()
            .unwrap();
        assert!(refused.is_unavailable() && !refused.is_closed());
        assert!(executor.is_idle());
        let held = budget.acquire_many(2).unwrap();
        let owned = drops.value();
        let waiting = executor.spawn_when(&budget, 1, move |permit| {
            drop(owned);
            permit
        });
        waiting.ok().unwrap();
        budget.close();
        assert_eq!(drops.seen(), 1, "the task that waits is dropped");
        drop(held);
        assert_eq!(executor.finish().metrics.total().executed, 0);
    });
}

thread_local! {
    static LAST_PERMIT: RefCell<Option<Permit<'static>>> = const { RefCell::new(None) };
}

/// The thread drops one permit, which resumes a task, and another one in the destructor of a
/// thread-local variable, when those of the library are gone.
#[test]
fn a_thread_that_ends_resumes_the_tasks_that_wait_for_its_permits() {
    within(LIMIT, || {
        let budgets = [Semaphore::new(1), Semaphore::new(1)];
        let executor = Executor::builder()
            .workers(1)
            .build(|_| (), |_: Permit<'static>, _| {})
            .unwrap();
        let [first, last] = [0, 1].map(|n| budgets[n].acquire().unwrap().into_owned());
        for budget in &budgets {
            executor
                .spawn_when(budget, 1, |permit| permit)
                .ok()
                .unwrap();
        }
        let thread = thread::spawn(move || {
            LAST_PERMIT.set(Some(last));
            drop(first);
        });
        thread.join().unwrap();
        assert_eq!(executor.finish().metrics.total().executed, 2);
        assert!(budgets.iter().all(|budget| budget.available() == 1));
    });
}

#[test]
fn a_panic_while_a_task_is_made_gives_the_units_back() {
    within(LIMIT, || {
        let budget = Semaphore::new(1);
        let executor = Executor::builder()
            .workers(1)
            .build(|_| (), |_: Permit<'static>, _| {})
            .unwrap();
        let held = budget.acquire().unwrap();
        for _ in 0..2 {
            let make = |_permit: Permit<'static>| -> Permit<'static> { quiet_panic("no task") };
            executor.spawn_when(&budget, 1, make).ok().unwrap();
        }
        drop(held);
        let error = executor.try_finish().unwrap_err();
        assert_eq!(error.panics(), 2);
        assert_eq!(budget.available(), 1);
    });
}

#[test]
fn a_scope_runs_tasks_that_borrow() {
    within(LIMIT, || {
        let words: Vec<String> = (0..200).map(|n| format!("word {n}")).collect();
        let seen = Mutex::new(Vec::new());
        for workers in [1, 2, 4] {
            let (sent, summary) = ExecutorBuilder::new()
                .workers(workers)
                .scope(
                    |_| 0,
                    |(word, again): (&str, bool), cx| {
                        *cx.scratch() += 1;
                        seen.lock().unwrap().push(word);
                        if again {
                            cx.spawn((word, false));
                        }
                    },
                    |executor| {
                        for word in &words {
                            executor.spawn((word, true)).unwrap();
                        }
                        words.len()
                    },
                )
                .unwrap();
            assert_eq!((sent, summary.scratch.len()), (200, workers));
            assert_eq!(summary.scratch.iter().sum::<usize>(), 400);
            assert_eq!(seen.lock().unwrap().drain(..).count(), 400);
        }
    });
}

#[test]
fn a_scope_ends_when_its_body_panics() {
    within(LIMIT, || {
        let owned = [1, 2, 3];
        let ran = AtomicUsize::new(0);
        let end = Flag::default();
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            ExecutorBuilder::new().workers(2).scope(
                |_| (),
                |n: &usize, _| {
                    end.wait("the panic of the body");
                    ran.fetch_add(*n, SeqCst);
                },
                |executor| -> () {
                    owned.iter().for_each(|n| executor.spawn(n).unwrap());
                    end.set();
                    quiet_panic("the body")
                },
            )
        }));
        assert_eq!(message(&*result.err().unwrap()), "the body");
        assert_eq!(ran.load(SeqCst), 6, "no task outlives the call");
    });
}

#[test]
fn a_scope_reports_errors_and_panics_of_tasks() {
    within(LIMIT, || {
        let builder = || ExecutorBuilder::new().workers(2);
        let failed = builder()
            .workers(0)
            .scope(|_| (), |_: u8, _| {}, |_| unreachable!());
        assert!(failed.map(|_: ((), _)| ()).unwrap_err().is_config());
        let start = |worker: usize| {
            if worker == 1 {
                quiet_panic("no scratch")
            }
        };
        let failed = builder().scope(start, |_: u8, _| {}, |_| unreachable!());
        assert!(failed.map(|_: ((), _)| ()).unwrap_err().is_init());
        let panicked = panic::catch_unwind(|| {
            builder().scope(
                |_| (),
                |_: u8, _| quiet_panic("the task"),
                |executor| {
                    executor.spawn(1).unwrap();
                },
            )
        });
        assert_eq!(message(&*panicked.err().unwrap()), "the task");
        // A handle that leaves the scope is refused.
        let (handle, _) = builder()
            .scope(|_| (), |_: u8, _| {}, Clone::clone)
            .unwrap();
        assert!(handle.spawn(1).unwrap_err().is_closed());
    });
}

/// How often all queues were checked for work.
static CHECKS: AtomicUsize = AtomicUsize::new(0);

/// One queue for all workers, which counts those checks: each takes time by the number of queues.
struct Counted;

impl Strategy for Counted {
    type Spec = SharedSpec;
    type Store<T: Send> = <Shared as Strategy>::Store<T>;
    type Handle<'a, T: Send + 'a> = <Shared as Strategy>::Handle<'a, T>;

    fn store<T: Send>(spec: &SharedSpec, workers: usize) -> Result<Self::Store<T>, BuildError> {
        Shared::store(spec, workers)
    }

    fn handle<T: Send>(store: &Self::Store<T>, worker: usize) -> Self::Handle<'_, T> {
        Shared::handle(store, worker)
    }

    fn has_work<T: Send>(store: &Self::Store<T>) -> bool {
        CHECKS.fetch_add(1, SeqCst);
        Shared::has_work(store)
    }

    fn reset<T: Send>(store: &Self::Store<T>, give: impl FnMut(T)) {
        Shared::reset(store, give);
    }
}

/// Every worker that is woken for the end, and leaves, would otherwise check the queues of all.
#[test]
fn workers_that_end_check_no_queues() {
    const WORKERS: usize = 100;
    let settings = Settings {
        // All of them on one core, so that a worker that is woken could stand by.
        current_core: Box::new(|| Some(0)),
        is_pinned: Box::new(|| true),
        ..Settings::new(WORKERS)
    };
    let core: Core<u32, Counted, NoObserver> =
        Core::new(settings, &Default::default(), NoObserver).unwrap();
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|id| {
            let mut worker = core.enter(id);
            loop {
                if let Step::Park(ticket) = worker.step(|_, _| ()) {
                    break (worker, Some(ticket));
                }
            }
        })
        .collect();
    CHECKS.store(0, SeqCst);
    core.close();
    for (worker, ticket) in &mut workers {
        worker.resume(ticket.take().unwrap());
        assert!(matches!(worker.step(|_, _| ()), Step::Exit));
    }
    drop(workers);
    assert_eq!(CHECKS.load(SeqCst), 0);
}

#[test]
fn a_join_with_a_limit_does_not_wait_for_a_task_after_a_shutdown() {
    within(LIMIT, || {
        let executor = gates(1);
        let (begun, end) = (Flag::default(), Flag::default());
        executor.spawn((begun.clone(), end.clone())).unwrap();
        begun.wait("the task");
        executor.token().cancel();
        let executor = executor
            .finish_timeout(Duration::from_millis(5))
            .err()
            .expect("it runs");
        end.set();
        assert!(executor.finish_timeout(LIMIT).is_ok());
    });
}

#[test]
fn tasks_that_drop_their_permits_at_once_do_not_nest() {
    const TASKS: u32 = 100_000;
    within(LIMIT * 3, || {
        let unit = Semaphore::new(1);
        let executor = Executor::builder()
            .workers(1)
            .build(|_| 0_u32, |n: u32, cx| *cx.scratch() += n)
            .unwrap();
        let held = unit.acquire();
        for _ in 0..TASKS {
            let task = |permit| {
                drop::<Permit<'static>>(permit);
                1
            };
            executor.spawn_when(&unit, 1, task).unwrap();
        }
        drop(held);
        assert_eq!(executor.finish().scratch, [TASKS]);
        assert_eq!(unit.available(), 1);
    });
}
