//! Subflows whose tasks run, and have results, before the closure that builds them returns.

use crate::graphs::pools;
use crate::support::{Drops, Flag, LIMIT, add, counter, get, pool, quiet_panic, within};
use filch::{
    CancelToken, Graph, Semaphore,
    graph::{RunOptions, Subflow},
};
use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

#[test]
fn results_are_read_and_more_is_added() {
    within(LIMIT, || {
        for pool in pools() {
            let (sum, last) = (counter(), counter());
            let graph = Graph::new();
            let flow = graph.subflow("flow", |sub| {
                let squares: Vec<_> = (1..=4).map(|n| sub.value("", move || n * n)).collect();
                let total = sub.map("total", (squares[0], squares[1]), |a: &usize, b: &usize| {
                    a + b
                });
                assert_eq!(sub.take(total), None);
                assert_eq!(sub.join().unwrap().ran(), 5);
                assert_eq!(sub.len(), 0);
                assert_eq!(sub.take(total), Some(5));
                assert_eq!(sub.peek(squares[3], |n| *n), Some(16));
                // Values and edges of tasks that have run.
                let more = sub.map("more", (squares[2], squares[3]), |a: &usize, b: &usize| {
                    a + b
                });
                sub.task_of(more).succeed(sub.placeholder("before"));
                assert_eq!(sub.join().unwrap().ran(), 2);
                sum.store(sub.take(more).unwrap(), Ordering::SeqCst);
                assert_eq!(sub.join().unwrap().ran(), 0);
                sub.map("last", squares[3].moved(), |n: usize| {
                    last.store(n, Ordering::SeqCst);
                });
            });
            flow.precede(graph.task("after", || {
                assert_eq!((get(&sum), get(&last)), (25, 16));
            }));
            let mut plan = graph.plan().unwrap();
            for _ in 0..3 {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 10);
            }
            pool.install(|| filch::isolate(|| plan.run())).unwrap();
        }
    });
}

fn fibonacci(sub: &Subflow<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let results: Arc<[Mutex<u64>; 2]> = Arc::default();
    for (at, n) in [n - 1, n - 2].into_iter().enumerate() {
        let results = results.clone();
        sub.subflow("", move |sub| {
            *results[at].lock().unwrap() = fibonacci(sub, n);
        });
    }
    sub.join().unwrap();
    results.iter().map(|result| *result.lock().unwrap()).sum()
}

#[test]
fn joins_inside_of_joins() {
    within(LIMIT, || {
        for pool in pools() {
            let result = counter();
            let graph = Graph::new();
            graph.subflow("", |sub| {
                result.store(fibonacci(sub, 9) as usize, Ordering::SeqCst);
            });
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!(get(&result), 34);
        }
    });
}

#[test]
fn a_failure_has_both_names_and_ends_the_task() {
    within(LIMIT, || {
        for pool in pools() {
            let trouble = Flag::default();
            trouble.set();
            let (after, ran) = (counter(), counter());
            let graph = Graph::new();
            let flow = graph.subflow("flow", |sub| {
                sub.task("good", || add(&ran));
                if trouble.is_set() {
                    sub.task("bad", || quiet_panic("planned"));
                }
                let joined = sub.join();
                assert_eq!(joined.is_none(), trouble.is_set());
                sub.task("rest", || add(&ran));
            });
            flow.precede(graph.task("after", || add(&after)));
            let mut plan = graph.plan().unwrap();
            let error = plan.run_on(&pool).unwrap_err();
            assert_eq!(error.panics().len(), 1);
            assert_eq!(error.panics()[0].task(), "flow/bad");
            let skipped: Vec<_> = error.skipped().collect();
            assert!(skipped.contains(&"after".to_owned()), "{skipped:?}");
            assert_eq!(get(&after), 0);
        }
    });
}

#[test]
fn a_run_that_keeps_going_stops_only_what_is_behind() {
    within(LIMIT, || {
        for pool in pools() {
            let (behind, beside) = (counter(), counter());
            let graph = Graph::new();
            let flow = graph.subflow("flow", |sub| {
                sub.try_task("bad", || Err::<(), _>("planned"));
                sub.task("good", || add(&beside));
                assert!(sub.join().is_none());
            });
            flow.precede(graph.task("behind", || add(&behind)));
            graph.task("beside", || add(&beside));
            let options = RunOptions::new().on(&pool).keep_going(true);
            let error = graph.plan().unwrap().run_with(&options).unwrap_err();
            assert_eq!(error.failures()[0].task(), "flow/bad");
            assert_eq!((get(&behind), get(&beside)), (0, 2));
        }
    });
}

#[test]
fn a_graph_that_cannot_run_and_an_edge_to_a_task_that_has_run() {
    let errors = |build: fn(&Subflow<'_>)| {
        let graph = Graph::new();
        graph.subflow("flow", build);
        graph.plan().unwrap().run().unwrap_err().to_string()
    };
    let cycle = errors(|sub| {
        let (hen, egg) = (sub.task("hen", || ()), sub.task("egg", || ()));
        hen.precede(egg);
        egg.precede(hen);
        assert!(sub.join().is_none());
    });
    assert!(cycle.contains("hen → egg"), "{cycle}");
    for joins in [false, true] {
        let late = if joins {
            errors(|sub| {
                let first = sub.task("first", || ());
                assert!(sub.join().is_some());
                sub.task("second", || ()).precede(first);
                assert!(sub.join().is_none());
            })
        } else {
            errors(|sub| {
                let first = sub.task("first", || ());
                assert!(sub.join().is_some());
                sub.task("second", || ()).precede(first);
            })
        };
        assert!(late.contains("removed or joined"), "{late}");
    }
}

#[test]
fn an_edge_from_a_task_that_has_run_is_satisfied() {
    let ran = counter();
    let graph = Graph::new();
    graph.subflow("flow", |sub| {
        let first = sub.task("first", || add(&ran));
        assert!(sub.join().is_some());
        first.precede(sub.task("second", || add(&ran)));
        assert_eq!(first.name(), "first");
    });
    graph.plan().unwrap().run().unwrap();
    assert_eq!(get(&ran), 2);
}

#[test]
fn a_cancelled_run_ends_the_join() {
    within(LIMIT, || {
        for pool in pools() {
            let token = CancelToken::new();
            let (ended, rest) = (counter(), counter());
            let graph = Graph::new();
            graph.subflow("flow", |sub| {
                sub.future("never", pending);
                sub.task("cancel", || {
                    token.cancel();
                });
                assert!(sub.join().is_none());
                add(&ended);
                // The run is stopped already.
                sub.task("rest", || add(&rest));
                assert!(sub.join().is_none());
            });
            let options = RunOptions::new().on(&pool).cancel(&token);
            let error = graph.plan().unwrap().run_with(&options).unwrap_err();
            assert!(error.is_cancelled(), "{error}");
            assert_eq!((get(&ended), get(&rest)), (1, 0));
        }
    });
}

#[test]
fn a_limit_of_jobs_is_kept_and_nothing_waits_forever() {
    within(LIMIT, || {
        let pool = pool(3);
        for jobs in 1..=3 {
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            };
            let graph = Graph::new();
            for _ in 0..8 {
                graph.subflow("", |sub| {
                    for _ in 0..2 {
                        for _ in 0..4 {
                            sub.task("", work);
                        }
                        sub.subflow("", |sub| {
                            for _ in 0..2 {
                                sub.task("", work);
                            }
                            assert!(sub.join().is_some());
                            work();
                        });
                        assert!(sub.join().is_some());
                        work();
                    }
                });
                graph.task("", work);
            }
            let options = RunOptions::new().on(&pool).jobs(jobs);
            graph.plan().unwrap().run_with(&options).unwrap();
            assert!(get(&most) <= jobs, "{} at once of {jobs}", get(&most));
        }
    });
}

#[test]
fn launched_with_everything_inside() {
    within(LIMIT, || {
        for pool in pools() {
            let count = Arc::new(counter());
            let one = Semaphore::new(1);
            let graph = Graph::new();
            for _ in 0..4 {
                let (count, one) = (count.clone(), one.clone());
                graph.subflow("", move |sub| {
                    for _ in 0..3 {
                        let count = count.clone();
                        sub.task("", move || add(&count)).acquire([&one]);
                    }
                    let twice = count.clone();
                    sub.runtime("", move |rt| {
                        assert_eq!(rt.submit(|_| 1).join(), Some(1));
                        add(&twice);
                    });
                    sub.future("", || async { filch::future::yield_now().await });
                    assert!(sub.join().is_some());
                });
            }
            let handle = pool.launch(graph.plan().unwrap());
            pool.install(|| handle.join()).unwrap();
            assert_eq!(get(&count), 16);
        }
    });
}

#[test]
fn the_tasks_are_dropped_at_the_join() {
    let drops = Drops::default();
    let graph = Graph::new();
    graph.subflow("flow", |sub| {
        let kept = drops.value();
        sub.task("first", move || {
            let kept = &kept;
            assert!(kept.bomb.is_none());
        });
        sub.join();
        assert_eq!(drops.seen(), 1);
    });
    graph.plan().unwrap().run().unwrap();
    assert_eq!(drops.seen(), 1);
}
