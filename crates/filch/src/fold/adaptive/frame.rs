//! The open nodes of a run.

use super::state::{AdaptiveScheme, OpenNode};
use crate::fold::Fold;
use std::mem;

impl<F: Fold, S: AdaptiveScheme> OpenNode<F, S> {
    /// Whether it certainly has no children to offer.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            OpenNode::Open(_, children) => is_last(children),
            OpenNode::Split(_) => false,
            OpenNode::Chain(_) | OpenNode::Offered(..) | OpenNode::Placeholder => true,
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
/// a chain). Here the entry exists before its value is made.
#[inline(always)]
pub(super) fn push_placeholder<F: Fold, S: AdaptiveScheme>(
    stack: &mut Vec<OpenNode<F, S>>,
) -> &mut OpenNode<F, S> {
    stack.push(OpenNode::Placeholder);
    let last = stack.len() - 1;
    &mut stack[last]
}

/// Fills a placeholder.
#[inline(always)]
pub(super) fn fill<F: Fold, S: AdaptiveScheme>(entry: &mut OpenNode<F, S>, node: OpenNode<F, S>) {
    // The placeholder has nothing to drop.
    mem::forget(mem::replace(entry, node));
}
