//! The open nodes of a run.

use super::{Scheme, broken::Broken, piece::Piece};
use crate::fold::Fold;
use std::{mem, sync::Arc};

/// A node whose children are being folded, or several such nodes.
pub(super) enum Frame<F: Fold, S: Scheme> {
    Open(F::Heap, F::Children),
    /// This number of nodes, each the only child of the one before, whose heaps are the last ones
    /// among the run's [lines](super::run::Run::lines). They never have children to offer, so only
    /// the heaps are stored.
    Line(usize),
    /// All remaining children are in one piece.
    Given(F::Heap, Arc<Piece<F, S>>),
    /// All other cases in which children are offered.
    Broken(Box<Broken<F, S>>),
    /// The temporary state during a change.
    Gone,
}

impl<F: Fold, S: Scheme> Frame<F, S> {
    /// Whether it certainly has no children to offer.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Frame::Open(_, children) => is_last(children),
            Frame::Broken(_) => false,
            Frame::Line(_) | Frame::Given(..) | Frame::Gone => true,
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
pub(super) fn place<F: Fold, S: Scheme>(stack: &mut Vec<Frame<F, S>>) -> &mut Frame<F, S> {
    stack.push(Frame::Gone);
    let last = stack.len() - 1;
    &mut stack[last]
}

/// Fills a placeholder.
#[inline(always)]
pub(super) fn fill<F: Fold, S: Scheme>(place: &mut Frame<F, S>, frame: Frame<F, S>) {
    // The placeholder has nothing to drop.
    mem::forget(mem::replace(place, frame));
}
