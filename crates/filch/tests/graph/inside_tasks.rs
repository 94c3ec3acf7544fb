//! Parallel loops and pipelines as tasks of a graph.

use crate::graphs::pools;
use crate::support::{Drops, Flag, LIMIT, add, counter, get, pool, quiet_panic, within};
use filch::{
    CancelToken, Graph, Pool,
    graph::{Pipeline, RunOptions, TaskKind, TemplateGraph},
};
use std::{
    iter,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Many numbers, of which an interpreter gets fewer.
const MANY: usize = if cfg!(miri) { 100 } else { 20_000 };

mod loops {
    use super::*;

    #[test]
    fn every_number_once_and_before_the_successors() {
        within(LIMIT, || {
            for pool in pools() {
                for len in [0, 1, 2, 7, MANY] {
                    let calls: Vec<_> = iter::repeat_with(counter).take(len).collect();
                    let graph = Graph::new();
                    let all = graph.for_each("all", 10..10 + len, |n| add(&calls[n - 10]));
                    let runs = counter();
                    let after = graph.task("after", || {
                        let runs = runs.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(calls.iter().all(|calls| get(calls) == runs));
                    });
                    all.precede(after);
                    assert_eq!(graph.describe().tasks[0].kind, TaskKind::Loop);
                    let mut plan = graph.plan().unwrap();
                    assert_eq!(plan.run_on(&pool).unwrap().ran(), 2);
                    assert_eq!(plan.run_on(&pool).unwrap().ran(), 2);
                    pool.install(|| filch::isolate(|| plan.run())).unwrap();
                }
            }
        });
    }

    #[test]
    fn results_are_combined_in_order() {
        within(LIMIT, || {
            for pool in pools() {
                for len in [0, 1, 3, 1_000] {
                    let graph = Graph::new();
                    let list = graph.reduce(
                        "list",
                        0..len,
                        Vec::new,
                        |n| vec![n],
                        |mut a: Vec<usize>, b| {
                            a.extend(b);
                            a
                        },
                    );
                    let sum = graph.map("sum", list, |list: &Vec<usize>| list.iter().sum());
                    let mut plan = graph.plan().unwrap();
                    for _ in 0..2 {
                        assert_eq!(plan.run_on(&pool).unwrap().ran(), 2);
                        assert_eq!(plan.take::<usize>(sum), Some((0..len).sum()));
                        assert_eq!(plan.take(list), Some((0..len).collect()));
                    }
                }
            }
        });
    }

    #[test]
    fn a_panic_is_one_of_the_task() {
        within(LIMIT, || {
            for pool in pools() {
                let (after, drops) = (counter(), Drops::default());
                let graph = Graph::new();
                let all = graph.for_each("all", 0..100, |n| {
                    if n == 37 {
                        quiet_panic("planned");
                    }
                });
                all.precede(graph.task("after", || add(&after)));
                let reduced = graph.reduce(
                    "reduced",
                    0..100,
                    || vec![drops.value()],
                    |n| {
                        if n == 99 {
                            quiet_panic("planned too")
                        } else {
                            vec![drops.value()]
                        }
                    },
                    |mut a, b| {
                        a.extend(b);
                        a
                    },
                );
                let mut plan = graph.plan().unwrap();
                let options = RunOptions::new().on(&pool).keep_going(true);
                let error = plan.run_with(&options).unwrap_err();
                let mut names: Vec<_> = error.panics().iter().map(|panic| panic.task()).collect();
                names.sort_unstable();
                assert_eq!(names, ["all", "reduced"]);
                assert_eq!(error.skipped().collect::<Vec<_>>(), ["after"]);
                assert!(plan.take(reduced).is_none());
                assert_eq!(get(&after), 0);
            }
        });
    }

    #[test]
    fn a_cancelled_run_ends_the_loop() {
        within(LIMIT, || {
            for pool in pools() {
                let token = CancelToken::new();
                let calls = counter();
                let graph = Graph::new();
                let all = graph.for_each("all", 0..usize::MAX, |_| {
                    add(&calls);
                    token.cancel();
                });
                all.precede(graph.task("after", || unreachable!()));
                let options = RunOptions::new().on(&pool).cancel(&token);
                let error = graph.plan().unwrap().run_with(&options).unwrap_err();
                assert!(error.is_cancelled());
                assert_eq!(error.skipped().collect::<Vec<_>>(), ["all", "after"]);
                assert!(get(&calls) > 0);
            }
        });
    }

    #[test]
    fn a_limit_of_jobs_counts_the_parts() {
        within(LIMIT, || {
            let pool = pool(3);
            let (running, most) = (counter(), counter());
            let graph = Graph::new();
            for _ in 0..3 {
                graph.for_each("", 0..200, |_| {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let options = RunOptions::new().on(&pool).jobs(2);
            graph.plan().unwrap().run_with(&options).unwrap();
            assert!(get(&most) <= 2, "{} at once", get(&most));
        });
    }

    #[test]
    fn in_subflows_loops_and_templates() {
        within(LIMIT, || {
            for pool in pools() {
                let (count, laps) = (counter(), counter());
                let graph = Graph::new();
                let start = graph.placeholder("start");
                let flow = graph.subflow("flow", |sub| {
                    let range = 0..5 + get(&laps);
                    let sum = sub.reduce("sum", range, || 0, |n| n, |a, b| a + b);
                    assert!(sub.join().is_some());
                    assert!(sub.take(sum) >= Some(10));
                    sub.for_each("all", 0..10, |_| add(&count));
                });
                let again = graph.condition("again?", || {
                    usize::from(laps.fetch_add(1, Ordering::SeqCst) == 4)
                });
                start.precede(flow);
                flow.precede(again);
                again.precede(flow);
                graph.plan().unwrap().run_on(&pool).unwrap();
                assert_eq!(get(&count), 50);

                let graph = TemplateGraph::new();
                graph.for_each("all", 0..10, |count: &Arc<AtomicUsize>, n| {
                    count.fetch_add(n, Ordering::SeqCst);
                });
                let sum = graph.reduce("sum", 0..10, || 0, |_, n| n, |a, b| a + b);
                let template = graph.template().unwrap();
                let count = Arc::new(counter());
                let mut plan = template.instance(count.clone());
                plan.run_on(&pool).unwrap();
                assert_eq!(get(&count), 45);
                assert_eq!(plan.take(sum), Some(45));
            }
        });
    }
}

mod pipelines {
    use super::*;

    fn numbers<'env>(
        range: std::ops::Range<usize>,
        out: &'env Mutex<Vec<usize>>,
    ) -> Pipeline<'env, ()> {
        let mut next = range.start;
        Pipeline::new(move |_| {
            next += 1;
            if next > range.end {
                next = range.start;
                return None;
            }
            Some(next - 1)
        })
        .parallel(|n| 2 * n)
        .serial(|n| out.lock().unwrap().push(n))
    }

    #[test]
    fn all_tokens_in_order_before_the_successors() {
        within(LIMIT, || {
            for pool in pools() {
                for lines in [1, 3, 8] {
                    let out = Mutex::default();
                    let graph = Graph::new();
                    let pipe = graph.pipeline("pipe", lines, numbers(0..100, &out));
                    let runs = counter();
                    pipe.precede(graph.task("after", || {
                        let runs = runs.fetch_add(1, Ordering::SeqCst) + 1;
                        assert_eq!(out.lock().unwrap().len(), 100 * runs);
                    }));
                    assert_eq!(graph.describe().tasks[0].kind, TaskKind::Pipeline);
                    let mut plan = graph.plan().unwrap();
                    assert_eq!(plan.run_on(&pool).unwrap().ran(), 2);
                    assert_eq!(plan.run_on(&pool).unwrap().ran(), 2);
                    pool.install(|| filch::isolate(|| plan.run())).unwrap();
                    drop(plan);
                    let out = out.into_inner().unwrap();
                    let expected: Vec<_> = (0..100).map(|n| 2 * n).collect();
                    assert!(out.chunks(100).all(|run| run == expected));
                }
            }
        });
    }

    #[test]
    fn a_panic_has_the_name_of_the_stage() {
        within(LIMIT, || {
            for pool in pools() {
                let drops = Drops::default();
                let (after, made) = (counter(), counter());
                let graph = Graph::new();
                let pipeline = Pipeline::new(|flow| {
                    (flow.token() < 50).then(|| {
                        add(&made);
                        (flow.token(), drops.value())
                    })
                })
                .parallel(|(n, value)| {
                    if n == 7 {
                        quiet_panic("planned");
                    }
                    value
                })
                .named("divide")
                .serial(drop);
                let pipe = graph.pipeline("pipe", 4, pipeline);
                pipe.precede(graph.task("after", || add(&after)));
                let mut plan = graph.plan().unwrap();
                for _ in 0..2 {
                    let error = plan.run_on(&pool).unwrap_err();
                    assert_eq!(error.panics()[0].task(), "pipe/divide");
                    let skipped: Vec<_> = error.skipped().collect();
                    assert!(skipped.contains(&"after".to_owned()), "{skipped:?}");
                    assert_eq!(drops.seen(), get(&made));
                }
                assert_eq!(get(&after), 0);
            }
        });
    }

    #[test]
    fn no_lines_and_tokens_that_wait_for_each_other_are_errors() {
        let graph = Graph::new();
        graph.pipeline("none", 0, Pipeline::new(|_| None::<()>));
        graph.pipeline(
            "cycle",
            1,
            Pipeline::new(|flow| {
                if flow.token() == 0 {
                    flow.defer(0);
                }
                Some(())
            }),
        );
        let options = RunOptions::new().keep_going(true);
        let error = graph.plan().unwrap().run_with(&options).unwrap_err();
        let mut names: Vec<_> = error
            .failures()
            .iter()
            .map(|failure| failure.task())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["cycle/source", "none"]);
    }

    #[test]
    fn a_cancelled_run_ends_an_endless_one() {
        within(LIMIT, || {
            for pool in pools() {
                let token = CancelToken::new();
                let graph = Graph::new();
                let endless = Pipeline::new(|flow| Some(flow.token())).serial(|n| {
                    if n == 20 {
                        token.cancel();
                    }
                });
                let pipe = graph.pipeline("pipe", 3, endless);
                pipe.precede(graph.task("after", || unreachable!()));
                let options = RunOptions::new().on(&pool).cancel(&token);
                let error = graph.plan().unwrap().run_with(&options).unwrap_err();
                assert!(error.is_cancelled());
                assert_eq!(error.skipped().collect::<Vec<_>>(), ["pipe", "after"]);
            }
        });
    }

    #[test]
    fn many_of_them_on_one_thread_and_launched() {
        within(LIMIT, || {
            for pool in pools() {
                let graph = Graph::new();
                let out: &'static Mutex<Vec<usize>> = Box::leak(Box::default());
                let tasks: Vec<_> = (0..50)
                    .map(|n| match n % 2 {
                        0 => graph.pipeline("", 2, numbers(0..5, out)),
                        _ => graph.for_each("", 0..5, |n| out.lock().unwrap().push(n)),
                    })
                    .collect();
                graph.linearize(tasks);
                for _ in 0..4 {
                    graph.pipeline("", 2, numbers(0..5, out));
                }
                let handle = pool.launch(graph.plan().unwrap());
                assert_eq!(pool.install(|| handle.join()).unwrap().ran(), 54);
                assert_eq!(out.lock().unwrap().len(), 54 * 5);
            }
        });
    }

    #[test]
    fn no_worker_is_held_while_a_stage_waits() {
        within(LIMIT, || {
            // One stage blocks the only other worker; this one is free for the other task.
            let pool = pool(1);
            let (begun, go) = (Flag::default(), Flag::default());
            let graph = Graph::new();
            let blocking = Pipeline::new(|flow| (flow.token() == 0).then_some(())).serial(|()| {
                begun.set();
                go.wait("the other task");
            });
            graph.pipeline("pipe", 1, blocking);
            graph.task("other", || {
                begun.wait("the stage");
                go.set();
            });
            assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 2);
        });
    }

    #[test]
    fn in_templates_and_dropped_without_a_run() {
        within(LIMIT, || {
            let drops = Drops::default();
            let graph = Graph::new();
            let kept = drops.value();
            let source = move |_: &mut filch::graph::Flow| {
                let kept = &kept;
                kept.bomb.map(|_| ())
            };
            graph.pipeline("", 1, Pipeline::new(source));
            drop(graph.plan().unwrap());
            assert_eq!(drops.seen(), 1);

            let graph = TemplateGraph::new();
            graph.pipeline("pipe", 2, |out: &Arc<Mutex<Vec<usize>>>| {
                let (out, mut numbers) = (out.clone(), 0..10);
                Pipeline::new(move |_| numbers.next()).serial(move |n| out.lock().unwrap().push(n))
            });
            let template = graph.template().unwrap();
            let out = Arc::new(Mutex::new(vec![]));
            let single = Pool::builder().workers(0).build().unwrap();
            template.instance(out.clone()).run_on(&single).unwrap();
            assert_eq!(*out.lock().unwrap(), (0..10).collect::<Vec<_>>());
        });
    }
}
