//! Small calls from outside: the cost of entering the pool.

use super::work::{Work, fork_case, join_cases};
use crate::{
    forks::{Chili, Filch, Joins, Rayon, sampler},
    harness::{Case, Config},
    stopwatch::{Sample, Stopwatch},
};
use std::hint::black_box;

/// The number of elements, and the sequential cutoff.
const NUMBERS: u64 = 10_000;
const CHUNK: usize = 500;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let calls = config.pick(1_000, 10_000);
    let mut cases = Vec::new();
    let sums = join_cases("sum_outside", config, move || Sums::new(calls));
    cases.extend(sums.into_iter().map(Case::over_seq));
    for workers in config.fork_workers() {
        cases.push(
            fork_case("round_trip", workers, config)
                .system(
                    "filch",
                    calling::<Filch>(workers, calls, round_trip::<Filch>),
                )
                .system(
                    "rayon",
                    calling::<Rayon>(workers, calls, round_trip::<Rayon>),
                )
                .system(
                    "chili",
                    calling::<Chili>(workers, calls, round_trip::<Chili>),
                ),
        );
    }
    for workers in config.fork_workers() {
        cases.push(
            fork_case("round_trip_join", workers, config)
                .system(
                    "filch",
                    calling::<Filch>(workers, calls, empty_join::<Filch>),
                )
                .system(
                    "rayon",
                    calling::<Rayon>(workers, calls, empty_join::<Rayon>),
                )
                .system(
                    "chili",
                    calling::<Chili>(workers, calls, empty_join::<Chili>),
                ),
        );
    }
    cases
}

/// A slice that is summed repeatedly. An operation is a call from outside.
#[derive(Debug)]
struct Sums {
    numbers: Vec<u64>,
    calls: u64,
}

impl Sums {
    fn new(calls: u64) -> Self {
        Self {
            numbers: (0..NUMBERS).collect(),
            calls,
        }
    }
}

fn sum<J: Joins>(cx: &mut J::Cx<'_>, numbers: &[u64]) -> u64 {
    if numbers.len() <= CHUNK {
        return numbers.iter().sum();
    }
    // The left part has whole chunks.
    let middle = (numbers.len() / 2).next_multiple_of(CHUNK);
    let (left, right) = numbers.split_at(middle);
    let (a, b) = J::join(cx, |cx| sum::<J>(cx, left), |cx| sum::<J>(cx, right));
    a + b
}

impl Work for Sums {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        let call = |_| {
            let numbers = black_box(&*self.numbers);
            J::enter(pool, |cx| sum::<J>(cx, numbers))
        };
        (0..self.calls).map(call).sum()
    }

    fn expected(&self) -> u64 {
        self.calls * (NUMBERS * (NUMBERS - 1) / 2)
    }

    fn ops(&self) -> u64 {
        self.calls
    }
}

/// Makes the same call from outside `calls` times.
fn calling<J: Joins>(workers: usize, calls: u64, call: fn(&J::Pool)) -> impl FnMut() -> Sample {
    sampler::<J>(workers, move |pool| {
        let mut watch = Stopwatch::default();
        watch.time(|| (0..calls).for_each(|_| call(pool)));
        watch.sample(calls)
    })
}

fn round_trip<J: Joins>(pool: &J::Pool) {
    J::enter(pool, |_| ());
}

fn empty_join<J: Joins>(pool: &J::Pool) {
    J::enter(pool, |cx| {
        J::join(cx, |_| (), |_| ());
    });
}

#[cfg(test)]
mod tests {
    use super::Sums;
    use crate::suites::work::check;

    #[test]
    fn all_systems_agree() {
        check(Sums::new(20));
    }
}
