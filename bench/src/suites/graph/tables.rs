//! The two benchmarks that the crate taskflowrs publishes. The tasks take as long as its figures
//! for one worker imply: 850 ms and 520 ms for 1000 tasks.

use super::{check_places, places};
use crate::{
    busy::Busy,
    forks::{Filch, Rayon, Seq, sampler},
    graphs::{Graphs, Shape, Taskflowrs},
    harness::{Case, Config, ToSeq, Unit},
    pin,
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use std::time::Duration;

/// Wide: 1000 independent tasks. Deep: 100 stages of 10, each of which waits for the previous
/// stage.
const TASKS: u32 = 1000;
const WIDTH: u32 = 10;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    cases_of(config, config.pick(20, 1))
}

/// The cases, with tasks shortened by the factor `shorter`.
pub(super) fn cases_of(config: &Config, shorter: u32) -> Vec<Case> {
    let tables = [
        Table {
            name: "table_wide",
            shape: || Shape::independent(TASKS as usize),
            work: Duration::from_micros(850) / shorter,
        },
        Table {
            name: "table_deep",
            shape: || Shape::stages(TASKS / WIDTH, WIDTH),
            work: Duration::from_micros(520) / shorter,
        },
    ];
    let mut cases = Vec::new();
    for table in tables {
        for workers in config.workers(&[1, 2, 4, 8]) {
            cases.push(table.case(workers, config));
        }
    }
    cases
}

/// One of the two benchmarks. An operation is a run.
#[derive(Clone, Copy)]
struct Table {
    name: &'static str,
    shape: fn() -> Shape,
    /// The length of each task.
    work: Duration,
}

impl Table {
    fn case(self, workers: usize, config: &Config) -> Case {
        let parallel = workers.min(pin::cores().len());
        fork_case(self.name, workers, config)
            .rounds(0, config.pick(3, 5))
            .unit(Unit::Millis)
            .ideal((self.work * TASKS).as_secs_f64() * 1e9 / parallel as f64)
            .beside_seq(ToSeq::Speed)
            .system("filch", self.sampler::<Filch>(workers))
            .system("rayon", self.sampler::<Rayon>(workers))
            .system("taskflowrs", self.sampler::<Taskflowrs>(workers))
            .system("seq", self.sampler::<Seq>(workers))
    }

    /// Building is not timed, as in the published benchmarks.
    fn sampler<S: Graphs>(self, workers: usize) -> impl FnMut() -> Sample {
        let mut graph = None;
        sampler::<S>(workers, move |pool| {
            let graph = match &mut graph {
                Some(graph) if !S::ONCE => graph,
                _ => graph.insert(self.build::<S>()),
            };
            let mut watch = Stopwatch::default();
            watch.time(|| S::run(pool, graph));
            check_places(TASKS as usize, 1);
            watch.sample(1)
        })
    }

    fn build<S: Graphs>(self) -> S::Graph {
        let busy = Busy::of(self.work);
        S::build(&(self.shape)(), |number| {
            let place = &places()[number];
            move || {
                busy.run();
                place.mark();
            }
        })
    }
}
