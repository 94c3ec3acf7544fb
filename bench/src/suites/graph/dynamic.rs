//! Graphs beyond running every task once: loops, subgraphs built by tasks, semaphores, pipelines.

use super::{Place, check_places, places};
use crate::{
    forks::{Filch, Rayon, Seq, System, sampler},
    harness::{Case, Config, ToSeq},
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use filch::{Graph, Plan, Pool, Semaphore, graph::Pipeline};
use rayon::ThreadPool;
use std::{hint::black_box, sync::Mutex};

/// The maximum number of tokens in the pipeline.
const LINES: usize = 8;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    cases_of(
        config,
        config.pick(100_000, 1_000_000),
        config.pick(10_000, 100_000),
    )
}

/// The cases, with loops of `laps` laps and graphs of `tasks` tasks.
pub(super) fn cases_of(config: &Config, laps: u64, tasks: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, systems: &dyn Fn(Case, usize) -> Case| {
        for workers in config.workers(&[1, 2]) {
            let case = fork_case(name, workers, config).rounds(1, config.pick(3, 9));
            cases.push(systems(case.beside_seq(ToSeq::Time), workers));
        }
    };
    add("condition", &|case, workers| {
        case.system("filch", plan(workers, 1, laps, move || condition(laps)))
            .system("seq", by_hand(workers, laps, move || again_by_hand(laps)))
    });
    add("condition_body", &|case, workers| {
        case.system(
            "filch",
            plan(workers, 1, laps, move || condition_body(laps)),
        )
        .system("seq", by_hand(workers, laps, move || body_by_hand(laps)))
    });
    add("run_n", &|case, workers| {
        case.system(
            "filch",
            sampling::<Filch, _>(workers, 1, laps, move || run_n(laps)),
        )
        .system(
            "rayon",
            sampling::<Rayon, _>(workers, 1, laps, move || scopes(laps)),
        )
        .system("seq", by_hand(workers, laps, move || call_n(laps)))
    });
    add("subflow", &|case, workers| {
        subflows(case, workers, 1, tasks)
    });
    add("subflow_small", &|case, workers| {
        subflows(case, workers, tasks / 10, 10)
    });
    add("semaphore", &|case, workers| {
        case.system("filch", plan(workers, tasks, 1, move || semaphore(tasks)))
            .system(
                "rayon",
                sampling::<Rayon, _>(workers, tasks, 1, move || mutex(tasks)),
            )
            .system(
                "seq",
                sampling::<Seq, _>(workers, tasks, 1, move || call_all(tasks)),
            )
    });
    let tokens = tasks as u64;
    add("pipeline", &|case, workers| {
        case.system(
            "filch",
            sampling::<Filch, _>(workers, 1, tokens, move || pipeline(tokens)),
        )
        .system(
            "seq",
            by_hand(workers, tokens, move || stages_by_hand(tokens)),
        )
    });
    cases
}

/// Times a closure that `make` creates on first use, on a pool. It must mark the first `tasks`
/// places `times` times, and each mark is an operation.
pub(super) fn sampling<S: System, R: FnMut(&S::Pool)>(
    workers: usize,
    tasks: usize,
    times: u64,
    make: impl Fn() -> R,
) -> impl FnMut() -> Sample {
    let mut run = None;
    sampler::<S>(workers, move |pool| {
        let run = run.get_or_insert_with(&make);
        let mut watch = Stopwatch::default();
        watch.time(|| run(pool));
        check_places(tasks, times);
        watch.sample(tasks as u64 * times)
    })
}

/// Runs a plan.
pub(super) fn plan(
    workers: usize,
    tasks: usize,
    times: u64,
    make: impl Fn() -> Plan<'static>,
) -> impl FnMut() -> Sample {
    sampling::<Filch, _>(workers, tasks, times, move || {
        let mut plan = make();
        move |pool: &Pool| {
            plan.run_on(pool).expect("no task panics");
        }
    })
}

/// A workload with one place, without a pool.
fn by_hand<R: FnMut()>(workers: usize, times: u64, make: impl Fn() -> R) -> impl FnMut() -> Sample {
    sampling::<Seq, _>(workers, 1, times, move || {
        let mut run = make();
        move |(): &()| run()
    })
}

pub(super) fn planned(graph: Graph<'static>) -> Plan<'static> {
    graph.plan().expect("nothing is wrong with it")
}

fn first() -> &'static Place {
    &places()[0]
}

/// Chooses 0 until it was called `laps` times, then chooses 1 and starts over.
fn choose(laps: u64) -> impl FnMut() -> usize + Send + 'static {
    let mut left = laps;
    move || {
        left -= 1;
        if left > 0 {
            return 0;
        }
        left = laps;
        1
    }
}

/// A condition that chooses itself.
fn condition(laps: u64) -> Plan<'static> {
    let (graph, mut choose, place) = (Graph::new(), choose(laps), first());
    let start = graph.task("", || ());
    let again = graph.condition("", move || {
        place.mark();
        choose()
    });
    let end = graph.task("", || ());
    start.precede(again);
    again.precede([again, end]);
    planned(graph)
}

fn again_by_hand(laps: u64) -> impl FnMut() {
    let (mut choose, place) = (choose(laps), first());
    let mut again: Box<dyn FnMut() -> usize> = black_box(Box::new(move || {
        place.mark();
        choose()
    }));
    move || while again() == 0 {}
}

/// A task, and a condition that chooses the task again.
fn condition_body(laps: u64) -> Plan<'static> {
    let (graph, place) = (Graph::new(), first());
    let start = graph.task("", || ());
    let lap = graph.task("", move || place.mark());
    let again = graph.condition("", choose(laps));
    let end = graph.task("", || ());
    start.precede(lap);
    lap.precede(again);
    again.precede([lap, end]);
    planned(graph)
}

fn body_by_hand(laps: u64) -> impl FnMut() {
    let place = first();
    let lap: Box<dyn Fn()> = black_box(Box::new(move || place.mark()));
    let mut again: Box<dyn FnMut() -> usize> = black_box(Box::new(choose(laps)));
    move || {
        loop {
            lap();
            if again() != 0 {
                return;
            }
        }
    }
}

/// A graph of one task, run `laps` times by one call.
fn run_n(laps: u64) -> impl FnMut(&Pool) {
    let (graph, place) = (Graph::new(), first());
    graph.task("", move || place.mark());
    let mut plan = planned(graph);
    move |pool| {
        let run = || plan.run_n(laps);
        pool.install(run).expect("no task panics");
    }
}

/// A scope with one task, opened repeatedly inside of the pool.
fn scopes(laps: u64) -> impl FnMut(&ThreadPool) {
    let place = first();
    move |pool| {
        pool.install(|| {
            for _ in 0..laps {
                rayon::scope(|scope| scope.spawn(|_| place.mark()));
            }
        });
    }
}

fn call_n(laps: u64) -> impl FnMut() {
    let place = first();
    let task: Box<dyn Fn()> = black_box(Box::new(move || place.mark()));
    move || (0..laps).for_each(|_| task())
}

/// Tasks that each build a subgraph of `inside` tasks, which are the operations.
fn subflows(case: Case, workers: usize, outside: usize, inside: usize) -> Case {
    let tasks = outside * inside;
    let flows = move || {
        let graph = Graph::with_capacity(outside);
        for places in places()[..tasks].chunks(inside) {
            graph.subflow("", move |flow| {
                for place in places {
                    flow.task("", || place.mark());
                }
            });
        }
        planned(graph)
    };
    let scopes = move |pool: &ThreadPool| {
        pool.scope(|scope| {
            for places in places()[..tasks].chunks(inside) {
                scope.spawn(move |scope| {
                    for place in places {
                        scope.spawn(move |_| place.mark());
                    }
                });
            }
        });
    };
    let in_turns = move |(): &()| {
        for places in places()[..tasks].chunks(inside) {
            boxed(places).iter().for_each(|task| task());
        }
    };
    case.system("filch", plan(workers, tasks, 1, flows))
        .system(
            "rayon",
            sampling::<Rayon, _>(workers, tasks, 1, move || scopes),
        )
        .system(
            "seq",
            sampling::<Seq, _>(workers, tasks, 1, move || in_turns),
        )
}

/// One task per place.
fn boxed(places: &'static [Place]) -> Vec<Box<dyn Fn()>> {
    let task = |place: &'static Place| Box::new(move || place.mark()) as _;
    black_box(places.iter().map(task).collect())
}

/// Tasks that need the only permit of a semaphore.
fn semaphore(tasks: usize) -> Plan<'static> {
    let (graph, semaphore) = (Graph::with_capacity(tasks), Semaphore::new(1));
    for place in &places()[..tasks] {
        graph.task("", || place.mark()).acquire([&semaphore]);
    }
    planned(graph)
}

/// Tasks that hold a lock: a worker that waits for it is blocked.
fn mutex(tasks: usize) -> impl FnMut(&ThreadPool) {
    let lock = Mutex::new(());
    move |pool| {
        pool.scope(|scope| {
            for place in &places()[..tasks] {
                let lock = &lock;
                scope.spawn(move |_| {
                    let _guard = lock.lock().expect("no task panics");
                    place.mark();
                });
            }
        });
    }
}

pub(super) fn call_all(tasks: usize) -> impl FnMut(&()) {
    let tasks = boxed(&places()[..tasks]);
    move |()| tasks.iter().for_each(|task| task())
}

/// A source, a parallel stage and a serial one. An operation is a token.
fn pipeline(tokens: u64) -> impl FnMut(&Pool) {
    let place = first();
    let mut pipeline = Pipeline::new(move |flow| (flow.token() < tokens).then(|| flow.token()))
        .parallel(black_box)
        .serial(move |_| place.mark());
    move |pool| {
        let report = pipeline.run_on(pool, LINES).expect("no stage panics");
        assert_eq!(report.tokens(), tokens, "not every token came through");
    }
}

fn stages_by_hand(tokens: u64) -> impl FnMut() {
    let place = first();
    let parallel: Box<dyn Fn(u64) -> u64> = black_box(Box::new(black_box));
    let mut serial: Box<dyn FnMut(u64)> = black_box(Box::new(move |_| place.mark()));
    move || (0..tokens).for_each(|token| serial(parallel(token)))
}
