//! Unbalanced tree search: trees of unpredictable shape, most of them tiny and some deep.
//!
//! A node has two children with a probability of a little less than a half. A hash decides, so the
//! trees are always the same.

use crate::{
    forks::{Joins, Seq},
    suites::work::Work,
};
use filch::CurrentWorker;
use std::ops::Range;

/// The probability that a node has children.
const FERTILITY: f64 = 0.4998;

/// A node has children if its hash is below this.
const LIMIT: u64 = (FERTILITY * 18_446_744_073_709_551_616.0) as u64;

/// Trees to search. An operation is a node.
#[derive(Debug)]
pub(super) struct Forest {
    seed: u64,
    trees: u64,
    nodes: u64,
}

impl Forest {
    pub(super) fn new(trees: u64, seed: u64) -> Self {
        Self {
            seed: mix(seed),
            trees,
            nodes: search::<Seq>(&mut (), mix(seed), 0..trees),
        }
    }
}

/// The increment and the hash of splitmix64.
#[inline(always)]
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Counts the nodes of some trees.
fn search<J: Joins>(cx: &mut J::Cx<'_>, seed: u64, trees: Range<u64>) -> u64 {
    let Range { start, end } = trees;
    if end - start == 1 {
        return nodes::<J>(cx, mix(seed ^ start));
    }
    let middle = start.midpoint(end);
    let (a, b) = J::join(
        cx,
        move |cx| search::<J>(cx, seed, start..middle),
        move |cx| search::<J>(cx, seed, middle..end),
    );
    a + b
}

/// Counts a node and its descendants.
fn nodes<J: Joins>(cx: &mut J::Cx<'_>, node: u64) -> u64 {
    if mix(node) >= LIMIT {
        return 1;
    }
    let (a, b) = J::join(
        cx,
        move |cx| nodes::<J>(cx, mix(node ^ 1)),
        move |cx| nodes::<J>(cx, mix(node ^ 2)),
    );
    1 + a + b
}

/// [`search`] with joins that carry the worker.
fn search_with(cx: &CurrentWorker, seed: u64, trees: Range<u64>) -> u64 {
    let Range { start, end } = trees;
    if end - start == 1 {
        return nodes_with(cx, mix(seed ^ start));
    }
    let middle = start.midpoint(end);
    let (a, b) = cx.join(
        move |cx| search_with(cx, seed, start..middle),
        move |cx| search_with(cx, seed, middle..end),
    );
    a + b
}

/// [`nodes`] with joins that carry the worker.
fn nodes_with(cx: &CurrentWorker, node: u64) -> u64 {
    if mix(node) >= LIMIT {
        return 1;
    }
    let (a, b) = cx.join(
        move |cx| nodes_with(cx, mix(node ^ 1)),
        move |cx| nodes_with(cx, mix(node ^ 2)),
    );
    1 + a + b
}

impl Work for Forest {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        let Self { seed, trees, .. } = *self;
        J::enter(pool, move |cx| search::<J>(cx, seed, 0..trees))
    }

    fn run_with(&self, pool: &filch::Pool) -> Option<u64> {
        let Self { seed, trees, .. } = *self;
        Some(pool.with(|cx| search_with(cx, seed, 0..trees)))
    }

    fn expected(&self) -> u64 {
        self.nodes
    }

    fn ops(&self) -> u64 {
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::Forest;
    use crate::suites::work::{Work, check};

    #[test]
    fn all_systems_agree() {
        let forest = Forest::new(120, 1);
        assert_eq!(forest.ops(), 22_588);
        check(forest);
    }
}
