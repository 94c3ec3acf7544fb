//! The handle's end of a future.
#![expect(
    unsafe_code,
    reason = "fills a cell, takes the outcome, leaves a waker"
)]

use super::{Cell, End, Header, Ref, drop_waker, run::Ticket, state::Abandoned};
use crate::{base::unwind::Payload, pool::blocks};
use std::{
    alloc::Layout,
    marker::PhantomData,
    mem::{self, ManuallyDrop, MaybeUninit},
    ptr::NonNull,
    task::Waker,
};

/// Makes a cell for `future`: its handle, and the ticket for a queue.
///
/// # Safety
/// The future and its output may be used, and dropped, by other threads than this one, unless the caller sees to it that
/// they are not; and what they borrow must live until the future is done and its outcome gone.
#[inline]
pub(in crate::future) unsafe fn make<F: Future>(future: F) -> (Hold<F::Output>, Ticket) {
    let block = blocks::alloc(Layout::new::<Cell<F>>()).cast::<Cell<F>>();
    // SAFETY: the block is ours and of this layout.
    unsafe { block.write(Cell::new(future)) };
    let cell = block.cast::<Header>();
    // `State::new` has counted the handle, and the future itself.
    let hold = Hold {
        cell: ManuallyDrop::new(Ref { cell }),
        taken: false,
        outcome: PhantomData,
    };
    (hold, Ticket { cell })
}

/// What a handle gets.
#[derive(Debug)]
pub(in crate::future) enum Taken<T> {
    Value(T),
    Panic(Payload),
    Cancelled,
}

/// The handle's end of a future: there is one, and the outcome is for it.
pub(in crate::future) struct Hold<T> {
    cell: ManuallyDrop<Ref>,
    /// The outcome has been taken.
    taken: bool,
    outcome: PhantomData<fn() -> T>,
}

impl<T> Hold<T> {
    pub(in crate::future) fn cell(&self) -> &Ref {
        &self.cell
    }

    fn header(&self) -> NonNull<Header> {
        self.cell.cell
    }

    /// Wakes `waker` when the future is done. False when it is already.
    pub(in crate::future) fn watch(&mut self, waker: &Waker) -> bool {
        let header = self.cell.header();
        let now = header.state.load();
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
        if self.cell.header().state.watch() {
            return true;
        }
        drop_waker(self.replace_waker(None));
        false
    }

    /// Call it only while the waker is the handle's.
    fn replace_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.cell.header().waker.with_mut(|slot| {
            // SAFETY: the callers are where the field says that the waker is the handle's.
            mem::replace(unsafe { &mut *slot }, waker)
        })
    }

    /// The outcome, once, if the future is done.
    pub(in crate::future) fn take(&mut self) -> Option<Taken<T>> {
        let now = self.cell.snapshot();
        if self.taken || !now.is_done() {
            return None;
        }
        self.taken = true;
        let actions = self.cell.header().actions;
        Some(match now.end() {
            End::Value => {
                let mut place = MaybeUninit::<T>::uninit();
                let to = place.as_mut_ptr().cast();
                // SAFETY: it is done, so the value is the handle's, of which there is one, and which takes it once.
                // The place is for what a handle of this type gets.
                unsafe { (actions.take_value)(self.header(), to) };
                // SAFETY: written above.
                Taken::Value(unsafe { place.assume_init() })
            }
            End::Panic => {
                // SAFETY: as above.
                let payload = unsafe { (actions.drop_outcome)(self.header(), End::Panic) };
                Taken::Panic(payload.expect("it is a panic"))
            }
            End::Cancelled => Taken::Cancelled,
        })
    }

    /// Whether the outcome has been taken.
    pub(in crate::future) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Lets go. A panic that nobody has seen, or that of a drop, comes back. Nothing may be done with it after this.
    #[inline]
    pub(in crate::future) fn abandon(&mut self) -> Option<Payload> {
        // SAFETY: the reference keeps the memory; only the word is borrowed, since with `Abandoned::Left` somebody else
        // may free the cell at once.
        let state = unsafe { &(*self.header().as_ptr()).state };
        let payload = match state.abandon() {
            Abandoned::Left => return None,
            Abandoned::LeftWaker => {
                drop_waker(self.replace_waker(None));
                None
            }
            Abandoned::Outcome if self.taken => None,
            Abandoned::Outcome => {
                let (actions, end) = (self.cell.header().actions, self.cell.snapshot().end());
                // SAFETY: the outcome is the handle's.
                unsafe { (actions.drop_outcome)(self.header(), end) }
            }
        };
        // SAFETY: the handle's, and given up once: it is not used after this.
        drop(unsafe { ManuallyDrop::take(&mut self.cell) });
        payload
    }
}
