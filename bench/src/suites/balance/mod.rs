//! Load balancing: tasks of equal and unequal lengths, and the time until all workers are done.
//!
//! The main thread is one of the workers, as in the suites of the fork-join pool.

mod single_queue;
mod systems;

use super::work::fork_case;
use crate::{
    busy::Busy,
    forks::{Filch, Rayon, sampler},
    harness::{Case, Config},
    pin,
    stopwatch::{Sample, Stopwatch},
};
use filch::Rng;
use std::time::Duration;
use systems::{Balances, SingleQueue};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let loads = [
        ("uniform", Load::uniform(5_000)),
        ("mixed", Load::mixed(1_000)),
        ("irregular", Load::irregular(5_000)),
        ("recursive", Load::Tree(20)),
    ];
    let mut cases = Vec::new();
    for (name, load) in loads {
        for workers in config.workers(&[1, 2, 4]) {
            let by = [load.clone(), load.clone(), load.clone()];
            let [filch, rayon, single] = by;
            let parallel = workers.min(pin::cores().len()) as f64;
            cases.push(
                fork_case(name, workers, config)
                    .ideal(load.nanos_per_op() / parallel)
                    .system(
                        "filch",
                        sampler::<Filch>(workers, move |pool| filch.sample::<Filch>(pool)),
                    )
                    .system(
                        "rayon",
                        sampler::<Rayon>(workers, move |pool| rayon.sample::<Rayon>(pool)),
                    )
                    .system(
                        "single-queue",
                        sampler::<SingleQueue>(workers, move |pool| {
                            single.sample::<SingleQueue>(pool)
                        }),
                    ),
            );
        }
    }
    cases
}

/// The tasks of a case. An operation is a task that works.
#[derive(Clone, Debug)]
enum Load {
    /// Tasks of these lengths, submitted one by one by a task that then waits for all of them.
    Flat(Vec<Duration>),
    /// A Fibonacci tree: a task submits the two smaller numbers as tasks and waits for both; the
    /// smallest two numbers work instead.
    Tree(u32),
}

/// The seed of the lengths, fixed so that they are always the same.
const SEED: u64 = 2;

impl Load {
    fn uniform(tasks: usize) -> Self {
        Self::Flat(vec![Duration::from_micros(10); tasks])
    }

    /// One task in ten takes a hundred times as long.
    fn mixed(tasks: usize) -> Self {
        let mut rng = Rng::for_worker(SEED, 0);
        let length = |_| match rng.below(10) {
            0 => Duration::from_micros(500),
            _ => Duration::from_micros(5),
        };
        Self::Flat((0..tasks).map(length).collect())
    }

    /// Lengths of a Pareto distribution: most tasks are short, and a few take most of the time.
    fn irregular(tasks: usize) -> Self {
        const SHORTEST: f64 = 2.0;
        const LONGEST: f64 = 2_000.0;
        const SHAPE: f64 = 1.1;
        let mut rng = Rng::for_worker(SEED, 0);
        let length = |_| {
            let share = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let micros = SHORTEST * (1.0 - share).powf(-1.0 / SHAPE);
            Duration::from_secs_f64(micros.min(LONGEST) * 1e-6)
        };
        Self::Flat((0..tasks).map(length).collect())
    }

    /// The number of tasks that work.
    fn ops(&self) -> u64 {
        match self {
            Self::Flat(lengths) => lengths.len() as u64,
            Self::Tree(number) => leaves(*number),
        }
    }

    /// The average length of a task.
    fn nanos_per_op(&self) -> f64 {
        match self {
            Self::Flat(lengths) => {
                lengths.iter().sum::<Duration>().as_secs_f64() * 1e9 / lengths.len() as f64
            }
            Self::Tree(_) => LEAF.as_secs_f64() * 1e9,
        }
    }

    fn sample<S: Balances>(&self, pool: &S::Pool) -> Sample {
        let mut watch = Stopwatch::default();
        let done = match self {
            Self::Flat(lengths) => {
                let tasks: Vec<_> = lengths.iter().map(|&length| Busy::of(length)).collect();
                watch.time(|| S::flat(pool, &tasks))
            }
            Self::Tree(number) => {
                let leaf = Busy::of(LEAF);
                watch.time(|| S::tree(pool, *number, leaf))
            }
        };
        assert_eq!(done, self.ops(), "not every task ran once");
        watch.sample(self.ops())
    }
}

/// The length of a leaf of the tree.
const LEAF: Duration = Duration::from_micros(2);

/// The number of leaves in the tree of a number.
fn leaves(number: u32) -> u64 {
    let (mut this, mut next) = (1, 1);
    for _ in 1..number {
        (this, next) = (next, this + next);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::{Balances, Load, SingleQueue};
    use crate::forks::{Filch, Rayon};

    #[test]
    fn every_task_runs_once() {
        fn on<S: Balances>() {
            for workers in [1, 2, 5] {
                let pool = S::pool(workers);
                for load in [
                    Load::uniform(100),
                    Load::mixed(50),
                    Load::irregular(100),
                    Load::Tree(10),
                    Load::Tree(1),
                ] {
                    let _ = load.sample::<S>(&pool);
                }
            }
        }
        on::<Filch>();
        on::<Rayon>();
        on::<SingleQueue>();
    }

    #[test]
    fn lengths_are_what_they_are_said_to_be() {
        assert_eq!(Load::Tree(10).ops(), 89);
        assert_eq!(Load::uniform(10).nanos_per_op(), 10_000.0);
        let mixed = Load::mixed(1_000).nanos_per_op();
        assert!((40_000.0..70_000.0).contains(&mixed), "{mixed}");
        let Load::Flat(mut lengths) = Load::irregular(5_000) else {
            panic!("not flat");
        };
        lengths.sort();
        let half: u128 = lengths.iter().map(|length| length.as_nanos()).sum::<u128>() / 2;
        let longest: u128 = lengths[4_500..]
            .iter()
            .map(|length| length.as_nanos())
            .sum();
        assert!(longest > half, "a tenth of the tasks has most of the work");
    }
}
