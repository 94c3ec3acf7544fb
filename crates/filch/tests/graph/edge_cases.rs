//! Edge cases that were wrong once, each with the smallest graph that shows it.
#![cfg(not(filch_loom))]

use crate::graphs::pools;
use crate::support::{Drops, Flag, LIMIT, Panics, panic_of, pool, quiet_panic, until, within};
use filch::{
    Graph, Pool, Semaphore,
    graph::{SharedPlan, TemplateGraph},
};
use std::{
    future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
};

mod runs {
    use super::*;

    #[test]
    fn a_task_that_was_not_released_waits_for_all_again() {
        for pool in pools() {
            let (chosen, both) = (AtomicUsize::new(9), AtomicUsize::new(0));
            let graph = Graph::new();
            let choose = graph.condition("choose", || chosen.load(Ordering::SeqCst));
            let (left, right) = (graph.task("left", || ()), graph.task("right", || ()));
            choose.precede(right);
            let join = graph.task("both", || {
                both.fetch_add(1, Ordering::SeqCst);
            });
            join.succeed([left, right]);
            let mut plan = graph.plan().unwrap();
            for _ in 0..3 {
                plan.run_on(&pool).unwrap();
                assert_eq!(both.load(Ordering::SeqCst), 0, "right did not run");
            }
            chosen.store(0, Ordering::SeqCst);
            plan.run_on(&pool).unwrap();
            assert_eq!(both.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn nested_subflows_need_no_stack() {
        fn nest<'env>(sub: &Graph<'env>, depth: usize, leaves: &'env AtomicUsize) {
            if depth == 0 {
                sub.task("leaf", || {
                    leaves.fetch_add(1, Ordering::SeqCst);
                });
            } else {
                sub.subflow("nest", move |sub| nest(sub, depth - 1, leaves));
            }
        }
        within(LIMIT, || {
            for pool in [pool(0), pool(1), pool(2)] {
                let leaves = AtomicUsize::new(0);
                let graph = Graph::new();
                nest(&graph, 30_000, &leaves);
                assert_eq!(graph.plan().unwrap().run_on(&pool).unwrap().ran(), 30_001);
                assert_eq!(leaves.load(Ordering::SeqCst), 1);
            }
        });
    }

    #[test]
    fn a_closure_has_returned_before_it_is_called_again() {
        // The graph inside the task ends on another worker before the closure has returned. Only an
        // alias checker sees that directly; a wrong number of laps may show it too.
        for pool in [pool(1), pool(2), pool(4)] {
            let (laps, inside, polls) = (
                AtomicUsize::new(0),
                AtomicUsize::new(0),
                AtomicUsize::new(0),
            );
            let (mut own, mut polled) = (0, 0);
            let graph = Graph::new();
            let start = graph.task("start", || ());
            let flow = graph.subflow("flow", |sub| {
                own += 1;
                inside.store(own, Ordering::SeqCst);
                sub.task("", thread::yield_now);
                sub.task("", || ());
            });
            let future = graph.future("future", || {
                polled += 1;
                polls.store(polled, Ordering::SeqCst);
                let mut first = true;
                future::poll_fn(move |cx| {
                    if std::mem::take(&mut first) {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
            });
            let again = graph.condition("again?", || {
                usize::from(laps.fetch_add(1, Ordering::SeqCst) == 999)
            });
            graph.linearize([start, flow, future, again]);
            again.precede(flow);
            graph.plan().unwrap().run_on(&pool).unwrap();
            assert_eq!(inside.load(Ordering::SeqCst), 1000);
            assert_eq!(polls.load(Ordering::SeqCst), 1000);
        }
    }

    #[test]
    fn runs_before_one_that_fails_count() {
        let runs = AtomicUsize::new(0);
        let graph = Graph::new();
        graph.task("third time", || {
            if runs.fetch_add(1, Ordering::SeqCst) == 2 {
                quiet_panic("three");
            }
        });
        let mut plan = graph.plan().unwrap();
        assert_eq!(plan.run_n(9).unwrap_err().ran(), 2);
        runs.store(0, Ordering::SeqCst);
        assert_eq!(plan.run_until(|| false).unwrap_err().ran(), 2);
    }

    #[test]
    fn all_invalid_subflows_are_reported() {
        for pool in pools() {
            let (one, two) = (AtomicBool::new(false), AtomicBool::new(false));
            let meet = |mine: &AtomicBool, other: &AtomicBool| {
                mine.store(true, Ordering::SeqCst);
                let both = || pool.workers() < 2 || other.load(Ordering::SeqCst);
                until("both build", both);
            };
            let graph = Graph::new();
            for (name, mine, other) in [("one", &one, &two), ("two", &two, &one)] {
                let meet = &meet;
                graph.subflow(name, move |sub| {
                    meet(mine, other);
                    let task = sub.task("self", || ());
                    task.precede(task);
                });
            }
            let told = graph.plan().unwrap().run_on(&pool).unwrap_err().to_string();
            assert!(told.contains("one") || told.contains("two"), "{told}");
            if pool.workers() >= 2 {
                assert!(told.contains("one") && told.contains("two"), "{told}");
            }
        }
    }
}

mod launched {
    use super::*;

    #[test]
    fn more_threads_join_than_there_are_guest_indices() {
        within(LIMIT, || {
            let (pool, go) = (pool(2), Flag::default());
            let joins: Vec<_> = (0..48)
                .map(|_| {
                    let (graph, go) = (Graph::new(), go.clone());
                    graph.future("wait", move || {
                        let go = go.clone();
                        future::poll_fn(move |cx| {
                            if go.is_set() {
                                return Poll::Ready(());
                            }
                            let waker = cx.waker().clone();
                            let go = go.clone();
                            thread::spawn(move || {
                                go.wait("go");
                                waker.wake();
                            });
                            Poll::Pending
                        })
                    });
                    let run = pool.launch(graph.plan().unwrap());
                    thread::spawn(move || run.join().unwrap())
                })
                .collect();
            // They are asleep by then, most likely. In both cases they must return.
            thread::sleep(std::time::Duration::from_millis(100));
            go.set();
            for join in joins {
                assert_eq!(join.join().unwrap().ran(), 1);
            }
        });
    }

    #[test]
    fn closures_that_panic_when_they_are_dropped() {
        within(LIMIT, || {
            for workers in [0, 1, 2] {
                let (told, drops) = (Panics::default(), Drops::default());
                let pool = told.pool(workers);
                let graph = Graph::new();
                let bomb = drops.bomb("dropped");
                graph.task("", move || {
                    let _ = &bomb;
                });
                assert_eq!(pool.launch(graph.plan().unwrap()).join().unwrap().ran(), 1);
                assert_eq!(told.take(), ["dropped"]);
            }
        });
    }

    #[test]
    fn payloads_that_panic_when_they_are_discarded() {
        within(LIMIT, || {
            for workers in [1, 2] {
                let (told, drops) = (Panics::default(), Drops::default());
                let pool = told.pool(workers);
                let plan = || {
                    let graph = Graph::new();
                    let begun = Arc::new(AtomicUsize::new(0));
                    for _ in 0..2 {
                        let (drops, begun) = (drops.clone(), begun.clone());
                        graph.task("", move || {
                            begun.fetch_add(1, Ordering::SeqCst);
                            let both = || workers == 1 || begun.load(Ordering::SeqCst) == 2;
                            until("both have begun", both);
                            std::panic::resume_unwind(Box::new(drops.bomb("payload")))
                        });
                    }
                    graph.plan().unwrap()
                };
                // Dropped before the end, after it, and when a callback has seen the result.
                drop(pool.launch(plan()));
                until("the first end", || drops.seen() == workers);
                let late = pool.launch(plan());
                until("the end", || late.is_finished());
                drop(late);
                until("the second end", || drops.seen() == 2 * workers);
                assert_eq!(told.take().len(), 2 * workers);
                let seen = pool.launch(plan());
                seen.on_done(|result| assert!(result.is_err()));
                drop(seen);
                pool.shutdown();
                assert_eq!((told.take().len(), drops.seen()), (0, 3 * workers));
            }
        });
    }

    #[test]
    fn when_it_is_joined_the_plan_is_back() {
        within(LIMIT, || {
            let pool = pool(2);
            for _ in 0..2000 {
                let share = Arc::new(());
                let (graph, inside) = (Graph::new(), share.clone());
                graph.task("", move || {
                    let _ = &inside;
                });
                let plan = SharedPlan::from(graph.plan().unwrap());
                pool.launch(&plan).join().unwrap();
                let plan = plan.into_plan().expect("there is no other share");
                pool.launch(plan).join().unwrap();
                assert_eq!(Arc::strong_count(&share), 1);
            }
        });
    }

    #[test]
    fn joined_where_waits_run_only_what_is_queued_there() {
        within(LIMIT, || {
            for workers in [0, 1, 2] {
                let (pool, count) = (pool(workers), Arc::new(AtomicUsize::new(0)));
                let plan = || {
                    let graph = Graph::new();
                    for _ in 0..20 {
                        let count = count.clone();
                        let first = graph.task("", || ());
                        first.precede(graph.task("", move || {
                            count.fetch_add(1, Ordering::SeqCst);
                        }));
                    }
                    graph.plan().unwrap()
                };
                pool.install(|| {
                    filch::isolate(|| pool.launch(plan()).join().unwrap());
                    let run = pool.launch(plan());
                    filch::isolate(|| run.join().unwrap());
                });
                let (inner, other) = (pool.clone(), plan());
                let task = pool.submit(move || {
                    let run = inner.launch(other);
                    filch::isolate(|| run.join().unwrap());
                });
                task.join().unwrap();
                assert_eq!(count.load(Ordering::SeqCst), 60);
            }
        });
    }

    #[test]
    fn joined_deep_down_in_the_stack() {
        fn launch(pool: &Pool, depth: usize) {
            let (graph, inside) = (Graph::new(), pool.clone());
            graph.task("", move || {
                if depth > 0 {
                    launch(&inside, depth - 1);
                }
            });
            assert_eq!(pool.launch(graph.plan().unwrap()).join().unwrap().ran(), 1);
        }
        /// Calls `f` with `bytes` bytes of the stack in use below `top`.
        #[inline(never)]
        fn down(top: usize, bytes: usize, f: &dyn Fn()) {
            let room = std::hint::black_box([0_u8; 1 << 10]);
            if top.saturating_sub((&raw const room).addr()) < bytes {
                down(top, bytes, f);
            } else {
                f();
            }
            std::hint::black_box(&room);
        }
        within(LIMIT, || {
            // From where half of the stack is used on, a wait runs only what was queued in it.
            let builder = Pool::builder().workers(1).stack_size(8 << 20);
            let (pool, done) = (builder.build().unwrap(), Flag::default());
            let (inside, set) = (pool.clone(), done.clone());
            pool.spawn(move || {
                let top = (&raw const inside).addr();
                down(top, 5 << 20, &|| launch(&inside, 3));
                set.set();
            });
            done.wait("the outermost one");
        });
    }

    #[test]
    fn no_callback_is_lost() {
        let pool = pool(1);
        for _ in 0..200 {
            let graph = Graph::new();
            graph.task("", || ());
            let run = Arc::new(pool.launch(graph.plan().unwrap()));
            until("done", || run.is_finished());
            let told = Arc::new(AtomicUsize::new(0));
            let inside = (run.clone(), told.clone());
            run.on_done(move |_| {
                let (run, told) = inside;
                told.fetch_add(1, Ordering::SeqCst);
                run.on_done(move |_| {
                    told.fetch_add(1, Ordering::SeqCst);
                });
            });
            let more: Vec<_> = (0..4)
                .map(|_| {
                    let (run, told) = (run.clone(), told.clone());
                    thread::spawn(move || {
                        run.on_done(move |result| {
                            assert!(result.is_ok());
                            told.fetch_add(1, Ordering::SeqCst);
                        });
                    })
                })
                .collect();
            more.into_iter().for_each(|thread| thread.join().unwrap());
            until("all are notified", || told.load(Ordering::SeqCst) == 6);
        }
    }
}

mod futures {
    use super::*;

    #[test]
    fn one_that_wakes_itself_lets_others_run() {
        within(LIMIT, || {
            let (alone, done) = (pool(1), Arc::new(AtomicBool::new(false)));
            let plan = || {
                let graph = Graph::new();
                let seen = done.clone();
                graph.future("ask again", move || {
                    let seen = seen.clone();
                    future::poll_fn(move |cx| {
                        if seen.load(Ordering::SeqCst) {
                            return Poll::Ready(());
                        }
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    })
                });
                let set = done.clone();
                graph.task("answer", move || set.store(true, Ordering::SeqCst));
                graph.plan().unwrap()
            };
            plan().run_on(&pool(0)).unwrap();
            // This thread must not help.
            done.store(false, Ordering::SeqCst);
            let run = alone.launch(plan());
            until("a launched run", || run.is_finished());
            done.store(false, Ordering::SeqCst);
            let (mut plan, over) = (plan(), Flag::default());
            let inside = over.clone();
            alone.spawn(move || {
                plan.run().unwrap();
                inside.set();
            });
            over.wait("a run inside a task");
        });
    }

    #[test]
    fn one_that_panics_and_panics_again_when_it_is_dropped() {
        struct Twice;
        impl Drop for Twice {
            fn drop(&mut self) {
                quiet_panic("dropped");
            }
        }
        impl Future for Twice {
            type Output = ();
            fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<()> {
                quiet_panic("polled")
            }
        }
        for pool in pools() {
            let graph = Graph::new();
            graph.future("twice", || Twice);
            let error = graph.plan().unwrap().run_on(&pool).unwrap_err();
            assert_eq!(error.panics()[0].to_string(), "twice panicked: polled");
        }
    }
}

mod semaphores {
    use super::*;

    #[test]
    fn runs_that_are_cancelled_while_they_wait_leave_nothing_there() {
        within(LIMIT, || {
            let (pool, one, go) = (pool(2), Semaphore::new(1), Flag::default());
            let plan = |work: Box<dyn FnMut() + Send>| {
                let graph = Graph::new();
                graph.task("", work).acquire([&one]);
                graph.plan().unwrap()
            };
            let waits = go.clone();
            let holder = pool.launch(plan(Box::new(move || waits.wait("the end"))));
            until("it is held", || one.available() == 0);
            for _ in 0..1000 {
                let run = pool.launch(plan(Box::new(|| unreachable!())));
                until("it waits", || one.waiting() == 1);
                run.cancel();
                assert!(run.join().unwrap_err().is_cancelled());
                assert_eq!(one.waiting(), 0);
            }
            go.set();
            holder.join().unwrap();
        });
    }

    #[test]
    fn a_template_keeps_them_when_an_instance_is_edited() {
        let (one, running) = (Semaphore::new(1), AtomicUsize::new(0));
        let graph = TemplateGraph::new();
        for _ in 0..20 {
            let task = graph.task("", |running: &&AtomicUsize| {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            });
            task.acquire([&one]);
        }
        let template = graph.template().unwrap();
        let instance = template.instance(&running);
        assert_eq!(instance.describe().limits[0].permits, 1);
        let mut edited = instance.edit().plan().unwrap();
        for _ in 0..20 {
            edited.run_on(&pool(4)).unwrap();
        }
    }
}

mod templates {
    use super::*;

    #[test]
    fn work_and_choices_of_a_template_task_cannot_be_replaced() {
        for pool in pools() {
            let graph = TemplateGraph::new();
            let first = graph.task("first", |_: &AtomicUsize| ());
            let message = "a task of a template has the work that it was added with";
            let refused = |set: &dyn Fn()| assert!(panic_of(set).starts_with(message));
            refused(&|| _ = first.work(|| unreachable!()));
            refused(&|| _ = first.choose(|| 7));
            first.precede(graph.task("after", |count: &AtomicUsize| {
                count.fetch_add(1, Ordering::SeqCst);
            }));
            let choose = graph.condition("choose", |_| 1);
            refused(&|| _ = choose.work(|| unreachable!()));
            choose.precede(graph.task("not chosen", |_| unreachable!()));
            let number = choose.index();
            let template = graph.template().unwrap();
            let count = Arc::new(AtomicUsize::new(0));
            let mut plan = template.instance(count.clone());
            for _ in 0..3 {
                assert_eq!(plan.run_on(&pool).unwrap().ran(), 3);
            }
            plan.record(true);
            assert_eq!(plan.run_on(&pool).unwrap().ran(), 3);
            assert_eq!(count.load(Ordering::SeqCst), 4);
            // An instance is a graph as any other.
            let edited = template.instance(count).edit();
            edited.get(number).unwrap().choose(|| 9);
            assert_eq!(edited.plan().unwrap().run_on(&pool).unwrap().ran(), 3);
        }
    }
}

mod values {
    use super::*;

    #[test]
    fn values_of_the_run_before_are_gone() {
        for pool in pools() {
            let (fails, chosen) = (AtomicBool::new(false), AtomicUsize::new(0));
            let graph = Graph::new();
            let before = graph.task("before", || {
                if fails.load(Ordering::SeqCst) {
                    quiet_panic("before");
                }
            });
            let choose = graph.condition("choose", || chosen.load(Ordering::SeqCst));
            choose.succeed(before);
            let value = graph.value("value", || 7);
            choose.precede(graph.task_of(value));
            let mut plan = graph.plan().unwrap();
            plan.run_on(&pool).unwrap();
            assert_eq!(plan.peek(value, |n| *n), Some(7));
            chosen.store(9, Ordering::SeqCst);
            plan.run_on(&pool).unwrap();
            assert_eq!(plan.take(value), None, "it was not chosen");
            chosen.store(0, Ordering::SeqCst);
            plan.run_on(&pool).unwrap();
            fails.store(true, Ordering::SeqCst);
            plan.run_on(&pool).unwrap_err();
            assert_eq!(plan.take(value), None, "the run had failed before");
        }
    }

    #[test]
    fn a_value_that_is_replaced_while_it_is_used_is_an_error() {
        within(LIMIT, || {
            for pool in [pool(0), pool(1)] {
                let laps = Mutex::new(0);
                let graph = Graph::new();
                let start = graph.task("start", || ());
                let value = graph.value("value", || 1);
                let task = graph.task_of(value);
                task.succeed(start);
                let again = graph.condition("again?", || {
                    let mut laps = laps.lock().unwrap();
                    *laps += 1;
                    usize::from(*laps > 3)
                });
                again.succeed(task);
                again.precede(task);
                // While it waits it runs other tasks, and so the loop, which replaces the value.
                graph.map("use", value, |n: &i32| {
                    for _ in 0..10 {
                        filch::join(thread::yield_now, thread::yield_now);
                        filch::yield_now();
                    }
                    *n
                });
                let result = graph.plan().unwrap().run_on(&pool);
                if pool.workers() == 0 {
                    let told = result.unwrap_err().to_string();
                    assert!(told.contains("replaced while it is used"), "{told}");
                }
            }
        });
    }
}

mod checks {
    use super::*;

    #[test]
    fn a_successor_of_an_unreachable_task_is_unreachable() {
        let graph = Graph::new();
        let (start, never) = (graph.task("start", || ()), graph.condition("never", || 0));
        never.precede(never);
        let left = graph.task("left", || ());
        never.precede(left);
        graph.task("join", || ()).succeed([start, left]);
        let plan = graph.plan().unwrap();
        let told: Vec<_> = plan.unreachable().collect();
        assert_eq!(told, ["never", "left", "join"]);
    }

    #[test]
    fn a_module_whose_work_is_replaced_is_dropped() {
        let inner = Graph::new();
        let drops = Drops::default();
        let value = drops.value();
        inner.task("inner", move || {
            let _ = &value;
        });
        let graph = Graph::new();
        let task = graph.module("module", inner.plan().unwrap());
        task.work(|| ());
        assert_eq!(drops.seen(), 1);
        let number = task.index();
        let plan = graph.plan().unwrap();
        assert_eq!(plan.with_inner(number, |inner| inner.len()), None);
    }
}

/// Sources that a worker takes together run before the successors of the first one that
/// are queued.
#[test]
fn sources_run_in_their_order() {
    let alone = Pool::builder().workers(0).build().unwrap();
    let (order, others) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let graph = Graph::new();
    // Enough for blocks of several. How long those are depends on how long the sources take, so
    // what a source releases may run before the next source or after it.
    for number in 0..64 {
        let (order, others) = (&order, &others);
        let source = graph.task("", move || order.lock().unwrap().push(number));
        let other = || {
            graph.task("", move || {
                others.fetch_add(1, Ordering::Relaxed);
            })
        };
        source.precede([other(), other()]);
    }
    graph.plan().unwrap().run_on(&alone).unwrap();
    assert!(order.into_inner().unwrap().into_iter().eq(0..64));
    assert_eq!(others.into_inner(), 2 * 64);
}

/// A task that yields continues after one strand, though more of the same graph is queued.
#[test]
fn a_task_that_yields_lets_one_strand_run() {
    let alone = Pool::builder().workers(0).build().unwrap();
    let (ran, meanwhile) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let graph = Graph::new();
    let source = graph.task("source", || ());
    for _ in 0..40 {
        source.precede(graph.task("", || {
            ran.fetch_add(1, Ordering::Relaxed);
        }));
    }
    // The last one comes first.
    source.precede(graph.task("yields", || {
        filch::yield_now();
        meanwhile.store(ran.load(Ordering::Relaxed), Ordering::Relaxed);
    }));
    graph.plan().unwrap().run_on(&alone).unwrap();
    assert_eq!(ran.into_inner(), 40);
    assert!(meanwhile.into_inner() <= 1, "it waited for a whole graph");
}
