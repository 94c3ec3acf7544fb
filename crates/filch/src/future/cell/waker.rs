//! The wakers of a future.
#![expect(unsafe_code, reason = "counted references behind a raw waker")]

use super::{Header, release, run};
use std::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, forget);

/// Returns a waker for the duration of a poll, without a reference of its own.
///
/// # Safety
/// The future is not done before the last use of the waker.
#[inline]
pub(super) unsafe fn borrow(cell: NonNull<Header>) -> ManuallyDrop<Waker> {
    let data = cell.as_ptr().cast_const().cast();
    // SAFETY: the functions keep the contract of wakers: they count references, and may be called
    // from any thread. The reference that is not counted here is never released, since this waker
    // is not dropped.
    ManuallyDrop::new(unsafe { Waker::new(data, &WAKER) })
}

/// # Safety
/// `data` is that of a waker of a future.
unsafe fn cell(data: *const ()) -> NonNull<Header> {
    // SAFETY: `borrow` made `data` from such a pointer.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// # Safety
/// As for [`cell`], and the waker is valid.
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell(data) };
    // SAFETY: the waker counts as a reference, or is borrowed for a poll: both keep the cell.
    unsafe { cell.as_ref() }.state.retain();
    RawWaker::new(data, &WAKER)
}

/// # Safety
/// As for [`clone`]; the waker is consumed.
unsafe fn wake(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    unsafe { wake_by_ref(data) };
    // SAFETY: the caller gives up the waker, which is not used after this.
    unsafe { forget(data) };
}

/// # Safety
/// As for [`clone`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell(data) };
    // SAFETY: the waker counts as a reference, or is borrowed for a poll: both keep the cell.
    if unsafe { cell.as_ref() }.state.wake() {
        // SAFETY: `wake` has returned true, so this thread owns the future.
        unsafe { run::schedule(cell) };
    } else {
        run::note_own_wake(cell);
    }
}

/// # Safety
/// As for [`wake`].
unsafe fn forget(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell(data) };
    // SAFETY: it is the reference of the waker, which is consumed here.
    unsafe { release(cell) };
}
