//! The traversal of nodes that are not shared with other workers: the hot path of a run.

use super::{
    frame::{fill, is_last, place},
    state::{FoldRun, LazyScheme, LazyState, OpenNode, Stop},
};
use crate::{
    fold::{Fold, team::TeamLink},
    pool::context::WorkerContext,
};

/// Where a descent ended.
pub(super) enum Descended<F: Fold> {
    /// At a result for the innermost node.
    Result(F::Result),
    /// At a node with an only child.
    Line(F::Heap, F::Node),
}

/// Where a line of only children ended.
pub(super) enum Followed<F: Fold> {
    /// At a leaf: the result of the first node of the line.
    Leaf(F::Result),
    /// At a node with several children, of which this is the first.
    Node(F::Heap, F::Children, F::Node),
    /// At this node, when a check was due.
    Due(F::Node),
}

/// Where a sweep over children ended.
pub(super) enum Swept<F: Fold> {
    Done,
    /// At a child with children of its own, of which this is the first.
    Inner(F::Heap, F::Children, F::Node),
    /// At this child, when a check was due.
    Due(F::Node),
}

impl<F: Fold, S: LazyScheme> FoldRun<F, S> {
    /// Folds the subtree of an open node, and then its ancestors, up to one that is not just open,
    /// or to the root. Stops where a line of only children begins: that is [followed](Self::follow)
    /// in another function, so that its code does not slow down this one.
    pub(super) fn descend(
        &mut self,
        fold: &F,
        open: (F::Heap, F::Children, Option<F::Node>),
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Descended<F>, Stop> {
        let (mut heap, mut children, mut next) = open;
        let mut left = self.timer.left();
        loop {
            let Some(child) = next else {
                let result = fold.finalize(heap);
                match self.stack.pop() {
                    Some(OpenNode::Open(above, rest)) => {
                        self.cursor = self.cursor.min(self.stack.len());
                        (heap, children) = (above, rest);
                        fold.accumulate(&mut heap, result);
                        next = children.next();
                        continue;
                    }
                    other => {
                        if let Some(other) = other {
                            self.stack.push(other);
                        }
                        self.timer.set_left(left);
                        return Ok(Descended::Result(result));
                    }
                }
            };
            left -= 1;
            if left == 0 {
                self.stack.push(OpenNode::Open(heap, children));
                self.check_offers(link, context)?;
                left = self.timer.left();
                (heap, children, next) = enter(fold, child);
                continue;
            }
            let inner = fold.init(&child);
            let mut below = fold.children(child);
            match below.next() {
                // A leaf is not opened.
                None => {
                    fold.accumulate(&mut heap, fold.finalize(inner));
                    next = children.next();
                }
                // From the second only child on: single ones are not worth the switch.
                Some(first) if is_last(&below) && is_last(&children) => {
                    self.stack.push(OpenNode::Open(heap, children));
                    self.timer.set_left(left);
                    return Ok(Descended::Line(inner, first));
                }
                first => {
                    fill(place(&mut self.stack), OpenNode::Open(heap, children));
                    (heap, children) = (inner, below);
                    next = first;
                }
            }
        }
    }

    /// Folds a chain of nodes with one child each. Only the heaps of these nodes are stored, so
    /// that long chains take little memory, and checks skip them all at once.
    #[inline(never)]
    pub(super) fn follow(
        &mut self,
        fold: &F,
        mut heap: F::Heap,
        mut child: F::Node,
    ) -> Followed<F> {
        let left = self.timer.left();
        let mut nodes = 0;
        loop {
            if nodes + 1 == left {
                self.lines.push(heap);
                self.stack.push(OpenNode::Line(nodes as usize + 1));
                return Followed::Due(child);
            }
            let inner = fold.init(&child);
            let mut below = fold.children(child);
            let Some(first) = below.next() else {
                fold.accumulate(&mut heap, fold.finalize(inner));
                self.timer.set_left(left - nodes - 1);
                let result = fold.finalize(heap);
                return Followed::Leaf(self.rise_line(fold, nodes as usize, result));
            };
            self.lines.push(heap);
            nodes += 1;
            if !is_last(&below) {
                self.timer.set_left(left - nodes);
                self.stack.push(OpenNode::Line(nodes as usize));
                return Followed::Node(inner, below, first);
            }
            (heap, child) = (inner, first);
        }
    }

    /// Passes a result up a line of only children. Returns the result of the first one.
    #[inline(never)]
    pub(super) fn rise_line(&mut self, fold: &F, nodes: usize, mut result: F::Result) -> F::Result {
        for _ in 0..nodes {
            let Some(mut heap) = self.lines.pop() else {
                unreachable!("each node of a line has a heap there")
            };
            fold.accumulate(&mut heap, result);
            result = fold.finalize(heap);
        }
        self.cursor = self.cursor.min(self.stack.len());
        result
    }

    /// Folds leaves until another step is due.
    #[inline(always)]
    pub(super) fn sweep(
        &mut self,
        fold: &F,
        nodes: &mut impl Iterator<Item = F::Node>,
        mut put: impl FnMut(F::Result),
    ) -> Swept<F> {
        let mut left = self.timer.left();
        let swept = loop {
            let Some(node) = nodes.next() else {
                break Swept::Done;
            };
            left -= 1;
            if left == 0 {
                break Swept::Due(node);
            }
            let heap = fold.init(&node);
            let mut children = fold.children(node);
            match children.next() {
                None => put(fold.finalize(heap)),
                Some(first) => break Swept::Inner(heap, children, first),
            }
        };
        self.timer.set_left(left);
        swept
    }
}

/// Enters a node: returns its heap, its children, and the first of them.
#[inline(always)]
pub(super) fn enter<F: Fold>(fold: &F, node: F::Node) -> (F::Heap, F::Children, Option<F::Node>) {
    let heap = fold.init(&node);
    let mut children = fold.children(node);
    let first = children.next();
    (heap, children, first)
}
