//! Trees of joins, without a sequential cutoff.

mod fib;
mod queens;
mod tree;
mod uts;

use super::work::{carrying, crowd_cases, join_cases};
use crate::harness::{Case, Config};

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let fib = config.pick(fib::Fib(25), fib::Fib(30));
    let (roots, seed) = config.pick((120, 5), (2000, 3));
    let board = config.pick(9, 11);
    let depth = 20;
    let forest = move || uts::Forest::new(roots, seed);
    let queens = move || queens::Queens::new(board);
    let (tree, foreign) = (
        move || tree::Tree::new(depth),
        move || tree::Tree::foreign(depth),
    );
    [
        carrying(crowd_cases("fib", config, move || fib), move || fib),
        carrying(crowd_cases("uts", config, forest), forest),
        carrying(join_cases("nqueens", config, queens), queens),
        carrying(join_cases("tree", config, tree), tree),
        carrying(join_cases("tree_foreign", config, foreign), foreign),
    ]
    .into_iter()
    .flatten()
    .collect()
}
