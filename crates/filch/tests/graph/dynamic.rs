//! Graphs beyond fixed closures: conditions, graphs inside tasks, spawning, cancellation, values,
//! templates, priorities.

use crate::graphs::{deep_modules, pools};
use crate::support::{
    Drops, Flag, LIMIT, add, counter, get, panic_of, pool, quiet_panic, until, within,
};
use filch::{
    CancelToken, Graph, Semaphore,
    graph::{RunOptions, Subflow, TemplateGraph},
};
use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

mod conditions {
    use super::*;

    #[test]
    fn many_choices_at_once() {
        for pool in pools() {
            for choice in [
                vec![],
                vec![0],
                vec![2, 0],
                vec![1, 7, usize::MAX],
                vec![0, 1, 2],
            ] {
                let seen = Mutex::new(vec![]);
                let graph = Graph::new();
                let wanted = choice.clone();
                let choose = graph.multi_condition("?", move || choice.clone());
                for number in 0..3 {
                    let seen = &seen;
                    choose.precede(graph.task("", move || seen.lock().unwrap().push(number)));
                }
                graph.plan().unwrap().run_on(&pool).unwrap();
                let mut seen = seen.into_inner().unwrap();
                seen.sort_unstable();
                let mut wanted: Vec<_> = wanted.into_iter().filter(|&n| n < 3).collect();
                wanted.sort_unstable();
                assert_eq!(seen, wanted);
            }
        }
    }

    /// The choices lead back to the condition while it continues with others: that is no overlap.
    #[test]
    fn a_loop_through_a_multi_condition() {
        for pool in pools() {
            let mut laps = 0;
            let graph = Graph::new();
            let start = graph.task("start", || ());
            let choose = graph.multi_condition("?", || {
                laps += 1;
                if laps < 500 { vec![0, 1] } else { vec![2] }
            });
            let lap = graph.task("lap", || ());
            let end = graph.task("end", || ());
            start.precede(choose);
            let tick = graph.task("tick", || ());
            choose.precede([lap, tick, end]);
            let back = graph.condition("back", || 0);
            back.succeed([lap, tick]);
            back.precede(choose);
            let mut plan = graph.plan().unwrap();
            plan.run_on(&pool).unwrap();
            drop(plan);
            assert_eq!(laps, 500);
        }
    }
}

mod cancellation {
    use super::*;

    #[test]
    fn a_run_is_stopped_and_says_what_was_skipped() {
        for pool in pools() {
            let (cancel, after) = (CancelToken::new(), counter());
            let graph = Graph::new();
            let first = graph.task("first", || {
                cancel.cancel();
            });
            let rest: Vec<_> = (0..10).map(|_| graph.task("", || add(&after))).collect();
            first.precede(rest.iter().copied());
            drop(rest);
            let mut plan = graph.plan().unwrap();
            let options = RunOptions::new().on(&pool).cancel(&cancel);
            for ran in [1, 0] {
                // The second time it is cancelled from the beginning.
                let error = plan.run_with(&options).unwrap_err();
                assert!(error.is_cancelled() && error.panics().is_empty());
                assert_eq!(
                    (error.ran(), error.skipped().count()),
                    (ran, 11 - ran as usize)
                );
                assert!(error.to_string().starts_with("cancelled"), "{error}");
            }
            assert_eq!(get(&after), 0);
            // Without it all is well.
            assert_eq!(plan.run_on(&pool).unwrap().ran(), 11);
            // It is too late to matter.
            let late = CancelToken::new();
            let graph = Graph::new();
            graph.task("only", || {
                late.cancel();
            });
            let mut plan = graph.plan().unwrap();
            plan.run_with(&RunOptions::new().on(&pool).cancel(&late))
                .unwrap();
        }
    }

    #[test]
    fn from_another_thread() {
        within(LIMIT, || {
            let (cancel, started) = (CancelToken::new(), Flag::default());
            let mut plan = {
                let (cancel, started) = (cancel.clone(), started.clone());
                let graph = Graph::new();
                let spin = graph.task("spin", move || {
                    started.set();
                    until("it is cancelled", || cancel.is_cancelled());
                });
                spin.precede(graph.task("never", || unreachable!()));
                graph.plan().unwrap()
            };
            let other = cancel.clone();
            let thread = thread::spawn(move || {
                started.wait("the run has begun");
                other.cancel();
            });
            let error = plan
                .run_with(&RunOptions::new().cancel(&cancel))
                .unwrap_err();
            assert_eq!((error.ran(), error.skipped().count()), (1, 1));
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_loop_without_an_end_is_stopped() {
        within(LIMIT, || {
            for pool in [pool(0), pool(2)] {
                let (cancel, laps) = (CancelToken::new(), counter());
                let graph = Graph::new();
                let start = graph.task("", || ());
                let again = graph.condition("", || {
                    add(&laps);
                    if get(&laps) == 1000 {
                        cancel.cancel();
                    }
                    0
                });
                start.precede(again);
                again.precede(again);
                let options = RunOptions::new().on(&pool).cancel(&cancel);
                assert!(
                    graph
                        .plan()
                        .unwrap()
                        .run_with(&options)
                        .unwrap_err()
                        .is_cancelled()
                );
                assert_eq!(get(&laps), 1000);
            }
        });
    }

    #[test]
    fn several_times_until_it_is_cancelled() {
        let (cancel, runs) = (CancelToken::new(), counter());
        let graph = Graph::new();
        graph.task("", || {
            add(&runs);
            if get(&runs) == 3 {
                cancel.cancel();
            }
        });
        let mut plan = graph.plan().unwrap();
        let error = plan
            .run_with(&RunOptions::new().times(10).cancel(&cancel))
            .unwrap_err();
        assert_eq!((error.ran(), error.skipped().count()), (3, 1));
        assert_eq!(plan.run_with(&RunOptions::new().times(4)).unwrap().ran(), 4);
    }
}

mod subflows {
    use super::*;

    #[test]
    fn successors_wait_for_a_joined_one() {
        for pool in pools() {
            let count = counter();
            let graph = Graph::new();
            let flow = graph.subflow("flow", |sub| {
                let first = sub.task("first", || add(&count));
                for _ in 0..10 {
                    first.precede(sub.task("then", || add(&count)));
                }
            });
            let after = graph.task("after", || assert_eq!(get(&count) % 11, 0));
            flow.precede(after);
            let mut plan = graph.plan().unwrap();
            for round in 1..=3 {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 13);
                assert_eq!(get(&count), 11 * round);
            }
        }
    }

    #[test]
    fn the_run_waits_for_a_detached_one() {
        within(LIMIT, || {
            for pool in [pool(2), pool(4)] {
                let (go, count) = (Flag::default(), counter());
                let graph = Graph::new();
                let flow = graph.subflow("flow", |sub| {
                    sub.detach();
                    let go = go.clone();
                    let wait = sub.task("wait", move || go.wait("the successor has run"));
                    wait.precede(sub.task("then", || add(&count)));
                });
                flow.precede(graph.task("after", || go.set()));
                graph.plan().unwrap().run_on(&pool).unwrap();
                assert_eq!(get(&count), 1);
            }
        });
    }

    fn nest<'env>(sub: &Graph<'env>, depth: usize, count: &'env AtomicUsize) {
        for _ in 0..2 {
            if depth == 0 {
                sub.task("leaf", || add(count));
            } else {
                sub.subflow("nest", move |sub| nest(sub, depth - 1, count));
            }
        }
    }

    #[test]
    fn nested() {
        for pool in pools() {
            let count = counter();
            let graph = Graph::new();
            nest(&graph, 6, &count);
            let mut plan = graph.plan().unwrap();
            plan.run_on(&pool).unwrap();
            plan.run_on(&pool).unwrap();
            assert_eq!(get(&count), 2 * 128);
        }
    }

    #[test]
    fn a_long_chain_of_subflows_on_the_default_stack() {
        for pool in [pool(0), pool(1), pool(2)] {
            let count = counter();
            let graph = Graph::new();
            graph.linearize((0..2000).map(|_| {
                graph.subflow("", |sub| {
                    sub.task("", || add(&count));
                })
            }));
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!(get(&count), 2000);
        }
    }

    fn retain<'env>(sub: &Subflow<'env>, depth: usize, count: &'env AtomicUsize) {
        sub.retain();
        match depth {
            0 => sub.task("leaf", || add(count)),
            _ => sub.subflow("nest", move |sub| retain(sub, depth - 1, count)),
        };
    }

    #[test]
    fn retained_ones_a_hundred_thousand_deep_are_dropped_on_the_default_stack() {
        let (pool, count) = (pool(1), counter());
        let graph = Graph::new();
        graph.subflow("outermost", |sub| retain(sub, 100_000, &count));
        let mut plan = graph.plan().unwrap();
        // The second run drops what the first one has left, and then the plan does.
        plan.run_on(&pool).unwrap();
        plan.run_on(&pool).unwrap();
        assert_eq!(get(&count), 2);
    }

    #[test]
    fn in_a_loop() {
        for pool in pools() {
            let (count, mut laps) = (counter(), 0);
            let graph = Graph::new();
            let start = graph.task("", || ());
            let flow = graph.subflow("", |sub| {
                sub.task("", || add(&count));
                sub.task("", || add(&count));
            });
            let again = graph.condition("", || {
                laps += 1;
                assert_eq!(get(&count), 2 * laps);
                usize::from(laps == 100)
            });
            start.precede(flow);
            flow.precede(again);
            again.precede(flow);
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!(laps, 100);
        }
    }

    #[test]
    fn dropped_after_the_run_or_kept_until_the_next() {
        let drops = Drops::default();
        let graph = Graph::new();
        let kept = drops.clone();
        let gone = graph.subflow("gone", |sub| {
            let value = drops.value();
            sub.task("a", move || {
                let _ = &value;
            });
        });
        let keep = graph.subflow("kept", move |sub| {
            sub.retain();
            let value = kept.value();
            sub.task("b", move || {
                let _ = &value;
            });
        });
        let (gone, keep) = (gone.index(), keep.index());
        let mut plan = graph.plan().unwrap();
        plan.run().unwrap();
        assert_eq!(drops.seen(), 1);
        assert_eq!(plan.with_inner(gone, |inner| inner.len()), None);
        assert_eq!(plan.with_inner(keep, |inner| inner.len()), Some(1));
        plan.run().unwrap();
        assert_eq!(drops.seen(), 3);
        drop(plan);
        assert_eq!(drops.seen(), 4);
    }

    #[test]
    fn panics_inside_have_both_names_and_stop_the_run() {
        for pool in pools() {
            let (fail, after) = (AtomicBool::new(true), counter());
            let graph = Graph::new();
            let flow = graph.subflow("outer", |sub| {
                sub.subflow("middle", |sub| {
                    let bad = sub.task("bad", || {
                        if fail.load(Ordering::SeqCst) {
                            quiet_panic("no");
                        }
                    });
                    bad.precede(sub.task("next", || add(&after)));
                });
            });
            flow.precede(graph.task("after", || add(&after)));
            let mut plan = graph.plan().unwrap();
            fail.store(true, Ordering::SeqCst);
            let error = plan.run_on(&pool).unwrap_err();
            assert_eq!(error.panics()[0].task(), "outer/middle/bad");
            assert_eq!(get(&after), 0);
            fail.store(false, Ordering::SeqCst);
            assert_eq!(plan.run_on(&pool).unwrap().ran(), 5);
            assert_eq!(get(&after), 2);
        }
    }

    #[test]
    fn one_that_cannot_run_fails_the_run() {
        let graph = Graph::new();
        graph.subflow("flow", |sub| {
            let a = sub.task("a", || ());
            a.precede(a);
        });
        let error = graph.plan().unwrap().run().unwrap_err();
        assert!(!error.is_cancelled());
        let text = error.to_string();
        assert!(
            text.contains("the graph that flow has built: these tasks wait"),
            "{text}"
        );
    }

    /// The memory of a subflow serves the next one, which must not see anything of it.
    #[test]
    fn each_has_a_shape_of_its_own() {
        for pool in pools() {
            let (count, one) = (counter(), Semaphore::new(1));
            let graph = Graph::new();
            let joins = graph.subflow("joins", |sub| {
                let [a, b] = ["a", "b"].map(|name| sub.task(name, || add(&count)));
                sub.task("c", || assert!(get(&count) >= 2)).succeed([a, b]);
            });
            let flat = graph.subflow("flat", |sub| {
                (0..20).for_each(|_| _ = sub.task("", || add(&count)));
            });
            let condition = graph.subflow("condition", |sub| {
                let choice = sub.condition("choice", || 1);
                let [never, chosen] = [(); 2].map(|()| sub.task("", || add(&count)));
                choice.precede([never, chosen]);
            });
            let limited = graph.subflow("limited", |sub| {
                (0..3).for_each(|_| _ = sub.task("", || add(&count)).acquire([&one]));
            });
            let value = graph.subflow("value", |sub| {
                let seven = sub.value("seven", || 7);
                sub.map("use", seven, |seven| assert_eq!(*seven, 7));
            });
            let last = graph.subflow("last", |sub| {
                sub.task("", || ());
                sub.task("", || quiet_panic("no"));
            });
            graph.linearize([joins, flat, condition, limited, value, last]);
            let mut plan = graph.plan().unwrap();
            for run in 1..=3 {
                let error = plan.run_on(&pool).unwrap_err();
                assert_eq!(error.panics()[0].task(), "last/task 2");
                assert_eq!(get(&count), run * (2 + 20 + 1 + 3));
            }
        }
    }

    #[test]
    fn a_destructor_that_panics_does_no_harm_to_the_next_one() {
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                quiet_panic("in a destructor");
            }
        }
        let pool = pool(0);
        let count = counter();
        let graph = Graph::new();
        let bad = graph.subflow("", |sub| {
            let bad = Bad;
            sub.task("", move || _ = &bad);
            sub.task("", || add(&count));
        });
        bad.precede(graph.subflow("", |sub| {
            sub.task("", || add(&count));
        }));
        let mut plan = graph.plan().unwrap();
        for run in 1..=3 {
            assert_eq!(plan.run_on(&pool).unwrap().ran(), 5);
            assert_eq!(get(&count), 2 * run);
        }
    }

    #[test]
    fn an_empty_one() {
        let graph = Graph::new();
        graph.subflow("", |_| ()).precede(graph.task("", || ()));
        assert_eq!(graph.plan().unwrap().run().unwrap().ran(), 2);
    }

    #[test]
    fn launched() {
        within(LIMIT, || {
            for pool in pools() {
                let count = Arc::new(counter());
                let graph = Graph::new();
                let inside = count.clone();
                graph.subflow("", move |sub| {
                    for _ in 0..10 {
                        let count = inside.clone();
                        sub.task("", move || add(&count));
                    }
                });
                assert_eq!(pool.launch(graph.plan().unwrap()).join().unwrap().ran(), 11);
                assert_eq!(get(&count), 10);
            }
        });
    }
}

mod modules {
    use super::*;

    #[test]
    fn a_module_runs_as_a_whole() {
        for pool in pools() {
            let (count, check) = (counter(), counter());
            let inner = Graph::new();
            for _ in 0..10 {
                inner.task("", || add(&count));
            }
            let graph = Graph::new();
            let before = graph.task("before", || assert_eq!(get(&count) % 10, 0));
            let module = graph.module("module", inner.plan().unwrap());
            let number = module.index();
            before.precede(module);
            module.precede(graph.task("after", || {
                assert_eq!(get(&count) % 10, 0);
                add(&check);
            }));
            let mut plan = graph.plan().unwrap();
            for _ in 0..3 {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 13);
            }
            assert_eq!((get(&count), get(&check)), (30, 3));
            assert_eq!(plan.with_inner(number, |inner| inner.len()), Some(10));
        }
    }

    #[test]
    fn modules_a_hundred_thousand_deep_are_dropped_on_the_default_stack() {
        let (drops, count) = (Drops::default(), &counter());
        let kept = drops.value();
        let mut plan = deep_modules(move || {
            let _kept = &kept;
            add(count);
        });
        plan.run_on(&pool(1)).unwrap();
        assert_eq!((get(count), drops.seen()), (1, 0));
        drop(plan);
        assert_eq!(drops.seen(), 1);
    }

    #[test]
    fn a_module_in_a_module_that_panics_once() {
        let fail = AtomicBool::new(true);
        let inner = Graph::new();
        inner.task("bad", || {
            if fail.load(Ordering::SeqCst) {
                quiet_panic("no");
            }
        });
        let middle = Graph::new();
        middle.module("inner", inner.plan().unwrap());
        let graph = Graph::new();
        graph.module("middle", middle.plan().unwrap());
        let mut plan = graph.plan().unwrap();
        let error = plan.run().unwrap_err();
        assert_eq!(error.panics()[0].task(), "middle/inner/bad");
        fail.store(false, Ordering::SeqCst);
        assert_eq!(plan.run().unwrap().ran(), 3);
    }

    #[test]
    fn the_same_template_twice_with_parameters() {
        for pool in pools() {
            let template = TemplateGraph::new();
            let twice = template.task("twice", |n: &AtomicUsize| {
                n.store(2 * get(n), Ordering::SeqCst);
            });
            let more = template.task("more", |n: &AtomicUsize| add(n));
            twice.precede(more);
            let template = template.template().unwrap();
            assert_eq!((template.len(), template.is_empty()), (2, false));

            let (a, b) = (
                Arc::new(AtomicUsize::new(1)),
                Arc::new(AtomicUsize::new(10)),
            );
            let graph = Graph::new();
            let first = graph.module("first", template.instance(a.clone()));
            let second = graph.module("second", template.instance(b.clone()));
            graph.linearize([first, second]);
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!((get(&a), get(&b)), (3, 21));
        }
    }

    /// Each instance has its own values, subflows, modules and futures.
    #[test]
    fn templates_have_all_kinds_of_tasks() {
        type Count = Arc<AtomicUsize>;
        let inner = TemplateGraph::new();
        inner.task("inner", |count: &AtomicUsize| add(count));
        let inner = inner.template().unwrap();
        let graph = TemplateGraph::<Count>::new();
        let first = graph.value("first", |count: &Count| get(count));
        let second = graph.map("second", first, |_| |first: &usize| first + 1);
        let sub = graph.subflow("sub", |count: &Arc<Count>, sub| {
            let count = count.clone();
            sub.task("part", move || add(&count));
            sub.retain();
        });
        let number = sub.index();
        let module = graph.module("module", move |count: &Count| inner.instance(count.clone()));
        let future = graph.future("future", |count: &Arc<Count>| {
            let count = count.clone();
            async move { add(&count) }
        });
        let runtime = graph.runtime("runtime", |count: &Arc<Count>, rt| {
            let count = count.clone();
            rt.spawn(move |_| add(&count));
        });
        let choose = graph.multi_condition("which?", |_| [1, 1]);
        choose.precede([
            graph.task("never", |_| unreachable!()),
            graph.task("last", |count: &Count| add(count)),
        ]);
        graph.linearize([graph.task_of(second), sub, module, future, runtime, choose]);
        assert_eq!((graph.len(), graph.is_empty()), (9, false));
        let template = graph.template().unwrap();
        for pool in pools() {
            let counts = [10, 20].map(|n| Arc::new(AtomicUsize::new(n)));
            let mut plans = counts
                .each_ref()
                .map(|count| template.instance(count.clone()));
            for plan in &mut plans {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 10);
                assert_eq!(plan.with_inner(number, |inner| inner.len()), Some(1));
            }
            let values = plans
                .each_mut()
                .map(|plan| (plan.take(first), plan.take(second)));
            assert_eq!(values, [(Some(10), Some(11)), (Some(20), Some(21))]);
            assert_eq!(counts.map(|count| get(&count)), [15, 25]);
            // An instance can be edited as any plan.
            let [plan, _] = plans;
            let graph = plan.edit();
            graph.remove(graph.get(number).unwrap());
            assert_eq!(graph.len(), 8);
        }
    }

    #[test]
    fn instances_of_a_template_run_at_the_same_time() {
        within(LIMIT, || {
            let meet = Barrier::new(2);
            let template = TemplateGraph::new();
            let laps = template.task("lap", |data: &(usize, AtomicUsize)| {
                if get(&data.1) == 0 {
                    meet.wait();
                }
                add(&data.1);
            });
            let again = template.condition("again", |data: &(usize, AtomicUsize)| {
                usize::from(get(&data.1) == data.0)
            });
            let start = template.task("start", |_| ());
            start.precede(laps);
            laps.precede(again);
            again.precede(laps);
            let template = template.template().unwrap();
            let pool = pool(2);
            thread::scope(|s| {
                for n in [5, 50] {
                    let (template, pool) = (&template, &pool);
                    s.spawn(move || {
                        let data = Arc::new((n, counter()));
                        let mut plan = template.instance(data.clone());
                        plan.run_on(pool).unwrap();
                        assert_eq!(get(&data.1), n);
                    });
                }
            });
            let circle = TemplateGraph::<()>::new();
            let task = circle.task("me", |()| ());
            task.precede(task);
            assert_eq!(circle.template().unwrap_err().cycle_tasks(), ["me"]);
        });
    }
}

mod runtimes {
    use super::*;
    use filch::graph::Runtime;

    fn fibonacci<'env>(rt: &Runtime<'env>, n: usize, sum: &'env AtomicUsize) {
        if n < 2 {
            sum.fetch_add(n, Ordering::SeqCst);
            return;
        }
        rt.spawn(move |rt| fibonacci(rt, n - 1, sum));
        rt.spawn(move |rt| fibonacci(rt, n - 2, sum));
    }

    #[test]
    fn spawned_closures_are_done_before_the_successors() {
        for pool in pools() {
            let sum = counter();
            let graph = Graph::new();
            let spawn = graph.runtime("spawn", |rt| {
                sum.store(0, Ordering::SeqCst);
                fibonacci(rt, 12, &sum);
            });
            spawn.precede(graph.task("after", || assert_eq!(get(&sum), 144)));
            let mut plan = graph.plan().unwrap();
            plan.run_on(&pool).unwrap();
            plan.run_on(&pool).unwrap();
        }
    }

    #[test]
    fn waiting_in_the_middle() {
        within(LIMIT, || {
            for pool in pools() {
                let count = counter();
                let graph = Graph::new();
                for _ in 0..3 {
                    graph.runtime("", |rt| {
                        let mine = Arc::new(counter());
                        for round in 1..=3 {
                            for _ in 0..5 {
                                let (mine, count) = (mine.clone(), &count);
                                rt.spawn(move |_| {
                                    add(&mine);
                                    add(count);
                                });
                            }
                            rt.wait();
                            assert_eq!(get(&mine), 5 * round);
                        }
                        rt.wait();
                        assert!(!rt.is_stopped());
                    });
                }
                let mut plan = graph.plan().unwrap();
                plan.run_on(&pool).unwrap();
                pool.install(|| filch::isolate(|| plan.run())).unwrap();
                assert_eq!(get(&count), 90);
            }
        });
    }

    #[test]
    fn a_panic_of_a_spawned_closure_is_one_of_the_task() {
        for pool in pools() {
            let after = counter();
            let graph = Graph::new();
            let spawn = graph.runtime("spawn", |rt| {
                rt.spawn(|_| quiet_panic("spawned"));
                rt.wait();
                assert!(rt.is_stopped());
                rt.spawn(|_| unreachable!("spawned after the end"));
            });
            spawn.precede(graph.task("", || add(&after)));
            let error = graph.plan().unwrap().run_on(&pool).unwrap_err();
            assert_eq!(error.panics().len(), 1);
            assert_eq!(error.panics()[0].task(), "spawn");
            assert_eq!(get(&after), 0);
        }
    }

    #[test]
    fn from_within_another_pool() {
        within(LIMIT, || {
            let (here, there) = (pool(1), pool(1));
            let count = counter();
            let graph = Graph::new();
            graph.runtime("", |rt| {
                there.install(|| {
                    rt.spawn(|_| add(&count));
                    rt.wait();
                });
                assert_eq!(get(&count), 1);
            });
            graph.plan().unwrap().run_on(&here).unwrap();
        });
    }
}

mod values {
    use super::*;

    #[test]
    fn a_diamond() {
        for pool in pools() {
            let mut seed = 0;
            let graph = Graph::new();
            let top = graph.value("top", || {
                seed += 1;
                seed
            });
            let left = graph.map("left", top, |n: &i32| n * 10);
            let right = graph.map("right", top, |n: &i32| format!("<{n}>"));
            let both = graph.map("both", (left, right.moved()), |l: &i32, r: String| {
                format!("{l}{r}")
            });
            let mut plan = graph.plan().unwrap();
            assert_eq!(plan.take(both), None);
            for round in 1..=3 {
                plan.run_on(&pool).unwrap();
                assert_eq!(plan.peek(both, String::len), Some(5));
                assert_eq!(plan.take(both).unwrap(), format!("{}<{round}>", 10 * round));
                assert_eq!(plan.take(right), None);
                assert_eq!(plan.take(left), Some(10 * round));
            }
        }
    }

    #[test]
    fn eight_inputs_and_more_edges() {
        let graph = Graph::new();
        let [a, b, c, d, e, f, g, h] = [1, 2, 3, 4, 5, 6, 7, 8].map(|n| graph.value("", move || n));
        #[rustfmt::skip]
        let sum = graph.map("sum", (a, b, c, d, e, f, g, h),
            |a: &i32, b: &i32, c: &i32, d: &i32, e: &i32, f: &i32, g: &i32, h: &i32| a + b + c + d + e + f + g + h);
        let seen = AtomicBool::new(false);
        graph
            .task_of(sum)
            .precede(graph.task("", || seen.store(true, Ordering::SeqCst)));
        let mut plan = graph.plan().unwrap();
        plan.run().unwrap();
        assert_eq!(plan.take(sum), Some(36));
        assert!(seen.load(Ordering::SeqCst));
        let graph = plan.edit();
        let more = graph.map("more", sum, |sum: &i32| sum + 1);
        let mut plan = graph.plan().unwrap();
        plan.run().unwrap();
        assert_eq!(plan.take(more), Some(37));
    }

    #[test]
    fn moved_twice_is_an_error() {
        let graph = Graph::new();
        let a = graph.value("a", String::new);
        graph.map("b", a.moved(), |a: String| a);
        graph.map("c", a, |a: &String| a.len());
        let error = graph.plan().unwrap_err();
        assert!(
            error.to_string().contains("the value of a is moved"),
            "{error}"
        );
    }

    #[test]
    fn a_value_that_is_not_there_and_one_of_another_graph() {
        let graph = Graph::new();
        let a = graph.placeholder("start");
        let skip = graph.condition("skip", || 0);
        a.precede(skip);
        let value = graph.value("value", || 1);
        let user = graph.map("user", value, |n: &i32| *n);
        skip.precede([graph.task_of(user), graph.task_of(value)]);
        // The condition leads past the task that makes the value.
        let error = graph.plan().unwrap().run().unwrap_err();
        assert!(
            error.to_string().contains("the value of value is missing"),
            "{error}"
        );

        let (ours, theirs) = (Graph::new(), Graph::new());
        let (mine, other) = (ours.value("", || 1), theirs.value("", || 1));
        assert_eq!(
            panic_of(|| ours.map("", other, |n: &i32| *n)),
            "a value of another graph"
        );
        let mut plan = ours.plan().unwrap();
        assert_eq!(panic_of(|| plan.take(other)), "a value of another graph");
        plan.run().unwrap();
        assert_eq!(plan.take(mine), Some(1));
    }

    #[test]
    fn values_are_dropped_once() {
        let drops = Drops::default();
        let graph = Graph::new();
        let inside = drops.clone();
        let a = graph.value("a", move || inside.value());
        graph.map("b", a, |_: &crate::support::Counted| ());
        let mut plan = graph.plan().unwrap();
        plan.run_n(3).unwrap();
        assert_eq!(drops.seen(), 2);
        drop(plan.take(a));
        assert_eq!(drops.seen(), 3);
        plan.run().unwrap();
        drop(plan);
        assert_eq!(drops.seen(), 4);
    }
}

mod order {
    use super::*;

    #[test]
    fn the_longest_path_first() {
        let alone = pool(0);
        let order = Mutex::new(vec![]);
        let note = |what| order.lock().unwrap().push(what);
        let graph = Graph::new();
        graph.critical_path_first();
        let start = graph.task("start", || ());
        let long = graph.task("long", || note("long"));
        let short = graph.task("short", || note("short"));
        let heavy = graph.task("heavy", || note("heavy")).weight(10);
        start.precede([long, heavy, short]);
        graph.linearize([
            long,
            graph.task("", || note("then")),
            graph.task("", || note("end")),
        ]);
        graph.plan().unwrap().run_on(&alone).unwrap();
        assert_eq!(
            order.into_inner().unwrap(),
            ["heavy", "long", "then", "end", "short"]
        );
    }

    #[test]
    fn priorities_come_before_it_and_choices_keep_their_numbers() {
        let alone = pool(0);
        let order = Mutex::new(vec![]);
        let note = |what| order.lock().unwrap().push(what);
        let graph = Graph::new();
        graph.critical_path_first();
        let urgent = graph.task("urgent", || note("urgent")).priority(5);
        let long = graph.task("long", || note("long"));
        let never = graph.task("never", || note("never")).priority(-1);
        long.precede(graph.task("", || note("end")));
        let start = graph.task("start", || ()).priority(9);
        start.precede([never, urgent, long]);
        let choose = graph.condition("?", || 1);
        choose.succeed(never);
        choose.precede([
            graph.task("", || note("zero")).priority(100),
            graph.task("", || note("one")),
        ]);
        graph.plan().unwrap().run_on(&alone).unwrap();
        let order = order.into_inner().unwrap();
        assert_eq!(order, ["urgent", "long", "end", "never", "one"]);
    }

    /// L is released by H, and M was ready before it: with a lower priority L is last all the same.
    #[test]
    fn priorities_hold_among_all_ready_tasks() {
        let order = Mutex::new(vec![]);
        let note = |what| order.lock().unwrap().push(what);
        let graph = Graph::new();
        let root = graph.task("root", || note("root"));
        let medium = graph.task("M", || note("M")).priority(5);
        let high = graph.task("H", || note("H")).priority(10);
        let low = graph.task("L", || note("L")).priority(1);
        let source = graph.task("S", || note("S")).priority(3);
        root.priority(20).precede([medium, high]);
        high.precede(low);
        graph.condition("?", || 0).priority(4).precede(source);
        let mut plan = graph.plan().unwrap();
        plan.run_on(&pool(0)).unwrap();
        plan.run_with(&RunOptions::new().jobs(1)).unwrap();
        drop(plan);
        let once = ["root", "H", "M", "S", "L"];
        assert_eq!(order.into_inner().unwrap(), [once, once].concat());
    }

    #[test]
    fn the_longest_path_holds_among_all_ready_tasks() {
        let order = Mutex::new(vec![]);
        let order_inside = &order;
        let note = move |what| order_inside.lock().unwrap().push(what);
        let graph = Graph::new();
        graph.critical_path_first();
        let start = graph.task("start", || ());
        let chain = ["a", "b", "c", "d"].map(|name| graph.task(name, move || note(name)));
        graph.linearize(chain);
        let other = ["x", "y", "z"].map(|name| graph.task(name, move || note(name)));
        graph.linearize(other);
        start.precede([chain[0], other[0]]);
        graph.plan().unwrap().run_on(&pool(0)).unwrap();
        let order = order.into_inner().unwrap();
        assert_eq!(order, ["a", "b", "x", "y", "c", "d", "z"]);
    }

    #[test]
    fn ordered_plans_run_on_many_workers_and_stop() {
        for pool in pools() {
            let count = counter();
            let graph = Graph::new();
            let tasks: Vec<_> = (0..500)
                .map(|n| graph.task("", || add(&count)).priority(n % 7))
                .collect();
            for n in 1..500 {
                tasks[n].succeed([tasks[n / 2], tasks[n / 3]]);
            }
            for n in 0..100 {
                graph.task("", || add(&count)).priority(n % 3);
            }
            drop(tasks);
            let mut plan = graph.plan().unwrap();
            for _ in 0..5 {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 600);
            }
            assert_eq!(get(&count), 3_000);
            let cancel = CancelToken::new();
            cancel.cancel();
            let options = RunOptions::new().on(&pool).cancel(&cancel);
            let error = plan.run_with(&options).unwrap_err();
            assert_eq!((error.ran(), error.skipped().count()), (0, 600));
            assert_eq!(plan.run_on(&pool).unwrap().ran(), 600);
        }
    }
}
