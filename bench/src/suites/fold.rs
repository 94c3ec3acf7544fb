//! Trees of several shapes, with several kinds of work per node. An operation is a node.

use super::work::fork_case;
use crate::{
    folds::{Filch, Folds, Hylic, ParIter, Sequential, Shape, Task, Work, presets},
    forks::{Rayon, Seq, sampler},
    harness::{Case, Config, ToSeq},
    stopwatch::Sample,
};
use filch::{
    engine::{PerWorker, Shared},
    fold::{Adaptive, AtTheEnd, FewWakes, OnArrival, Tasks},
};
use std::{cell::OnceCell, rc::Rc, time::Duration};

/// The minimum number of nodes per sample, empty or with work; small trees are folded repeatedly.
const EMPTY_NODES: u64 = 200_000;
const QUICK_EMPTY_NODES: u64 = 50_000;
const BUSY_NODES: u64 = 1_000;

/// The work at a node.
#[derive(Clone, Copy, Debug)]
enum Load {
    Empty,
    Nanos(u64),
    Skewed,
}

impl Load {
    fn work(self) -> Work {
        match self {
            Self::Empty => Work::Empty,
            Self::Nanos(nanos) => Work::even(Duration::from_nanos(nanos)),
            Self::Skewed => Work::skewed(),
        }
    }
}

/// A shape of trees.
#[derive(Clone, Copy)]
struct Kind {
    /// The names of its cases, one for each of [`LOADS`].
    names: [&'static str; 4],
    /// The tree with empty nodes.
    large: Shape,
    /// The tree with a microsecond per node.
    medium: Shape,
    /// The tree with longer nodes, and with `--quick`.
    small: Shape,
}

const LOADS: [Load; 4] = [
    Load::Empty,
    Load::Nanos(1_000),
    Load::Nanos(10_000),
    Load::Skewed,
];

const KINDS: [Kind; 6] = [
    Kind {
        names: ["wide_empty", "wide_1us", "wide_10us", "wide_skewed"],
        large: Shape::Full { fan: 20, levels: 3 },
        medium: Shape::Full { fan: 20, levels: 3 },
        small: Shape::Full { fan: 20, levels: 2 },
    },
    Kind {
        names: [
            "balanced_empty",
            "balanced_1us",
            "balanced_10us",
            "balanced_skewed",
        ],
        large: Shape::Balanced(50_000),
        medium: Shape::Balanced(10_000),
        small: Shape::Balanced(2_000),
    },
    Kind {
        names: ["narrow_empty", "narrow_1us", "narrow_10us", "narrow_skewed"],
        large: Shape::Full { fan: 2, levels: 15 },
        medium: Shape::Full { fan: 2, levels: 13 },
        small: Shape::Full { fan: 2, levels: 10 },
    },
    Kind {
        names: ["star_empty", "star_1us", "star_10us", "star_skewed"],
        large: Shape::Star(10_000),
        medium: Shape::Star(10_000),
        small: Shape::Star(1_000),
    },
    Kind {
        names: ["spine_empty", "spine_1us", "spine_10us", "spine_skewed"],
        large: Shape::Spine(4_001),
        medium: Shape::Spine(4_001),
        small: Shape::Spine(1_001),
    },
    Kind {
        names: ["chain_empty", "chain_1us", "chain_10us", "chain_skewed"],
        large: Shape::Chain(4_000),
        medium: Shape::Chain(4_000),
        small: Shape::Chain(1_000),
    },
];

/// Trees around the size at which a second worker pays: a small and a large one of empty nodes, and
/// two whose nodes take about 100 and 400 µs together.
const SIZES: [(&str, Shape, Load); 4] = [
    ("tree_500", Shape::Balanced(500), Load::Empty),
    (
        "narrow_262k",
        Shape::Full { fan: 2, levels: 17 },
        Load::Empty,
    ),
    (
        "narrow_100us",
        Shape::Full { fan: 2, levels: 6 },
        Load::Nanos(800),
    ),
    (
        "narrow_400us",
        Shape::Full { fan: 2, levels: 8 },
        Load::Nanos(800),
    ),
];

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, shape, load| {
        for workers in config.fork_workers() {
            cases.push(case(name, shape, load, workers, config));
        }
    };
    for kind in KINDS {
        for (name, load) in kind.names.into_iter().zip(LOADS) {
            let shape = match load {
                Load::Empty => kind.large,
                Load::Nanos(1_000) | Load::Skewed => config.pick(kind.small, kind.medium),
                Load::Nanos(_) => kind.small,
            };
            add(name, shape, load);
        }
    }
    for (name, shape, load) in SIZES {
        add(name, shape, load);
    }
    cases
}

fn case(name: &'static str, shape: Shape, load: Load, workers: usize, config: &Config) -> Case {
    let nodes = match load {
        Load::Empty => config.pick(QUICK_EMPTY_NODES, EMPTY_NODES),
        Load::Nanos(_) | Load::Skewed => BUSY_NODES,
    };
    let tree = Tree {
        workers,
        make: Rc::new(move || Task::new(shape, load.work(), nodes)),
        task: Rc::default(),
    };
    let case = fork_case(name, workers, config)
        .rounds(1, config.pick(3, 9))
        .beside_seq(ToSeq::Time)
        .system("filch", tree.by::<Filch<Adaptive>>())
        .system("filch-quiet", tree.by::<Filch<FewWakes>>())
        .system("filch-lazy-4th", tree.by::<Filch<Adaptive<OnArrival, 4>>>())
        .system("filch-lazy-end", tree.by::<Filch<Adaptive<AtTheEnd>>>())
        .system("filch-tasks", tree.by::<Filch<Tasks>>())
        .system(
            "filch-tasks-batch",
            tree.by::<Filch<Tasks<PerWorker, OnArrival, 0>>>(),
        )
        .system(
            "filch-tasks-end",
            tree.by::<Filch<Tasks<PerWorker, AtTheEnd>>>(),
        )
        .system("filch-breadth", tree.by::<Filch<Tasks<Shared>>>())
        .system(
            "filch-breadth-end",
            tree.by::<Filch<Tasks<Shared, AtTheEnd>>>(),
        )
        .system("filch-sequential", tree.by::<Sequential>())
        .system("rayon-join", tree.by::<Rayon>())
        .system("rayon-par_iter", tree.by::<ParIter>());
    let case = if workers <= HYLIC_WORKERS {
        with_hylic(case, &tree)
    } else {
        case
    };
    case.system("seq", tree.by::<Seq>())
}

/// The maximum number of workers of hylic.
const HYLIC_WORKERS: usize = 63;

fn with_hylic(case: Case, tree: &Tree) -> Case {
    case.system("hylic-default", tree.by::<Hylic<presets::Default>>())
        .system("hylic-wide_light", tree.by::<Hylic<presets::WideLight>>())
        .system(
            "hylic-low_overhead",
            tree.by::<Hylic<presets::LowOverhead>>(),
        )
        .system(
            "hylic-perworker_arrival",
            tree.by::<Hylic<presets::PerWorkerArrival>>(),
        )
        .system(
            "hylic-shared_default",
            tree.by::<Hylic<presets::SharedDefault>>(),
        )
        .system(
            "hylic-high_throughput",
            tree.by::<Hylic<presets::HighThroughput>>(),
        )
        .system(
            "hylic-streaming_wide",
            tree.by::<Hylic<presets::StreamingWide>>(),
        )
        .system("hylic-deep_narrow", tree.by::<Hylic<presets::DeepNarrow>>())
}

/// The tree that all systems of a case fold, built on first use by the main thread.
struct Tree {
    workers: usize,
    make: Rc<dyn Fn() -> Task>,
    task: Rc<OnceCell<Task>>,
}

impl Tree {
    fn by<S: Folds>(&self) -> impl FnMut() -> Sample + use<S> {
        let (make, task) = (self.make.clone(), self.task.clone());
        sampler::<S>(self.workers, move |pool| {
            S::sample(pool, *task.get_or_init(|| make()))
        })
    }
}
