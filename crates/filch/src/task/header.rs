//! The part of a cell that does not depend on the type of its body, and the references to it.
#![expect(unsafe_code, reason = "a counted pointer to memory of several types")]

use super::{
    TaskStatus,
    state::{Finished, Snapshot, TaskState},
    waker::wake,
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    pool::blocks,
};
use std::{
    alloc::Layout,
    mem::{self, ManuallyDrop},
    ops::Deref,
    ptr::NonNull,
    task::Waker,
};

/// What one kind of task has in its header beside what every task has.
pub(crate) trait CellKind: Send + Sync + Sized + 'static {
    /// The function that runs the body: [`CallBody`](super::CallBody) or
    /// [`PollBody`](super::PollBody).
    type Run: Copy + 'static;

    /// Whether a cell shares no cache line with others. Costs memory, and saves the thread that
    /// creates tasks from disturbing the worker that runs the previous one.
    const WHOLE_LINES: bool;
}

/// The type-erased operations of a cell.
pub(crate) struct CellVtable<K: CellKind> {
    pub(super) layout: Layout,
    /// Runs the body.
    pub(crate) run: K::Run,
    /// Drops the body; returns the payload if that panics.
    ///
    /// # Safety
    /// The caller has claimed or started the task, and the body is in the cell.
    pub(crate) drop_body: unsafe fn(NonNull<Header<K>>) -> Option<Payload>,
    /// Stores a panic as the outcome.
    ///
    /// # Safety
    /// The caller has claimed or started the task, and its body has been dropped.
    pub(crate) put_panic: unsafe fn(NonNull<Header<K>>, Payload) -> TaskStatus,
    /// Drops the outcome; returns the panic payload in it, or that of the drop.
    ///
    /// # Safety
    /// The outcome is in the cell, belongs to the caller, and is of this status.
    pub(super) drop_outcome: unsafe fn(NonNull<Header<K>>, TaskStatus) -> Option<Payload>,
    /// Moves the value to where the second pointer points.
    ///
    /// # Safety
    /// As for `drop_outcome`; the outcome is a value, and the destination has room for one.
    pub(super) take_value: unsafe fn(NonNull<Header<K>>, *mut ()),
}

/// The part of a cell that is the same for all bodies.
///
/// A cell is always used through pointers to all of it: no `&Header` may be alive when another
/// thread may release the last reference.
///
/// The alignment leaves three bits of a pointer free, for the mark and the level of a job.
#[repr(C, align(8))]
pub(crate) struct Header<K: CellKind> {
    pub(crate) state: TaskState,
    pub(crate) vtable: &'static CellVtable<K>,
    /// Belongs to the only handle: only `JoinRef::register_waker` writes it, while `WAITING` is not
    /// set. From `Finished::Wake` on, or `Followed` with `WAITING` set, it belongs to the thread
    /// that finished the task; after `clear_waiting` or `HandleDropped::OwnsWaker` it belongs to
    /// the handle again.
    pub(super) waker: UnsafeCell<Option<Waker>>,
    pub(crate) kind: K,
}

impl<K: CellKind> Header<K> {
    #[inline]
    pub(super) fn new(state: TaskState, vtable: &'static CellVtable<K>, kind: K) -> Self {
        Self {
            state,
            vtable,
            waker: UnsafeCell::new(None),
            kind,
        }
    }

    #[inline(always)]
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state.load()
    }

    /// Takes the waker of the handle.
    ///
    /// # Safety
    /// The waker belongs to the caller.
    unsafe fn take_waker(&self) -> Option<Waker> {
        // SAFETY: the caller guarantees that the waker belongs to it, as the field requires.
        self.waker.with_mut(|waker| unsafe { (*waker).take() })
    }
}

/// A counted reference to a cell.
pub(crate) struct TaskRef<K: CellKind> {
    cell: NonNull<Header<K>>,
}

// SAFETY: the body and the outcome change owners as the field `slot` of a cell describes, and the
// caller of `make` guarantees that they may change threads. A waker may be called from any thread.
// The rest of the header is `Sync`.
unsafe impl<K: CellKind> Send for TaskRef<K> {}
// SAFETY: through a shared `TaskRef` the slot and the waker are used only by their owner, which the
// state word determines; the rest of the header is `Sync`.
unsafe impl<K: CellKind> Sync for TaskRef<K> {}

impl<K: CellKind> TaskRef<K> {
    /// Takes over a reference that the state word has counted.
    ///
    /// # Safety
    /// The reference is not taken over or released by any other code.
    #[inline(always)]
    pub(crate) unsafe fn from_counted(cell: NonNull<Header<K>>) -> Self {
        Self { cell }
    }

    /// Returns the pointer and gives up the reference, which stays counted.
    #[inline(always)]
    pub(crate) fn into_counted(self) -> NonNull<Header<K>> {
        ManuallyDrop::new(self).cell
    }

    /// Returns a pointer to all of the cell.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> NonNull<Header<K>> {
        self.cell
    }

    /// Returns the address of the cell, which is unique among tasks as long as there is a
    /// reference.
    pub(crate) fn address(&self) -> usize {
        self.cell.addr().get()
    }

    /// Whether both refer to the same task.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        self.cell == other.cell
    }

    /// Hands the outcome over, and calls `notify_followers` if there are any. Returns a panic that
    /// reaches no waiter, or that of a drop.
    ///
    /// # Safety
    /// The caller has claimed or started the task, its body has been dropped or taken, and the
    /// outcome of this status is in the slot.
    #[inline(always)]
    pub(crate) unsafe fn finish(
        self,
        status: TaskStatus,
        notify_followers: impl FnOnce(&Self),
    ) -> Option<Payload> {
        // SAFETY: the reference keeps the memory. Only the word is borrowed, since with
        // `Finished::Handed` another thread may free the cell at once.
        let state = unsafe { &(*self.cell.as_ptr()).state };
        match state.finish(status) {
            Finished::Handed => {
                mem::forget(self);
                None
            }
            Finished::Wake => {
                // SAFETY: with `Finished::Wake` the waker belongs to this thread.
                unsafe { self.wake_waiter() };
                None
            }
            // SAFETY: with `Finished::Orphaned` the outcome belongs to this thread.
            Finished::Orphaned => unsafe { (self.vtable.drop_outcome)(self.cell, status) },
            // SAFETY: the task was just finished as `Finished::Followed`, and this is the first
            // call after that.
            Finished::Followed => unsafe { self.finish_followed(status, notify_followers) },
        }
    }

    /// Takes the panic of a task that is done.
    ///
    /// # Safety
    /// The outcome is a panic, is in the cell, and belongs to the caller.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn take_panic(&self) -> Payload {
        // SAFETY: the caller guarantees an outcome of this status, which belongs to it.
        let payload = unsafe { (self.vtable.drop_outcome)(self.cell, TaskStatus::Panicked) };
        payload.expect("it is a panic")
    }

    /// Calls the waker of the handle.
    ///
    /// # Safety
    /// The waker belongs to the caller.
    unsafe fn wake_waiter(&self) {
        // SAFETY: the caller guarantees that the waker belongs to it.
        let waker = unsafe { self.take_waker() };
        if let Some(waker) = waker.filter(|_| !broken(Canary::TaskWake)) {
            wake(waker);
        }
    }

    /// Completes a task that is done and has followers.
    ///
    /// # Safety
    /// The caller has finished the task, as `Finished::Followed`, and this is the first call after
    /// that.
    #[cold]
    #[inline(never)]
    unsafe fn finish_followed(
        self,
        status: TaskStatus,
        notify_followers: impl FnOnce(&Self),
    ) -> Option<Payload> {
        let (now, mut payload) = (self.snapshot(), None);
        if !now.has_handle() {
            // SAFETY: there is no handle, so the outcome belongs to this thread.
            payload = unsafe { (self.vtable.drop_outcome)(self.cell, status) };
        } else if now.is_waiting() {
            // SAFETY: the task is done and the handle waits, so the waker belongs to this thread.
            unsafe { self.wake_waiter() };
        }
        notify_followers(&self);
        payload
    }
}

impl<K: CellKind> Deref for TaskRef<K> {
    type Target = Header<K>;

    #[inline(always)]
    fn deref(&self) -> &Header<K> {
        // SAFETY: the cell is not freed as long as this counted reference exists.
        unsafe { self.cell.as_ref() }
    }
}

impl<K: CellKind> Clone for TaskRef<K> {
    fn clone(&self) -> Self {
        self.state.retain();
        Self { cell: self.cell }
    }
}

impl<K: CellKind> Drop for TaskRef<K> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is valid until this reference is released. Only the word is borrowed,
        // which is an atomic: another thread may free the cell as soon as it has changed.
        let state = unsafe { &(*self.cell.as_ptr()).state };
        if state.release() {
            // SAFETY: it was the last reference, and the slot is empty by then.
            unsafe { free(self.cell) };
        }
    }
}

/// # Safety
/// There are no other users of the cell, and its slot is empty.
#[inline(never)]
unsafe fn free<K: CellKind>(cell: NonNull<Header<K>>) {
    // SAFETY: the caller is the only user of the cell.
    let header = unsafe { cell.as_ref() };
    let layout = header.vtable.layout;
    // SAFETY: the caller is the only user of the cell, so the waker belongs to it.
    let has_waker = header.waker.with(|waker| unsafe { (*waker).is_some() });
    if has_waker || mem::needs_drop::<K>() {
        // SAFETY: the caller is the only user of the cell, whose header is dropped once.
        unsafe { drop_header(cell) };
    }
    // SAFETY: `make` allocated the block with this layout, and it is empty now.
    unsafe { blocks::free(cell.cast(), layout) };
}

/// Drops a header, which may have wakers and tokens: their destructors are user code.
///
/// # Safety
/// There are no other users of the cell, and the header is not used after this.
#[inline(never)]
unsafe fn drop_header<K: CellKind>(cell: NonNull<Header<K>>) {
    let dropped = unwind::contain(|| {
        // SAFETY: the caller is the only user of the header, which is dropped once.
        unsafe { cell.drop_in_place() };
    });
    if let Err(payload) = dropped {
        unwind::discard(payload);
    }
}
