//! The memory of graphs, kept by the thread that has dropped their tasks for the next ones.

use super::{plan::GraphParts, rare_parts::LazyParts};
use crate::pool::blocks::RECYCLED;
use std::{cell::RefCell, mem};

/// Maximum number of elements of one kind that a thread keeps: more than a block of sources starts
/// before the first of their graphs is done.
const MAX_KEPT: usize = 64;

/// Maximum number of tasks, of edges and of names that a graph has room for and is kept.
pub(super) const MAX_LEN: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<GraphParts>> = const { RefCell::new(Vec::new()) };
}

/// Adds an element to a list of what a thread keeps. Returns it if the list is full.
pub(super) fn keep<T>(list: &mut Vec<T>, new: T) -> Option<T> {
    if RECYCLED && list.len() < MAX_KEPT {
        list.push(new);
        return None;
    }
    Some(new)
}

/// Gives memory to the parts of a graph without tasks, if this thread keeps some. A thread that is
/// ending keeps nothing.
#[inline]
pub(super) fn take(parts: &mut GraphParts) {
    let _ = SPARE.try_with(|spare| {
        if let Some(mut spare) = spare.borrow_mut().pop() {
            // Options of the graph, which may come before its tasks, are all that it has.
            if parts.rare.is_allocated() {
                mem::swap(&mut parts.rare, &mut spare.rare);
                parts.rare = LazyParts::default();
            }
            // They have no memory, so there is nothing to drop.
            mem::forget(mem::replace(parts, spare));
        }
    });
}

/// Keeps the memory of parts that have been cleared, and takes it from them.
#[inline]
pub(super) fn put(parts: &mut GraphParts) {
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if RECYCLED && spare.len() < MAX_KEPT && parts.nodes.capacity() > 0 {
            spare.push(mem::take(parts));
        }
    });
}
