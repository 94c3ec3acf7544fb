//! What a runtime can do beside spawning: children with results, and scheduling tasks of the graph.

use crate::graphs::pools;
use crate::support::{Drops, Flag, LIMIT, add, counter, get, pool, quiet_panic, until, within};
use filch::{
    CancelToken, Graph, Semaphore,
    graph::{RunOptions, Runtime, TemplateGraph},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

mod children {
    use super::*;

    fn fibonacci(rt: &Runtime<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let first = rt.submit(move |rt| fibonacci(rt, n - 1));
        let second = fibonacci(rt, n - 2);
        first.join().expect("no child panics") + second
    }

    #[test]
    fn results_of_children_of_children() {
        within(LIMIT, || {
            for pool in pools() {
                let result = AtomicUsize::new(0);
                let graph = Graph::new();
                let compute = graph.runtime("compute", |rt| {
                    result.store(fibonacci(rt, 12) as usize, Ordering::SeqCst);
                });
                compute.precede(graph.task("after", || assert_eq!(get(&result), 144)));
                let mut plan = graph.plan().unwrap();
                plan.run_on(&pool).unwrap();
                pool.install(|| filch::isolate(|| plan.run())).unwrap();
            }
        });
    }

    #[test]
    fn joined_in_any_order_and_after_a_wait() {
        within(LIMIT, || {
            for pool in pools() {
                let text = "borrowed".to_owned();
                let graph = Graph::new();
                graph.runtime("", |rt| {
                    let text = text.as_str();
                    let children: Vec<_> = (0..8)
                        .map(|n| rt.submit(move |_| (n, &text[..n])))
                        .collect();
                    let (even, odd): (Vec<_>, Vec<_>) =
                        (0..).zip(children).partition(|(n, _)| n % 2 == 0);
                    for (n, child) in even {
                        assert_eq!(child.join(), Some((n, &text[..n])));
                    }
                    rt.wait();
                    for (n, child) in odd.into_iter().rev() {
                        assert!(child.is_done());
                        assert_eq!(child.join(), Some((n, &text[..n])));
                    }
                });
                graph.plan().unwrap().run_on(&pool).unwrap();
            }
        });
    }

    #[test]
    fn a_child_that_is_joined_does_not_wait_for_its_siblings() {
        within(LIMIT, || {
            let (started, go) = (Flag::default(), Flag::default());
            let graph = Graph::new();
            graph.runtime("", |rt| {
                let waits = rt.submit(|_| {
                    started.set();
                    go.wait("the other child");
                });
                started.wait("the first child");
                assert_eq!(rt.submit(|_| 7).join(), Some(7));
                assert!(!waits.is_done());
                go.set();
                assert_eq!(waits.join(), Some(()));
            });
            let mut plan = graph.plan().unwrap();
            plan.run_on(&pool(2)).unwrap();
        });
    }

    #[test]
    fn a_panic_is_one_of_the_task_and_the_handle_has_nothing() {
        for pool in pools() {
            let graph = Graph::new();
            graph.runtime("parent", |rt| {
                let wrong = rt.submit(|_| -> u32 { quiet_panic("planned") });
                assert_eq!(wrong.join(), None);
                // The run is stopped, so this is dropped.
                assert_eq!(rt.submit(|_| 1).join(), None);
            });
            let error = graph.plan().unwrap().run_on(&pool).unwrap_err();
            assert_eq!(error.panics().len(), 1);
            assert_eq!(error.panics()[0].task(), "parent");
        }
    }

    #[test]
    fn a_result_is_dropped_once_whether_it_is_taken_or_not() {
        for pool in pools() {
            let drops = Drops::default();
            let graph = Graph::new();
            graph.runtime("", |rt| {
                for n in 0..9 {
                    let child = rt.submit(|_| drops.value());
                    match n % 3 {
                        0 => drop(child.join()),
                        1 => drop(child),
                        _ => rt.wait(),
                    }
                }
            });
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!(drops.seen(), 9);
        }
    }
}

mod scheduled {
    use super::*;

    #[test]
    fn a_task_that_its_condition_has_not_chosen() {
        within(LIMIT, || {
            for pool in pools() {
                let (ran, after) = (counter(), counter());
                let graph = Graph::new();
                let chosen = graph.condition("A", || 0);
                let task = graph.task("C", || add(&ran));
                let handle = task.schedulable();
                let runtime = graph.runtime("B", |rt| assert!(rt.schedule(handle)));
                chosen.precede([runtime, task, graph.task("D", || unreachable!())]);
                task.precede(graph.task("behind C", || add(&after)));
                let mut plan = graph.plan().unwrap();
                for times in 1..=3 {
                    assert_eq!(plan.run_on(&pool).unwrap().ran(), 4);
                    assert_eq!((get(&ran), get(&after)), (times, times));
                }
            }
        });
    }

    #[test]
    fn missing_predecessors_are_counted_anew_from_its_start() {
        within(LIMIT, || {
            for pool in pools() {
                let (ran, begun) = (counter(), Flag::default());
                let graph = Graph::new();
                let task = graph.task("task", || {
                    add(&ran);
                    begun.set();
                });
                let handle = task.schedulable();
                let first = graph.task("first", || ());
                // It ends when the task has begun, which then waits for both of them again.
                let second = graph.runtime("second", |rt| {
                    assert!(rt.schedule(handle));
                    until("the task has begun", || {
                        filch::yield_now();
                        begun.is_set()
                    });
                });
                task.succeed([first, second]);
                first.precede(second);
                let mut plan = graph.plan().unwrap();
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 3);
                assert_eq!(get(&ran), 1);
            }
        });
    }

    #[test]
    fn not_twice_before_it_has_begun_and_not_while_it_runs() {
        within(LIMIT, || {
            let single = pool(0);
            let ran = counter();
            let graph = Graph::new();
            let task = graph.task("task", || add(&ran));
            let handle = task.schedulable();
            let itself = graph.placeholder("itself").schedulable();
            let chosen = graph.condition("which?", || 0);
            let runtime = graph.runtime("runtime", |rt| {
                assert!(rt.schedule(handle));
                assert!(!rt.schedule(handle));
                assert!(rt.submit(move |rt| rt.schedule(itself)).join().unwrap());
            });
            chosen.precede([runtime, task, graph.get(itself.index()).unwrap()]);
            let mut plan = graph.plan().unwrap();
            assert!(plan.unreachable().next().is_none());
            for times in 1..=3 {
                assert_eq!(plan.run_on(&single).unwrap().ran(), 4);
                assert_eq!(get(&ran), times);
            }
        });
    }

    #[test]
    fn a_task_that_runs_is_not_scheduled() {
        within(LIMIT, || {
            let pool = pool(2);
            let (begun, go) = (Flag::default(), Flag::default());
            let graph = Graph::new();
            let task = graph.task("task", || {
                begun.set();
                go.wait("the runtime");
            });
            let handle = task.schedulable();
            graph.runtime("runtime", |rt| {
                begun.wait("the task");
                assert!(!rt.schedule(handle));
                go.set();
            });
            assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 2);
        });
    }

    #[test]
    fn a_task_that_is_released_while_it_runs_fails_the_run() {
        within(LIMIT, || {
            let pool = pool(3);
            let (begun, go) = (Flag::default(), Flag::default());
            let graph = Graph::new();
            let task = graph.task("task", || {
                begun.set();
                go.wait("the end of the run");
            });
            let handle = task.schedulable();
            task.succeed(graph.task("before", || begun.wait("the task")));
            graph.runtime("runtime", |rt| {
                assert!(rt.schedule(handle));
                until("the run is stopped", || rt.is_stopped());
                go.set();
            });
            let error = graph.plan().unwrap().run_on(&pool).unwrap_err();
            assert!(error.to_string().contains("task"), "{error}");
        });
    }

    #[test]
    fn a_stopped_run_skips_it() {
        within(LIMIT, || {
            for pool in pools() {
                let token = CancelToken::new();
                let graph = Graph::new();
                let task = graph.task("task", || unreachable!());
                let handle = task.schedulable();
                let chosen = graph.condition("which?", || 0);
                let runtime = graph.runtime("runtime", |rt| {
                    token.cancel();
                    assert!(rt.schedule(handle));
                });
                chosen.precede([runtime, task]);
                let mut plan = graph.plan().unwrap();
                let options = RunOptions::new().on(&pool).cancel(&token);
                let error = plan.run_with(&options).unwrap_err();
                assert!(error.is_cancelled());
                assert_eq!(error.skipped().collect::<Vec<_>>(), ["task"]);
            }
        });
    }

    #[test]
    fn with_a_semaphore_and_an_order() {
        within(LIMIT, || {
            for pool in pools() {
                let ran = counter();
                let one = Semaphore::new(1);
                let graph = Graph::new();
                let chosen = graph.condition("which?", || 0);
                let tasks: Vec<_> = (0..4)
                    .map(|n| graph.task("", || add(&ran)).acquire([&one]).priority(n))
                    .collect();
                let handles: Vec<_> = tasks.iter().map(|task| task.schedulable()).collect();
                let runtime = graph.runtime("runtime", move |rt| {
                    for &handle in &handles {
                        let handle = rt.submit(move |rt| rt.schedule(handle));
                        assert_eq!(handle.join(), Some(true));
                    }
                });
                chosen.precede(runtime);
                chosen.precede(tasks);
                let mut plan = graph.plan().unwrap();
                plan.run_on(&pool).unwrap();
                plan.run_on(&pool).unwrap();
                assert_eq!(get(&ran), 8);
            }
        });
    }

    #[test]
    fn in_the_instances_of_a_template() {
        within(LIMIT, || {
            let graph = TemplateGraph::new();
            let task = graph.task("task", |ran: &Arc<AtomicUsize>| add(ran));
            let handle = task.schedulable();
            let chosen = graph.condition("which?", |_| 0);
            let runtime = graph.runtime("runtime", move |_, rt| assert!(rt.schedule(handle)));
            chosen.precede([runtime, task]);
            let template = graph.template().unwrap();
            let ran = Arc::new(counter());
            let instances = [(); 2].map(|()| template.instance(ran.clone()));
            for mut instance in instances {
                instance.run().unwrap();
            }
            assert_eq!(get(&ran), 2);
        });
    }

    #[test]
    fn a_task_of_another_graph_or_one_that_was_removed() {
        let (graph, other) = (Graph::new(), Graph::new());
        let foreign = other.task("foreign", || ()).schedulable();
        let removed = graph.task("removed", || ());
        let gone = removed.schedulable();
        let _here = graph.task("here", || ()).schedulable();
        graph.remove(removed);
        graph.runtime("foreign", move |rt| assert!(rt.schedule(foreign)));
        graph.runtime("removed", move |rt| assert!(rt.schedule(gone)));
        let mut plan = graph.plan().unwrap();
        let options = RunOptions::new().keep_going(true);
        let error = plan.run_with(&options).unwrap_err();
        assert_eq!(error.panics().len(), 2);
    }
}
