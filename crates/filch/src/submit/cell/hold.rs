//! The handle's side of a task.
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
    submit::{info::TaskMeta, run},
};
use std::{
    alloc::Layout,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    task::Waker,
};

/// A new task, which no other thread knows yet.
pub(in crate::submit) struct Fresh<F, T> {
    pub(in crate::submit) hold: Hold<T>,
    types: PhantomData<fn() -> F>,
}

/// Allocates a task for `func`. Returns its handle, and the ticket to queue it.
#[inline]
pub(in crate::submit) fn make<F, T>(func: F, level: Level, about: TaskMeta) -> (Fresh<F, T>, Ticket)
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
    // SAFETY: the block was just allocated with this layout.
    unsafe { block.write(cell) };
    let cell = block.cast::<Header>();
    // `State::new` has counted the handle and the ticket.
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
    /// Takes back the closure of a task that was not accepted after all.
    ///
    /// # Panics
    /// When `claim` is that of another task.
    pub(in crate::submit) fn take_back(self, claim: Claim) -> F {
        assert!(claim.cell.is(&self.hold.cell), "another task's claim");
        let cell = claim.disarm();
        // SAFETY: the task is claimed, and a `Fresh` has the types of its cell.
        let func = unsafe { Cell::<F, T>::take_func(cell.cell) };
        // SAFETY: the task is claimed, and its slot is empty: the closure was taken out above.
        unsafe { Cell::<F, T>::put(cell.cell, Outcome::Cancelled(Cause::Closed)) };
        let ended = Ended {
            cell,
            fate: TaskStatus::Refused,
        };
        // Dropping such an outcome cannot panic.
        let _ = ended.finish();
        func
    }
}

/// The handle's side of a task: there is one, and it receives the outcome.
pub(in crate::submit) struct Hold<T> {
    cell: ManuallyDrop<Ref>,
    /// Whether the outcome has been taken.
    taken: bool,
    outcome: PhantomData<fn() -> T>,
}

impl<T> Hold<T> {
    pub(in crate::submit) fn cell(&self) -> &Ref {
        &self.cell
    }

    /// Claims the task, if it is queued and not claimed.
    pub(in crate::submit) fn claim(&self) -> Option<Claim> {
        self.cell.claim()
    }

    /// Moves the task to another level, and queues a ticket for it there. Returns false when it
    /// does not wait any more. The order matters: a ticket that is taken before the level has
    /// changed is stale, and lost.
    pub(in crate::submit) fn move_to(&self, level: Level, queue: impl FnOnce(Ticket)) -> bool {
        if broken(Canary::TaskMove) {
            let cell = Ref::clone(&self.cell);
            queue(Ticket { cell, level });
            // The reference that this transition counts belongs to the ticket above.
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

    /// Registers `waker`, which is woken when the task is done. Returns false when it is done
    /// already.
    pub(in crate::submit) fn watch(&mut self, waker: &Waker) -> bool {
        let header = &**self.cell;
        let now = header.snapshot();
        if now.is_done() || now.is_watched() && !header.state.unwatch() {
            return false;
        }
        // SAFETY: from here to `State::watch` the waker belongs to the handle, as the field
        // describes.
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

    /// Replaces the waker. Must be called only while the waker belongs to the handle.
    fn replace_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.cell.waker.with_mut(|slot| {
            // SAFETY: the callers are where the field's comment assigns the waker to the handle.
            mem::replace(unsafe { &mut *slot }, waker)
        })
    }

    /// Returns the outcome, once, if the task is done.
    pub(in crate::submit) fn take(&mut self) -> Option<Outcome<T>> {
        if self.taken || !self.cell.snapshot().is_done() {
            return None;
        }
        self.taken = true;
        let mut place = mem::MaybeUninit::<Outcome<T>>::uninit();
        let (cell, to) = (self.cell.cell, place.as_mut_ptr().cast());
        // SAFETY: the task is done, so the outcome belongs to the handle, of which there is one,
        // and which takes it once. The place has the outcome type of this handle.
        unsafe { (self.cell.actions.take_outcome)(cell, to) };
        // SAFETY: the place is initialised: `take_outcome` has written an outcome of this type.
        Some(unsafe { place.assume_init() })
    }

    /// Whether the outcome has been taken.
    pub(in crate::submit) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Releases the handle's side. Returns a panic that was never taken, or that of a drop, as
    /// [`Ended::finish`] does.
    fn abandon(&mut self) -> Option<Payload> {
        // SAFETY: the reference keeps the memory. Only the word is borrowed, since with
        // `Abandoned::Left` another thread may free the cell at once.
        let state = unsafe { &(*self.cell.cell.as_ptr()).state };
        let payload = match state.abandon() {
            Abandoned::Left => return None,
            Abandoned::LeftWaker => {
                drop_waker(self.replace_waker(None));
                None
            }
            Abandoned::Outcome if self.taken => None,
            // SAFETY: the task is done and the outcome was not taken, so it belongs to the handle.
            Abandoned::Outcome => unsafe { (self.cell.actions.drop_outcome)(self.cell.cell) },
        };
        // SAFETY: called by `drop` only, and `self` is not used after this.
        drop(unsafe { ManuallyDrop::take(&mut self.cell) });
        payload
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let pool = self.cell.about.pool;
        if let Some(payload) = self.abandon() {
            run::report_panics(pool, [Some(payload)]);
        }
    }
}

/// Drops a waker and contains its panics: its destructor is user code.
pub(super) fn drop_waker(waker: Option<Waker>) {
    if let Err(payload) = unwind::contain(|| drop(waker)) {
        unwind::discard(payload);
    }
}
