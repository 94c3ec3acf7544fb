//! Inputs that are not random, and items that are not numbers.

use crate::{
    forks::{Filch, Rayon, Seq, sampler},
    harness::{Case, Config, Unit},
    stopwatch::{Sample, Stopwatch},
    suites::work::fork_case,
};
use filch::Rng;
use rayon::slice::ParallelSliceMut;
use std::{cell::OnceCell, rc::Rc};

/// A kind of input and the way to sort it.
struct Input<T> {
    name: &'static str,
    stable: bool,
    make: fn(usize) -> Vec<T>,
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let count = config.pick(400_000, 4_000_000);
    let mut cases = Vec::new();
    for workers in config.fork_workers() {
        let mut add = |name, stable, make| {
            cases.push(case(workers, count, Input { name, stable, make }, config));
        };
        add("sorted", true, sorted);
        add("swaps_1000", true, swapped);
        add("swaps_1000_unstable", false, swapped);
        add("keys_256_unstable", false, |count| keys(count, 256));
        add("keys_16_unstable", false, |count| keys(count, 16));
        add("random", true, |count| keys(count, u64::MAX));
        add("random_unstable", false, |count| keys(count, u64::MAX));
        let mut add = |name, stable, make| {
            cases.push(case(workers, count, Input { name, stable, make }, config));
        };
        add("reversed_floats", true, reversed_floats);
        add("random_floats_unstable", false, random_floats);
        let mut add = |name, stable, make| {
            cases.push(case(
                workers,
                count / 4,
                Input { name, stable, make },
                config,
            ));
        };
        add("strings", true, strings);
        add("strings_unstable", false, strings);
    }
    cases
}

/// Sorts a copy of the input with the given function, and times it.
type Sampler<T> = dyn Fn(&dyn Fn(&mut [T])) -> Sample;

fn case<T>(workers: usize, count: usize, input: Input<T>, config: &Config) -> Case
where
    T: Item,
{
    let made = Rc::new(OnceCell::new());
    let Input { name, stable, make } = input;
    let sample = move |sort: &dyn Fn(&mut [T])| {
        let mut items = made.get_or_init(|| make(count)).clone();
        let mut watch = Stopwatch::default();
        watch.time(|| sort(&mut items));
        assert!(items.is_sorted_by(|a, b| !T::less(b, a)), "not sorted");
        watch.sample(1)
    };
    let sample: Rc<Sampler<T>> = Rc::new(sample);
    let (for_filch, for_rayon, for_std) = (sample.clone(), sample.clone(), sample);
    fork_case(name, workers, config)
        .unit(Unit::Millis)
        .system(
            "filch",
            sampler::<Filch>(workers, move |pool: &filch::Pool| {
                for_filch(&|items: &mut [T]| match stable {
                    true => pool.over(items).sort_by(T::compare),
                    false => pool.over(items).sort_unstable_by(T::compare),
                })
            }),
        )
        .system(
            "rayon",
            sampler::<Rayon>(workers, move |pool: &rayon::ThreadPool| {
                for_rayon(&|items: &mut [T]| {
                    pool.install(|| match stable {
                        true => items.par_sort_by(T::compare),
                        false => items.par_sort_unstable_by(T::compare),
                    });
                })
            }),
        )
        .system(
            "seq",
            sampler::<Seq>(workers, move |(): &()| {
                for_std(&|items: &mut [T]| match stable {
                    true => items.sort_by(T::compare),
                    false => items.sort_unstable_by(T::compare),
                })
            }),
        )
}

/// What is sorted.
trait Item: Clone + Send + 'static {
    fn compare(&self, other: &Self) -> std::cmp::Ordering;

    fn less(&self, other: &Self) -> bool {
        self.compare(other).is_lt()
    }
}

impl Item for u64 {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.cmp(other)
    }
}

impl Item for f64 {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.total_cmp(other)
    }
}

impl Item for String {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.cmp(other)
    }
}

fn sorted(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}

fn reversed_floats(count: usize) -> Vec<f64> {
    (0..count).rev().map(|n| n as f64).collect()
}

/// Sorted, but for 1,000 pairs that are swapped.
fn swapped(count: usize) -> Vec<u64> {
    let (mut numbers, mut rng) = (sorted(count), Rng::new(5));
    let mut place = || (rng.next_u64() % count as u64) as usize;
    for _ in 0..1_000 {
        numbers.swap(place(), place());
    }
    numbers
}

/// Random numbers below `keys`.
fn keys(count: usize, keys: u64) -> Vec<u64> {
    let mut rng = Rng::new(6);
    (0..count).map(|_| rng.next_u64() % keys).collect()
}

fn random_floats(count: usize) -> Vec<f64> {
    let numbers = keys(count, 1 << 53).into_iter();
    numbers.map(|number| number as f64 / 1e6).collect()
}

fn strings(count: usize) -> Vec<String> {
    let numbers = keys(count, u64::MAX).into_iter();
    numbers.map(|number| format!("{number:x}")).collect()
}
