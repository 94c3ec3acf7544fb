//! Graphs of several shapes. An operation is a task.

use super::{check_places, places};
use crate::{
    alloc,
    forks::{Filch, Rayon, Seq, sampler},
    graphs::{Graphs, InOrder, Shape, Task, Taskflowrs},
    harness::{Case, Config, ToSeq},
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use std::{cell::OnceCell, rc::Rc};

/// The approximate number of tasks per sample; small graphs are built and run repeatedly.
const TASKS_A_SAMPLE: usize = 1_000_000;
const QUICK_TASKS_A_SAMPLE: usize = 50_000;

/// The size of graphs for taskflowrs, which finds every task and both ends of every edge by a
/// linear search: a million tasks would take hours.
const SMALL_TASKS: usize = 4096;
const QUICK_SMALL_TASKS: usize = 1024;

/// A shape, with the names of its three cases.
pub(super) struct Kind {
    build: &'static str,
    first: &'static str,
    rerun: &'static str,
    tasks: usize,
    quick_tasks: usize,
    /// Makes a shape with about this number of tasks.
    make: fn(usize) -> Shape,
}

const KINDS: [Kind; 6] = [
    Kind {
        build: "independent_build",
        first: "independent_first",
        rerun: "independent",
        tasks: 1_000_000,
        quick_tasks: 100_000,
        make: Shape::independent,
    },
    Kind {
        build: "chain_build",
        first: "chain_first",
        rerun: "chain",
        tasks: 1_000_000,
        quick_tasks: 100_000,
        make: Shape::chain,
    },
    Kind {
        build: "tree_build",
        first: "tree_first",
        rerun: "tree",
        tasks: 1 << 20,
        quick_tasks: 1 << 17,
        make: |tasks| Shape::tree(tasks.ilog2()),
    },
    Kind {
        build: "dag_build",
        first: "dag_first",
        rerun: "dag",
        tasks: 100_000,
        quick_tasks: 20_000,
        make: Shape::dag,
    },
    Kind {
        build: "wavefront_build",
        first: "wavefront_first",
        rerun: "wavefront",
        tasks: 512 * 512,
        quick_tasks: 128 * 128,
        make: |tasks| Shape::wavefront(tasks.isqrt() as u32),
    },
    Kind {
        build: "stages_build",
        first: "stages_first",
        rerun: "stages",
        tasks: 1000,
        quick_tasks: 1000,
        make: |tasks| Shape::stages(tasks as u32 / 10, 10),
    },
];

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let a_sample = config.pick(QUICK_TASKS_A_SAMPLE, TASKS_A_SAMPLE);
    cases_of(config, a_sample, |kind| {
        config.pick(kind.quick_tasks, kind.tasks)
    })
}

/// The cases, with graphs of about `tasks` tasks.
pub(super) fn cases_of(
    config: &Config,
    tasks_a_sample: usize,
    tasks: impl Fn(&Kind) -> usize,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in &KINDS {
        let load = Load {
            shape: Rc::default(),
            make: kind.make,
            tasks: tasks(kind),
            small_tasks: config.pick(QUICK_SMALL_TASKS, SMALL_TASKS),
            times: (tasks_a_sample / tasks(kind)).max(1),
        };
        let case = |name, workers| {
            let case = fork_case(name, workers, config).rounds(1, config.pick(3, 9));
            case.beside_seq(ToSeq::Time)
        };
        // One thread builds, for any number of workers.
        cases.push(systems(case(kind.build, 1), 1, &load, Part::Build));
        for (name, part) in [(kind.first, Part::First), (kind.rerun, Part::Again)] {
            for workers in config.workers(&[1, 2]) {
                cases.push(systems(case(name, workers), workers, &load, part));
            }
        }
    }
    cases
}

fn systems(case: Case, workers: usize, load: &Load, part: Part) -> Case {
    case.system("filch", load.sampler::<Filch>(workers, part))
        .system("rayon", load.sampler::<Rayon>(workers, part))
        .system(
            "taskflowrs",
            load.small().sampler::<Taskflowrs>(workers, part),
        )
        .system("seq", load.sampler::<Seq>(workers, part))
        .system("seq-order", load.sampler::<InOrder>(workers, part))
}

/// The part that is timed.
#[derive(Clone, Copy, Debug)]
enum Part {
    Build,
    /// The first run of each new graph.
    First,
    /// Runs of a graph that was run before.
    Again,
}

/// Graphs of one shape.
#[derive(Clone)]
struct Load {
    /// Made on first use.
    shape: Rc<OnceCell<Shape>>,
    make: fn(usize) -> Shape,
    tasks: usize,
    /// The maximum number of tasks of [`small`](Self::small) graphs.
    small_tasks: usize,
    /// The number of builds or runs per sample.
    times: usize,
}

impl Load {
    /// A smaller graph of the same shape, for a system whose cost per task grows with the graph.
    fn small(&self) -> Self {
        Self {
            shape: Rc::default(),
            tasks: self.tasks.min(self.small_tasks),
            times: 1,
            ..*self
        }
    }

    fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| (self.make)(self.tasks))
    }

    fn sampler<S: Graphs>(&self, workers: usize, part: Part) -> impl FnMut() -> Sample + use<S> {
        let (load, mut graph) = (self.clone(), None);
        sampler::<S>(workers, move |pool| match part {
            Part::Build => load.build::<S>(),
            Part::First => load.first::<S>(pool),
            Part::Again => load.again::<S>(pool, &mut graph),
        })
    }

    fn build<S: Graphs>(&self) -> Sample {
        let shape = self.shape();
        // Allocates the places now, since they belong to no graph.
        places();
        let (mut watch, mut left) = (Stopwatch::default(), 0);
        for _ in 0..self.times {
            let before = alloc::held();
            let graph = watch.time(|| S::build(shape, task));
            left += alloc::held() - before;
            drop(graph);
        }
        self.sample(watch).leaving(left)
    }

    fn first<S: Graphs>(&self, pool: &S::Pool) -> Sample {
        let shape = self.shape();
        let mut watch = Stopwatch::default();
        for _ in 0..self.times {
            let mut graph = S::build(shape, task);
            watch.time(|| S::run(pool, &mut graph));
        }
        check_places(shape.tasks(), self.times as u64);
        self.sample(watch)
    }

    /// Runs the graph once before the clock starts, since the caches hold data of other systems. A
    /// graph that can be run only once is rebuilt for every run, as its users have to do, and that
    /// is timed.
    fn again<S: Graphs>(&self, pool: &S::Pool, graph: &mut Option<S::Graph>) -> Sample {
        let shape = self.shape();
        let mut run = || {
            let graph = match graph {
                Some(graph) if !S::ONCE => graph,
                _ => graph.insert(S::build(shape, task)),
            };
            S::run(pool, graph);
        };
        run();
        let mut watch = Stopwatch::default();
        watch.time(|| (0..self.times).for_each(|_| run()));
        check_places(shape.tasks(), self.times as u64 + 1);
        self.sample(watch)
    }

    fn sample(&self, watch: Stopwatch) -> Sample {
        watch.sample((self.shape().tasks() * self.times) as u64)
    }
}

fn task(number: usize) -> impl Task {
    let place = &places()[number];
    move || place.mark()
}
