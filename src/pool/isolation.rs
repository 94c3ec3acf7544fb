//! Isolated waits for as long as a value lives: for guards of locks.
//!
//! [`WorkerContext::isolate`] isolates the waits of one call. A guard ends when it is dropped, in any order with others, and perhaps
//! where the thread is in another task or another pool than before. So a list of each thread says which guards there are
//! ([`HELD`]), and two rules keep the sites of the thread up to date:
//!
//! - As long as the list is not empty, every site that the thread may wait at is isolated. These are the current site, and the
//!   innermost one of each other pool whose task the thread is in ([`WorkerContext::below`]). The first guard isolates them, and a
//!   site that the thread enters later is isolated by [`WorkerContext::isolate_if_held`].
//! - The mark of a site is that of the newest guard that was made there: what was queued before may want that lock.
//!   When the guard is gone, the mark is that of the guard before it, since waits may depend on what was queued after that.

use super::context::WorkerContext;
use crate::{
    base::canary::{Canary, broken},
    engine::Mark,
};
use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    ptr,
    sync::MutexGuard,
};

thread_local! {
    /// The isolations of this thread, oldest first.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    static LAST: Cell<u64> = const { Cell::new(0) };
}

struct Held {
    number: u64,
    /// The site where it began, only to be compared; and where the queue ended then.
    context: Option<(usize, Mark)>,
}

/// Waits of this thread are isolated as long as this lives.
#[derive(Debug)]
pub(crate) struct Isolation {
    /// Zero when the thread is ending and has no list any more.
    number: u64,
    /// It belongs to its thread, as a guard does, but may be looked at from elsewhere.
    thread: PhantomData<MutexGuard<'static, ()>>,
}

/// Calls `f` with the list. None when the thread is ending.
fn with_held<R>(f: impl FnOnce(&mut Vec<Held>) -> R) -> Option<R> {
    // Not borrowed twice: `f` calls nothing but what is here and in `modes`.
    HELD.try_with(|held| f(&mut held.borrow_mut())).ok()
}

/// Whether this thread holds any.
pub(super) fn is_held() -> bool {
    with_held(|held| !held.is_empty()).unwrap_or(false)
}

impl Isolation {
    pub(crate) fn begin() -> Self {
        if broken(Canary::GuardIsolates) {
            return Self {
                number: 0,
                thread: PhantomData,
            };
        }
        let number = LAST.get() + 1;
        LAST.set(number);
        let context = WorkerContext::with(|context| {
            context.map(|context| (context.address(), context.mark()))
        });
        let begun = with_held(|held| {
            held.push(Held { number, context });
            held.len() == 1
        });
        WorkerContext::with(|context| {
            if let (Some(context), Some(is_first)) = (context, begun) {
                context.set_isolated(Some(context.mark()));
                if is_first {
                    context.below().for_each(WorkerContext::isolate_if_held);
                }
            }
        });
        Self {
            number: begun.map_or(0, |_| number),
            thread: PhantomData,
        }
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        // The site where it began, and the mark of the guard before it there.
        let ended = with_held(|held| {
            let at = held.iter().rposition(|one| one.number == self.number)?;
            let (address, _) = held.remove(at).context?;
            let mut left = held.iter().rev().filter_map(|one| one.context);
            left.find(|&(other, _)| other == address)
        });
        let is_held = is_held();
        WorkerContext::with(|context| {
            let Some(context) = context else { return };
            if !is_held {
                context.isolate_by_call_only();
                context
                    .below()
                    .for_each(WorkerContext::isolate_by_call_only);
            } else if let Some(Some((address, mark))) = ended {
                if context.address() == address {
                    context.set_isolated(Some(mark));
                } else if let Some(context) =
                    context.below().find(|context| context.address() == address)
                {
                    context.set_isolated(Some(mark));
                }
            }
        });
    }
}

impl WorkerContext<'_, '_> {
    /// Only to be compared.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// The thread holds no guard any more.
    fn isolate_by_call_only(&self) {
        self.set_isolated(self.isolated_by_call.get());
    }

    /// Waits here are isolated from now on, if the thread holds a guard.
    pub(super) fn isolate_if_held(&self) {
        if !self.is_isolated() && is_held() {
            self.set_isolated(Some(self.mark()));
        }
    }
}
