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
//!   since waits may depend on what was queued after that. If there is none, and guards from
//!   elsewhere are held, it is the *base* of the context: the end of its queue when the first of
//!   those was made, or else when its job began.
//!
//! A guard in a thread-local variable may outlive the context where it was made, and another one
//! may have its address then. So contexts are matched by numbers, which they get with their first
//! guard ([`WorkerContext::guard_number`]).

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
    sync::MutexGuard,
};

thread_local! {
    /// The isolations of this thread.
    static HELD: RefCell<HeldIsolations> = const { RefCell::new(HeldIsolations::new()) };
    /// The last number of a guard or context.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that no guard and no context of this thread has had.
fn next_number() -> u64 {
    let number = LAST.get() + 1;
    LAST.set(number);
    number
}

/// The isolations of a thread.
struct HeldIsolations {
    /// Oldest first.
    guards: Vec<HeldIsolation>,
    /// The bases of contexts that are not those of their jobs. Emptied with `guards`.
    bases: Vec<GuardPlace>,
}

struct HeldIsolation {
    number: u64,
    /// The release of the lock that it is for, if the lock is one of `sync`.
    lock: Option<EventId>,
    place: Option<GuardPlace>,
}

/// A context of this thread, and an end of its queue.
#[derive(Clone, Copy)]
struct GuardPlace {
    /// The [number](WorkerContext::guard_number) of the context.
    context: u64,
    mark: Mark,
}

impl HeldIsolations {
    const fn new() -> Self {
        Self {
            guards: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// Returns the mark of the newest guard that was made in this context, or else its base, if
    /// there is one.
    fn mark_in(&self, context: u64) -> Option<Mark> {
        let guards = self.guards.iter().rev().filter_map(|guard| guard.place);
        let mut places = guards.chain(self.bases.iter().rev().copied());
        let place = places.find(|place| place.context == context)?;
        Some(place.mark)
    }

    /// Removes a guard. Returns the context where it was made, which keeps its mark as its base if
    /// a newer guard was made elsewhere.
    fn remove(&mut self, number: u64) -> Option<u64> {
        let at = self.guards.iter().rposition(|one| one.number == number)?;
        let place = self.guards.remove(at).place;
        if self.guards.is_empty() {
            self.bases.clear();
        }
        let place = place?;
        let has_newer = self.guards.len() > at;
        if has_newer && self.mark_in(place.context).is_none() {
            self.bases.push(place);
        }
        Some(place.context)
    }
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
fn with_held<R>(f: impl FnOnce(&mut HeldIsolations) -> R) -> Option<R> {
    // Not borrowed twice: `f` calls nothing but what is here and in `wait_modes`.
    HELD.try_with(|held| f(&mut held.borrow_mut())).ok()
}

/// Whether this thread holds any isolation.
pub(super) fn is_held() -> bool {
    with_held(|held| !held.guards.is_empty()).unwrap_or(false)
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
        let number = next_number();
        let place = WorkerContext::with(|context| context.map(WorkerContext::guard_place));
        let begun = with_held(|held| {
            held.guards.push(HeldIsolation {
                number,
                lock,
                place,
            });
            held.guards.len() == 1
        });
        WorkerContext::with(|context| {
            if let (Some(context), Some(is_first)) = (context, begun) {
                context.set_isolated(Some(context.mark()));
                if is_first {
                    context
                        .enclosing()
                        .for_each(WorkerContext::isolate_from_here);
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
            let mut held = held.guards.iter_mut().rev();
            let one = held.find(|one| one.number == self.number)?;
            one.lock.take()
        })?
    }
}

/// Calls `f` with the releases of the locks that this thread holds.
pub(super) fn for_each_lock(f: impl FnMut(EventId)) {
    with_held(|held| held.guards.iter().filter_map(|one| one.lock).for_each(f));
}

/// Whether this thread holds the lock.
pub(crate) fn holds(lock: EventId) -> bool {
    with_held(|held| held.guards.iter().any(|one| one.lock == Some(lock))).unwrap_or(false)
}

impl Drop for Isolation {
    fn drop(&mut self) {
        let ended = with_held(|held| held.remove(self.number)).flatten();
        let is_held = is_held();
        WorkerContext::with(|context| {
            let Some(context) = context else { return };
            if !is_held {
                context.isolate_by_call_only();
                context
                    .enclosing()
                    .for_each(WorkerContext::isolate_by_call_only);
            } else if let Some(ended) = ended {
                if context.guard_number.get() == ended {
                    context.isolate_by_guards();
                } else if let Some(context) = context
                    .enclosing()
                    .find(|context| context.guard_number.get() == ended)
                {
                    context.isolate_by_guards();
                }
            }
        });
    }
}

impl WorkerContext<'_, '_> {
    /// Returns the end of the queue here, with the number of this context.
    fn guard_place(&self) -> GuardPlace {
        if self.guard_number.get() == 0 {
            self.guard_number.set(next_number());
        }
        GuardPlace {
            context: self.guard_number.get(),
            mark: self.mark(),
        }
    }

    /// Removes the isolation by guards, because the thread holds none any more.
    fn isolate_by_call_only(&self) {
        self.set_isolated(self.isolated_by_call.get());
    }

    /// Isolates waits here by the guards that the thread holds, and by a call of `isolate`.
    pub(super) fn isolate_by_guards(&self) {
        let by_guard = match self.guard_number.get() {
            0 => None, // no guard was made here
            number => with_held(|held| held.mark_in(number)).flatten(),
        };
        let mark = by_guard.unwrap_or(self.job_mark());
        let by_call = self.isolated_by_call.get();
        self.set_isolated(Some(by_call.map_or(mark, |by_call| mark.later(by_call))));
    }

    /// Isolates waits here from now on, if the thread holds a guard. For a context that the thread
    /// has just entered.
    pub(super) fn isolate_if_held(&self) {
        if !self.is_isolated() && is_held() {
            self.set_isolated(Some(self.mark()));
        }
    }

    /// Isolates waits here from now on, since the thread holds a guard that was made elsewhere.
    fn isolate_from_here(&self) {
        let base = self.guard_place();
        with_held(|held| held.bases.push(base));
        if !self.is_isolated() {
            self.set_isolated(Some(base.mark));
        }
    }
}
