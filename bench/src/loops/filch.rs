//! filch's own loops.

use super::{
    Loops,
    kernels::{self, Body, Contract, Matrices, Picture, Sieve},
};
use crate::forks::Filch;
use filch::Pool;

impl Loops for Filch {
    fn sum(pool: &Pool, numbers: &[u64]) -> u64 {
        let sum = pool.over(numbers).cloned().reduce(u64::wrapping_add);
        sum.unwrap_or(0)
    }

    fn max(pool: &Pool, numbers: &[u64]) -> Option<u64> {
        pool.over(numbers).max().copied()
    }

    fn map(pool: &Pool, numbers: &[u64]) -> Vec<u64> {
        pool.over(numbers).map(|number| kernels::mixed(*number))
    }

    fn filter(pool: &Pool, numbers: &[u64]) -> Vec<u64> {
        let wanted = |number: &u64| kernels::is_wanted(*number);
        pool.over(numbers).cloned().filter(wanted)
    }

    fn for_each(pool: &Pool, numbers: &mut [u64]) {
        pool.over(numbers)
            .for_each(|number| *number = kernels::mixed(*number));
    }

    fn sort(pool: &Pool, numbers: &mut [u64]) {
        pool.over(numbers).sort();
    }

    fn sort_unstable(pool: &Pool, numbers: &mut [u64]) {
        pool.over(numbers).sort_unstable();
    }

    fn multiply(pool: &Pool, matrices: &Matrices, product: &mut [f64]) {
        let rows = pool.over(product).chunks(matrices.order);
        rows.for_each_index(|y, row| matrices.row(y, row));
    }

    fn step(pool: &Pool, bodies: &[Body]) -> Vec<Body> {
        pool.over(bodies).map(|body| body.moved(bodies))
    }

    fn prices(pool: &Pool, contracts: &[Contract]) -> Vec<f64> {
        pool.over(contracts).map(Contract::price)
    }

    fn paint(pool: &Pool, picture: &Picture, pixels: &mut [u32]) {
        let rows = pool.over(pixels).chunks(picture.width);
        rows.for_each_index(|y, row| picture.row(y, row));
    }

    fn primes(pool: &Pool, sieve: &Sieve) -> usize {
        let count = |segment| sieve.count(segment);
        let primes = pool.over(sieve.segments()).map_reduce(count, |a, b| a + b);
        primes.unwrap_or(0)
    }

    fn search(pool: &Pool, lines: &[&str], word: &str) -> usize {
        pool.over(lines).count(|line| line.contains(word))
    }
}
