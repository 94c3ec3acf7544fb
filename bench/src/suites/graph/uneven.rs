//! Independent tasks of which the first few are long. An operation is a run.
//!
//! A system that assigns tasks in blocks from which other workers cannot steal gives all long tasks
//! to one worker.

use super::{check_places, places};
use crate::{
    busy::Busy,
    forks::{Filch, Rayon, Seq, sampler},
    graphs::{Graphs, Shape},
    harness::{Case, Config, ToSeq, Unit},
    pin,
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use filch::{Graph, Plan};
use std::time::Duration;

const TASKS: usize = 1024;

/// The number of long tasks, which come first.
const LONG: usize = 64;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    cases_of(config, config.pick(20, 1))
}

/// The cases, with long tasks of a millisecond divided by `shorter`.
pub(super) fn cases_of(config: &Config, shorter: u32) -> Vec<Case> {
    let work = Duration::from_millis(1) / shorter;
    let mut cases = Vec::new();
    for (name, priority) in [("uneven", None), ("uneven_priority", Some(1))] {
        for workers in config.workers(&[1, 2]) {
            let parallel = workers.min(pin::cores().len());
            let case = fork_case(name, workers, config)
                .rounds(1, config.pick(3, 9))
                .unit(Unit::Millis)
                .ideal((work * LONG as u32).as_secs_f64() * 1e9 / parallel as f64)
                .beside_seq(ToSeq::Speed)
                .system(
                    "filch",
                    sampling::<Filch>(workers, move || plan(work, priority)),
                )
                .system(
                    "rayon",
                    sampling::<Rayon>(workers, move || build::<Rayon>(work)),
                )
                .system("seq", sampling::<Seq>(workers, move || build::<Seq>(work)));
            cases.push(case);
        }
    }
    cases
}

fn sampling<S: Graphs>(workers: usize, build: impl Fn() -> S::Graph) -> impl FnMut() -> Sample {
    let mut graph = None;
    sampler::<S>(workers, move |pool| {
        let graph = graph.get_or_insert_with(&build);
        let mut watch = Stopwatch::default();
        watch.time(|| S::run(pool, graph));
        check_places(TASKS, 1);
        watch.sample(1)
    })
}

fn task(work: Duration, number: usize) -> impl Fn() + Send + Sync + 'static {
    let (place, busy) = (&places()[number], Busy::of(work));
    move || {
        if number < LONG {
            busy.run();
        }
        place.mark();
    }
}

fn build<S: Graphs>(work: Duration) -> S::Graph {
    S::build(&Shape::independent(TASKS), |number| task(work, number))
}

/// Builds the plan; the long tasks have this priority.
fn plan(work: Duration, priority: Option<i32>) -> Plan<'static> {
    let graph = Graph::with_capacity(TASKS);
    for number in 0..TASKS {
        let task = graph.task("", task(work, number));
        if let Some(priority) = priority.filter(|_| number < LONG) {
            task.priority(priority);
        }
    }
    graph.plan().expect("there are no edges")
}
