//! The wakers of a future.
#![expect(unsafe_code, reason = "counted references behind a raw waker")]

use super::{Header, release, run};
use std::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, forget);

/// A waker for the length of a poll, without a reference of its own.
///
/// # Safety
/// The future is not done before the waker is gone.
#[inline]
pub(super) unsafe fn borrow(cell: NonNull<Header>) -> ManuallyDrop<Waker> {
    let data = cell.as_ptr().cast_const().cast();
    // SAFETY: the functions keep the contract of wakers: they count references, and may be called from any thread. The
    // one that is not counted here is not given up, since it is not dropped.
    ManuallyDrop::new(unsafe { Waker::new(data, &WAKER) })
}

/// # Safety
/// `data` is of a waker of a future.
unsafe fn cell(data: *const ()) -> NonNull<Header> {
    // SAFETY: `borrow` made it of such a pointer.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// # Safety
/// As [`cell`], for a waker that is there.
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the caller's duty.
    let cell = unsafe { cell(data) };
    // SAFETY: the waker keeps it.
    unsafe { cell.as_ref() }.state.retain();
    RawWaker::new(data, &WAKER)
}

/// # Safety
/// As [`clone`]; the waker is gone after this.
unsafe fn wake(data: *const ()) {
    // SAFETY: the caller's duty.
    unsafe { wake_by_ref(data) };
    // SAFETY: as above.
    unsafe { forget(data) };
}

/// # Safety
/// As [`clone`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the caller's duty.
    let cell = unsafe { cell(data) };
    // SAFETY: the waker keeps it.
    if unsafe { cell.as_ref() }.state.wake() {
        // SAFETY: the transition has given it to us.
        unsafe { run::schedule(cell) };
    } else {
        run::note_own_wake(cell);
    }
}

/// # Safety
/// As [`wake`].
unsafe fn forget(data: *const ()) {
    // SAFETY: the caller's duty.
    let cell = unsafe { cell(data) };
    // SAFETY: the reference of the waker, or one that is counted for a waker that is used up.
    unsafe { release(cell) };
}
