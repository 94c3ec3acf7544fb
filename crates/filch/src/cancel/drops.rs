//! Dropping the listeners of a dropped node without recursion.
//!
//! A callback may own the last token of another node, whose callbacks own the next one, and so on.
//! So a node that is dropped while this thread drops the listeners of another node leaves its own
//! to that outermost drop.

use super::{list::ListenerList, listener::Listener};
use crate::base::unwind;
use std::cell::RefCell;

type Lists = Vec<ListenerList<Listener>>;

thread_local! {
    /// The lists left to the outermost drop on this thread; `None` while there is no such drop.
    static DEFERRED: RefCell<Option<Lists>> = const { RefCell::new(None) };
}

/// Drops `listeners`: now, or before the outermost drop on this thread returns.
pub(crate) fn drop_all(listeners: ListenerList<Listener>) {
    if listeners.is_empty() {
        return;
    }
    let mut now = defer_to_outermost(listeners);
    while let Some(mut listeners) = now {
        // User code, which may reenter this function: nothing is borrowed meanwhile. No panic
        // leaves this loop, so `next_deferred` always ends the outermost drop.
        while let Some(listener) = listeners.pop_first() {
            unwind::discard(listener);
        }
        now = next_deferred();
    }
}

/// Defers `listeners` to the outermost drop; returns them if this call is the outermost, and also
/// while the thread exits, when the thread-local list is gone.
fn defer_to_outermost(listeners: ListenerList<Listener>) -> Option<ListenerList<Listener>> {
    let mut mine = Some(listeners);
    with_deferred(|deferred| match deferred {
        Some(lists) => lists.extend(mine.take()),
        None => *deferred = Some(Lists::new()),
    });
    mine
}

/// Returns the next list for the outermost drop, which ends when there is none.
fn next_deferred() -> Option<ListenerList<Listener>> {
    with_deferred(|deferred| {
        let next = deferred.as_mut().and_then(Lists::pop);
        if next.is_none() {
            *deferred = None;
        }
        next
    })
    .flatten()
}

/// Calls `f` with the deferred lists. Returns `None` when the thread-local has been destroyed, and
/// in model checks: their threads share one thread of the system, and would leave their listeners
/// to each other.
fn with_deferred<R>(f: impl FnOnce(&mut Option<Lists>) -> R) -> Option<R> {
    if cfg!(filch_loom) {
        return None;
    }
    DEFERRED
        .try_with(|deferred| f(&mut deferred.borrow_mut()))
        .ok()
}
