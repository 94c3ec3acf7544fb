//! Systems that run loops over data, under one roof: what is done with an item is written once, the loop around it by
//! each of them as its users would.
//!
//! As in the suites of the fork-join pool, the main thread is one of the workers, on core 0. Systems in which the
//! caller takes part have one thread fewer; with rayon it sleeps while as many threads as there are workers do the work.
//! rayon on filch's workers is measured by another process: see [`driver`](crate::driver).

mod filch;
pub(crate) mod kernels;
mod rayon;
mod seq;

use crate::forks::System;
use kernels::{Body, Contract, Matrices, Picture, Sieve};

/// A system that runs loops. All of them are called from outside of the pool.
pub(crate) trait Loops: System {
    /// Adds up numbers, modulo 2^64.
    fn sum(pool: &Self::Pool, numbers: &[u64]) -> u64;

    /// The greatest number.
    fn max(pool: &Self::Pool, numbers: &[u64]) -> Option<u64>;

    /// A vector of what [`kernels::mixed`] makes of numbers.
    fn map(pool: &Self::Pool, numbers: &[u64]) -> Vec<u64>;

    /// A vector of those that [`kernels::is_wanted`].
    fn filter(pool: &Self::Pool, numbers: &[u64]) -> Vec<u64>;

    /// Changes numbers in their places.
    fn for_each(pool: &Self::Pool, numbers: &mut [u64]);

    /// Sorts numbers; equal ones keep their order.
    fn sort(pool: &Self::Pool, numbers: &mut [u64]);

    /// Sorts numbers.
    fn sort_unstable(pool: &Self::Pool, numbers: &mut [u64]);

    /// Multiplies two matrices, a row at a time.
    fn multiply(pool: &Self::Pool, matrices: &Matrices, product: &mut [f64]);

    /// Where bodies are a moment later, and how fast.
    fn step(pool: &Self::Pool, bodies: &[Body]) -> Vec<Body>;

    /// What contracts are worth.
    fn prices(pool: &Self::Pool, contracts: &[Contract]) -> Vec<f64>;

    /// Paints a picture, a row at a time.
    fn paint(pool: &Self::Pool, picture: &Picture, pixels: &mut [u32]);

    /// Counts primes, a segment at a time.
    fn primes(pool: &Self::Pool, sieve: &Sieve) -> usize;

    /// Counts the lines that have `word` in them.
    fn search(pool: &Self::Pool, lines: &[&str], word: &str) -> usize;
}
