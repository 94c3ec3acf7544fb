//! Graphs that wait: launched runs, futures as tasks, semaphores.

use crate::graphs::pools;
use crate::support::{
    Drops, Flag, LIMIT, Panics, add, block_on, counter, get, panic_of, pool, quiet_panic, until,
    within,
};
use filch::{
    CancelToken, Graph, Plan, Priority, Semaphore,
    graph::{RunHandle, RunOptions, SharedPlan},
};
use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// An event that futures wait for.
#[derive(Clone, Default)]
struct Event(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Event {
    fn set(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }

    async fn wait(self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

mod launches {
    use super::*;

    fn counting(count: &Arc<AtomicUsize>, tasks: usize) -> Plan<'static> {
        let graph = Graph::new();
        graph.linearize((0..tasks).map(|_| {
            let count = count.clone();
            graph.task("", move || add(&count))
        }));
        graph.plan().unwrap()
    }

    #[test]
    fn many_at_once() {
        within(LIMIT, || {
            for pool in pools() {
                let count = Arc::new(counter());
                let runs: Vec<_> = (0..50).map(|_| pool.launch(counting(&count, 20))).collect();
                for run in runs {
                    assert_eq!(run.join().unwrap().ran(), 20);
                }
                assert_eq!(get(&count), 1000);
                assert_eq!(pool.launch(counting(&count, 0)).join().unwrap().ran(), 0);
            }
        });
    }

    #[test]
    fn runs_of_one_plan_queue_up() {
        within(LIMIT, || {
            for pool in pools() {
                let (inside, count) = (Arc::new(AtomicBool::new(false)), Arc::new(counter()));
                let graph = Graph::new();
                let (inside_too, count_too) = (inside.clone(), count.clone());
                let first = graph.task("first", move || {
                    assert!(!inside.swap(true, Ordering::SeqCst));
                });
                first.precede(graph.task("last", move || {
                    inside_too.store(false, Ordering::SeqCst);
                    add(&count_too);
                }));
                let plan = SharedPlan::from(graph.plan().unwrap());
                thread::scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|| {
                            let runs: Vec<_> = (0..10).map(|_| pool.launch(&plan)).collect();
                            for run in runs {
                                run.join().unwrap();
                            }
                            pool.install(|| plan.run()).unwrap();
                        });
                    }
                });
                assert_eq!(get(&count), 44);
                assert_eq!(plan.into_plan().unwrap().len(), 2);
            }
        });
    }

    #[test]
    fn as_a_future_with_callbacks() {
        within(LIMIT, || {
            let pool = pool(2);
            let (count, told) = (Arc::new(counter()), Arc::new(counter()));
            let run = pool.launch(counting(&count, 3));
            for _ in 0..2 {
                let told = told.clone();
                run.on_done(move |result| {
                    assert_eq!(result.as_ref().unwrap().ran(), 3);
                    add(&told);
                });
            }
            assert_eq!(block_on(run).unwrap().ran(), 3);
            assert_eq!(get(&told), 2);
            let run = pool.launch(counting(&count, 3));
            until("it is finished", || run.is_finished());
            let late = told.clone();
            run.on_done(move |_| add(&late));
            assert_eq!(get(&told), 3);
            run.join().unwrap();
        });
    }

    #[test]
    fn a_panic_is_reported_and_the_plan_runs_again() {
        within(LIMIT, || {
            let told = Panics::default();
            let pool = told.pool(2);
            let fail = Arc::new(AtomicBool::new(true));
            let graph = Graph::new();
            let inside = fail.clone();
            graph.task("bad", move || {
                if inside.load(Ordering::SeqCst) {
                    quiet_panic("no");
                }
            });
            let plan = SharedPlan::from(graph.plan().unwrap());
            let error = pool.launch(&plan).join().unwrap_err();
            assert_eq!(error.panics()[0].task(), "bad");
            fail.store(false, Ordering::SeqCst);
            let run = pool.launch(&plan);
            run.on_done(|_| quiet_panic("callback"));
            run.join().unwrap();
            let told = told.take();
            assert!(told.is_empty() || told == ["callback"]);
        });
    }

    #[test]
    fn cancelled_while_it_runs_and_while_it_waits() {
        within(LIMIT, || {
            let pool = pool(2);
            let (started, release) = (Flag::default(), Flag::default());
            let graph = Graph::new();
            let (begun, gate) = (started.clone(), release.clone());
            let first = graph.task("first", move || {
                begun.set();
                gate.wait("it may go on");
            });
            first.precede(graph.task("second", || ()));
            let plan = SharedPlan::from(graph.plan().unwrap());
            let (running, waiting, third) =
                (pool.launch(&plan), pool.launch(&plan), pool.launch(&plan));
            let cancel = CancelToken::new();
            let fourth = pool.launch_with(&plan, &RunOptions::new().cancel(&cancel));
            started.wait("it runs");
            running.cancel();
            waiting.cancel();
            cancel.cancel();
            release.set();
            let error = running.join().unwrap_err();
            assert_eq!((error.ran(), error.skipped().count()), (1, 1));
            assert_eq!(waiting.join().unwrap_err().skipped().count(), 2);
            assert_eq!(third.join().unwrap().ran(), 2);
            assert!(fourth.join().unwrap_err().is_cancelled());
        });
    }

    #[test]
    fn joined_inside_a_task_of_a_one_worker_pool() {
        within(LIMIT, || {
            let one = pool(1);
            let count = Arc::new(counter());
            let (inner, sum) = (one.clone(), count.clone());
            let (send, receive) = mpsc::channel();
            one.spawn(move || {
                let runs: Vec<_> = (0..5).map(|_| inner.launch(counting(&sum, 4))).collect();
                let ran: u64 = runs.into_iter().map(|run| run.join().unwrap().ran()).sum();
                send.send(ran).unwrap();
            });
            assert_eq!(receive.recv(), Ok(20));
        });
    }

    /// An urgent task runs between two tasks of a chain, and waits for the run of the chain.
    #[test]
    fn an_urgent_task_may_wait_for_the_run_that_yields_to_it() {
        within(LIMIT, || {
            for conditions in [false, true] {
                let (pool, count) = (pool(1), Arc::new(counter()));
                let (run, ran) = (Arc::new(Mutex::new(None::<RunHandle>)), mpsc::channel());
                let (inside, tell) = (run.clone(), ran.0);
                let wait = move || {
                    let run = inside.lock().unwrap().take().unwrap();
                    tell.send(run.join().unwrap().ran()).unwrap();
                };
                let (begin, begun) = (Flag::default(), Flag::default());
                let graph = Graph::new();
                let (pool_inside, gate, tells) = (pool.clone(), begin.clone(), begun.clone());
                let mut wait = Some(wait);
                let mut last = graph.task("first", move || {
                    tells.set();
                    gate.wait("there is a handle");
                    let wait = wait.take().unwrap();
                    let urgent = pool_inside.task(wait).priority(Priority::High);
                    urgent.submit().unwrap().detach();
                });
                for _ in 0..3 {
                    let counts = count.clone();
                    let next = graph.task("next", move || add(&counts));
                    last.precede([next]);
                    last = next;
                }
                if conditions {
                    last.precede([graph.condition("which", || 0)]);
                }
                *run.lock().unwrap() = Some(pool.launch(graph.plan().unwrap()));
                begun.wait("it runs");
                begin.set();
                assert_eq!(ran.1.recv(), Ok(4 + u64::from(conditions)));
                assert_eq!(get(&count), 3);
            }
        });
    }

    /// A plan of one task, which calls `f` with the plan.
    fn with_itself(f: impl Fn(&SharedPlan) + Send + Sync + 'static) -> SharedPlan {
        let own = Arc::new(OnceLock::<SharedPlan>::new());
        let (graph, f) = (Graph::new(), Arc::new(f));
        let (inside, call) = (own.clone(), f.clone());
        graph.task("plain", move || call(inside.get().unwrap()));
        let (inside, call) = (own.clone(), f.clone());
        graph.subflow("outer", move |sub| {
            let (inside, call) = (inside.clone(), call.clone());
            sub.task("inner", move || call(inside.get().unwrap()));
        });
        let inside = own.clone();
        graph.future("future", move || {
            let (inside, f) = (inside.clone(), f.clone());
            async move { f(inside.get().unwrap()) }
        });
        let plan = SharedPlan::from(graph.plan().unwrap());
        own.set(plan.clone()).unwrap();
        plan
    }

    #[test]
    fn a_task_that_waits_for_its_own_plan_gets_an_error() {
        within(LIMIT, || {
            for pool in pools() {
                let errors = Arc::new(counter());
                let count = errors.clone();
                let plan = with_itself(move |plan| {
                    let error = plan.run().unwrap_err();
                    assert!(error.is_recursive(), "{error}");
                    assert!(error.to_string().contains("its own plan"), "{error}");
                    assert!(!error.is_cancelled());
                    add(&count);
                });
                assert_eq!(pool.launch(&plan).join().unwrap().ran(), 4);
                assert_eq!(get(&errors), 3);
            }
        });
    }

    /// Calls `part` where another worker runs it, and a call of this one waits for it.
    type OnOther = fn(part: &(dyn Fn() + Sync));

    /// Waits until the other worker has begun.
    fn until_set(begun: &AtomicBool) {
        while !begun.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    }

    fn half_of_a_join(part: &(dyn Fn() + Sync)) {
        let begun = AtomicBool::new(false);
        let other = || {
            begun.store(true, Ordering::SeqCst);
            part();
        };
        filch::join(|| until_set(&begun), other);
    }

    fn task_of_a_scope(part: &(dyn Fn() + Sync)) {
        let begun = AtomicBool::new(false);
        filch::scope(|s| {
            s.spawn(|_| {
                begun.store(true, Ordering::SeqCst);
                // The half of a join in it is a part of the outer task as well.
                half_of_a_join(part);
            });
            until_set(&begun);
        });
    }

    fn task_of_another_plan(part: &(dyn Fn() + Sync)) {
        let begun = AtomicBool::new(false);
        let graph = Graph::new();
        graph.task("waits", || until_set(&begun));
        graph.task("part", || {
            begun.store(true, Ordering::SeqCst);
            part();
        });
        graph.plan().unwrap().run().unwrap();
    }

    fn call_on_another_pool(part: &(dyn Fn() + Sync)) {
        pool(1).on_worker(part);
        pool(1).broadcast(|_| part());
    }

    /// Each with the number of its calls.
    const PARTS: [(OnOther, usize); 4] = [
        (half_of_a_join, 1),
        (task_of_a_scope, 1),
        (task_of_another_plan, 1),
        (call_on_another_pool, 2),
    ];

    #[test]
    fn a_part_that_waits_for_the_plan_of_its_task_gets_an_error() {
        within(LIMIT, || {
            for (on_other, calls) in PARTS {
                let errors = Arc::new(counter());
                let (own, graph) = (Arc::new(OnceLock::<SharedPlan>::new()), Graph::new());
                let (inside, count) = (own.clone(), errors.clone());
                graph.task("outer", move || {
                    on_other(&|| {
                        let error = inside.get().unwrap().run().unwrap_err();
                        // Recursive if the worker of the task runs the part while it waits.
                        assert!(error.is_deadlock() || error.is_recursive(), "{error}");
                        add(&count);
                    });
                });
                let plan = own.get_or_init(|| graph.plan().unwrap().into());
                let pool = pool(3);
                assert_eq!(pool.launch(plan).join().unwrap().ran(), 1);
                assert_eq!(get(&errors), calls);
            }
        });
    }

    /// A task of a plan submits another one, which runs the plan, and joins it; `late` after that
    /// one has begun to wait.
    fn joins_a_task_that_runs_the_plan(late: bool) -> Result<(), String> {
        let (own, graph) = (Arc::new(OnceLock::<SharedPlan>::new()), Graph::new());
        let (inside, (report, reported)) = (own.clone(), mpsc::channel());
        let first = Mutex::new(true);
        graph.task("outer", move || {
            if !std::mem::take(&mut *first.lock().unwrap()) {
                return;
            }
            let (plan, begun) = (inside.get().unwrap().clone(), Arc::new(Flag::default()));
            let begin = begun.clone();
            let waits = move || {
                begin.set();
                if !late {
                    until("the other one waits", || {
                        let mut waits = filch::waits().into_iter();
                        waits.any(|wait| wait.subject().name() == Some("runs the plan"))
                    });
                }
                plan.run().map(drop)
            };
            let task = filch::task(waits).name("runs the plan").submit().unwrap();
            begun.wait("it has begun");
            if late {
                until("it waits", || {
                    let mut waits = filch::waits().into_iter();
                    waits.any(|wait| wait.subject().to_string() == "a run of a graph")
                });
            }
            let error = match task.join() {
                Ok(run) => {
                    let error = run.unwrap_err();
                    assert!(error.is_deadlock(), "{error}");
                    error.to_string()
                }
                Err(error) => {
                    assert!(error.is_deadlock(), "{error}");
                    error.to_string()
                }
            };
            report.send(error).unwrap();
        });
        let plan = own.get_or_init(|| graph.plan().unwrap().into());
        let pool = pool(2);
        pool.launch(plan).join().unwrap();
        let error = reported.recv().unwrap();
        match error.contains("task `runs the plan`") && error.contains("a run of a graph") {
            true => Ok(()),
            false => Err(error),
        }
    }

    #[test]
    fn a_joined_task_that_waits_for_the_plan_of_its_waiter_is_an_error() {
        let joined = || [false, true].map(joins_a_task_that_runs_the_plan);
        assert_eq!(within(LIMIT, joined), [Ok(()), Ok(())]);
    }

    /// The current run of each of two plans runs the other plan, and so waits behind its current
    /// run.
    #[test]
    fn runs_that_are_queued_behind_each_other_are_an_error() {
        within(LIMIT, || {
            let (errors, ran) = (Arc::new(counter()), Arc::new(counter()));
            let both = Arc::new(Barrier::new(2));
            let plans = [(); 2].map(|()| Arc::new(OnceLock::<SharedPlan>::new()));
            let plan_of = |this: usize| {
                let (graph, other) = (Graph::new(), plans[1 - this].clone());
                let (errors, ran, both) = (errors.clone(), ran.clone(), both.clone());
                let mut is_first = true;
                graph.task("runs the other", move || {
                    add(&ran);
                    if std::mem::take(&mut is_first) {
                        both.wait();
                        if let Err(error) = other.get().unwrap().run() {
                            assert!(error.is_deadlock(), "{error}");
                            add(&errors);
                        }
                    }
                });
                graph.plan().unwrap()
            };
            for (this, plan) in plans.iter().enumerate() {
                plan.set(plan_of(this).into()).unwrap();
            }
            let pool = pool(2);
            let runs = [0, 1].map(|this| pool.launch(plans[this].get().unwrap()));
            for run in runs {
                run.join().unwrap();
            }
            // The other call has waited for its turn. The run of the call that failed is stopped.
            assert_eq!((get(&errors), get(&ran)), (1, 3));
        });
    }

    /// The run is over, but its callback has not returned when a task of the next run joins it.
    #[test]
    fn a_task_may_join_an_earlier_run_of_its_plan() {
        within(LIMIT, || {
            let earlier = Arc::new(Mutex::new(None::<RunHandle>));
            let (begun, joined) = (Flag::default(), Flag::default());
            let (inside, begins, ends) = (earlier.clone(), begun.clone(), joined.clone());
            let (graph, mut is_first) = (Graph::new(), true);
            graph.task("joins", move || {
                if std::mem::take(&mut is_first) {
                    return;
                }
                let run = inside.lock().unwrap().take().unwrap();
                begins.set();
                let result = run.join();
                ends.set();
                assert_eq!(result.unwrap().ran(), 1);
            });
            let (launched, plan) = (Flag::default(), SharedPlan::from(graph.plan().unwrap()));
            let pool = pool(2);
            for _ in 0..2 {
                let launched = launched.clone();
                pool.spawn(move || launched.wait("both runs are launched"));
            }
            let first = pool.launch(&plan);
            first.on_done(move |_| {
                begun.wait("a task of the next run begins to join this one");
                until("the join waits, or has returned", || {
                    let mut waits = filch::waits().into_iter();
                    joined.is_set()
                        || waits.any(|wait| wait.subject().to_string() == "a run of a graph")
                });
            });
            *earlier.lock().unwrap() = Some(first);
            let second = pool.launch(&plan);
            launched.set();
            second.join().unwrap();
        });
    }

    #[test]
    fn a_task_that_no_task_waits_for_may_run_the_plan_again() {
        within(LIMIT, || {
            let (end, ended) = mpsc::channel();
            let (own, graph) = (Arc::new(OnceLock::<SharedPlan>::new()), Graph::new());
            let (inside, first) = (own.clone(), Arc::new(Mutex::new(true)));
            graph.task("spawns", move || {
                if !std::mem::take(&mut *first.lock().unwrap()) {
                    return;
                }
                let (plan, end) = (inside.get().unwrap().clone(), end.clone());
                let begun = Arc::new(AtomicBool::new(false));
                let begin = begun.clone();
                filch::spawn(move || {
                    begin.store(true, Ordering::SeqCst);
                    end.send(plan.run().unwrap().ran()).unwrap();
                });
                until_set(&begun);
            });
            let plan = own.get_or_init(|| graph.plan().unwrap().into());
            let pool = pool(2);
            pool.launch(plan).join().unwrap();
            assert_eq!(ended.recv().unwrap(), 1);
        });
    }

    #[test]
    fn a_task_that_joins_a_later_run_of_its_plan_gets_an_error() {
        within(LIMIT, || {
            for pool in pools() {
                let (later, launched) = (Arc::new(Mutex::new(true)), Arc::new(counter()));
                let (first, count, other) = (later.clone(), launched.clone(), pool.clone());
                let plan = with_itself(move |plan| {
                    // The later runs launch no more.
                    if !std::mem::take(&mut *first.lock().unwrap()) {
                        return;
                    }
                    let run = other.launch(plan);
                    let count = count.clone();
                    run.on_done(move |result| {
                        assert!(result.is_ok());
                        add(&count);
                    });
                    // Also in a task that is a part of this one.
                    let joined =
                        crate::support::pool(1).install(|| filch::join(|| run.join(), || ()).0);
                    assert!(joined.unwrap_err().is_recursive());
                });
                pool.launch(&plan).join().unwrap();
                pool.launch(&plan).join().unwrap();
                assert_eq!(get(&launched), 1);
            }
        });
    }

    #[test]
    fn a_dropped_pool_finishes_its_runs() {
        within(LIMIT, || {
            for workers in [0, 2] {
                let count = Arc::new(counter());
                let pool = pool(workers);
                let run = pool.launch(counting(&count, 100));
                drop(pool);
                run.join().unwrap();
                assert_eq!(get(&count), 100);
            }
        });
    }
}

mod futures {
    use super::*;

    #[test]
    fn ready_at_once() {
        for pool in pools() {
            let count = counter();
            let graph = Graph::new();
            let future = graph.future("future", || async {
                add(&count);
            });
            future.precede(graph.task("after", || assert_eq!(get(&count), 1)));
            assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 2);
        }
    }

    #[test]
    fn woken_from_outside() {
        within(LIMIT, || {
            for pool in pools() {
                for isolated in [false, true] {
                    let (event, after) = (Event::default(), counter());
                    let graph = Graph::new();
                    for _ in 0..20 {
                        let future = graph.future("wait", || event.clone().wait());
                        future.precede(graph.task("after", || add(&after)));
                    }
                    let mut plan = graph.plan().unwrap();
                    thread::scope(|s| {
                        s.spawn(|| {
                            until("all wait", || event.waiting() == 20);
                            event.set();
                        });
                        let run = || match isolated {
                            true => filch::isolate(|| plan.run()),
                            false => plan.run(),
                        };
                        assert_eq!(pool.install(run).unwrap().ran(), 40);
                    });
                    assert_eq!(get(&after), 20);
                }
            }
        });
    }

    /// One worker, and a task that can only run if the future occupies none.
    #[test]
    fn no_worker_is_occupied() {
        within(LIMIT, || {
            for pool in pools() {
                let event = Event::default();
                let graph = Graph::new();
                let done = counter();
                for _ in 0..10 {
                    let future = graph.future("wait", || event.clone().wait());
                    future.precede(graph.task("", || add(&done)));
                }
                graph.task("set", || {
                    until("all wait", || event.waiting() >= 1);
                    event.set();
                });
                graph.plan().unwrap().run_on(&pool).unwrap();
                assert_eq!(get(&done), 10);
            }
        });
    }

    #[test]
    fn one_run_awaits_another_on_one_worker() {
        within(LIMIT, || {
            let one = pool(1);
            let event = Event::default();
            let graph = Graph::new();
            let wait = event.clone();
            graph.future("outside", move || wait.clone().wait());
            let first = Arc::new(Mutex::new(Some(one.launch(graph.plan().unwrap()))));
            let graph = Graph::new();
            let handle = first.clone();
            graph.future("the other", move || {
                let run = handle.lock().unwrap().take().unwrap();
                async move {
                    run.await.unwrap();
                }
            });
            let second = one.launch(graph.plan().unwrap());
            until("the second has begun", || first.lock().unwrap().is_none());
            event.set();
            second.join().unwrap();
        });
    }

    #[test]
    fn wakes_that_come_while_it_is_polled_or_too_often() {
        within(LIMIT, || {
            for pool in pools() {
                let polls = counter();
                let graph = Graph::new();
                graph.future("", || {
                    let (mut left, polls) = (100, &polls);
                    poll_fn(move |cx| {
                        add(polls);
                        cx.waker().wake_by_ref();
                        cx.waker().wake_by_ref();
                        left -= 1;
                        if left == 0 {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                });
                let mut plan = graph.plan().unwrap();
                plan.run_on(&pool).unwrap();
                assert_eq!(get(&polls), 100);
            }
        });
    }

    #[test]
    fn a_stale_waker_does_no_harm() {
        let kept = Mutex::new(None);
        let graph = Graph::new();
        graph.future("", || {
            poll_fn(|cx| {
                *kept.lock().unwrap() = Some(cx.waker().clone());
                Poll::Ready(())
            })
        });
        graph.plan().unwrap().run().unwrap();
        let waker = kept.into_inner().unwrap().unwrap();
        waker.wake_by_ref();
        waker.wake();
    }

    #[test]
    fn a_panic_while_polled() {
        within(LIMIT, || {
            for pool in pools() {
                for at in [1, 2] {
                    let (polls, drops) = (counter(), Drops::default());
                    let graph = Graph::new();
                    graph.future("bad", || {
                        let (value, polls) = (drops.value(), &polls);
                        poll_fn(move |cx| {
                            let _ = &value;
                            add(polls);
                            if get(polls) == at {
                                quiet_panic("no");
                            }
                            cx.waker().wake_by_ref();
                            Poll::Pending
                        })
                    });
                    let error = graph.plan().unwrap().run_on(&pool).unwrap_err();
                    assert_eq!(error.panics()[0].task(), "bad");
                    assert_eq!((error.panics().len(), drops.seen()), (1, 1));
                }
            }
        });
    }

    #[test]
    fn one_that_waits_is_dropped_when_the_run_stops() {
        within(LIMIT, || {
            for pool in pools() {
                let (event, drops) = (Event::default(), Drops::default());
                let graph = Graph::new();
                let wait = graph.future("wait", || {
                    let (value, event) = (drops.value(), event.clone());
                    async move {
                        event.wait().await;
                        drop(value);
                    }
                });
                wait.precede(graph.task("never", || unreachable!()));
                graph.task("bad", || {
                    quiet_panic("no");
                });
                let mut plan = graph.plan().unwrap();
                let error = plan.run_on(&pool).unwrap_err();
                assert_eq!(error.panics()[0].task(), "bad");
                // It may not even have been begun.
                let begun = drops.seen();
                assert!(begun <= 1);

                let cancel = CancelToken::new();
                let graph = Graph::new();
                graph.future("wait", || event.clone().wait());
                let mut plan = graph.plan().unwrap();
                thread::scope(|s| {
                    let before = event.waiting();
                    let (event, other) = (&event, &cancel);
                    s.spawn(move || {
                        until("it waits", || event.waiting() > before);
                        other.cancel();
                    });
                    let error = plan.run_with(&RunOptions::new().on(&pool).cancel(&cancel));
                    assert_eq!(error.unwrap_err().skipped().count(), 1);
                });
                event.set();
            }
        });
    }

    /// Counts milliseconds.
    async fn tick(ticks: Arc<AtomicUsize>, begin: Event) {
        begin.wait().await;
        for _ in 0..TICKS {
            filch::time::sleep(Duration::from_millis(1)).await;
            add(&ticks);
        }
    }

    const TICKS: usize = 10;

    #[test]
    fn woken_at_the_checkpoints_of_a_long_task() {
        let ticked = within(LIMIT, || {
            let (pool, graph, semaphore) = (pool(1), Graph::new(), Semaphore::new(1));
            let (ticks, begin) = (Arc::new(AtomicUsize::new(0)), Event::default());
            graph.task("parked", || ()).acquire([&semaphore]);
            let (ticking, begun) = (ticks.clone(), begin.clone());
            graph.future("ticker", move || tick(ticking.clone(), begun.clone()));
            let permit = semaphore.try_acquire().unwrap();
            let run = pool.launch(graph.plan().unwrap());
            until("it waits", || begin.waiting() == 1);
            let busy = Arc::new(AtomicBool::new(false));
            let (is_busy, counted) = (busy.clone(), ticks.clone());
            let task = pool.submit(move || {
                is_busy.store(true, Ordering::SeqCst);
                let since = Instant::now();
                while get(&counted) < TICKS && since.elapsed() < Duration::from_secs(2) {
                    filch::checkpoint();
                }
                get(&counted)
            });
            until("it is busy", || busy.load(Ordering::SeqCst));
            // The parked task is ready. It waits for the end of the long one, as Normal tasks do.
            drop(permit);
            begin.set();
            until("it has ended", || task.is_finished());
            run.join().unwrap();
            task.join().unwrap()
        });
        assert_eq!(ticked, TICKS);
    }

    #[test]
    fn launched_ones_outlive_their_pool() {
        within(LIMIT, || {
            let event = Event::default();
            let graph = Graph::new();
            let wait = event.clone();
            let future = graph.future("", move || wait.clone().wait());
            future.precede(graph.task("", || ()));
            let pool = pool(1);
            let run = pool.launch(graph.plan().unwrap());
            until("it waits", || event.waiting() == 1);
            drop(pool);
            assert!(!run.is_finished());
            event.set();
            assert_eq!(run.join().unwrap().ran(), 2);
        });
    }
}

mod semaphores {
    use super::*;

    struct Gauge(AtomicUsize, AtomicUsize);

    impl Gauge {
        fn new() -> Self {
            Self(counter(), counter())
        }

        fn pass(&self, most: usize) {
            let inside = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(inside <= most, "{inside} at the same time");
            // Not each time: on a loaded machine a yield takes a whole time slice.
            if get(&self.1).is_multiple_of(8) {
                thread::yield_now();
            } else {
                (0..100).for_each(|_| std::hint::spin_loop());
            }
            self.0.fetch_sub(1, Ordering::SeqCst);
            add(&self.1);
        }
    }

    #[test]
    fn no_more_than_its_permits() {
        within(LIMIT, || {
            for pool in pools() {
                for permits in [1, 2, 3] {
                    let (semaphore, gauge) = (Semaphore::new(permits as u64), Gauge::new());
                    let graph = Graph::new();
                    let start = graph.task("", || ());
                    for _ in 0..50 {
                        let task = graph.task("", || gauge.pass(permits));
                        task.acquire([&semaphore]).succeed(start);
                        task.precede(graph.task("", || ()));
                    }
                    let mut plan = graph.plan().unwrap();
                    for _ in 0..5 {
                        assert_eq!(plan.run_on(&pool).unwrap().ran(), 101);
                    }
                    assert_eq!(get(&gauge.1), 250);
                    assert_eq!(semaphore.available(), permits as u64);
                }
            }
        });
    }

    #[test]
    fn several_in_opposite_orders() {
        within(LIMIT, || {
            for pool in pools() {
                let all = [Semaphore::new(1), Semaphore::new(2), Semaphore::new(1)];
                let gauges = [Gauge::new(), Gauge::new(), Gauge::new()];
                let graph = Graph::new();
                let sets: [&[usize]; 6] = [&[0, 1], &[1, 0], &[2, 0], &[0, 2], &[2, 1, 0], &[1]];
                for set in sets.iter().cycle().take(120) {
                    let gauges = &gauges;
                    let task = graph.task("", move || {
                        for &number in *set {
                            gauges[number].pass([1, 2, 1][number]);
                        }
                    });
                    task.acquire(set.iter().map(|&number| &all[number]));
                }
                let mut plan = graph.plan().unwrap();
                for _ in 0..5 {
                    plan.run_on(&pool).unwrap();
                }
                assert_eq!(all.each_ref().map(Semaphore::available), [1, 2, 1]);
            }
        });
    }

    #[test]
    fn given_back_by_a_panic() {
        within(LIMIT, || {
            for pool in pools() {
                let semaphore = Semaphore::new(1);
                let graph = Graph::new();
                for _ in 0..20 {
                    graph
                        .task("bad", || quiet_panic("no"))
                        .acquire([&semaphore]);
                }
                let mut plan = graph.plan().unwrap();
                for _ in 0..3 {
                    assert!(!plan.run_on(&pool).unwrap_err().panics().is_empty());
                    assert_eq!(semaphore.available(), 1);
                }
            }
        });
    }

    #[test]
    fn a_task_that_waits_occupies_no_worker() {
        within(LIMIT, || {
            for pool in pools() {
                let (semaphore, event) = (Semaphore::new(1), Event::default());
                let after = counter();
                let graph = Graph::new();
                // It has the permit while it waits for what the last task does.
                graph
                    .future("holder", || event.clone().wait())
                    .acquire([&semaphore]);
                for _ in 0..10 {
                    graph.task("waits", || add(&after)).acquire([&semaphore]);
                }
                graph.task("set", || event.set());
                assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 12);
                assert_eq!(get(&after), 10);
            }
        });
    }

    #[test]
    fn shared_by_runs_on_two_pools() {
        within(LIMIT, || {
            let (semaphore, gauge) = (Semaphore::new(1), Arc::new(Gauge::new()));
            let pools = [pool(2), pool(1)];
            let runs: Vec<_> = (0..20)
                .map(|number| {
                    let graph = Graph::new();
                    for _ in 0..20 {
                        let gauge = gauge.clone();
                        graph.task("", move || gauge.pass(1)).acquire([&semaphore]);
                    }
                    pools[number % 2].launch(graph.plan().unwrap())
                })
                .collect();
            for run in runs {
                run.join().unwrap();
            }
            assert_eq!((get(&gauge.1), semaphore.available()), (400, 1));
        });
    }

    #[test]
    fn a_cancelled_run_does_not_wait_for_a_permit() {
        within(LIMIT, || {
            let (semaphore, event) = (Semaphore::new(1), Event::default());
            let pool = pool(2);
            let holder = {
                let (graph, event) = (Graph::new(), event.clone());
                graph
                    .future("", move || event.clone().wait())
                    .acquire([&semaphore]);
                pool.launch(graph.plan().unwrap())
            };
            until("it is held", || semaphore.available() == 0);
            let (cancel, begun) = (CancelToken::new(), Flag::default());
            let graph = Graph::new();
            graph.task("waits", || ()).acquire([&semaphore]);
            let flag = begun.clone();
            graph.task("tell", move || flag.set());
            let run = pool.launch_with(graph.plan().unwrap(), &RunOptions::new().cancel(&cancel));
            begun.wait("it has begun");
            thread::sleep(Duration::from_millis(5));
            cancel.cancel();
            assert_eq!(run.join().unwrap_err().skipped().count(), 1);
            event.set();
            holder.join().unwrap();
            assert_eq!(semaphore.available(), 1);
        });
    }

    #[test]
    fn a_limit_for_a_group() {
        within(LIMIT, || {
            for pool in pools() {
                let gauge = Gauge::new();
                let graph = Graph::new();
                let group: Vec<_> = (0..40).map(|_| graph.task("", || gauge.pass(2))).collect();
                graph.limit(group, 2);
                graph.plan().unwrap().run_on(&pool).unwrap();
                assert_eq!(get(&gauge.1), 40);
            }
        });
    }

    #[test]
    fn more_units_than_there_are_is_an_error() {
        let semaphore = Semaphore::new(2);
        let graph = Graph::new();
        let task = graph.task("greedy", || ());
        task.acquire([&semaphore, &semaphore]);
        graph.plan().unwrap().run().unwrap();
        let graph = Graph::new();
        let task = graph.task("greedy", || ());
        task.acquire([&semaphore, &semaphore]);
        graph.task("other", || ()).acquire([&semaphore]);
        task.acquire([&semaphore]);
        let error = graph.plan().unwrap_err();
        assert!(error.to_string().contains("greedy needs more"), "{error}");
        let graph = Graph::new();
        graph.task("never", || ()).acquire([&Semaphore::new(0)]);
        let error = graph.plan().unwrap_err();
        assert!(error.to_string().contains("never needs more"), "{error}");
        let graph = Graph::new();
        let text = panic_of(|| graph.limit([], 0));
        assert_eq!(text, "a semaphore needs a permit");
    }
}
