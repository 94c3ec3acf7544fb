//! The sum over a balanced tree of boxes, in memory that was touched first by this or by another
//! thread.

use crate::{forks::Joins, suites::work::Work};
use filch::CurrentWorker;
use std::thread;

/// A binary tree of `levels` levels. An operation is a node.
#[derive(Debug)]
pub(super) struct Tree {
    levels: u32,
    root: Box<Node>,
}

#[derive(Debug)]
struct Node {
    value: u64,
    children: Option<[Box<Node>; 2]>,
}

impl Tree {
    /// Built by the caller.
    pub(super) fn new(levels: u32) -> Self {
        Self {
            levels,
            root: Node::build(levels),
        }
    }

    /// Built by another thread, which has ended.
    pub(super) fn foreign(levels: u32) -> Self {
        let builder = thread::spawn(move || Self::new(levels));
        builder.join().expect("it does not panic")
    }
}

impl Node {
    fn build(levels: u32) -> Box<Self> {
        Box::new(Self {
            value: 1,
            children: (levels > 1).then(|| [Self::build(levels - 1), Self::build(levels - 1)]),
        })
    }

    fn sum<J: Joins>(&self, cx: &mut J::Cx<'_>) -> u64 {
        let Some([left, right]) = &self.children else {
            return self.value;
        };
        let (a, b) = J::join(cx, |cx| left.sum::<J>(cx), |cx| right.sum::<J>(cx));
        self.value + a + b
    }

    fn sum_with(&self, cx: &CurrentWorker) -> u64 {
        let Some([left, right]) = &self.children else {
            return self.value;
        };
        let (a, b) = cx.join(|cx| left.sum_with(cx), |cx| right.sum_with(cx));
        self.value + a + b
    }
}

impl Work for Tree {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        J::enter(pool, |cx| self.root.sum::<J>(cx))
    }

    fn run_with(&self, pool: &filch::Pool) -> Option<u64> {
        Some(pool.with(|cx| self.root.sum_with(cx)))
    }

    fn expected(&self) -> u64 {
        self.ops()
    }

    fn ops(&self) -> u64 {
        (1 << self.levels) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use crate::suites::work::check;

    #[test]
    fn all_systems_agree() {
        check(Tree::new(12));
        check(Tree::foreign(12));
    }
}
