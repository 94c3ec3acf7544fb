//! The open nodes of a run.

use super::{LazyScheme, piece::OfferedPiece, split::SplitNode};
use crate::fold::Fold;
use std::{mem, sync::Arc};

/// A node whose children are being folded, or several such nodes.
pub(super) enum OpenNode<F: Fold, S: LazyScheme> {
    Open(F::Heap, F::Children),
    /// This number of nodes, each the only child of the one before, whose heaps are the last ones
    /// among the run's [lines](super::run::FoldRun::lines). They never have children to offer, so
    /// only the heaps are stored.
    Line(usize),
    /// All remaining children are in one piece.
    Given(F::Heap, Arc<OfferedPiece<F, S>>),
    /// All other cases in which children are offered.
    Split(Box<SplitNode<F, S>>),
    /// The temporary state during a change.
    Gone,
}

impl<F: Fold, S: LazyScheme> OpenNode<F, S> {
    /// Whether it certainly has no children to offer.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            OpenNode::Open(_, children) => is_last(children),
            OpenNode::Split(_) => false,
            OpenNode::Line(_) | OpenNode::Given(..) | OpenNode::Gone => true,
        }
    }
}

/// Whether it is certain that no more children follow, so that the previous one was the last.
#[inline(always)]
pub(super) fn is_last(children: &impl Iterator) -> bool {
    children.size_hint().1 == Some(0)
}

/// Pushes a placeholder onto the stack, to be [filled](fill).
///
/// `Vec::push` must be able to drop its argument, so the argument is written to memory, in parts,
/// and read back as a whole, which costs more than the node does (five of thirteen nanoseconds, in
/// a chain). Here the place exists before its value is made.
#[inline(always)]
pub(super) fn place<F: Fold, S: LazyScheme>(
    stack: &mut Vec<OpenNode<F, S>>,
) -> &mut OpenNode<F, S> {
    stack.push(OpenNode::Gone);
    let last = stack.len() - 1;
    &mut stack[last]
}

/// Fills a placeholder.
#[inline(always)]
pub(super) fn fill<F: Fold, S: LazyScheme>(place: &mut OpenNode<F, S>, frame: OpenNode<F, S>) {
    // The placeholder has nothing to drop.
    mem::forget(mem::replace(place, frame));
}
