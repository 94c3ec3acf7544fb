//! The loops of the suite.

use super::Row;
use crate::{
    loops::{
        Loops,
        kernels::{self, Body, Contract, Matrices, Picture, Sieve},
    },
    stopwatch::Stopwatch,
};
use std::hint::black_box;

/// A digest that depends on the order.
fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    let step = |sum: u64, word| kernels::mixed(sum.rotate_left(7) ^ word);
    words.into_iter().fold(0, step)
}

pub(super) struct Sum(pub(super) Vec<u64>);

impl Row for Sum {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        watch.time(|| L::sum(pool, black_box(&self.0)))
    }
}

pub(super) struct Max(pub(super) Vec<u64>);

impl Row for Max {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let max = watch.time(|| L::max(pool, black_box(&self.0)));
        max.unwrap_or(0)
    }
}

/// A vector computed from the numbers.
pub(super) struct Made {
    numbers: Vec<u64>,
    filter: bool,
}

impl Made {
    pub(super) fn map(numbers: Vec<u64>) -> Self {
        let filter = false;
        Self { numbers, filter }
    }

    pub(super) fn filter(numbers: Vec<u64>) -> Self {
        let filter = true;
        Self { numbers, filter }
    }
}

impl Row for Made {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let numbers = black_box(&self.numbers);
        let made = if self.filter {
            watch.time(|| L::filter(pool, numbers))
        } else {
            watch.time(|| L::map(pool, numbers))
        };
        digest(made)
    }
}

pub(super) struct Chain(pub(super) Vec<u64>);

impl Row for Chain {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        watch.time(|| L::chain(pool, black_box(&self.0)))
    }
}

/// Items of unequal length: rounds of a kernel.
pub(super) struct UnevenItems(Vec<u32>);

impl UnevenItems {
    /// Many short items, then some of about 50 µs.
    pub(super) fn heavy_last(short: usize, long: usize) -> Self {
        let mut rounds = vec![1; short];
        rounds.resize(short + long, LONG_ROUNDS);
        Self(rounds)
    }

    /// One item as long as all others together, which are short.
    pub(super) fn heavy_first(short: usize) -> Self {
        let mut rounds = vec![1; short + 1];
        rounds[0] = short as u32;
        Self(rounds)
    }
}

/// Rounds of [`kernels::mixed_often`] that take about 50 µs.
const LONG_ROUNDS: u32 = 25_000;

impl Row for UnevenItems {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        watch.time(|| L::rounds(pool, black_box(&self.0)))
    }
}

/// A loop in a loop, both of this length.
pub(super) struct Nested(pub(super) u64);

impl Row for Nested {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        watch.time(|| L::nested(pool, black_box(self.0)))
    }
}

pub(super) struct Each(pub(super) Vec<u64>);

impl Row for Each {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let mut numbers = self.0.clone();
        watch.time(|| L::for_each(pool, &mut numbers));
        digest(numbers)
    }
}

pub(super) struct Sorted {
    numbers: Vec<u64>,
    stable: bool,
}

impl Sorted {
    pub(super) fn stable(numbers: Vec<u64>) -> Self {
        let stable = true;
        Self { numbers, stable }
    }

    pub(super) fn unstable(numbers: Vec<u64>) -> Self {
        let stable = false;
        Self { numbers, stable }
    }
}

impl Row for Sorted {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let mut numbers = self.numbers.clone();
        if self.stable {
            watch.time(|| L::sort(pool, &mut numbers));
        } else {
            watch.time(|| L::sort_unstable(pool, &mut numbers));
        }
        digest(numbers)
    }
}

pub(super) struct Product(pub(super) Matrices);

impl Row for Product {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let mut product = vec![0.0; self.0.order * self.0.order];
        watch.time(|| L::multiply(pool, &self.0, &mut product));
        digest(product.into_iter().map(f64::to_bits))
    }
}

/// Gravity between all pairs of bodies.
pub(super) struct Pairs(pub(super) Vec<Body>);

impl Row for Pairs {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let moved = watch.time(|| L::step(pool, &self.0));
        digest(moved.iter().map(Body::digest))
    }
}

pub(super) struct Worth(pub(super) Vec<Contract>);

impl Row for Worth {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let prices = watch.time(|| L::prices(pool, &self.0));
        digest(prices.into_iter().map(f64::to_bits))
    }
}

pub(super) struct Frame(pub(super) Picture);

impl Row for Frame {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let mut pixels = vec![0; self.0.width * self.0.height];
        watch.time(|| L::paint(pool, &self.0, &mut pixels));
        digest(pixels.into_iter().map(u64::from))
    }
}

pub(super) struct Primes(pub(super) Sieve);

impl Row for Primes {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        watch.time(|| L::primes(pool, &self.0)) as u64
    }
}

/// Lines of text, some of which contain a word.
pub(super) struct Search(pub(super) String);

impl Row for Search {
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64 {
        let lines: Vec<&str> = self.0.lines().collect();
        watch.time(|| L::search(pool, &lines, black_box("stolen"))) as u64
    }
}
