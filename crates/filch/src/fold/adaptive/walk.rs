//! The traversal of nodes that are not shared with other workers: the hot path of a run.

use super::{
    frame::{fill, is_last, push_placeholder},
    state::{AdaptiveScheme, AdaptiveState, FoldRun, FoldStopped, OpenNode},
};
use crate::{
    fold::{Fold, team::StateRef},
    pool::context::WorkerContext,
};

/// Where a descent ended.
pub(super) enum Descended<F: Fold> {
    /// At a result for the innermost node.
    Result(F::Result),
    /// At a node with an only child.
    Chain(F::Accumulator, F::Node),
}

/// Where a chain of only children ended.
pub(super) enum Followed<F: Fold> {
    /// At a leaf: the result of the first node of the chain.
    Leaf(F::Result),
    /// At a node with several children, of which this is the first.
    Node(F::Accumulator, F::Children, F::Node),
    /// At this node, when a check was due.
    Due(F::Node),
}

/// Where a sweep over children ended.
pub(super) enum Swept<F: Fold> {
    Done,
    /// At a child with children of its own, of which this is the first.
    Inner(F::Accumulator, F::Children, F::Node),
    /// At this child, when a check was due.
    Due(F::Node),
}

impl<F: Fold, S: AdaptiveScheme> FoldRun<F, S> {
    /// Folds the subtree of an open node, and then its ancestors, up to one that is not just open,
    /// or to the root. Stops where a chain of only children begins: that is
    /// [followed](Self::follow) in another function, so that its code does not slow down this one.
    pub(super) fn descend(
        &mut self,
        fold: &F,
        open: (F::Accumulator, F::Children, Option<F::Node>),
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Descended<F>, FoldStopped> {
        let (mut acc, mut children, mut next) = open;
        let mut left = self.timer.left();
        loop {
            let Some(child) = next else {
                let result = fold.finalize(acc);
                match self.stack.pop() {
                    Some(OpenNode::Open(above, rest)) => {
                        self.cursor = self.cursor.min(self.stack.len());
                        (acc, children) = (above, rest);
                        fold.accumulate(&mut acc, result);
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
                self.stack.push(OpenNode::Open(acc, children));
                self.check_offers(state_ref, context)?;
                left = self.timer.left();
                (acc, children, next) = enter(fold, child);
                continue;
            }
            let inner = fold.init(&child);
            let mut below = fold.children(child);
            match below.next() {
                // A leaf is not opened.
                None => {
                    fold.accumulate(&mut acc, fold.finalize(inner));
                    next = children.next();
                }
                // From the second only child on: single ones are not worth the switch.
                Some(first) if is_last(&below) && is_last(&children) => {
                    self.stack.push(OpenNode::Open(acc, children));
                    self.timer.set_left(left);
                    return Ok(Descended::Chain(inner, first));
                }
                first => {
                    fill(
                        push_placeholder(&mut self.stack),
                        OpenNode::Open(acc, children),
                    );
                    (acc, children) = (inner, below);
                    next = first;
                }
            }
        }
    }

    /// Folds a chain of nodes with one child each. Only the accumulators of these nodes are stored,
    /// so that long chains take little memory, and checks skip them all at once.
    #[inline(never)]
    pub(super) fn follow(
        &mut self,
        fold: &F,
        mut acc: F::Accumulator,
        mut child: F::Node,
    ) -> Followed<F> {
        let left = self.timer.left();
        let mut nodes = 0;
        loop {
            if nodes + 1 == left {
                self.chain_accs.push(acc);
                self.stack.push(OpenNode::Chain(nodes as usize + 1));
                return Followed::Due(child);
            }
            let inner = fold.init(&child);
            let mut below = fold.children(child);
            let Some(first) = below.next() else {
                fold.accumulate(&mut acc, fold.finalize(inner));
                self.timer.set_left(left - nodes - 1);
                let result = fold.finalize(acc);
                return Followed::Leaf(self.pass_up_chain(fold, nodes as usize, result));
            };
            self.chain_accs.push(acc);
            nodes += 1;
            if !is_last(&below) {
                self.timer.set_left(left - nodes);
                self.stack.push(OpenNode::Chain(nodes as usize));
                return Followed::Node(inner, below, first);
            }
            (acc, child) = (inner, first);
        }
    }

    /// Passes a result up a chain of only children. Returns the result of the first one.
    #[inline(never)]
    pub(super) fn pass_up_chain(
        &mut self,
        fold: &F,
        nodes: usize,
        mut result: F::Result,
    ) -> F::Result {
        for _ in 0..nodes {
            let Some(mut acc) = self.chain_accs.pop() else {
                unreachable!("each node of a chain has an accumulator")
            };
            fold.accumulate(&mut acc, result);
            result = fold.finalize(acc);
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
            let acc = fold.init(&node);
            let mut children = fold.children(node);
            match children.next() {
                None => put(fold.finalize(acc)),
                Some(first) => break Swept::Inner(acc, children, first),
            }
        };
        self.timer.set_left(left);
        swept
    }
}

/// Enters a node: returns its accumulator, its children, and the first of them.
#[inline(always)]
pub(super) fn enter<F: Fold>(
    fold: &F,
    node: F::Node,
) -> (F::Accumulator, F::Children, Option<F::Node>) {
    let acc = fold.init(&node);
    let mut children = fold.children(node);
    let first = children.next();
    (acc, children, first)
}
