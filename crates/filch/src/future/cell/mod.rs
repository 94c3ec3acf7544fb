//! The cell of a future: its state word, the waker of its waiter, its link in the resident list of
//! the pool, and the future itself.
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
/// A cell is always used through pointers to all of it: no `&Header` may be alive when another
/// thread may release the last reference.
///
/// Aligned as a job needs it.
#[repr(C, align(8))]
pub(super) struct Header {
    /// The first field, so that a pointer to it is a pointer to the cell.
    link: Link,
    state: State,
    actions: &'static Actions,
    /// Belongs to the only handle: only `Hold::watch` writes it, while `WAITING` is not set. From
    /// `Finished::Wake` on it belongs to the thread that ended the future; after `unwatch` or
    /// `Abandoned::LeftWaker` it belongs to the handle again.
    waker: UnsafeCell<Option<Waker>>,
    /// The list that the future is linked in; null before that. Written by the thread that polls
    /// it, before it rests for the first time; read by the owners of the future after that.
    home: UnsafeCell<*const Shard<Inner>>,
}

/// The cell of a future of one machine word fits the smallest block.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 7 * size_of::<usize>());

#[repr(C)]
struct Cell<F: Future> {
    header: Header,
    /// The future, until it is done; it belongs to the thread that has started it, one at a time.
    /// That thread stores the outcome, if there is one, before it finishes. Then the slot belongs
    /// to the handle, or, if the future is `Finished::Orphaned`, to the thread that ended it. Empty
    /// when the last reference is released.
    slot: UnsafeCell<Slot<F>>,
}

#[repr(C)]
union Slot<F: Future> {
    future: ManuallyDrop<F>,
    value: ManuallyDrop<F::Output>,
    /// Behind a thin pointer, so that it does not make every cell larger.
    panic: ManuallyDrop<Box<Payload>>,
}

/// The result of a poll.
pub(super) enum Polled {
    Pending,
    /// The future has been dropped, and its outcome stored in the slot. The payload is the panic of
    /// that drop, if it panicked.
    Done(End, Option<Payload>),
}

/// The type-erased operations of a cell.
struct Actions {
    layout: Layout,
    /// Polls the future.
    ///
    /// # Safety
    /// The caller has started it, and it is in the cell.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Polled,
    /// Drops the future; returns the payload if that panics.
    ///
    /// # Safety
    /// As for `poll`.
    drop_future: unsafe fn(NonNull<Header>) -> Option<Payload>,
    /// Drops the outcome; returns the panic payload in it, or that of the drop.
    ///
    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    drop_outcome: unsafe fn(NonNull<Header>, End) -> Option<Payload>,
    /// Moves the value to where the second pointer points.
    ///
    /// # Safety
    /// As for `drop_outcome`; the outcome is a value, and the destination has room for one.
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
    /// `cell` is the header of a live `Self`.
    unsafe fn slot<'a>(cell: NonNull<Header>) -> &'a UnsafeCell<Slot<F>> {
        // SAFETY: the caller guarantees a live `Self`, and the pointer is to all of the cell.
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        &cell.slot
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn poll(cell: NonNull<Header>, cx: &mut Context<'_>) -> Polled {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        let polled = slot.with_mut(|slot| {
            // All fields of a `Slot` begin where it does.
            // SAFETY: the slot belongs to the caller, and the future is in it.
            let future = unsafe { &mut *slot.cast::<F>() };
            // SAFETY: the future does not move until it is dropped, because the cell never moves.
            let future = unsafe { Pin::new_unchecked(future) };
            unwind::contain(|| future.poll(cx))
        });
        match polled {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready(value)) => {
                // SAFETY: the caller has started the future, and it is still in the slot.
                let dropped = unsafe { Self::drop_future(cell) };
                slot.with_mut(|slot| {
                    // SAFETY: the slot belongs to the caller, and is empty: the future was dropped
                    // above.
                    unsafe { slot.cast::<F::Output>().write(value) };
                });
                Polled::Done(End::Value, dropped)
            }
            Err(payload) => {
                // SAFETY: the caller has started the future, and it is still in the slot.
                let dropped = unsafe { Self::drop_future(cell) };
                slot.with_mut(|slot| {
                    // SAFETY: the slot belongs to the caller, and is empty: the future was dropped
                    // above.
                    unsafe { slot.cast::<Box<Payload>>().write(Box::new(payload)) };
                });
                Polled::Done(End::Panic, dropped)
            }
        }
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn drop_future(cell: NonNull<Header>) -> Option<Payload> {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        let dropped = slot.with_mut(|slot| {
            // SAFETY: the slot belongs to the caller, and the future is in it; the future is not
            // accessed after that.
            unwind::contain(|| unsafe { slot.cast::<F>().drop_in_place() })
        });
        dropped.err()
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn drop_outcome(cell: NonNull<Header>, end: End) -> Option<Payload> {
        match end {
            End::Value => {
                // SAFETY: the cell is of this type, because these functions stand in its own
                // `ACTIONS`.
                let slot = unsafe { Self::slot(cell) };
                let dropped = slot.with_mut(|slot| {
                    // SAFETY: the value is in the slot, and belongs to the caller.
                    unwind::contain(|| unsafe { slot.cast::<F::Output>().drop_in_place() })
                });
                dropped.err()
            }
            End::Panic => {
                // SAFETY: the cell is of this type, because these functions stand in its own
                // `ACTIONS`.
                let slot = unsafe { Self::slot(cell) };
                // SAFETY: the panic is in the slot and belongs to the caller, which takes it once.
                let panic = slot.with_mut(|slot| unsafe { slot.cast::<Box<Payload>>().read() });
                Some(*panic)
            }
            End::Cancelled => None,
        }
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn take_value(cell: NonNull<Header>, place: *mut ()) {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the value is in the slot and belongs to the caller, which takes it once.
        let value = slot.with_mut(|slot| unsafe { slot.cast::<F::Output>().read() });
        // SAFETY: the caller guarantees that `place` is valid for a value of this type.
        unsafe { place.cast::<F::Output>().write(value) };
    }
}

/// A counted reference to a cell.
pub(super) struct Ref {
    cell: NonNull<Header>,
}

// SAFETY: the future and the outcome change owners as the field `slot` describes, and the caller of
// `make` guarantees that they may change threads. A waker may be called from any thread. The rest
// of the header is `Sync`.
unsafe impl Send for Ref {}
// SAFETY: through a shared `Ref` the slot and the waker are used only by their owner, which the
// state word determines; the rest of the header is `Sync`.
unsafe impl Sync for Ref {}

impl Ref {
    fn header(&self) -> &Header {
        // SAFETY: the cell is not freed as long as this counted reference exists.
        unsafe { self.cell.as_ref() }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.header().state.load()
    }

    /// Returns the address of the cell, which is unique among futures as long as there is a
    /// reference.
    pub(super) fn address(&self) -> usize {
        self.cell.addr().get()
    }

    /// Requests the end of the future: it is not polled again. If it is idle, it is queued, to be
    /// dropped.
    pub(super) fn abort(&self) {
        if self.header().state.abort() {
            // SAFETY: `abort` has returned true, so this thread owns the future.
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
        // SAFETY: this reference is not used after its drop.
        unsafe { release(self.cell) };
    }
}

/// Releases a reference.
///
/// # Safety
/// The reference belongs to the caller, and is not used after this.
#[inline]
unsafe fn release(cell: NonNull<Header>) {
    // SAFETY: the memory is valid until this reference is released. Only the word is borrowed,
    // which is an atomic: another thread may free the cell as soon as it has changed.
    let state = unsafe { &(*cell.as_ptr()).state };
    if state.release() {
        // SAFETY: it was the last reference, and the slot is empty by then.
        unsafe { free(cell) };
    }
}

/// # Safety
/// There are no other users of the cell, and its slot is empty.
unsafe fn free(cell: NonNull<Header>) {
    // SAFETY: the caller is the only user of the cell.
    let header = unsafe { cell.as_ref() };
    let layout = header.actions.layout;
    // The destructor of a waker is user code, so it runs after the block is freed.
    // SAFETY: the caller is the only user of the cell.
    let waker = header.waker.with_mut(|waker| unsafe { (*waker).take() });
    // SAFETY: `make` allocated the block with this layout. The rest of a header needs no
    // destructor.
    unsafe { blocks::free(cell.cast(), layout) };
    drop_waker(waker);
}

/// Drops a waker and contains its panics: its destructor is user code.
fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker
        && let Err(payload) = unwind::contain(|| drop(waker))
    {
        unwind::discard(payload);
    }
}
