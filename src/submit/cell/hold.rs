//! The handle's end of a task.
#![expect(
    unsafe_code,
    reason = "fills a cell, takes the outcome, leaves a waker"
)]

use super::{
    Body, Cause, Cell, Header, Outcome, Ref, Slot,
    state::{Abandoned, Moved, State, TaskStatus},
    ticket::{Claim, Ended, Ticket},
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    engine::Level,
    pool::blocks,
    submit::{info::TaskInfo, run},
};
use std::{
    alloc::Layout,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    task::Waker,
};

/// A fresh task, of which nobody knows yet.
pub(in crate::submit) struct Fresh<F, T> {
    pub(in crate::submit) hold: Hold<T>,
    types: PhantomData<fn() -> F>,
}

/// Makes a task of `func`: its handle, and the ticket for a queue.
#[inline]
pub(in crate::submit) fn make<F, T>(func: F, level: Level, about: TaskInfo) -> (Fresh<F, T>, Ticket)
where
    F: Body<T>,
    T: Send + 'static,
{
    let block = blocks::alloc(Layout::new::<Cell<F, T>>()).cast::<Cell<F, T>>();
    let cell = Cell {
        header: Header {
            state: State::new(level),
            actions: &Cell::<F, T>::ACTIONS,
            waker: UnsafeCell::new(None),
            about,
        },
        slot: UnsafeCell::new(Slot {
            func: ManuallyDrop::new(func),
        }),
    };
    // SAFETY: the block is ours and of this layout.
    unsafe { block.write(cell) };
    let cell = block.cast::<Header>();
    // `State::new` has counted both.
    let hold = Hold {
        cell: ManuallyDrop::new(Ref { cell }),
        taken: false,
        outcome: PhantomData,
    };
    let fresh = Fresh {
        hold,
        types: PhantomData,
    };
    let ticket = Ticket {
        cell: Ref { cell },
        level,
    };
    (fresh, ticket)
}

impl<F, T> Fresh<F, T>
where
    F: Body<T>,
    T: Send + 'static,
{
    /// The closure of a task that was not let in after all.
    ///
    /// # Panics
    /// When `claim` is of another task.
    pub(in crate::submit) fn take_back(self, claim: Claim) -> F {
        assert!(claim.cell.is(&self.hold.cell), "another task's claim");
        let cell = claim.disarm();
        // SAFETY: it is claimed, and a fresh task is of these types.
        let func = unsafe { Cell::<F, T>::take_func(cell.cell) };
        // SAFETY: the closure was taken out above.
        unsafe { Cell::<F, T>::put(cell.cell, Outcome::Cancelled(Cause::Closed)) };
        let ended = Ended {
            cell,
            fate: TaskStatus::Refused,
        };
        // Nothing can panic in such an outcome.
        let _ = ended.finish();
        func
    }
}

/// The handle's end of a task: there is one, and the outcome is for it.
pub(in crate::submit) struct Hold<T> {
    cell: ManuallyDrop<Ref>,
    /// The outcome has been taken.
    taken: bool,
    outcome: PhantomData<fn() -> T>,
}

impl<T> Hold<T> {
    pub(in crate::submit) fn cell(&self) -> &Ref {
        &self.cell
    }

    /// Claims the task, if nobody has.
    pub(in crate::submit) fn claim(&self) -> Option<Claim> {
        self.cell.claim()
    }

    /// Makes the task wait at another level, and queues a ticket for it there. False when it does not wait any
    /// more. In this order: a ticket that is taken before the task waits at its level is stale, and lost.
    pub(in crate::submit) fn move_to(&self, level: Level, queue: impl FnOnce(Ticket)) -> bool {
        if broken(Canary::TaskMove) {
            let cell = Ref::clone(&self.cell);
            queue(Ticket { cell, level });
            // The ticket that this would have counted is the one above.
            return self.cell.state.move_to(level) != Moved::There || !self.cell.state.release();
        }
        match self.cell.state.move_to(level) {
            Moved::There => {
                // The transition has counted the ticket.
                let cell = Ref {
                    cell: self.cell.cell,
                };
                queue(Ticket { cell, level });
                true
            }
            Moved::Same => true,
            Moved::TooLate => false,
        }
    }

    /// Wakes `waker` when the task is done. False when it is already.
    pub(in crate::submit) fn watch(&mut self, waker: &Waker) -> bool {
        let header = &**self.cell;
        let now = header.snapshot();
        if now.is_done() || now.is_watched() && !header.state.unwatch() {
            return false;
        }
        // SAFETY: from here to `State::watch` the waker is ours, as the field says.
        let known = header
            .waker
            .with(|slot| unsafe { (*slot).as_ref().is_some_and(|known| known.will_wake(waker)) });
        if !known {
            let waker = waker.clone();
            drop_waker(self.replace_waker(Some(waker)));
        }
        if self.cell.state.watch() {
            return true;
        }
        drop_waker(self.replace_waker(None));
        false
    }

    /// Call it only while the waker is the handle's.
    fn replace_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.cell.waker.with_mut(|slot| {
            // SAFETY: the callers are where the field says that the waker is the handle's.
            mem::replace(unsafe { &mut *slot }, waker)
        })
    }

    /// The outcome, once, if the task is done.
    pub(in crate::submit) fn take(&mut self) -> Option<Outcome<T>> {
        if self.taken || !self.cell.snapshot().is_done() {
            return None;
        }
        self.taken = true;
        let mut place = mem::MaybeUninit::<Outcome<T>>::uninit();
        let (cell, to) = (self.cell.cell, place.as_mut_ptr().cast());
        // SAFETY: it is done, so the outcome is the handle's, of which there is one, and which takes it once. The place
        // is for what a handle of this type gets.
        unsafe { (self.cell.actions.take_outcome)(cell, to) };
        // SAFETY: written above.
        Some(unsafe { place.assume_init() })
    }

    /// Whether the outcome has been taken.
    pub(in crate::submit) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Lets go. What nobody waits for any more comes back, as of [`Ended::finish`].
    fn abandon(&mut self) -> Option<Payload> {
        // SAFETY: as in `Ended::finish`.
        let state = unsafe { &(*self.cell.cell.as_ptr()).state };
        let payload = match state.abandon() {
            Abandoned::Left => return None,
            Abandoned::LeftWaker => {
                drop_waker(self.replace_waker(None));
                None
            }
            Abandoned::Outcome if self.taken => None,
            // SAFETY: the outcome is the handle's.
            Abandoned::Outcome => unsafe { (self.cell.actions.drop_outcome)(self.cell.cell) },
        };
        // SAFETY: called by `drop` only, and nothing is used after this.
        drop(unsafe { ManuallyDrop::take(&mut self.cell) });
        payload
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let pool = self.cell.about.pool;
        if let Some(payload) = self.abandon() {
            run::tell_all(pool, [Some(payload)]);
        }
    }
}

/// A waker's destructor is the user's code.
pub(super) fn drop_waker(waker: Option<Waker>) {
    if let Err(payload) = unwind::contain(|| drop(waker)) {
        unwind::discard(payload);
    }
}
