//! The open nodes of a run.

use super::{Scheme, broken::Broken, piece::Piece};
use crate::fold::Fold;
use std::{mem, sync::Arc};

/// A node whose children are being folded, or several.
pub(super) enum Frame<F: Fold, S: Scheme> {
    Open(F::Heap, F::Children),
    /// So many nodes, each the only child of the one before, whose heaps are the last ones among the run's
    /// [lines](super::run::Run::lines). They never have anything to give, so that is all that is kept of them.
    Line(usize),
    /// All that is left of its children is in one piece.
    Given(F::Heap, Arc<Piece<F, S>>),
    /// Anything else that becomes of children that others may fold.
    Broken(Box<Broken<F, S>>),
    /// On the way from one to the other.
    Gone,
}

impl<F: Fold, S: Scheme> Frame<F, S> {
    /// Whether it has no children to give for sure.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Frame::Open(_, children) => is_last(children),
            Frame::Broken(_) => false,
            Frame::Line(_) | Frame::Given(..) | Frame::Gone => true,
        }
    }
}

/// Whether no more children come for sure, so that the one which came before is the last.
#[inline(always)]
pub(super) fn is_last(children: &impl Iterator) -> bool {
    children.size_hint().1 == Some(0)
}

/// A place on the stack, to be [filled](fill).
///
/// `Vec::push` has to be ready to drop what it is given, so that is written to memory, in pieces, and read back as a whole,
/// which costs more than the node does (five of thirteen nanoseconds, in a chain). Here the place is there before what
/// goes there is made.
#[inline(always)]
pub(super) fn place<F: Fold, S: Scheme>(stack: &mut Vec<Frame<F, S>>) -> &mut Frame<F, S> {
    stack.push(Frame::Gone);
    let last = stack.len() - 1;
    &mut stack[last]
}

/// Fills a place.
#[inline(always)]
pub(super) fn fill<F: Fold, S: Scheme>(place: &mut Frame<F, S>, frame: Frame<F, S>) {
    // What was there has nothing to drop.
    mem::forget(mem::replace(place, frame));
}
