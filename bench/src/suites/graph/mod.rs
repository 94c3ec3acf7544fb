//! Graphs of tasks.
//!
//! The main thread is one of the workers, as in the suites of the fork-join pool.

mod dynamic;
mod nested;
mod round_trip;
mod shapes;
mod tables;
mod uneven;

use crate::harness::{Case, Config};
use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let mut cases = round_trip::cases(config);
    cases.extend(shapes::cases(config));
    cases.extend(dynamic::cases(config));
    cases.extend(nested::cases(config));
    cases.extend(tables::cases(config));
    cases.extend(uneven::cases(config));
    cases
}

/// The number of tasks in the largest graph.
const MOST_TASKS: usize = 1 << 20;

/// A counter per task, so that tasks share no memory.
#[derive(Debug, Default)]
struct Place(AtomicU32);

impl Place {
    /// The body of a task: counts one run.
    #[inline(always)]
    fn mark(&self) {
        // Relaxed, without a read-modify-write: one task writes here, and its runs do not overlap.
        let runs = self.0.load(Ordering::Relaxed);
        self.0.store(runs + 1, Ordering::Relaxed);
    }
}

/// The places of all tasks. All systems use the same array in turn.
fn places() -> &'static [Place] {
    static PLACES: OnceLock<Vec<Place>> = OnceLock::new();
    PLACES.get_or_init(|| (0..MOST_TASKS).map(|_| Place::default()).collect())
}

/// Checks and clears the places.
///
/// # Panics
/// When one of the first `tasks` tasks did not run `times` times.
fn check_places(tasks: usize, times: u64) {
    for (task, place) in places()[..tasks].iter().enumerate() {
        // Relaxed: the calling thread has waited for the run of the graph.
        let runs = place.0.swap(0, Ordering::Relaxed);
        assert_eq!(u64::from(runs), times, "runs of task {task}");
    }
}

#[cfg(test)]
mod tests {
    use super::{dynamic, nested, round_trip, shapes, tables, uneven};
    use crate::{harness::Config, suites::work::fork_case};

    /// One test, since there is one array of places.
    #[test]
    fn every_system_runs_every_task_once() {
        let config = Config {
            quick: true,
            workers: Some(vec![1, 2, 3]),
            ..Config::default()
        };
        let mut cases = shapes::cases_of(&config, 200, |_| 100);
        cases.extend(dynamic::cases_of(&config, 50, 100));
        cases.extend(nested::cases_of(&config, 8, 100));
        cases.extend(tables::cases_of(&config, 1000));
        cases.extend(uneven::cases_of(&config, 1000));
        for workers in [1, 2, 3] {
            let case = fork_case("round_trip", workers, &config);
            cases.push(round_trip::systems(case, workers, 3));
        }
        for case in cases {
            // A sample checks its results itself.
            case.rounds(1, 1).run();
        }
    }
}
