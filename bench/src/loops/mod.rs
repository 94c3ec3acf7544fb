//! Systems that run loops over data, behind one trait: the work on an item is written once, and the
//! loop around it by each system as its users would.
//!
//! The main thread is one of the workers, on core 0, as in the suites of the fork-join pool.
//! Systems in which the caller takes part have one thread fewer. With rayon it sleeps while
//! `workers` threads do the work. rayon on filch's workers is measured by another process: see
//! [`driver`](crate::driver).

mod filch;
pub(crate) mod kernels;
mod rayon;
mod seq;

use crate::forks::System;
use kernels::{Body, Contract, Matrices, Picture, Sieve};

/// A system that runs loops. All methods are called from outside of the pool.
pub(crate) trait Loops: System {
    /// The sum of numbers, modulo 2^64.
    fn sum(pool: &Self::Pool, numbers: &[u64]) -> u64;

    /// The greatest number.
    fn max(pool: &Self::Pool, numbers: &[u64]) -> Option<u64>;

    /// Collects [`kernels::mixed`] of each number.
    fn map(pool: &Self::Pool, numbers: &[u64]) -> Vec<u64>;

    /// Collects the numbers for which [`kernels::is_wanted`] holds.
    fn filter(pool: &Self::Pool, numbers: &[u64]) -> Vec<u64>;

    /// The sum of [`kernels::mixed`] of the numbers for which [`kernels::is_wanted`] holds, in one
    /// pass, modulo 2^64.
    fn chain(pool: &Self::Pool, numbers: &[u64]) -> u64;

    /// The sum of [`kernels::mixed_often`] of each number, modulo 2^64.
    fn rounds(pool: &Self::Pool, rounds: &[u32]) -> u64;

    /// A loop in a loop: the sum of [`kernels::mixed`] of the products of all pairs of numbers
    /// below `side`, modulo 2^64.
    fn nested(pool: &Self::Pool, side: u64) -> u64;

    /// Updates numbers in place.
    fn for_each(pool: &Self::Pool, numbers: &mut [u64]);

    /// Sorts numbers by a stable sort.
    fn sort(pool: &Self::Pool, numbers: &mut [u64]);

    /// Sorts numbers by an unstable sort.
    fn sort_unstable(pool: &Self::Pool, numbers: &mut [u64]);

    /// Multiplies two matrices, a row at a time.
    fn multiply(pool: &Self::Pool, matrices: &Matrices, product: &mut [f64]);

    /// The positions and velocities of bodies after one time step.
    fn step(pool: &Self::Pool, bodies: &[Body]) -> Vec<Body>;

    /// The values of contracts.
    fn prices(pool: &Self::Pool, contracts: &[Contract]) -> Vec<f64>;

    /// Renders a picture, a row at a time.
    fn paint(pool: &Self::Pool, picture: &Picture, pixels: &mut [u32]);

    /// Counts primes, a segment at a time.
    fn primes(pool: &Self::Pool, sieve: &Sieve) -> usize;

    /// Counts the lines that contain `word`.
    fn search(pool: &Self::Pool, lines: &[&str], word: &str) -> usize;
}
