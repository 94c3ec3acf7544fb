//! The memory of a task: its header, and a slot for its body and later for its outcome.
#![expect(
    unsafe_code,
    reason = "a body and its outcome share memory, and their types are erased in the header"
)]

use super::{
    TaskStatus,
    drop_in_unwind::{DropInPlace, DropInUnwind},
    header::{CellKind, CellVtable, Header, TaskRef},
    state::TaskState,
};
use crate::{
    base::{
        budget,
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    pool::blocks,
};
use std::{
    alloc::Layout,
    mem::{self, ManuallyDrop},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

/// Calls the closure of a task, and stores the outcome.
///
/// # Safety
/// The caller has claimed the task, and the closure is in the cell.
pub(crate) type CallBody<K> = unsafe fn(NonNull<Header<K>>) -> TaskStatus;

/// Polls the future of a task, and stores the outcome.
///
/// # Safety
/// The caller has started the task, and the future is in the cell.
pub(crate) type PollBody<K> = unsafe fn(NonNull<Header<K>>, &mut Context<'_>) -> Polled;

/// The result of a poll.
pub(crate) enum Polled {
    Pending,
    /// The future has been dropped, and its outcome stored in the slot. The payload is the panic of
    /// that drop, if it panicked.
    Done(TaskStatus, Option<Payload>),
}

/// The code of a task that runs once: a closure, or a wrapper that observes its end.
pub(crate) trait Body<T>: Send + 'static {
    fn call(self) -> T;
}

impl<F, T> Body<T> for F
where
    F: FnOnce() -> T + Send + 'static,
{
    #[inline(always)]
    fn call(self) -> T {
        self()
    }
}

#[repr(C)]
struct Cell<K: CellKind, B, T> {
    header: Header<K>,
    /// The body, until the task is done; it belongs to the thread that has claimed or started the
    /// task, one at a time. That thread stores the outcome, if there is one, before it finishes.
    /// Then the slot belongs to the handle, or, if the task is `Finished::Orphaned`, to the thread
    /// that finished it. Empty when the last reference is released.
    slot: UnsafeCell<CellSlot<B, T>>,
}

/// All fields begin where the union does.
#[repr(C)]
union CellSlot<B, T> {
    body: ManuallyDrop<B>,
    value: ManuallyDrop<T>,
    /// Behind a thin pointer, so that it does not make every cell larger.
    panic: ManuallyDrop<Box<Payload>>,
}

/// Allocates the cell of a task that runs `body` once. The references that `state` has counted
/// belong to the caller.
#[inline]
pub(crate) fn make_closure<K, B, T>(state: TaskState, kind: K, body: B) -> NonNull<Header<K>>
where
    K: CellKind<Run = CallBody<K>>,
    B: Body<T>,
    T: Send + 'static,
{
    Cell::<K, B, T>::make(state, &Cell::<K, B, T>::CLOSURE, kind, body)
}

/// Allocates the cell of a future. The references that `state` has counted belong to the caller.
///
/// # Safety
/// The future and its output may be used and dropped by other threads than this one, unless the
/// caller ensures that they are not. What they borrow must live until the future is done and its
/// outcome dropped.
#[inline]
pub(crate) unsafe fn make_future<K, F>(state: TaskState, kind: K, future: F) -> NonNull<Header<K>>
where
    K: CellKind<Run = PollBody<K>>,
    F: Future,
{
    Cell::<K, F, F::Output>::make(state, &Cell::<K, F, F::Output>::FUTURE, kind, future)
}

/// Takes the closure of a task that does not run after all.
///
/// # Safety
/// The caller has claimed the task, the closure is in the cell, and `make_closure` was called with
/// these types.
pub(crate) unsafe fn take_closure<K, B, T>(task: &TaskRef<K>) -> B
where
    K: CellKind<Run = CallBody<K>>,
    B: Body<T>,
    T: Send + 'static,
{
    // SAFETY: the caller guarantees a claimed task of these types.
    unsafe { Cell::<K, B, T>::take_body(task.pointer()) }
}

impl<K, B, T> Cell<K, B, T>
where
    K: CellKind<Run = CallBody<K>>,
    B: Body<T>,
    T: Send + 'static,
{
    const CLOSURE: CellVtable<K> = Self::vtable(Self::call);

    /// # Safety
    /// As for [`CallBody`].
    unsafe fn call(cell: NonNull<Header<K>>) -> TaskStatus {
        // SAFETY: the caller guarantees that the closure is in the cell, which is claimed.
        let body = unsafe { Self::take_body(cell) };
        let result = unwind::contain(|| body.call());
        // SAFETY: the cell is claimed, and its slot is empty: the closure was taken out above.
        unsafe { Self::store_outcome(cell, result) }
    }
}

impl<K, F> Cell<K, F, F::Output>
where
    K: CellKind<Run = PollBody<K>>,
    F: Future,
{
    const FUTURE: CellVtable<K> = Self::vtable(Self::poll);

    /// # Safety
    /// As for [`PollBody`].
    unsafe fn poll(cell: NonNull<Header<K>>, cx: &mut Context<'_>) -> Polled {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        let mut dropped = None;
        let polled = slot.with_mut(|slot| {
            unwind::contain(|| {
                let guard = DropInUnwind {
                    future: StartedFuture(slot.cast::<F>()),
                    dropped: &mut dropped,
                };
                let polled = budget::with_new(|| {
                    // Here, so that no frame below the guard's has it as an argument.
                    // SAFETY: the slot belongs to the caller, and the future is in it.
                    let future = unsafe { &mut *slot.cast::<F>() };
                    // SAFETY: the future does not move until it is dropped, because the cell never
                    // moves.
                    unsafe { Pin::new_unchecked(future) }.poll(cx)
                });
                mem::forget(guard);
                polled
            })
        });
        let result = match polled {
            Ok(Poll::Pending) => return Polled::Pending,
            Ok(Poll::Ready(value)) => {
                // SAFETY: the caller has started the future, and it is still in the slot.
                dropped = unsafe { Self::drop_body(cell) };
                Ok(value)
            }
            // The guard has dropped the future.
            Err(payload) => Err(payload),
        };
        // SAFETY: the slot belongs to the caller, and is empty: the future was dropped above.
        Polled::Done(unsafe { Self::store_outcome(cell, result) }, dropped)
    }
}

/// The future in the slot of a cell whose poll has begun.
struct StartedFuture<F>(*mut F);

impl<F> DropInPlace for StartedFuture<F> {
    fn drop_in_place(&mut self) {
        // SAFETY: `Cell::poll`, which has started the future, is unwinding: the future is in the
        // slot, is not borrowed any more, and is not accessed after this.
        unsafe { self.0.drop_in_place() };
    }
}

impl<K: CellKind, B, T> Cell<K, B, T> {
    /// The layout of the block: at least that of the cell.
    const LAYOUT: Layout = {
        let layout = Layout::new::<Self>();
        if K::WHOLE_LINES {
            blocks::whole_lines(layout)
        } else {
            layout
        }
    };

    const fn vtable(run: K::Run) -> CellVtable<K> {
        CellVtable {
            layout: Self::LAYOUT,
            run,
            drop_body: Self::drop_body,
            put_panic: Self::put_panic,
            drop_outcome: Self::drop_outcome,
            take_value: Self::take_value,
        }
    }

    #[inline(always)]
    fn make(
        state: TaskState,
        vtable: &'static CellVtable<K>,
        kind: K,
        body: B,
    ) -> NonNull<Header<K>> {
        let block = blocks::alloc(Self::LAYOUT).cast::<Self>();
        let cell = Self {
            header: Header::new(state, vtable, kind),
            slot: UnsafeCell::new(CellSlot {
                body: ManuallyDrop::new(body),
            }),
        };
        // SAFETY: the block was just allocated with `LAYOUT`, which has room for the cell.
        unsafe { block.write(cell) };
        block.cast()
    }

    /// # Safety
    /// `cell` is the header of a live `Self`.
    unsafe fn slot<'a>(cell: NonNull<Header<K>>) -> &'a UnsafeCell<CellSlot<B, T>> {
        // SAFETY: the caller guarantees a live `Self`, and the pointer is to all of the cell.
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        &cell.slot
    }

    /// # Safety
    /// The body is in the cell and belongs to the caller, which does not use it there any more.
    unsafe fn take_body(cell: NonNull<Header<K>>) -> B {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the slot belongs to the caller, and the body is in it; it is taken once.
        slot.with_mut(|slot| unsafe { slot.cast::<B>().read() })
    }

    /// Stores the outcome.
    ///
    /// # Safety
    /// The slot is empty and belongs to the caller.
    unsafe fn store_outcome(cell: NonNull<Header<K>>, result: Result<T, Payload>) -> TaskStatus {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        match result {
            Ok(value) => {
                // SAFETY: the caller guarantees that the slot is empty and belongs to it.
                slot.with_mut(|slot| unsafe { slot.cast::<T>().write(value) });
                TaskStatus::Succeeded
            }
            Err(payload) => {
                let panic = Box::new(payload);
                // SAFETY: the caller guarantees that the slot is empty and belongs to it.
                slot.with_mut(|slot| unsafe { slot.cast::<Box<Payload>>().write(panic) });
                TaskStatus::Panicked
            }
        }
    }

    /// # Safety
    /// As for the field of `CellVtable`.
    unsafe fn drop_body(cell: NonNull<Header<K>>) -> Option<Payload> {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        let dropped = slot.with_mut(|slot| {
            // SAFETY: the slot belongs to the caller, and the body is in it; the body is not
            // accessed after that.
            unwind::contain(|| unsafe { slot.cast::<B>().drop_in_place() })
        });
        dropped.err()
    }

    /// # Safety
    /// As for the field of `CellVtable`.
    unsafe fn put_panic(cell: NonNull<Header<K>>, payload: Payload) -> TaskStatus {
        // SAFETY: the caller has claimed or started the task, and the body has been dropped, so the
        // slot is empty and belongs to the caller.
        unsafe { Self::store_outcome(cell, Err(payload)) }
    }

    /// # Safety
    /// As for the field of `CellVtable`.
    unsafe fn drop_outcome(cell: NonNull<Header<K>>, status: TaskStatus) -> Option<Payload> {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        match status {
            TaskStatus::Succeeded => {
                let dropped = slot.with_mut(|slot| {
                    // SAFETY: the value is in the slot, and belongs to the caller.
                    unwind::contain(|| unsafe { slot.cast::<T>().drop_in_place() })
                });
                dropped.err()
            }
            TaskStatus::Panicked => {
                // SAFETY: the panic is in the slot and belongs to the caller, which takes it once.
                let panic = slot.with_mut(|slot| unsafe { slot.cast::<Box<Payload>>().read() });
                Some(*panic)
            }
            TaskStatus::Cancelled(_) => None,
        }
    }

    /// # Safety
    /// As for the field of `CellVtable`.
    unsafe fn take_value(cell: NonNull<Header<K>>, destination: *mut ()) {
        // SAFETY: the cell is of this type, because this function is in its vtable.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the value is in the slot and belongs to the caller, which takes it once.
        let value = slot.with_mut(|slot| unsafe { slot.cast::<T>().read() });
        // SAFETY: the caller guarantees that `destination` is valid for a value of this type.
        unsafe { destination.cast::<T>().write(value) };
    }
}
