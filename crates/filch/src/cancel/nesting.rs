//! Cancels in callbacks without unbounded recursion.
//!
//! A callback may cancel another token, whose callback cancels the next one, and so on. Such calls
//! nest up to a bound, so that a callback finds the callbacks of the token that it has cancelled
//! done. Below that the listeners are left to the outermost cancel on this thread.

use super::CancelReason;
use std::{cell::RefCell, collections::VecDeque, sync::Arc};

/// The most cancels in one another that notify their listeners themselves. Few enough for the
/// smallest stacks, and more than callbacks are nested on purpose.
const MAX_NESTED: usize = 16;

/// A node, whose listeners have to be notified.
pub(super) trait NotifyListeners {
    /// Notifies them, outside all locks. It contains their panics.
    fn notify(&self, reason: CancelReason);
}

/// A node that this thread has marked, and why.
type MarkedNode = (Arc<dyn NotifyListeners>, CancelReason);

struct Nesting {
    /// The number of cancels of this thread that are notifying listeners.
    depth: usize,
    /// The nodes left to the outermost of them.
    deferred: VecDeque<MarkedNode>,
}

thread_local! {
    static NESTING: RefCell<Nesting> = const {
        RefCell::new(Nesting {
            depth: 0,
            deferred: VecDeque::new(),
        })
    };
}

/// Notifies the listeners of the nodes: now, or before the outermost cancel on this thread returns.
pub(super) fn notify_all(marked: impl Iterator<Item = MarkedNode>) {
    let Some(marked) = begin_or_defer(marked) else {
        return;
    };
    // User code, which may cancel other tokens: nothing is borrowed meanwhile. No panic leaves
    // `notify`, so `next_deferred` always ends this level.
    for (node, reason) in marked {
        node.notify(reason);
    }
    while let Some((node, reason)) = next_deferred() {
        node.notify(reason);
    }
}

/// Begins a level, and returns the nodes; or defers them if there are too many levels.
fn begin_or_defer<I: Iterator<Item = MarkedNode>>(marked: I) -> Option<I> {
    let mut marked = Some(marked);
    with_nesting(|nesting| {
        if nesting.depth < MAX_NESTED {
            nesting.depth += 1;
        } else {
            nesting.deferred.extend(marked.take().into_iter().flatten());
        }
    });
    marked
}

/// Returns the next deferred node if this is the outermost level. Ends the level if there is none.
fn next_deferred() -> Option<MarkedNode> {
    with_nesting(|nesting| {
        let is_outermost = nesting.depth == 1;
        let next = is_outermost.then(|| nesting.deferred.pop_front());
        let next = next.flatten();
        if next.is_none() {
            nesting.depth -= 1;
        }
        next
    })
    .flatten()
}

/// Calls `f` with the nesting of this thread. Returns `None`, so that all calls nest, when the
/// thread-local has been destroyed, and in model checks, whose threads share one thread of the
/// system.
fn with_nesting<R>(f: impl FnOnce(&mut Nesting) -> R) -> Option<R> {
    if cfg!(filch_loom) {
        return None;
    }
    NESTING
        .try_with(|nesting| f(&mut nesting.borrow_mut()))
        .ok()
}
