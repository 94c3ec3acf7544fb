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
        let mixed = |number: &u64| kernels::mixed(*number);
        pool.over(numbers).map(mixed).collect()
    }

    fn filter(pool: &Pool, numbers: &[u64]) -> Vec<u64> {
        let wanted = |number: &u64| kernels::is_wanted(*number);
        pool.over(numbers).cloned().filter(wanted).collect()
    }

    fn chain(pool: &Pool, numbers: &[u64]) -> u64 {
        let wanted = pool
            .over(numbers)
            .copied()
            .filter(|n| kernels::is_wanted(*n));
        let sum = wanted.map(kernels::mixed).reduce(u64::wrapping_add);
        sum.unwrap_or(0)
    }

    fn rounds(pool: &Pool, rounds: &[u32]) -> u64 {
        let results = pool
            .over(rounds)
            .map(|rounds| kernels::mixed_often(*rounds));
        results.reduce(u64::wrapping_add).unwrap_or(0)
    }

    fn nested(pool: &Pool, side: u64) -> u64 {
        let row = |y| {
            let cells = filch::over(0..side).map(|x| kernels::mixed(x * y));
            cells.reduce(u64::wrapping_add).unwrap_or(0)
        };
        let sum = pool.over(0..side).map(row).reduce(u64::wrapping_add);
        sum.unwrap_or(0)
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
        rows.enumerate().for_each(|(y, row)| matrices.row(y, row));
    }

    fn step(pool: &Pool, bodies: &[Body]) -> Vec<Body> {
        pool.over(bodies).map(|body| body.moved(bodies)).collect()
    }

    fn prices(pool: &Pool, contracts: &[Contract]) -> Vec<f64> {
        pool.over(contracts).map(Contract::price).collect()
    }

    fn paint(pool: &Pool, picture: &Picture, pixels: &mut [u32]) {
        let rows = pool.over(pixels).chunks(picture.width);
        rows.enumerate().for_each(|(y, row)| picture.row(y, row));
    }

    fn primes(pool: &Pool, sieve: &Sieve) -> usize {
        let count = |segment| sieve.count(segment);
        pool.over(sieve.segments()).map(count).sum()
    }

    fn search(pool: &Pool, lines: &[&str], word: &str) -> usize {
        let found = pool.over(lines).filter(|line| line.contains(word));
        found.count()
    }
}
