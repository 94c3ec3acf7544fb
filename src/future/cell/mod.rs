//! The cell of a future: its word, its outcome's waiter, its place among the residents of the pool, and the future.
#![expect(
    unsafe_code,
    reason = "a future and its outcome in one place, behind a counted pointer"
)]

mod hold;
#[cfg(filch_loom)]
pub(super) mod model;
mod run;
mod state;
mod waker;

pub(super) use hold::{Hold, Taken, make};
pub(crate) use state::End;

use crate::{
    base::{
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    pool::{
        Inner, blocks,
        residents::{Link, Shard},
    },
};
use state::{Snapshot, State};
use std::{
    alloc::Layout,
    mem::ManuallyDrop,
    pin::Pin,
    ptr::{self, NonNull},
    task::{Context, Poll, Waker},
};

/// The part of a cell that is the same for all types.
///
/// A cell is always used through pointers to all of it: a `&Header` must not be alive when the last
/// reference may be given up by somebody else.
///
/// Aligned as a job needs it.
#[repr(C, align(8))]
pub(super) struct Header {
    /// At the beginning, so that a pointer to it is one to the cell.
    link: Link,
    state: State,
    actions: &'static Actions,
    /// The handle's, which there is one of: only `Hold::watch` writes it, while `WAITING` is not set. From
    /// `Finished::Wake` on it belongs to whoever ended the future, and after `unwatch` or `Abandoned::LeftWaker` to the
    /// handle again.
    waker: UnsafeCell<Option<Waker>>,
    /// Where it is linked; null before that. Written by whoever polls it, before it rests for the first time; read by
    /// those who have the future after that.
    home: UnsafeCell<*const Shard<Inner>>,
}

/// A cell of nothing but a word fills the smallest block.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 7 * size_of::<usize>());

#[repr(C)]
struct Cell<F: Future> {
    header: Header,
    /// The future, until it is done; it belongs to whoever has started it, one at a time. That one leaves the outcome, if
    /// there is one, before it finishes. Then it belongs to the handle, or, if the future is `Finished::Orphaned`, to
    /// whoever ended it. Empty when the last reference is given up.
    slot: UnsafeCell<Slot<F>>,
}

#[repr(C)]
union Slot<F: Future> {
    future: ManuallyDrop<F>,
    value: ManuallyDrop<F::Output>,
    /// Behind a thin pointer, so that it does not make every cell larger.
    panic: ManuallyDrop<Box<Payload>>,
}

/// What a poll came to.
pub(super) enum Polled {
    Pending,
    /// The future is gone, and the outcome in its place. Dropping it may have panicked.
    Done(End, Option<Payload>),
}

/// What can be done with a cell whose types are not known any more.
struct Actions {
    layout: Layout,
    /// Polls the future.
    ///
    /// # Safety
    /// The caller has started it, and it is in the cell.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Polled,
    /// Drops the future; gives what that panicked with.
    ///
    /// # Safety
    /// As `poll`.
    drop_future: unsafe fn(NonNull<Header>) -> Option<Payload>,
    /// Drops the outcome; gives the panic in it, or that of the drop.
    ///
    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    drop_outcome: unsafe fn(NonNull<Header>, End) -> Option<Payload>,
    /// Moves the value to where the second pointer points.
    ///
    /// # Safety
    /// As `drop_outcome`; it is a value, and the place is for one.
    take_value: unsafe fn(NonNull<Header>, *mut ()),
}

impl<F: Future> Cell<F> {
    const ACTIONS: Actions = Actions {
        layout: Layout::new::<Self>(),
        poll: Self::poll,
        drop_future: Self::drop_future,
        drop_outcome: Self::drop_outcome,
        take_value: Self::take_value,
    };

    fn new(future: F) -> Self {
        Self {
            header: Header {
                link: Link::new(),
                state: State::new(),
                actions: &Self::ACTIONS,
                waker: UnsafeCell::new(None),
                home: UnsafeCell::new(ptr::null()),
            },
            slot: UnsafeCell::new(Slot {
                future: ManuallyDrop::new(future),
            }),
        }
    }

    /// # Safety
    /// The header is that of a living `Self`.
    unsafe fn slot<'a>(cell: NonNull<Header>) -> &'a UnsafeCell<Slot<F>> {
        // SAFETY: as the caller says; the pointer is to all of the cell.
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        &cell.slot
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn poll(cell: NonNull<Header>, cx: &mut Context<'_>) -> Polled {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        let polled = slot.with_mut(|slot| {
            // All fields of a `Slot` begin where it does.
            // SAFETY: the slot is the caller's, and the future is in it.
            let future = unsafe { &mut *slot.cast::<F>() };
            // SAFETY: it does not move until it is dropped: the cell is where it is.
            let future = unsafe { Pin::new_unchecked(future) };
            unwind::contain(|| future.poll(cx))
        });
        match polled {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready(value)) => {
                // SAFETY: the caller's duty.
                let dropped = unsafe { Self::drop_future(cell) };
                slot.with_mut(|slot| {
                    // SAFETY: the slot is the caller's, and empty.
                    unsafe { slot.cast::<F::Output>().write(value) };
                });
                Polled::Done(End::Value, dropped)
            }
            Err(payload) => {
                // SAFETY: as above.
                let dropped = unsafe { Self::drop_future(cell) };
                slot.with_mut(|slot| {
                    // SAFETY: as above.
                    unsafe { slot.cast::<Box<Payload>>().write(Box::new(payload)) };
                });
                Polled::Done(End::Panic, dropped)
            }
        }
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop_future(cell: NonNull<Header>) -> Option<Payload> {
        // SAFETY: as in `poll`.
        let slot = unsafe { Self::slot(cell) };
        let dropped = slot.with_mut(|slot| {
            // SAFETY: the slot is the caller's, and the future in it; nobody looks at it after that.
            unwind::contain(|| unsafe { slot.cast::<F>().drop_in_place() })
        });
        dropped.err()
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop_outcome(cell: NonNull<Header>, end: End) -> Option<Payload> {
        match end {
            End::Value => {
                // SAFETY: as in `poll`.
                let slot = unsafe { Self::slot(cell) };
                let dropped = slot.with_mut(|slot| {
                    // SAFETY: the value is there, and the caller's.
                    unwind::contain(|| unsafe { slot.cast::<F::Output>().drop_in_place() })
                });
                dropped.err()
            }
            End::Panic => {
                // SAFETY: as in `poll`.
                let slot = unsafe { Self::slot(cell) };
                // SAFETY: the panic is there, and the caller's, who takes it once.
                let panic = slot.with_mut(|slot| unsafe { slot.cast::<Box<Payload>>().read() });
                Some(*panic)
            }
            End::Cancelled => None,
        }
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn take_value(cell: NonNull<Header>, place: *mut ()) {
        // SAFETY: as in `poll`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the value is there, and the caller's, who takes it once.
        let value = slot.with_mut(|slot| unsafe { slot.cast::<F::Output>().read() });
        // SAFETY: the caller's duty.
        unsafe { place.cast::<F::Output>().write(value) };
    }
}

/// A counted reference to a cell.
pub(super) struct Ref {
    cell: NonNull<Header>,
}

// SAFETY: the future and the outcome change hands as the field `slot` says, and whoever makes a cell sees to it that they
// may; the waker may be called from anywhere; the rest of the header is `Sync`.
unsafe impl Send for Ref {}
// SAFETY: as above.
unsafe impl Sync for Ref {}

impl Ref {
    fn header(&self) -> &Header {
        // SAFETY: the memory stays as long as this reference counts.
        unsafe { self.cell.as_ref() }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.header().state.load()
    }

    /// The address of the cell, which no other future has as long as there is a reference.
    pub(super) fn address(&self) -> usize {
        self.cell.addr().get()
    }

    /// The future must end: it is not polled again. If it is not running it is queued, to be dropped.
    pub(super) fn abort(&self) {
        if self.header().state.abort() {
            // SAFETY: the transition has given it to us.
            unsafe { run::schedule(self.cell) };
        }
    }
}

impl Clone for Ref {
    fn clone(&self) -> Self {
        self.header().state.retain();
        Self { cell: self.cell }
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is given up here.
        unsafe { release(self.cell) };
    }
}

/// Gives up a reference.
///
/// # Safety
/// It was the caller's.
#[inline]
unsafe fn release(cell: NonNull<Header>) {
    // SAFETY: the memory is there until this reference is given up. Only the word is borrowed, which is an
    // atomic: somebody else may free the cell as soon as it has changed.
    let state = unsafe { &(*cell.as_ptr()).state };
    if state.release() {
        // SAFETY: it was the last one.
        unsafe { free(cell) };
    }
}

/// # Safety
/// Nobody uses the cell any more, and its slot is empty.
unsafe fn free(cell: NonNull<Header>) {
    // SAFETY: nobody else has it.
    let header = unsafe { cell.as_ref() };
    let layout = header.actions.layout;
    // A waker's destructor is the user's.
    // SAFETY: as above.
    let waker = header.waker.with_mut(|waker| unsafe { (*waker).take() });
    // SAFETY: `make` got the block with this layout. The rest of a header needs no destructor.
    unsafe { blocks::free(cell.cast(), layout) };
    drop_waker(waker);
}

/// A waker's destructor is the user's code.
fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker
        && let Err(payload) = unwind::contain(|| drop(waker))
    {
        unwind::discard(payload);
    }
}
