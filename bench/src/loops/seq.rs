//! The standard library's iterators, on the calling thread.

use super::{
    Loops,
    kernels::{self, Body, Contract, Matrices, Picture, Sieve},
};
use crate::forks::Seq;

impl Loops for Seq {
    fn sum((): &(), numbers: &[u64]) -> u64 {
        numbers.iter().copied().fold(0, u64::wrapping_add)
    }

    fn max((): &(), numbers: &[u64]) -> Option<u64> {
        numbers.iter().max().copied()
    }

    fn map((): &(), numbers: &[u64]) -> Vec<u64> {
        numbers
            .iter()
            .map(|number| kernels::mixed(*number))
            .collect()
    }

    fn filter((): &(), numbers: &[u64]) -> Vec<u64> {
        let wanted = |number: &u64| kernels::is_wanted(*number);
        numbers.iter().copied().filter(wanted).collect()
    }

    fn chain((): &(), numbers: &[u64]) -> u64 {
        let wanted = numbers.iter().copied().filter(|n| kernels::is_wanted(*n));
        wanted.map(kernels::mixed).fold(0, u64::wrapping_add)
    }

    fn rounds((): &(), rounds: &[u32]) -> u64 {
        let results = rounds.iter().map(|rounds| kernels::mixed_often(*rounds));
        results.fold(0, u64::wrapping_add)
    }

    fn nested((): &(), side: u64) -> u64 {
        let row = |y| {
            (0..side)
                .map(|x| kernels::mixed(x * y))
                .fold(0, u64::wrapping_add)
        };
        (0..side).map(row).fold(0, u64::wrapping_add)
    }

    fn for_each((): &(), numbers: &mut [u64]) {
        numbers
            .iter_mut()
            .for_each(|number| *number = kernels::mixed(*number));
    }

    fn sort((): &(), numbers: &mut [u64]) {
        numbers.sort();
    }

    fn sort_unstable((): &(), numbers: &mut [u64]) {
        numbers.sort_unstable();
    }

    fn multiply((): &(), matrices: &Matrices, product: &mut [f64]) {
        let rows = product.chunks_mut(matrices.order).enumerate();
        rows.for_each(|(y, row)| matrices.row(y, row));
    }

    fn step((): &(), bodies: &[Body]) -> Vec<Body> {
        bodies.iter().map(|body| body.moved(bodies)).collect()
    }

    fn prices((): &(), contracts: &[Contract]) -> Vec<f64> {
        contracts.iter().map(Contract::price).collect()
    }

    fn paint((): &(), picture: &Picture, pixels: &mut [u32]) {
        let rows = pixels.chunks_mut(picture.width).enumerate();
        rows.for_each(|(y, row)| picture.row(y, row));
    }

    fn primes((): &(), sieve: &Sieve) -> usize {
        sieve.segments().map(|segment| sieve.count(segment)).sum()
    }

    fn search((): &(), lines: &[&str], word: &str) -> usize {
        lines.iter().filter(|line| line.contains(word)).count()
    }
}
