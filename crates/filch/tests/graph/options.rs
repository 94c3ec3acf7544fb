//! The options of runs: repetition, priority, progress, limits of jobs, and cancellation in time.

use crate::graphs::pools;
use crate::support::{LIMIT, pool, quiet_panic, within};
use filch::{
    Graph, Plan, Pool, Priority, Semaphore,
    graph::{RunOptions, RunProgress, SharedPlan},
};
use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

fn counting(count: &Arc<AtomicUsize>, tasks: usize) -> Plan<'static> {
    let graph = Graph::new();
    for _ in 0..tasks {
        let count = count.clone();
        graph.task("", move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
    }
    graph.plan().unwrap()
}

mod repetition {
    use super::*;

    #[test]
    fn launched_and_shared_plans() {
        within(LIMIT, || {
            for pool in pools() {
                let count = Arc::new(AtomicUsize::new(0));
                let plan = SharedPlan::from(counting(&count, 3));
                let runs = [
                    pool.launch_n(&plan, 5),
                    pool.launch_n(&plan, 0),
                    pool.launch(&plan),
                ];
                let ran = runs.map(|run| run.join().unwrap().ran());
                assert_eq!(ran, [15, 0, 3]);
                let mut asked = 0;
                let run = pool.launch_until(&plan, move || {
                    asked += 1;
                    asked > 4
                });
                assert_eq!(run.join().unwrap().ran(), 12);
                assert_eq!(pool.install(|| plan.run_n(2)).unwrap().ran(), 6);
                assert_eq!(pool.install(|| plan.run_until(|| true)).unwrap().ran(), 0);
                let options = RunOptions::new().on(&pool).times(3);
                assert_eq!(plan.run_with(&options).unwrap().ran(), 9);
                assert_eq!(count.load(Ordering::SeqCst), 45);
            }
        });
    }

    #[test]
    fn of_a_graph_without_tasks() {
        within(LIMIT, || {
            let pool = pool(1);
            let plan = SharedPlan::from(Graph::new().plan().unwrap());
            assert_eq!(pool.launch_n(&plan, u64::MAX).join().unwrap().ran(), 0);
            let run = pool.launch_until(&plan, || unreachable!());
            assert_eq!(run.join().unwrap().ran(), 0);
        });
    }

    #[test]
    fn ends_with_the_first_run_that_fails() {
        within(LIMIT, || {
            for pool in pools() {
                let count = Arc::new(AtomicUsize::new(0));
                let (graph, inside) = (Graph::new(), count.clone());
                graph.try_task("third", move || {
                    match inside.fetch_add(1, Ordering::SeqCst) {
                        2 => Err("three"),
                        _ => Ok(()),
                    }
                });
                let plan = SharedPlan::from(graph.plan().unwrap());
                let error = pool.launch_n(&plan, 9).join().unwrap_err();
                assert_eq!((error.ran(), error.failures().len()), (2, 1));
                assert_eq!(count.load(Ordering::SeqCst), 3);
                assert_eq!(pool.launch_n(&plan, 2).join().unwrap().ran(), 2);
            }
        });
    }

    #[test]
    fn a_panic_of_the_question_is_the_result() {
        within(LIMIT, || {
            let (pool, count) = (pool(1), Arc::new(AtomicUsize::new(0)));
            let mut asked = 0;
            let run = pool.launch_until(counting(&count, 1), move || {
                asked += 1;
                if asked == 3 {
                    quiet_panic("no");
                }
                false
            });
            let error = run.join().unwrap_err();
            assert_eq!(error.to_string(), "run_until panicked: no");
            assert_eq!((error.ran(), count.load(Ordering::SeqCst)), (2, 2));
        });
    }

    /// Launches that have no run do not start each other recursively.
    #[test]
    fn many_launches_without_a_run() {
        within(LIMIT, || {
            let pool = pool(0);
            let plan = SharedPlan::from(counting(&Arc::default(), 1));
            let first = pool.launch(&plan);
            let runs: Vec<_> = (0..100_000).map(|_| pool.launch_n(&plan, 0)).collect();
            assert_eq!(first.join().unwrap().ran(), 1);
            assert!(runs.into_iter().all(|run| run.join().unwrap().ran() == 0));
        });
    }
}

mod cancellation {
    use super::*;

    #[test]
    fn says_whether_it_came_in_time() {
        within(LIMIT, || {
            for pool in [1, 2].map(pool) {
                let (begun, has_begun) = mpsc::channel();
                let (go, may_go) = mpsc::channel::<()>();
                let graph = Graph::new();
                graph.task("last", move || {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                });
                let run = pool.launch(graph.plan().unwrap());
                has_begun.recv().unwrap();
                // Every task has started, and the result is not decided.
                assert!(run.cancel() && run.cancel());
                go.send(()).unwrap();
                let error = run.join().unwrap_err();
                assert!(error.is_cancelled());
                assert_eq!((error.ran(), error.skipped().count()), (1, 0));
                assert_eq!(error.to_string(), "cancelled");

                let run = pool.launch(counting(&Arc::default(), 1));
                while !run.is_finished() {
                    std::thread::yield_now();
                }
                assert!(!run.cancel());
                assert_eq!(run.join().unwrap().ran(), 1);
            }
        });
    }

    #[test]
    fn in_a_callback_it_is_too_late() {
        within(LIMIT, || {
            let pool = pool(1);
            let (go, may_go) = mpsc::channel::<()>();
            let graph = Graph::new();
            graph.task("", move || may_go.recv().unwrap());
            let run = Arc::new(OnceLock::new());
            let handle = run.get_or_init(|| pool.launch(graph.plan().unwrap()));
            let (inside, late) = (run.clone(), Arc::new(AtomicBool::new(false)));
            let seen = late.clone();
            handle.on_done(move |result| {
                assert!(result.is_ok());
                seen.store(!inside.get().unwrap().cancel(), Ordering::SeqCst);
            });
            go.send(()).unwrap();
            while !handle.is_finished() {
                std::thread::yield_now();
            }
            assert!(late.load(Ordering::SeqCst));
        });
    }

    #[test]
    fn an_endless_repetition_is_cancelled() {
        within(LIMIT, || {
            for pool in [1, 2].map(pool) {
                let count = Arc::new(AtomicUsize::new(0));
                let run = pool.launch_until(counting(&count, 2), || false);
                while count.load(Ordering::SeqCst) < 10 {
                    std::thread::yield_now();
                }
                assert!(run.cancel());
                assert!(run.join().unwrap_err().is_cancelled());
            }
        });
    }
}

mod priority {
    use super::*;

    /// The runs are launched while nothing runs them, so their order is that of their priorities.
    #[test]
    fn of_whole_runs() {
        let pool = pool(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let launch = |name: &'static str, priority| {
            let graph = Graph::new();
            let tasks: Vec<_> = (0..3)
                .map(|_| {
                    let order = order.clone();
                    graph.task("", move || order.lock().unwrap().push(name))
                })
                .collect();
            graph.linearize(tasks);
            let options = RunOptions::new().priority(priority);
            pool.launch_with(graph.plan().unwrap(), &options)
        };
        let runs = [
            launch("low", Priority::Low),
            launch("normal", Priority::Normal),
            launch("high", Priority::High),
            launch("critical", Priority::Critical),
        ];
        for run in runs {
            assert_eq!(run.join().unwrap().ran(), 3);
        }
        let expected: Vec<_> = ["critical", "high", "normal", "low"]
            .into_iter()
            .flat_map(|name| [name; 3])
            .collect();
        assert_eq!(*order.lock().unwrap(), expected);
    }

    #[test]
    fn of_graphs_of_all_kinds() {
        within(LIMIT, || {
            for pool in pools() {
                for priority in Priority::ALL {
                    let count = AtomicUsize::new(0);
                    let add = || {
                        count.fetch_add(1, Ordering::SeqCst);
                    };
                    let graph = Graph::new();
                    let start = graph.task("", add);
                    let sub = graph.subflow("", move |sub| {
                        (0..20).for_each(|_| {
                            sub.task("", add);
                        });
                    });
                    let many: Vec<_> = (0..50).map(|_| graph.task("", add)).collect();
                    let future = graph.future("", || {
                        filch::time::sleep(std::time::Duration::from_micros(10))
                    });
                    start.precede(many.iter().copied());
                    start.precede([sub, future]);
                    graph.task("", add).succeed(many).succeed([sub, future]);
                    let mut plan = graph.plan().unwrap();
                    let options = RunOptions::new().priority(priority);
                    plan.run_with(&options.clone().on(&pool)).unwrap();
                    pool.install(|| plan.run_with(&options)).unwrap();
                    pool.install(|| filch::isolate(|| plan.run_with(&options)))
                        .unwrap();
                    filch::isolate(|| plan.run_with(&options.on(&pool))).unwrap();
                    drop(plan);
                    assert_eq!(count.into_inner(), 4 * 72);
                }
            }
        });
    }
}

mod progress {
    use super::*;

    #[test]
    fn grows_up_to_the_total() {
        within(LIMIT, || {
            for pool in pools() {
                let seen = Arc::new(Mutex::new(Vec::<RunProgress>::new()));
                let (busy, inside) = (Arc::new(AtomicBool::new(false)), seen.clone());
                let options = RunOptions::new()
                    .on(&pool)
                    .times(2)
                    .on_progress(move |now| {
                        assert!(!busy.swap(true, Ordering::SeqCst), "two calls at once");
                        inside.lock().unwrap().push(now);
                        busy.store(false, Ordering::SeqCst);
                    });
                let graph = Graph::new();
                graph.subflow("", |sub| {
                    (0..10).for_each(|_| {
                        sub.task("", || ());
                    });
                });
                (0..99).for_each(|_| {
                    graph.task("", || ());
                });
                graph.plan().unwrap().run_with(&options).unwrap();
                let seen = seen.lock().unwrap();
                let (first, second) =
                    seen.split_at(1 + seen.iter().position(|now| now.done() == 100).unwrap());
                for run in [first, second] {
                    assert!(run.iter().all(|now| now.total() == 100));
                    assert!(run.is_sorted_by(|a, b| a.done() < b.done()));
                    assert_eq!(run.last().unwrap().done(), 100);
                }
            }
        });
    }

    #[test]
    fn of_a_launched_run_whose_callback_panics() {
        within(LIMIT, || {
            let panics = Arc::new(AtomicUsize::new(0));
            let seen = panics.clone();
            let pool = Pool::builder()
                .workers(1)
                .on_panic(move |_| {
                    seen.fetch_add(1, Ordering::SeqCst);
                })
                .build()
                .unwrap();
            let options = RunOptions::new().on_progress(|_| quiet_panic("no"));
            let run = pool.launch_with(counting(&Arc::default(), 1), &options);
            assert_eq!(run.join().unwrap().ran(), 1);
            assert_eq!(panics.load(Ordering::SeqCst), 1);
        });
    }

    /// A callback that waits runs other tasks of the run, which do not call it again inside.
    #[test]
    fn a_callback_that_waits() {
        within(LIMIT, || {
            for pool in pools() {
                let last = Arc::new(AtomicUsize::new(0));
                let inside = last.clone();
                let options = RunOptions::new().on(&pool).on_progress(move |now| {
                    filch::join(|| (), filch::yield_now);
                    inside.store(now.done() as usize, Ordering::SeqCst);
                });
                counting(&Arc::default(), 200).run_with(&options).unwrap();
                assert_eq!(last.load(Ordering::SeqCst), 200);
            }
        });
    }
}

mod jobs {
    use super::*;

    /// Counts how many tasks run at the same time.
    #[derive(Default)]
    struct Meter {
        now: AtomicUsize,
        most: AtomicUsize,
        ran: AtomicUsize,
    }

    impl Meter {
        fn task(&self) {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            std::thread::yield_now();
            self.ran.fetch_add(1, Ordering::SeqCst);
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_limit_counts_the_caller() {
        within(LIMIT, || {
            for pool in pools() {
                for jobs in [1, 2, 3] {
                    let meter = Meter::default();
                    let graph = Graph::new();
                    let start = graph.task("", || meter.task());
                    let many: Vec<_> = (0..40).map(|_| graph.task("", || meter.task())).collect();
                    start.precede(many[..20].iter().copied());
                    let meter_inside = &meter;
                    graph.subflow("", move |sub| {
                        (0..20).for_each(|_| {
                            sub.task("", || meter_inside.task());
                        });
                    });
                    graph.future("", || async { meter.task() });
                    drop(many);
                    let mut plan = graph.plan().unwrap();
                    let options = RunOptions::new().jobs(jobs);
                    plan.run_with(&options.clone().on(&pool)).unwrap();
                    pool.install(|| plan.run_with(&options)).unwrap();
                    filch::isolate(|| plan.run_with(&options.on(&pool))).unwrap();
                    drop(plan);
                    assert_eq!(meter.ran.into_inner(), 3 * 62);
                    let most = meter.most.into_inner();
                    assert!(most <= jobs, "{most} of {jobs} at the same time");
                }
            }
        });
    }

    #[test]
    fn of_a_launched_run_that_is_stopped() {
        within(LIMIT, || {
            for pool in pools() {
                let graph = Graph::new();
                (0..100).for_each(|number| {
                    graph.try_task("", move || match number {
                        50 => Err("no"),
                        _ => Ok(()),
                    });
                });
                let options = RunOptions::new().jobs(1);
                let run = pool.launch_with(graph.plan().unwrap(), &options);
                let error = run.join().unwrap_err();
                assert_eq!(error.failures().len(), 1);
                assert_eq!(error.ran() as usize + error.skipped().count(), 99);
            }
        });
    }

    /// A task that waits runs no other task of a run with one job.
    #[test]
    fn a_task_that_waits_keeps_its_place() {
        within(LIMIT, || {
            for pool in pools() {
                let meter = Meter::default();
                let graph = Graph::new();
                for _ in 0..20 {
                    graph.runtime("", |rt| {
                        let now = meter.now.fetch_add(1, Ordering::SeqCst);
                        meter.most.fetch_max(now + 1, Ordering::SeqCst);
                        rt.spawn(|_| std::thread::yield_now());
                        rt.wait();
                        filch::yield_now();
                        meter.now.fetch_sub(1, Ordering::SeqCst);
                    });
                }
                let options = RunOptions::new().on(&pool).jobs(1);
                graph.plan().unwrap().run_with(&options).unwrap();
                assert_eq!(meter.most.into_inner(), 1);
            }
        });
    }

    /// A task that waits for a place gives its units back: the task with the place may need them.
    #[test]
    fn a_task_without_a_place_holds_no_units() {
        within(LIMIT, || {
            for pool in pools() {
                let units = Semaphore::new(1);
                let held = Mutex::new(Some(units.acquire().unwrap().into_owned()));
                let graph = Graph::new();
                graph.task("waits", || ()).acquire([&units]);
                graph.subflow("joins", |subflow| {
                    drop(held.lock().unwrap().take());
                    subflow.task("inner", || ()).acquire([&units]);
                    subflow.join();
                });
                let options = RunOptions::new().on(&pool).jobs(1);
                graph.plan().unwrap().run_with(&options).unwrap();
                assert_eq!(units.available(), 1);
            }
        });
    }

    #[test]
    #[should_panic(expected = "0 at a time are too few for jobs of a run: allow at least one")]
    fn none_are_too_few() {
        let _ = RunOptions::new().jobs(0);
    }
}

/// A task that is chosen twice is released once, whatever the workers do meanwhile.
#[test]
fn duplicate_choices_count_once() {
    within(LIMIT, || {
        for pool in pools() {
            for choices in [
                vec![0, 0],
                vec![1, 0, 1, 0, 2],
                vec![0; 40],
                vec![1, 1, 2, 9],
            ] {
                let counts = [const { AtomicUsize::new(0) }; 2];
                let graph = Graph::new();
                let chosen = choices.clone();
                let choose = graph.multi_condition("", move || chosen.clone());
                let tasks = [0, 1].map(|n: usize| {
                    let counts = &counts;
                    graph.task("", move || {
                        counts[n].fetch_add(1, Ordering::SeqCst);
                    })
                });
                // The second task is number 1 and number 2.
                choose.precede([tasks[0], tasks[1], tasks[1]]);
                let mut plan = graph.plan().unwrap();
                for _ in 0..20 {
                    counts
                        .iter()
                        .for_each(|count| count.store(0, Ordering::SeqCst));
                    plan.run_on(&pool).unwrap();
                    let expected = [
                        usize::from(choices.contains(&0)),
                        usize::from(choices.iter().any(|n| (1..=2).contains(n))),
                    ];
                    let counts = counts.each_ref().map(|count| count.load(Ordering::SeqCst));
                    assert_eq!(counts, expected, "{choices:?}");
                }
            }
        }
    });
}
