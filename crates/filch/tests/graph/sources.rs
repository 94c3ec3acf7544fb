//! Tasks that a worker has taken and not started: other workers, and waits that run other tasks,
//! reach them.

use crate::support::{Flag, LIMIT, add, counter, get, pool, quiet_panic, until, within};
use filch::{
    Graph, Plan, Pool,
    graph::{Pipeline, RunError, RunReport},
};
use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicUsize},
    thread,
};

/// More than a worker takes at once.
const TASKS: usize = 2048;

/// How a task waits until all others have run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// filch does not know of it: the worker is blocked until it is over.
    Blocked,
    /// The worker runs other tasks meanwhile.
    Yields,
    /// The worker joins a submitted task, which yields.
    Joins,
    /// The worker waits for both sides of a join, of which one yields.
    Forks,
}

/// Calls `f` on pools with these numbers of workers.
fn on_pools(workers: &'static [usize], f: impl Fn(&Pool) + Send + 'static) {
    within(LIMIT, move || {
        workers.iter().for_each(|&workers| f(&pool(workers)));
    });
}

/// Runs other tasks until `over` returns true.
fn yield_until(over: impl Fn() -> bool) {
    while !over() {
        if !filch::yield_now() {
            thread::yield_now();
        }
    }
}

/// Tasks that count themselves. One of them waits until all others have.
#[derive(Default)]
struct Crowd {
    count: AtomicUsize,
    waited: AtomicUsize,
}

impl Crowd {
    fn task(&self, waits: Option<Wait>) {
        let others = || get(&self.count) == TASKS - 1;
        match waits {
            None => return add(&self.count),
            Some(Wait::Blocked) => until("the others have run", others),
            Some(Wait::Yields) => yield_until(others),
            Some(Wait::Joins) => filch::scope(|s| s.spawn(|_| yield_until(others))),
            Some(Wait::Forks) => drop(filch::join(|| (), || yield_until(others))),
        }
        add(&self.waited);
    }

    /// Adds the tasks, all of them without predecessors. Number `which` waits for all others.
    fn add_to<'env, C>(crowd: C, graph: &Graph<'env>, which: usize, wait: Wait)
    where
        C: Deref<Target = Self> + Clone + Send + 'env,
    {
        for number in 0..TASKS {
            let (waits, crowd) = ((number == which).then_some(wait), crowd.clone());
            graph.task("", move || crowd.task(waits));
        }
    }

    fn check(&self) {
        assert_eq!((get(&self.count), get(&self.waited)), (TASKS - 1, 1));
    }

    /// Calls `run` with a plan of the tasks.
    fn run<E: std::fmt::Debug>(
        which: usize,
        wait: Wait,
        run: impl FnOnce(Graph<'_>) -> Result<RunReport, E>,
    ) {
        let crowd = Self::default();
        let graph = Graph::new();
        Self::add_to(&crowd, &graph, which, wait);
        run(graph).unwrap();
        crowd.check();
    }
}

#[test]
fn one_source_waits_for_all_others() {
    on_pools(&[1, 2, 4], |pool| {
        for which in [0, 1, 100, 1000, TASKS - 1] {
            for wait in [Wait::Blocked, Wait::Yields, Wait::Joins, Wait::Forks] {
                Crowd::run(which, wait, |graph| graph.plan().unwrap().run_on(pool));
            }
        }
    });
}

#[test]
fn one_source_of_an_ordered_plan_waits_for_all_others() {
    on_pools(&[1, 2], |pool| {
        for which in [0, 100] {
            Crowd::run(which, Wait::Blocked, |graph| {
                graph.get(which as u32 + 1).unwrap().priority(7);
                graph.plan().unwrap().run_on(pool)
            });
        }
    });
}

/// On a single thread only a wait that runs other tasks can end.
#[test]
fn one_source_helps_on_the_only_thread() {
    within(LIMIT, || {
        for which in [0, 1, 100, 1000, TASKS - 1] {
            for wait in [Wait::Yields, Wait::Joins, Wait::Forks] {
                Crowd::run(which, wait, |graph| graph.plan().unwrap().run_on(&pool(0)));
                Crowd::run(which, wait, |graph| {
                    let mut plan = graph.plan().unwrap();
                    pool(1).on_worker(|| plan.run())
                });
            }
        }
    });
}

#[test]
fn one_source_of_a_subflow_waits_for_all_others() {
    on_pools(&[1, 2, 4], |pool| {
        for which in [0, 100, TASKS - 1] {
            for wait in [Wait::Blocked, Wait::Yields] {
                let crowd = Crowd::default();
                let graph = Graph::new();
                let shared = &crowd;
                graph.subflow("flow", move |flow| Crowd::add_to(shared, flow, which, wait));
                graph.plan().unwrap().run_on(pool).unwrap();
                crowd.check();
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
            Crowd::add_to(crowd.clone(), &graph, 3, wait);
            pool.launch(graph.plan().unwrap()).join().unwrap();
            crowd.check();
        }
    });
}

/// One blocked source for each worker but one: the tasks that each of them has taken are reached.
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
    on_pools(&[1], |pool| {
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
            graph.plan().unwrap().run_on(pool).unwrap();
        }
    });
}

#[test]
fn a_panic_ends_a_run_whose_sources_were_split() {
    on_pools(&[1, 2, 4], |pool| {
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
                let error = plan.run_on(pool).unwrap_err();
                assert_eq!(error.panics().len(), 1);
            }
        }
    });
}

/// Thieves skip narrow plans only as long as their tasks are short.
#[test]
fn a_task_of_a_narrow_plan_waits_for_its_siblings() {
    on_pools(&[1], |pool| {
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
            graph.plan().unwrap().run_on(pool).unwrap();
        }
    });
}

/// A run on a pool whose only other worker is a guest, which does not wait for the run.
struct BesideGuest<'p> {
    pool: &'p Pool,
    /// Whether the owner of the run waits isolated.
    isolated: bool,
}

impl BesideGuest<'_> {
    /// Calls `f` for both kinds of waits.
    fn each(f: impl Fn(&BesideGuest<'_>) + Send + 'static) {
        within(LIMIT, move || {
            for isolated in [false, true] {
                let pool = &pool(0);
                let (there, over) = (Flag::default(), Flag::default());
                thread::scope(|s| {
                    s.spawn(|| {
                        pool.install(|| {
                            there.set();
                            yield_until(|| over.is_set());
                        });
                    });
                    there.wait("the guest is there");
                    f(&BesideGuest { pool, isolated });
                    over.set();
                });
            }
        });
    }

    fn run(&self, plan: &mut Plan<'_>) -> Result<RunReport, RunError> {
        match self.isolated {
            true => self.pool.install(|| filch::isolate(|| plan.run())),
            false => plan.run_on(self.pool),
        }
    }
}

/// A guest that helps with a run keeps no sources to itself.
#[test]
fn a_guest_hides_no_sources() {
    BesideGuest::each(|beside| {
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
        beside.run(&mut graph.plan().unwrap()).unwrap();
    });
}

/// Nor does it keep the successors that it has released.
#[test]
fn a_guest_hides_no_successors() {
    BesideGuest::each(|beside| {
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
        beside.run(&mut graph.plan().unwrap()).unwrap();
    });
}

/// A guest that processes a token of a pipeline leaves the next one to all workers, not only to the
/// owner of the run.
#[test]
fn a_guest_hides_no_tokens() {
    BesideGuest::each(|beside| {
        let here = thread::current().id();
        let (taken, through) = (Flag::default(), Arc::new(counter()));
        let (taken_too, through_too) = (taken.clone(), through.clone());
        // The owner holds the first token until the guest has processed another one.
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
        let ran = match beside.isolated {
            true => beside.pool.install(|| filch::isolate(|| pipeline.run(8))),
            false => pipeline.run_on(beside.pool, 8),
        };
        assert_eq!(ran.unwrap().tokens(), 100);
        assert!(taken_too.is_set());
        assert_eq!(get(&through_too), 100);
    });
}
