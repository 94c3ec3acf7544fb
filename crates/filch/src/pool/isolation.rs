//! Isolated waits for as long as a value lives: for guards of locks.
//!
//! [`WorkerContext::isolate`] isolates the waits of one call. A guard ends when it is dropped, in
//! any order with others, and perhaps where the thread runs another task or works for another pool
//! than before. So each thread has a list of its guards ([`HELD`]), and two rules keep the contexts
//! of the thread up to date:
//!
//! - As long as the list is not empty, every context in which the thread may wait is isolated.
//!   These are the current context, and the innermost one of each other pool whose task the thread
//!   runs ([`WorkerContext::enclosing`]). The first guard isolates them, and a context that the
//!   thread enters later is isolated by [`WorkerContext::isolate_if_held`].
//! - The mark of a context is that of the newest guard that was made there: jobs that were queued
//!   before may need that lock. When the guard is dropped, the mark is that of the guard before it,
//!   since waits may depend on what was queued after that.

use super::{
    context::WorkerContext,
    waits::{EventId, Listings},
};
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
    static HELD: RefCell<Vec<HeldIsolation>> = const { RefCell::new(Vec::new()) };
    static LAST: Cell<u64> = const { Cell::new(0) };
}

struct HeldIsolation {
    number: u64,
    /// The release of the lock that it is for, if the lock is one of `sync`.
    lock: Option<EventId>,
    /// The address of the context where it began, only to be compared; and the end of the queue at
    /// that time.
    context: Option<(usize, Mark)>,
}

/// Isolates the waits of this thread as long as it lives.
#[derive(Debug)]
pub(crate) struct Isolation {
    /// Zero when the thread is ending and its list has been dropped.
    number: u64,
    /// The listed waits of this thread when it began.
    listings: Listings,
    /// It is bound to its thread, as a guard is, but may be referenced from other threads.
    thread: PhantomData<MutexGuard<'static, ()>>,
}

/// Calls `f` with the list. Returns `None` when the thread is ending.
fn with_held<R>(f: impl FnOnce(&mut Vec<HeldIsolation>) -> R) -> Option<R> {
    // Not borrowed twice: `f` calls nothing but what is here and in `wait_modes`.
    HELD.try_with(|held| f(&mut held.borrow_mut())).ok()
}

/// Whether this thread holds any isolation.
pub(super) fn is_held() -> bool {
    with_held(|held| !held.is_empty()).unwrap_or(false)
}

impl Isolation {
    /// Begins an isolation, for as long as this `lock` is held if there is one.
    pub(crate) fn begin(lock: Option<EventId>) -> Self {
        let listings = Listings::of_this_thread();
        if broken(Canary::GuardIsolates) {
            return Self {
                number: 0,
                listings,
                thread: PhantomData,
            };
        }
        let number = LAST.get() + 1;
        LAST.set(number);
        let context = WorkerContext::with(|context| {
            context.map(|context| (context.address(), context.mark()))
        });
        let begun = with_held(|held| {
            held.push(HeldIsolation {
                number,
                lock,
                context,
            });
            held.len() == 1
        });
        WorkerContext::with(|context| {
            if let (Some(context), Some(is_first)) = (context, begun) {
                context.set_isolated(Some(context.mark()));
                if is_first {
                    context.enclosing().for_each(WorkerContext::isolate_if_held);
                }
            }
        });
        Self {
            number: begun.map_or(0, |_| number),
            listings,
            thread: PhantomData,
        }
    }

    /// Called before the lock is released. The waits of this thread are listed with the locks that
    /// it holds. Guards are dropped when such waits are over, except by a task that a wait runs:
    /// that may have found the guard in a thread-local variable. Returns the lock in this case: it
    /// must be removed from those waits.
    #[inline]
    pub(crate) fn before_release(&self) -> Option<EventId> {
        match self.listings.has_new_in_progress() {
            true => self.take_lock(),
            false => None,
        }
    }

    #[cold]
    fn take_lock(&self) -> Option<EventId> {
        with_held(|held| {
            let mut held = held.iter_mut().rev();
            let one = held.find(|one| one.number == self.number)?;
            one.lock.take()
        })?
    }
}

/// Calls `f` with the releases of the locks that this thread holds.
pub(super) fn for_each_lock(f: impl FnMut(EventId)) {
    with_held(|held| held.iter().filter_map(|one| one.lock).for_each(f));
}

/// Whether this thread holds the lock.
pub(crate) fn holds(lock: EventId) -> bool {
    with_held(|held| held.iter().any(|one| one.lock == Some(lock))).unwrap_or(false)
}

impl Drop for Isolation {
    fn drop(&mut self) {
        // The context where it began, and the mark of the guard before it there.
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
                    .enclosing()
                    .for_each(WorkerContext::isolate_by_call_only);
            } else if let Some(Some((address, mark))) = ended {
                if context.address() == address {
                    context.set_isolated(Some(mark));
                } else if let Some(context) = context
                    .enclosing()
                    .find(|context| context.address() == address)
                {
                    context.set_isolated(Some(mark));
                }
            }
        });
    }
}

impl WorkerContext<'_, '_> {
    /// The address of this context, only to be compared.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Removes the isolation by guards, because the thread holds none any more.
    fn isolate_by_call_only(&self) {
        self.set_isolated(self.isolated_by_call.get());
    }

    /// Isolates waits here from now on, if the thread holds a guard.
    pub(super) fn isolate_if_held(&self) {
        if !self.is_isolated() && is_held() {
            self.set_isolated(Some(self.mark()));
        }
    }
}
