//! The handle's side of a future.
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

/// Allocates a cell for `future`. Returns its handle, and the ticket to queue it.
///
/// # Safety
/// The future and its output may be used and dropped by other threads than this one, unless the
/// caller ensures that they are not. What they borrow must live until the future is done and its
/// outcome dropped.
#[inline]
pub(in crate::future) unsafe fn make<F: Future>(future: F) -> (Hold<F::Output>, Ticket) {
    let block = blocks::alloc(Layout::new::<Cell<F>>()).cast::<Cell<F>>();
    // SAFETY: the block was just allocated with this layout.
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

/// The outcome as a handle takes it.
#[derive(Debug)]
pub(in crate::future) enum Taken<T> {
    Value(T),
    Panic(Payload),
    Cancelled,
}

/// The handle's side of a future: there is one, and it receives the outcome.
pub(in crate::future) struct Hold<T> {
    cell: ManuallyDrop<Ref>,
    /// Whether the outcome has been taken.
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

    /// Registers `waker`, which is woken when the future is done. Returns false when it is done
    /// already.
    pub(in crate::future) fn watch(&mut self, waker: &Waker) -> bool {
        let header = self.cell.header();
        let now = header.state.load();
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
        if self.cell.header().state.watch() {
            return true;
        }
        drop_waker(self.replace_waker(None));
        false
    }

    /// Replaces the waker. Must be called only while the waker belongs to the handle.
    fn replace_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.cell.header().waker.with_mut(|slot| {
            // SAFETY: the callers are where the field's comment assigns the waker to the handle.
            mem::replace(unsafe { &mut *slot }, waker)
        })
    }

    /// Returns the outcome, once, if the future is done.
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
                // SAFETY: the future is done, so the value belongs to the handle, of which there is
                // one, and which takes it once. The place has the output type of this handle.
                unsafe { (actions.take_value)(self.header(), to) };
                // SAFETY: the place is initialised: `take_value` has written a value of this type.
                Taken::Value(unsafe { place.assume_init() })
            }
            End::Panic => {
                // SAFETY: the future is done, so the panic belongs to the handle, which takes it
                // once.
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

    /// Releases the handle's side. Returns a panic that was never taken, or that of a drop. `self`
    /// must not be used after this.
    #[inline]
    pub(in crate::future) fn abandon(&mut self) -> Option<Payload> {
        // SAFETY: the reference keeps the memory. Only the word is borrowed, since with
        // `Abandoned::Left` another thread may free the cell at once.
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
                // SAFETY: the future is done and the outcome was not taken, so it belongs to the
                // handle.
                unsafe { (actions.drop_outcome)(self.header(), end) }
            }
        };
        // SAFETY: the reference belongs to the handle and is released once: `self` is not used
        // after this.
        drop(unsafe { ManuallyDrop::take(&mut self.cell) });
        payload
    }
}
