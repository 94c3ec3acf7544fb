//! Sums of floating-point numbers: that of any order, and that of a fixed one.

use crate::{
    forks::{Filch, Rayon, Seq, System, sampler},
    harness::{Case, Config, ToSeq, Unit},
    loops::kernels,
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::{cell::OnceCell, hint::black_box, rc::Rc};

/// Numbers, made on first use, and their sum. They are integers below 2^20, so every sum is exact
/// and all systems must return the same.
type Numbers = Rc<OnceCell<(Vec<f64>, f64)>>;

/// An operation is the whole sum.
pub(super) fn case(workers: usize, count: usize, config: &Config) -> Case {
    let numbers = Numbers::default();
    fork_case("sum_deterministic", workers, config)
        .beside_seq(ToSeq::Speed)
        .unit(Unit::Millis)
        .system(
            "filch",
            summing::<Filch>(workers, count, &numbers, |pool, numbers| {
                pool.over(numbers).deterministic().sum()
            }),
        )
        .system(
            "filch-plain",
            summing::<Filch>(workers, count, &numbers, |pool, numbers| {
                pool.over(numbers).sum()
            }),
        )
        .system(
            "rayon",
            summing::<Rayon>(workers, count, &numbers, |pool, numbers| {
                pool.install(|| numbers.par_iter().sum())
            }),
        )
        .system(
            "seq",
            summing::<Seq>(workers, count, &numbers, |(), numbers| numbers.iter().sum()),
        )
}

fn summing<S: System>(
    workers: usize,
    count: usize,
    numbers: &Numbers,
    sum: fn(&S::Pool, &[f64]) -> f64,
) -> impl FnMut() -> Sample + use<S> {
    let numbers = numbers.clone();
    sampler::<S>(workers, move |pool| {
        let (numbers, expected) = numbers.get_or_init(|| {
            let numbers = kernels::numbers(count).into_iter();
            let numbers: Vec<f64> = numbers.map(|n| (n >> 44) as f64).collect();
            let sum = numbers.iter().sum();
            (numbers, sum)
        });
        let mut watch = Stopwatch::default();
        let sum = watch.time(|| sum(pool, black_box(numbers)));
        assert!(sum == *expected, "a wrong result");
        watch.sample(1)
    })
}
