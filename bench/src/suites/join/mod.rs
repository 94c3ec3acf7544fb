//! Trees of joins, without a sequential cutoff.

mod fib;
mod queens;
mod tree;
mod uts;

use super::work::{crowd_cases, join_cases};
use crate::harness::{Case, Config};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let fib = config.pick(fib::Fib(25), fib::Fib(30));
    let (roots, seed) = config.pick((120, 5), (2000, 3));
    let board = config.pick(9, 11);
    let depth = 20;
    [
        crowd_cases("fib", config, move || fib),
        crowd_cases("uts", config, move || uts::Forest::new(roots, seed)),
        join_cases("nqueens", config, move || queens::Queens::new(board)),
        join_cases("tree", config, move || tree::Tree::new(depth)),
        join_cases("tree_foreign", config, move || tree::Tree::foreign(depth)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
