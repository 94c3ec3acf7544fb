//! Basic properties of graphs: tasks run in order and once, plans run repeatedly, errors name
//! tasks, and panics are reported.

use crate::graphs::pools;
use crate::support::{Drops, LIMIT, message, panic_of, pool, quiet_panic, within};
use filch::{
    CancelToken, Graph, Plan, Pool, Semaphore,
    graph::{RunOptions, Task},
};
use proptest::prelude::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};
use std::task::Poll;

/// How many tasks a long graph has.
const LONG: usize = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

/// When each task ran: the time is a counter.
struct Clock {
    now: AtomicUsize,
    began: Vec<AtomicUsize>,
    ended: Vec<AtomicUsize>,
    runs: Vec<AtomicU32>,
}

impl Clock {
    fn new(tasks: usize) -> Self {
        let zeros = || (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        Self {
            now: AtomicUsize::new(1),
            began: zeros(),
            ended: zeros(),
            runs: (0..tasks).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn tick(&self) -> usize {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn run(&self, task: usize) {
        self.began[task].store(self.tick(), Ordering::SeqCst);
        self.runs[task].fetch_add(1, Ordering::SeqCst);
        self.ended[task].store(self.tick(), Ordering::SeqCst);
    }

    /// Checks that every task has run `runs` times, in an order that the edges allow.
    #[track_caller]
    fn check(&self, edges: &[(usize, usize)], runs: u32) {
        for (task, count) in self.runs.iter().enumerate() {
            assert_eq!(count.load(Ordering::SeqCst), runs, "runs of task {task}");
        }
        for &(from, to) in edges {
            let (ended, began) = (&self.ended[from], &self.began[to]);
            let (ended, began) = (ended.load(Ordering::SeqCst), began.load(Ordering::SeqCst));
            assert!(ended < began, "{to} began before {from} was done");
        }
    }
}

/// Returns a plan with these edges, whose tasks record when they run.
fn clocked<'env>(clock: &'env Clock, edges: &[(usize, usize)]) -> Plan<'env> {
    let graph = Graph::new();
    let tasks: Vec<Task<'_, '_>> = (0..clock.runs.len())
        .map(|number| graph.task(format!("t{number}"), move || clock.run(number)))
        .collect();
    for &(from, to) in edges {
        tasks[from].precede(tasks[to]);
    }
    drop(tasks);
    graph.plan().unwrap()
}

fn chain(length: usize) -> Vec<(usize, usize)> {
    (1..length).map(|task| (task - 1, task)).collect()
}

fn tree(tasks: usize) -> Vec<(usize, usize)> {
    (1..tasks).map(|task| ((task - 1) / 2, task)).collect()
}

fn wavefront(side: usize) -> Vec<(usize, usize)> {
    let mut edges = vec![];
    for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
        let here = row * side + column;
        if column + 1 < side {
            edges.push((here, here + 1));
        }
        if row + 1 < side {
            edges.push((here, here + side));
        }
    }
    edges
}

fn stages(stages: usize, width: usize) -> Vec<(usize, usize)> {
    let pairs = move |stage: usize| {
        (0..width).flat_map(move |from| {
            (0..width).map(move |to| (stage * width + from, (stage + 1) * width + to))
        })
    };
    (0..stages - 1).flat_map(pairs).collect()
}

#[test]
fn every_shape_runs_in_order_and_once() {
    let shapes = [
        (300, vec![]),
        (300, chain(300)),
        (511, tree(511)),
        (
            511,
            tree(511)
                .into_iter()
                .map(|(a, b)| (510 - a, 510 - b))
                .collect(),
        ),
        (400, wavefront(20)),
        (200, stages(20, 10)),
        (4, vec![(0, 1), (0, 2), (1, 3), (2, 3)]),
        (2, vec![(0, 1), (0, 1), (0, 1)]), // the same edge thrice
        (1, vec![]),
        (0, vec![]),
    ];
    for pool in pools() {
        for (tasks, edges) in &shapes {
            let clock = Clock::new(*tasks);
            let mut plan = clocked(&clock, edges);
            for round in 1..=3 {
                let report = plan.run_on(&pool).unwrap();
                assert_eq!(report.ran(), *tasks as u64);
                clock.check(edges, round);
            }
        }
    }
}

#[test]
fn the_global_pool_and_the_callers_pool() {
    let seen = Mutex::new(vec![]);
    let graph = Graph::new();
    graph.task("where", || {
        seen.lock()
            .unwrap()
            .push(Pool::current().map(|pool| pool.workers()));
    });
    let mut plan = graph.plan().unwrap();
    plan.run().unwrap();
    let three = pool(3);
    three.install(|| plan.run()).unwrap();
    plan.run_on(&three).unwrap();
    drop(plan);
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen, [Some(Pool::global().workers()), Some(3), Some(3)]);
}

#[test]
fn a_run_inside_a_task_of_a_one_worker_pool() {
    within(LIMIT, || {
        let one = pool(1);
        let count = AtomicUsize::new(0);
        let graph = Graph::new();
        for _ in 0..3 {
            graph.task("outer", || {
                let inner = Graph::new();
                let first = inner.task("first", || {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                for _ in 0..10 {
                    first.precede(inner.task("then", || {
                        count.fetch_add(1, Ordering::Relaxed);
                    }));
                }
                inner.plan().unwrap().run().unwrap();
            });
        }
        graph.plan().unwrap().run_on(&one).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 33);
        // And from a task that was spawned.
        let (send, receive) = std::sync::mpsc::channel();
        one.spawn(move || {
            let graph = Graph::new();
            let (a, b) = (graph.task("a", || ()), graph.task("b", || ()));
            a.precede(b);
            send.send(graph.plan().unwrap().run().unwrap().ran())
                .unwrap();
        });
        assert_eq!(receive.recv(), Ok(2));
    });
}

#[test]
fn an_isolated_run_runs_isolated() {
    within(LIMIT, || {
        for pool in pools() {
            let count = AtomicUsize::new(0);
            let graph = Graph::new();
            let first = graph.task("", || ());
            for _ in 0..50 {
                first.precede(graph.task("", || {
                    count.fetch_add(1, Ordering::Relaxed);
                }));
            }
            let mut plan = graph.plan().unwrap();
            pool.install(|| filch::isolate(|| plan.run())).unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 50);
        }
    });
}

#[test]
fn many_threads_run_graphs_on_one_pool() {
    within(LIMIT, || {
        let pool = pool(2);
        std::thread::scope(|s| {
            for _ in 0..40 {
                s.spawn(|| {
                    let edges = wavefront(8);
                    let clock = Clock::new(64);
                    let mut plan = clocked(&clock, &edges);
                    for _ in 0..5 {
                        plan.run_on(&pool).unwrap();
                    }
                    drop(plan);
                    clock.check(&edges, 5);
                });
            }
        });
    });
}

#[test]
fn run_n_and_run_until() {
    let mut runs = 0;
    let graph = Graph::new();
    graph.task("count", || runs += 1);
    let mut plan = graph.plan().unwrap();
    assert_eq!(plan.run_n(0).unwrap().ran(), 0);
    assert_eq!(plan.run_n(7).unwrap().ran(), 7);
    let mut asked = 0;
    let report = plan.run_until(|| {
        asked += 1;
        asked == 3
    });
    assert_eq!(report.unwrap().ran(), 2);
    assert_eq!(plan.run_until(|| true).unwrap().ran(), 0); // it asks first
    drop(plan);
    assert_eq!(runs, 9);
}

#[test]
fn an_edit_between_runs() {
    let log = Mutex::new(vec![]);
    let note = |what| log.lock().unwrap().push(what);
    let graph = Graph::new();
    let first = graph.task("first", || note("first"));
    let second = graph.task("second", || note("second"));
    second.succeed(first);
    let (first, second) = (first.index(), second.index());
    let mut plan = graph.plan().unwrap();
    let alone = pool(0);
    plan.run_on(&alone).unwrap();

    let graph = plan.edit();
    let middle = graph.task("middle", || note("middle"));
    middle.succeed(graph.get(first).unwrap());
    middle.precede(graph.get(second).unwrap());
    graph.get(first).unwrap().work(|| note("changed"));
    assert!(graph.get(0).is_none() && graph.get(4).is_none());
    let mut plan = graph.plan().unwrap();
    assert_eq!(plan.len(), 3);
    plan.run_on(&alone).unwrap();
    drop(plan);
    let log = log.into_inner().unwrap();
    assert_eq!(log, ["first", "second", "changed", "middle", "second"]);
}

#[test]
fn an_edit_keeps_the_order_of_choices() {
    let log = Mutex::new(vec![]);
    let note = |what| log.lock().unwrap().push(what);
    let mut choice = 0;
    let graph = Graph::new();
    let choose = graph.condition("?", || {
        choice += 1;
        choice - 1
    });
    choose.precede([
        graph.task("a", || note("a")),
        graph.task("b", || note("b")),
        graph.task("c", || note("c")),
    ]);
    let mut plan = graph.plan().unwrap();
    for _ in 0..2 {
        plan.run().unwrap();
        plan = plan.edit().plan().unwrap();
    }
    plan.run_n(2).unwrap();
    drop(plan);
    assert_eq!(log.into_inner().unwrap(), ["a", "b", "c"]);
}

#[test]
fn names_and_numbers() {
    let graph = Graph::new();
    let named = graph.task("named", || ());
    let nameless = graph.task("", || ());
    let later = graph.placeholder(String::from("later"));
    assert_eq!(named.name(), "named");
    assert_eq!(nameless.name(), format!("task {}", nameless.index()));
    assert_eq!(later.name(), "later");
    assert_eq!((graph.len(), graph.is_empty()), (3, false));
    assert_eq!(format!("{named:?}"), "Task(\"named\")");
    graph.linearize([later, nameless, named]);
    let mut plan = graph.plan().unwrap();
    assert_eq!((plan.len(), plan.is_empty()), (3, false));
    assert_eq!(plan.run().unwrap().ran(), 3);
    assert!(Graph::new().plan().unwrap().is_empty());
}

/// The tasks on the cycle of a graph with these edges.
fn cycle(names: &[&'static str], edges: &[(usize, usize)]) -> Vec<String> {
    let graph = Graph::new();
    let tasks: Vec<_> = names.iter().map(|&name| graph.task(name, || ())).collect();
    for &(from, to) in edges {
        tasks[from].precede(tasks[to]);
    }
    drop(tasks);
    let error = graph.plan().unwrap_err();
    assert!(error.to_string().contains("wait for each other"), "{error}");
    error.cycle_tasks().to_vec()
}

#[test]
fn a_cycle_is_named() {
    assert_eq!(cycle(&["me"], &[(0, 0)]), ["me"]);
    assert_eq!(cycle(&["a", "b"], &[(0, 1), (1, 0)]), ["a", "b"]);
    // With tasks before, behind and beside it, against the order in which they were added.
    let edges = [(0, 3), (3, 2), (2, 1), (1, 3), (1, 4), (4, 5)];
    assert_eq!(
        cycle(&["in", "a", "b", "c", "out", "end"], &edges),
        ["a", "c", "b"]
    );
    // One of two.
    let edges = [(0, 1), (1, 0), (2, 3), (3, 2)];
    let found = cycle(&["a", "b", "c", "d"], &edges);
    assert!(found == ["a", "b"] || found == ["c", "d"], "{found:?}");
    // A task without a name.
    assert_eq!(cycle(&["", "b"], &[(0, 1), (1, 0)]), ["task 1", "b"]);
}

#[test]
fn a_graph_without_a_start() {
    let graph = Graph::new();
    let a = graph.condition("a", || 0);
    let b = graph.condition("b", || 0);
    a.precede(b);
    b.precede(a);
    let error = graph.plan().unwrap_err();
    assert!(error.cycle_tasks().is_empty());
    assert!(error.to_string().contains("no source"), "{error}");
}

#[test]
fn unreachable_tasks_are_listed() {
    let graph = Graph::new();
    graph.task("start", || ());
    let island = graph.condition("island", || 0);
    let shore = graph.task("shore", || ());
    island.precede([island, shore]);
    let mut plan = graph.plan().unwrap();
    assert_eq!(plan.unreachable().collect::<Vec<_>>(), ["island", "shore"]);
    assert_eq!(plan.run().unwrap().ran(), 1);
}

#[test]
fn tasks_of_two_graphs_do_not_mix() {
    let (ours, theirs) = (Graph::new(), Graph::new());
    let (a, b) = (ours.task("a", || ()), theirs.task("b", || ()));
    assert_eq!(panic_of(|| a.precede(b)), "a task of another graph");
    assert_eq!(panic_of(|| a.succeed(b)), "a task of another graph");
}

#[test]
fn a_long_chain_on_the_default_stack() {
    for workers in [0, 1, 2] {
        let pool = pool(workers);
        let ran = AtomicUsize::new(0);
        let graph = Graph::with_capacity(LONG);
        graph.linearize((0..LONG).map(|_| {
            graph.task("", || {
                ran.fetch_add(1, Ordering::Relaxed);
            })
        }));
        let mut plan = graph.plan().unwrap();
        assert_eq!(plan.run_on(&pool).unwrap().ran(), LONG as u64);
        assert_eq!(ran.load(Ordering::Relaxed), LONG);
    }
}

#[test]
fn a_long_loop_on_the_default_stack() {
    for workers in [0, 1, 2] {
        let pool = pool(workers);
        let mut laps = 0;
        let graph = Graph::new();
        let start = graph.task("start", || ());
        let lap = graph.task("lap", || ());
        let again = graph.condition("again", || {
            laps += 1;
            usize::from(laps >= LONG)
        });
        start.precede(lap);
        lap.precede(again);
        again.precede([lap, graph.task("end", || ())]);
        let mut plan = graph.plan().unwrap();
        assert_eq!(plan.run_on(&pool).unwrap().ran(), 2 * LONG as u64 + 2);
        drop(plan);
        assert_eq!(laps, LONG);
    }
}

#[test]
fn a_loop_with_a_fan_in_it() {
    for pool in pools() {
        let (count, mut laps) = (AtomicUsize::new(0), 0);
        let graph = Graph::new();
        let start = graph.task("start", || ());
        let open = graph.task("open", || ());
        let again = graph.condition("again", || {
            laps += 1;
            assert_eq!(count.load(Ordering::SeqCst), 10 * laps);
            usize::from(laps == 50)
        });
        start.precede(open);
        for _ in 0..10 {
            let work = graph.task("work", || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            open.precede(work);
            work.precede(again);
        }
        again.precede(open);
        let mut plan = graph.plan().unwrap();
        assert_eq!(plan.run_on(&pool).unwrap().ran(), 1 + 50 * 12);
    }
}

#[test]
fn a_choice_out_of_range_is_none() {
    for choice in [0, 1, 2, usize::MAX] {
        let log = Mutex::new(vec![]);
        let graph = Graph::new();
        let choose = graph.condition("?", move || choice);
        choose.precede([
            graph.task("a", || log.lock().unwrap().push(0)),
            graph.task("b", || log.lock().unwrap().push(1)),
        ]);
        graph.plan().unwrap().run().unwrap();
        let chosen: Vec<_> = [choice].into_iter().filter(|&choice| choice < 2).collect();
        assert_eq!(log.into_inner().unwrap(), chosen);
    }
}

#[test]
fn an_ill_formed_loop_is_an_error_and_harmless() {
    within(LIMIT, || {
        // Two branches lead into one loop: it is entered while it is running.
        for pool in [pool(2), pool(4)] {
            let inside = AtomicBool::new(false);
            let overlaps = AtomicUsize::new(0);
            let met = std::sync::Barrier::new(2);
            let mut first = true;
            let graph = Graph::new();
            let a = graph.condition("a", || {
                met.wait();
                0
            });
            let b = graph.condition("b", || {
                met.wait();
                0
            });
            let both = graph.task("both", || {
                if inside.swap(true, Ordering::SeqCst) {
                    overlaps.fetch_add(1, Ordering::SeqCst);
                }
                if std::mem::take(&mut first) {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                inside.store(false, Ordering::SeqCst);
            });
            a.precede(both);
            b.precede(both);
            let mut plan = graph.plan().unwrap();
            // The second one comes while the first one sleeps, or, on a very busy machine, after
            // that.
            if let Err(error) = plan.run_on(&pool) {
                let text = error.to_string();
                assert!(
                    text.contains("both was released again while it was running"),
                    "{text}"
                );
            }
            drop(plan);
            assert_eq!(overlaps.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn a_panic_stops_the_run_and_is_reported_with_the_name() {
    for pool in pools() {
        let (ran_after, fail) = (AtomicUsize::new(0), AtomicBool::new(true));
        let graph = Graph::new();
        let bad = graph.task("bad", || {
            if fail.load(Ordering::SeqCst) {
                quiet_panic("no");
            }
        });
        for _ in 0..5 {
            bad.precede(graph.task("after", || {
                ran_after.fetch_add(1, Ordering::SeqCst);
            }));
        }
        let mut plan = graph.plan().unwrap();
        for _ in 0..3 {
            let error = plan.run_on(&pool).unwrap_err();
            assert_eq!(error.to_string(), "bad panicked: no (5 tasks skipped)");
            assert_eq!((error.panics().len(), error.skipped().count()), (1, 5));
            assert_eq!(error.panics()[0].task(), "bad");
            let payload = error.into_panics().remove(0).into_payload();
            assert_eq!(message(&*payload), "no");
        }
        assert_eq!(ran_after.load(Ordering::SeqCst), 0);
        fail.store(false, Ordering::SeqCst);
        assert_eq!(plan.run_on(&pool).unwrap().ran(), 6);
        assert_eq!(ran_after.load(Ordering::SeqCst), 5);
    }
}

#[test]
fn all_panics_are_reported_and_running_tasks_finish() {
    within(LIMIT, || {
        let pool = pool(3);
        let (met, done) = (std::sync::Barrier::new(3), AtomicBool::new(false));
        let graph = Graph::new();
        let start = graph.task("start", || ());
        for name in ["left", "right"] {
            let met = &met;
            start.precede(graph.task(name, move || {
                met.wait();
                quiet_panic(name);
            }));
        }
        start.precede(graph.task("slow", || {
            met.wait();
            std::thread::sleep(std::time::Duration::from_millis(30));
            done.store(true, Ordering::SeqCst);
        }));
        let mut plan = graph.plan().unwrap();
        for _ in 0..3 {
            done.store(false, Ordering::SeqCst);
            let error = plan.run_on(&pool).unwrap_err();
            assert!(done.load(Ordering::SeqCst), "the run did not wait");
            let mut names: Vec<_> = error.panics().iter().map(|panic| panic.task()).collect();
            names.sort_unstable();
            assert_eq!(names, ["left", "right"]);
            assert_eq!(error.skipped().count(), 0);
        }
    });
}

#[test]
fn counters_are_reset_after_a_panic() {
    let fail = AtomicBool::new(true);
    let edges = stages(10, 5);
    for pool in pools() {
        let clock = Clock::new(50);
        let graph = Graph::new();
        let (clock_ref, fail_ref) = (&clock, &fail);
        let tasks: Vec<_> = (0..50)
            .map(|number| {
                graph.task("", move || {
                    if number == 27 && fail_ref.load(Ordering::SeqCst) {
                        quiet_panic("27");
                    }
                    clock_ref.run(number);
                })
            })
            .collect();
        for &(from, to) in &edges {
            tasks[from].precede(tasks[to]);
        }
        drop(tasks);
        let mut plan = graph.plan().unwrap();
        fail.store(true, Ordering::SeqCst);
        plan.run_on(&pool).unwrap_err();
        fail.store(false, Ordering::SeqCst);
        let before: Vec<_> = clock
            .runs
            .iter()
            .map(|runs| runs.swap(0, Ordering::SeqCst))
            .collect();
        assert!(
            before[30..].iter().all(|&runs| runs == 0),
            "released after a panic"
        );
        plan.run_on(&pool).unwrap();
        clock.check(&edges, 1);
    }
}

#[test]
fn closures_of_all_sizes_are_dropped_once() {
    for pool in [pool(0), pool(2)] {
        let (drops, sum) = (Drops::default(), AtomicUsize::new(0));
        let graph = Graph::new();
        let (small, large) = (drops.value(), drops.value());
        let sum_ref = &sum;
        graph.task("small", move || {
            let _ = &small;
            sum_ref.fetch_add(1, Ordering::Relaxed);
        });
        let many = [3_usize; 100];
        graph.task("large", move || {
            let _ = &large;
            sum_ref.fetch_add(many.iter().sum(), Ordering::Relaxed);
        });
        #[repr(align(64))]
        struct Aligned(usize);
        let aligned = Aligned(1000);
        graph.task("aligned", move || {
            let aligned = &aligned;
            assert_eq!(std::ptr::from_ref(aligned) as usize % 64, 0);
            sum_ref.fetch_add(aligned.0, Ordering::Relaxed);
        });
        let replaced = drops.value();
        let task = graph.task("replaced", move || {
            let _ = &replaced;
        });
        task.work(|| ());
        assert_eq!(drops.seen(), 1);
        let mut plan = graph.plan().unwrap();
        plan.run_on(&pool).unwrap();
        plan.run_on(&pool).unwrap();
        assert_eq!((drops.seen(), sum.load(Ordering::Relaxed)), (1, 2602));
        let plan = plan.edit().plan().unwrap();
        assert_eq!(drops.seen(), 1);
        drop(plan);
        assert_eq!(drops.seen(), 3);
    }
    // A graph that is never planned, and one that cannot be.
    let drops = Drops::default();
    let graph = Graph::new();
    let value = drops.value();
    graph.task("", move || {
        let _ = &value;
    });
    drop(graph);
    let graph = Graph::new();
    let value = drops.value();
    let task = graph.task("", move || {
        let _ = &value;
    });
    task.precede(task);
    graph.plan().unwrap_err();
    assert_eq!(drops.seen(), 2);
}

#[test]
fn tasks_borrow_and_change_what_is_outside() {
    let mut numbers = vec![0; 1000];
    let graph = Graph::new();
    for (index, number) in numbers.iter_mut().enumerate() {
        graph.task("", move || *number += index);
    }
    let mut plan = graph.plan().unwrap();
    plan.run_n(3).unwrap();
    drop(plan);
    assert!(
        numbers
            .iter()
            .enumerate()
            .all(|(index, &number)| number == 3 * index)
    );
}

#[test]
fn a_plan_goes_to_another_thread() {
    let shared = Arc::new(AtomicUsize::new(0));
    let graph = Graph::new();
    let inside = shared.clone();
    graph.task("", move || {
        inside.fetch_add(1, Ordering::Relaxed);
    });
    let mut plan = graph.plan().unwrap();
    plan.run().unwrap();
    std::thread::spawn(move || plan.run().unwrap())
        .join()
        .unwrap();
    assert_eq!(shared.load(Ordering::Relaxed), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any graph without cycles runs like a sequential topological run: each task once, none
    ///
    /// too early.
    #[test]
    fn random_graphs_run_in_order(
        tasks in 1..120_usize,
        pairs in prop::collection::vec((0..1000_usize, 0..1000_usize), 0..400),
        shuffle in any::<u64>(),
        workers in prop::sample::select(vec![1_usize, 2, 4]),
    ) {
        thread_local! {
            static POOLS: [Pool; 3] = [1, 2, 4].map(pool);
        }
        // The numbers of the tasks say nothing about their order.
        let mut order: Vec<usize> = (0..tasks).collect();
        let mut rng = filch::Rng::new(shuffle);
        for at in (1..tasks).rev() {
            order.swap(at, rng.below(at + 1));
        }
        let edges: Vec<_> = pairs
            .into_iter()
            .map(|(a, b)| (a % tasks, b % tasks))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (order[a.min(b)], order[a.max(b)]))
            .collect();
        let clock = Clock::new(tasks);
        let mut plan = clocked(&clock, &edges);
        let place = [1, 2, 4].iter().position(|&known| known == workers).unwrap();
        POOLS.with(|pools| {
            for round in 1..=3 {
                assert_eq!(plan.run_on(&pools[place]).unwrap().ran(), tasks as u64);
                clock.check(&edges, round);
            }
        });
    }

    /// A graph with an edge back has a cycle, and the error's tasks are on one.
    #[test]
    fn random_cycles_are_found(
        tasks in 2..60_usize,
        pairs in prop::collection::vec((0..1000_usize, 0..1000_usize), 1..150),
    ) {
        let edges: Vec<_> = pairs.into_iter().map(|(a, b)| (a % tasks, b % tasks)).collect();
        let graph = Graph::new();
        let handles: Vec<_> = (0..tasks).map(|n| graph.task(n.to_string(), || ())).collect();
        for &(from, to) in &edges {
            handles[from].precede(handles[to]);
        }
        drop(handles);
        // A sequential sort.
        let mut missing = vec![0; tasks];
        edges.iter().for_each(|&(_, to)| missing[to] += 1);
        let mut ready: Vec<_> = (0..tasks).filter(|&task| missing[task] == 0).collect();
        let mut sorted = 0;
        while let Some(task) = ready.pop() {
            sorted += 1;
            for &(_, to) in edges.iter().filter(|(from, _)| *from == task) {
                missing[to] -= 1;
                if missing[to] == 0 {
                    ready.push(to);
                }
            }
        }
        match graph.plan() {
            Ok(_) => assert_eq!(sorted, tasks),
            Err(error) => {
                assert!(sorted < tasks);
                let cycle: Vec<usize> = error.cycle_tasks().iter().map(|name| name.parse().unwrap()).collect();
                for (at, &from) in cycle.iter().enumerate() {
                    let to = cycle[(at + 1) % cycle.len()];
                    assert!(edges.contains(&(from, to)), "{from} → {to} is no edge");
                }
            }
        }
    }

    /// Tasks of all kinds in one graph, of which some runs are stopped by a panic or cancelled:
    /// no task runs too early or twice, no permit is lost, and the next run is whole.
    #[test]
    fn random_mixed_graphs(
        kinds in prop::collection::vec(0..6_u8, 1..40),
        pairs in prop::collection::vec((0..1000_usize, 0..1000_usize), 0..80),
        trouble in 0..120_usize,
        workers in prop::sample::select(vec![1_usize, 2, 4]),
    ) {
        thread_local! {
            static POOLS: [Pool; 3] = [1, 2, 4].map(pool);
        }
        let tasks = kinds.len();
        let edges: Vec<_> = pairs
            .into_iter()
            .map(|(a, b)| (a % tasks, b % tasks))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a.min(b), a.max(b)))
            .collect();
        let place = [1, 2, 4].iter().position(|&known| known == workers).unwrap();
        POOLS.with(|pools| run_mixed(&pools[place], &kinds, &edges, trouble));
    }
}

/// See `random_mixed_graphs`. A task beyond the end means that there is no trouble.
fn run_mixed(pool: &Pool, kinds: &[u8], edges: &[(usize, usize)], trouble: usize) {
    let (clock, cancel) = (Clock::new(kinds.len()), Mutex::new(CancelToken::new()));
    let (healthy, permits) = (AtomicBool::new(true), Semaphore::new(2));
    let work = |number: usize| {
        clock.run(number);
        if number == trouble / 2 && !healthy.load(Ordering::SeqCst) {
            match trouble % 2 {
                0 => quiet_panic("trouble"),
                _ => {
                    cancel.lock().unwrap().cancel();
                }
            }
        }
    };
    let graph = Graph::new();
    let mut tasks = vec![];
    for (number, &kind) in kinds.iter().enumerate() {
        let work = &work;
        tasks.push(match kind {
            0 => graph.task("", move || work(number)),
            1 => graph.task("", move || work(number)).acquire([&permits]),
            2 => graph.subflow("", move |sub| {
                sub.task("", || ())
                    .precede(sub.task("", move || work(number)));
            }),
            3 => graph.runtime("", move |rt| rt.spawn(move |_| work(number))),
            4 => graph.future("", move || {
                let mut polls = 0;
                std::future::poll_fn(move |cx| {
                    polls += 1;
                    if polls < 3 {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    work(number);
                    Poll::Ready(())
                })
            }),
            _ => {
                let inner = Graph::new();
                inner.task("", move || work(number));
                graph
                    .module("", inner.plan().unwrap())
                    .acquire([&permits, &permits])
            }
        });
    }
    for &(from, to) in edges {
        tasks[from].precede(tasks[to]);
    }
    drop(tasks);
    let mut plan = graph.plan().unwrap();
    for round in 0..6 {
        let well = round % 2 == 0;
        healthy.store(well, Ordering::SeqCst);
        *cancel.lock().unwrap() = CancelToken::new();
        let options = RunOptions::new().on(pool).cancel(&cancel.lock().unwrap());
        let result = plan.run_with(&options);
        assert_eq!(permits.available(), 2);
        if well {
            result.unwrap();
            clock.check(edges, 1);
        } else if let Err(error) = result {
            assert_eq!(error.is_cancelled(), trouble % 2 == 1, "{error}");
        }
        assert!(
            clock
                .runs
                .iter()
                .all(|runs| runs.swap(0, Ordering::SeqCst) <= 1)
        );
    }
}
