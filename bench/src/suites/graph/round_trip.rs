//! The cost of a call: a graph of one task, run from outside.

use super::places;
use crate::{
    forks::{Filch, Rayon, Seq, sampler},
    graphs::{FilchThreads, Graphs, Shape, Taskflowrs},
    harness::{Case, Config},
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let calls = config.pick(1_000, 10_000);
    let rounds = config.pick(100, 300);
    let mut cases = Vec::new();
    for workers in config.workers(&[1, 2]) {
        let case = fork_case("round_trip", workers, config);
        cases.push(systems(case, workers, calls));
    }
    // The pause before every sample lets the workers fall asleep.
    for workers in config.workers(&[1, 2]) {
        let case = fork_case("round_trip_asleep", workers, config).rounds(1, rounds);
        cases.push(systems(case, workers, 1));
    }
    cases
}

pub(super) fn systems(case: Case, workers: usize, calls: u64) -> Case {
    // It takes thousands of times as long.
    let few = calls.div_ceil(100);
    case.system("filch", calling::<Filch>(workers, calls))
        .system("filch-threads", calling::<FilchThreads>(workers, calls))
        .system("rayon", calling::<Rayon>(workers, calls))
        .system("rayon-install", installing(workers, calls))
        .system("taskflowrs", calling::<Taskflowrs>(workers, few))
        .system("seq", calling::<Seq>(workers, calls))
}

fn task() {
    places()[0].mark();
}

/// Runs the same graph repeatedly, or a new one each time if a graph can be run only once.
fn calling<S: Graphs>(workers: usize, calls: u64) -> impl FnMut() -> Sample {
    let shape = Shape::independent(1);
    let mut graph = S::build(&shape, |_| task);
    sampler::<S>(workers, move |pool| {
        let mut watch = Stopwatch::default();
        watch.time(|| {
            for _ in 0..calls {
                S::run(pool, &mut graph);
                if S::ONCE {
                    graph = S::build(&shape, |_| task);
                }
            }
        });
        checked(watch, calls)
    })
}

/// Without a graph: a closure that is called inside of the pool.
fn installing(workers: usize, calls: u64) -> impl FnMut() -> Sample {
    sampler::<Rayon>(workers, move |pool| {
        let mut watch = Stopwatch::default();
        watch.time(|| (0..calls).for_each(|_| pool.install(task)));
        checked(watch, calls)
    })
}

fn checked(watch: Stopwatch, calls: u64) -> Sample {
    super::check_places(1, calls);
    watch.sample(calls)
}
