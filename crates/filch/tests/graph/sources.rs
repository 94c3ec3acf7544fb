//! What a worker has taken of a graph and not begun: other workers, and waits that help, reach it.

use crate::support::{Flag, LIMIT, add, counter, get, pool, quiet_panic, until, within};
use filch::{Graph, Pool, graph::Pipeline};
use std::{
    sync::{Arc, atomic::AtomicUsize},
    thread,
};

/// More than a worker takes at once.
const TASKS: usize = 2048;

/// How a task waits until all others have run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// filch does not know of it: the worker is lost until it is over.
    Blocked,
    /// The worker runs other tasks meanwhile.
    Yields,
    /// The worker joins a submitted task, which yields.
    Joins,
    /// The worker waits for both sides of a join, of which one yields.
    Forks,
}

/// Tasks that count themselves. One of them waits until all others have.
#[derive(Default)]
struct Crowd {
    count: AtomicUsize,
    waited: AtomicUsize,
}

impl Crowd {
    fn task(&self, waits: Option<Wait>, all: usize) {
        let others = || get(&self.count) == all - 1;
        let yields = || {
            while !others() {
                if !filch::yield_now() {
                    thread::yield_now();
                }
            }
        };
        match waits {
            None => return add(&self.count),
            Some(Wait::Blocked) => until("the others have run", others),
            Some(Wait::Yields) => yields(),
            Some(Wait::Joins) => filch::scope(|s| s.spawn(|_| yields())),
            Some(Wait::Forks) => drop(filch::join(|| (), yields)),
        }
        add(&self.waited);
    }

    fn check(&self, all: usize) {
        assert_eq!((get(&self.count), get(&self.waited)), (all - 1, 1));
    }
}

/// Adds tasks without predecessors, of which number `which` waits for all others.
fn add_crowd<'env>(graph: &Graph<'env>, crowd: &'env Crowd, which: usize, wait: Wait) {
    for number in 0..TASKS {
        let waits = (number == which).then_some(wait);
        graph.task("", move || crowd.task(waits, TASKS));
    }
}

#[test]
fn one_source_waits_for_all_others() {
    within(LIMIT, || {
        for workers in [1, 2, 4] {
            let pool = pool(workers);
            for which in [0, 1, 100, 1000, TASKS - 1] {
                for wait in [Wait::Blocked, Wait::Yields, Wait::Joins, Wait::Forks] {
                    let crowd = Crowd::default();
                    let graph = Graph::new();
                    add_crowd(&graph, &crowd, which, wait);
                    graph.plan().unwrap().run_on(&pool).unwrap();
                    crowd.check(TASKS);
                }
            }
        }
    });
}

#[test]
fn one_source_of_an_ordered_plan_waits_for_all_others() {
    within(LIMIT, || {
        for workers in [1, 2] {
            let pool = pool(workers);
            for which in [0, 100] {
                let crowd = Crowd::default();
                let graph = Graph::new();
                add_crowd(&graph, &crowd, which, Wait::Blocked);
                graph.get(which as u32 + 1).unwrap().priority(7);
                graph.plan().unwrap().run_on(&pool).unwrap();
                crowd.check(TASKS);
            }
        }
    });
}

/// Where there is one thread, only waits that help can be waited for.
#[test]
fn one_source_helps_on_the_only_thread() {
    within(LIMIT, || {
        for which in [0, 1, 100, 1000, TASKS - 1] {
            for wait in [Wait::Yields, Wait::Joins, Wait::Forks] {
                let run = |pool: &Pool, inside: bool| {
                    let crowd = Crowd::default();
                    let graph = Graph::new();
                    add_crowd(&graph, &crowd, which, wait);
                    let mut plan = graph.plan().unwrap();
                    let ran = match inside {
                        true => pool.on_worker(|| plan.run()),
                        false => plan.run_on(pool),
                    };
                    ran.unwrap();
                    crowd.check(TASKS);
                };
                run(&pool(0), false);
                run(&pool(1), true);
            }
        }
    });
}

#[test]
fn one_source_of_a_subflow_waits_for_all_others() {
    within(LIMIT, || {
        for workers in [1, 2, 4] {
            let pool = pool(workers);
            for which in [0, 100, TASKS - 1] {
                for wait in [Wait::Blocked, Wait::Yields] {
                    let crowd = Crowd::default();
                    let graph = Graph::new();
                    let shared = &crowd;
                    graph.subflow("flow", move |flow| {
                        for number in 0..TASKS {
                            let waits = (number == which).then_some(wait);
                            flow.task("", move || shared.task(waits, TASKS));
                        }
                    });
                    graph.plan().unwrap().run_on(&pool).unwrap();
                    crowd.check(TASKS);
                }
            }
        }
    });
}

#[test]
fn one_source_of_a_launched_plan_waits_for_all_others() {
    within(LIMIT, || {
        for (workers, wait) in [(2, Wait::Blocked), (1, Wait::Yields), (4, Wait::Blocked)] {
            let (pool, crowd) = (pool(workers), Arc::new(Crowd::default()));
            let graph = Graph::new();
            for number in 0..TASKS {
                let (waits, crowd) = ((number == 3).then_some(wait), crowd.clone());
                graph.task("", move || crowd.task(waits, TASKS));
            }
            pool.launch(graph.plan().unwrap()).join().unwrap();
            crowd.check(TASKS);
        }
    });
}

/// One blocked source for each worker but one: what each of them has taken is reached all the same.
#[test]
fn several_sources_wait_at_the_same_time() {
    within(LIMIT, || {
        for workers in [2, 4] {
            let pool = pool(workers);
            for distance in [1, 7, 300] {
                let (count, waiters) = (counter(), workers);
                let graph = Graph::new();
                for number in 0..TASKS {
                    let waits = number % distance == 0 && number / distance < waiters;
                    let count = &count;
                    graph.task("", move || match waits {
                        true => until("the others have run", || get(count) == TASKS - waiters),
                        false => add(count),
                    });
                }
                graph.plan().unwrap().run_on(&pool).unwrap();
            }
        }
    });
}

/// Two neighbours in the list of sources run at the same time.
#[test]
fn sources_that_were_taken_together_run_side_by_side() {
    within(LIMIT, || {
        let pool = pool(1);
        for (first, ordered) in [(0, false), (1, false), (0, true), (1, true), (200, false)] {
            let met = counter();
            let graph = Graph::new();
            for number in 0..1024 {
                let met = [first, first + 1].contains(&number).then_some(&met);
                let task = graph.task("", move || {
                    if let Some(met) = met {
                        add(met);
                        until("the other one has started", || get(met) == 2);
                    }
                });
                if ordered && number < 64 {
                    task.priority(1);
                }
            }
            graph.plan().unwrap().run_on(&pool).unwrap();
        }
    });
}

#[test]
fn a_panic_ends_a_run_whose_sources_were_split() {
    within(LIMIT, || {
        for workers in [1, 2, 4] {
            let pool = pool(workers);
            for special in [false, true] {
                let ran = counter();
                let graph = Graph::new();
                for number in 0..TASKS {
                    let ran = &ran;
                    graph.task("", move || {
                        if number == 700 {
                            quiet_panic("planned");
                        }
                        add(ran);
                    });
                }
                if special {
                    graph.runtime("", |_| ());
                }
                let mut plan = graph.plan().unwrap();
                for _ in 0..3 {
                    let error = plan.run_on(&pool).unwrap_err();
                    assert_eq!(error.panics().len(), 1);
                }
            }
        }
    });
}

/// A thread from outside that works for a pool until `over`.
fn helper<R>(pool: &Pool, over: &Flag, f: impl FnOnce() -> R) -> R {
    let there = Flag::default();
    thread::scope(|s| {
        s.spawn(|| {
            pool.install(|| {
                there.set();
                while !over.is_set() {
                    if !filch::yield_now() {
                        thread::yield_now();
                    }
                }
            });
        });
        there.wait("the helper is there");
        let result = f();
        over.set();
        result
    })
}

/// A guest that helps with a run which it does not wait for keeps no sources to itself.
#[test]
fn a_guest_hides_no_sources() {
    within(LIMIT, || {
        for isolated in [false, true] {
            let (pool, over) = (pool(0), Flag::default());
            helper(&pool, &over, || {
                let (count, here) = (counter(), thread::current().id());
                let blocked = Flag::default();
                let graph = Graph::new();
                for _ in 0..TASKS {
                    let (count, blocked) = (&count, blocked.clone());
                    graph.task("", move || {
                        // The owner of the run leaves some to the guest.
                        if thread::current().id() == here {
                            blocked.wait("the guest has taken a source");
                        } else if !blocked.is_set() {
                            blocked.set();
                            until("the others have run", || get(count) == TASKS - 1);
                        }
                        add(count);
                    });
                }
                let mut plan = graph.plan().unwrap();
                let ran = match isolated {
                    true => pool.install(|| filch::isolate(|| plan.run())),
                    false => plan.run_on(&pool),
                };
                ran.unwrap();
            });
        }
    });
}

/// Nor does it keep the successors that it has released.
#[test]
fn a_guest_hides_no_successors() {
    within(LIMIT, || {
        for isolated in [false, true] {
            let (pool, over) = (pool(0), Flag::default());
            helper(&pool, &over, || {
                let (count, here) = (counter(), thread::current().id());
                let taken = Flag::default();
                let graph = Graph::new();
                // The owner waits in one source until the guest has begun another one.
                let first = |_| {
                    let taken = taken.clone();
                    graph.task("", move || match thread::current().id() == here {
                        true => taken.wait("the guest has taken a source"),
                        false => taken.set(),
                    })
                };
                for first in [(); 2].map(first) {
                    let last: Vec<_> = (0..10)
                        .map(|_| {
                            let count = &count;
                            graph.task("", move || {
                                add(count);
                                // The guest's first one waits for all others.
                                if thread::current().id() != here {
                                    until("the others have run", || get(count) == 20);
                                }
                            })
                        })
                        .collect();
                    first.precede(last);
                }
                let mut plan = graph.plan().unwrap();
                let ran = match isolated {
                    true => pool.install(|| filch::isolate(|| plan.run())),
                    false => plan.run_on(&pool),
                };
                ran.unwrap();
            });
        }
    });
}

/// Thieves leave narrow plans alone as long as their tasks are short, and no longer.
#[test]
fn a_task_of_a_narrow_plan_waits_for_its_siblings() {
    within(LIMIT, || {
        let pool = pool(1);
        for stage in [0, 1, 50] {
            let count = counter();
            let graph = Graph::new();
            let mut before: Vec<filch::graph::Task<'_, '_>> = Vec::new();
            for number in 0..100 {
                let tasks: Vec<_> = (0..10)
                    .map(|task| {
                        let count = &count;
                        graph.task("", move || match number == stage && task == 5 {
                            true => until("its siblings have run", || get(count) == 9),
                            false if number == stage => add(count),
                            false => (),
                        })
                    })
                    .collect();
                for task in &before {
                    task.precede(tasks.iter().copied());
                }
                before = tasks;
            }
            graph.plan().unwrap().run_on(&pool).unwrap();
        }
    });
}

/// A guest that carries a token of a pipeline leaves the next one to all workers, not to the owner
/// of the run alone.
#[test]
fn a_guest_hides_no_tokens() {
    within(LIMIT, || {
        for isolated in [false, true] {
            let (pool, over) = (pool(0), Flag::default());
            helper(&pool, &over, || {
                let here = thread::current().id();
                let (taken, through) = (Flag::default(), Arc::new(counter()));
                let (taken_too, through_too) = (taken.clone(), through.clone());
                // The owner carries the first token, until the guest has carried some others.
                let mut pipeline = Pipeline::new(|flow| (flow.token() < 100).then(|| flow.token()))
                    .parallel(move |token| {
                        if thread::current().id() == here && !taken.is_set() {
                            taken.wait("the guest has a token");
                        } else if thread::current().id() != here && !taken.is_set() {
                            taken.set();
                        }
                        token
                    })
                    .serial(move |_| add(&through));
                let ran = match isolated {
                    true => pool.install(|| filch::isolate(|| pipeline.run(8))),
                    false => pipeline.run_on(&pool, 8),
                };
                assert_eq!(ran.unwrap().tokens(), 100);
                assert!(taken_too.is_set());
                assert_eq!(get(&through_too), 100);
            });
        }
    });
}
