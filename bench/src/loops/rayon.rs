//! rayon's iterators.

use super::{
    Loops,
    kernels::{self, Body, Contract, Matrices, Picture, Sieve},
};
use crate::forks::Rayon;
use rayon::{ThreadPool, prelude::*};

impl Loops for Rayon {
    fn sum(pool: &ThreadPool, numbers: &[u64]) -> u64 {
        pool.install(|| numbers.par_iter().copied().reduce(|| 0, u64::wrapping_add))
    }

    fn max(pool: &ThreadPool, numbers: &[u64]) -> Option<u64> {
        pool.install(|| numbers.par_iter().max().copied())
    }

    fn map(pool: &ThreadPool, numbers: &[u64]) -> Vec<u64> {
        let map = |number: &u64| kernels::mixed(*number);
        pool.install(|| numbers.par_iter().map(map).collect())
    }

    fn filter(pool: &ThreadPool, numbers: &[u64]) -> Vec<u64> {
        let wanted = |number: &u64| kernels::is_wanted(*number);
        pool.install(|| numbers.par_iter().copied().filter(wanted).collect())
    }

    fn chain(pool: &ThreadPool, numbers: &[u64]) -> u64 {
        pool.install(|| {
            let wanted = numbers
                .par_iter()
                .copied()
                .filter(|n| kernels::is_wanted(*n));
            wanted.map(kernels::mixed).reduce(|| 0, u64::wrapping_add)
        })
    }

    fn rounds(pool: &ThreadPool, rounds: &[u32]) -> u64 {
        pool.install(|| {
            let results = rounds
                .par_iter()
                .map(|rounds| kernels::mixed_often(*rounds));
            results.reduce(|| 0, u64::wrapping_add)
        })
    }

    fn nested(pool: &ThreadPool, side: u64) -> u64 {
        let row = |y| {
            let cells = (0..side).into_par_iter().map(|x| kernels::mixed(x * y));
            cells.reduce(|| 0, u64::wrapping_add)
        };
        pool.install(|| {
            (0..side)
                .into_par_iter()
                .map(row)
                .reduce(|| 0, u64::wrapping_add)
        })
    }

    fn for_each(pool: &ThreadPool, numbers: &mut [u64]) {
        pool.install(|| {
            numbers
                .par_iter_mut()
                .for_each(|number| *number = kernels::mixed(*number));
        });
    }

    fn sort(pool: &ThreadPool, numbers: &mut [u64]) {
        pool.install(|| numbers.par_sort());
    }

    fn sort_unstable(pool: &ThreadPool, numbers: &mut [u64]) {
        pool.install(|| numbers.par_sort_unstable());
    }

    fn multiply(pool: &ThreadPool, matrices: &Matrices, product: &mut [f64]) {
        pool.install(|| {
            let rows = product.par_chunks_mut(matrices.order).enumerate();
            rows.for_each(|(y, row)| matrices.row(y, row));
        });
    }

    fn step(pool: &ThreadPool, bodies: &[Body]) -> Vec<Body> {
        pool.install(|| bodies.par_iter().map(|body| body.moved(bodies)).collect())
    }

    fn prices(pool: &ThreadPool, contracts: &[Contract]) -> Vec<f64> {
        pool.install(|| contracts.par_iter().map(Contract::price).collect())
    }

    fn paint(pool: &ThreadPool, picture: &Picture, pixels: &mut [u32]) {
        pool.install(|| {
            let rows = pixels.par_chunks_mut(picture.width).enumerate();
            rows.for_each(|(y, row)| picture.row(y, row));
        });
    }

    fn primes(pool: &ThreadPool, sieve: &Sieve) -> usize {
        let count = |segment| sieve.count(segment);
        pool.install(|| sieve.segments().into_par_iter().map(count).sum())
    }

    fn search(pool: &ThreadPool, lines: &[&str], word: &str) -> usize {
        pool.install(|| {
            let found = lines.par_iter().filter(|line| line.contains(word));
            found.count()
        })
    }
}
