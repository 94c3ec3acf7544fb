//! The wakers of futures.
#![expect(unsafe_code, reason = "counted references behind a raw waker")]

use super::{
    cell::PollBody,
    header::{CellKind, Header, TaskRef},
};
use std::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

/// A kind of futures: how they are queued when they are woken.
pub(crate) trait Schedule: CellKind<Run = PollBody<Self>> {
    /// The functions of its wakers, from [`waker_functions`], in a `static`: wakers are compared by
    /// its address.
    const WAKER: &'static RawWakerVTable;

    /// Queues a job for a future that has been woken or cancelled.
    ///
    /// # Safety
    /// The wake, or the cancellation, has made the caller the owner of the future.
    unsafe fn schedule(cell: NonNull<Header<Self>>);

    /// Called after a wake of a future that was scheduled, running or done.
    #[inline]
    fn on_redundant_wake(_cell: NonNull<Header<Self>>) {}
}

/// Returns the functions of the wakers of a kind.
pub(crate) const fn waker_functions<K: Schedule>() -> RawWakerVTable {
    RawWakerVTable::new(
        clone::<K>,
        wake_by_value::<K>,
        wake_by_ref::<K>,
        drop_by_value::<K>,
    )
}

/// Returns a waker for the duration of a poll, without a reference of its own.
///
/// # Safety
/// The future is not done before the last use of the waker.
#[inline]
pub(crate) unsafe fn borrow_waker<K: Schedule>(cell: NonNull<Header<K>>) -> ManuallyDrop<Waker> {
    let data = cell.as_ptr().cast_const().cast();
    // SAFETY: the functions keep the contract of wakers: they count references, and may be called
    // from any thread. The reference that is not counted here is never released, since this waker
    // is not dropped.
    ManuallyDrop::new(unsafe { Waker::new(data, K::WAKER) })
}

/// # Safety
/// `data` is that of a waker of a future of this kind.
unsafe fn cell<K: Schedule>(data: *const ()) -> NonNull<Header<K>> {
    // SAFETY: `borrow_waker` made `data` from such a pointer.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// # Safety
/// As for [`cell`], and the waker is valid.
unsafe fn clone<K: Schedule>(data: *const ()) -> RawWaker {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell::<K>(data) };
    // SAFETY: the waker counts as a reference, or is borrowed for a poll: both keep the cell.
    unsafe { cell.as_ref() }.state.retain();
    RawWaker::new(data, K::WAKER)
}

/// # Safety
/// As for [`clone`]; the waker is consumed.
unsafe fn wake_by_value<K: Schedule>(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    unsafe { wake_by_ref::<K>(data) };
    // SAFETY: the caller gives up the waker, which is not used after this.
    unsafe { drop_by_value::<K>(data) };
}

/// # Safety
/// As for [`clone`].
unsafe fn wake_by_ref<K: Schedule>(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell::<K>(data) };
    // SAFETY: the waker counts as a reference, or is borrowed for a poll: both keep the cell.
    if unsafe { cell.as_ref() }.state.wake() {
        // SAFETY: `wake` has returned true, so this thread owns the future.
        unsafe { K::schedule(cell) };
    } else {
        K::on_redundant_wake(cell);
    }
}

/// # Safety
/// As for [`wake_by_value`].
unsafe fn drop_by_value<K: Schedule>(data: *const ()) {
    // SAFETY: the caller passes the data of a valid waker.
    let cell = unsafe { cell::<K>(data) };
    // SAFETY: it is the reference of the waker, which is consumed here.
    drop(unsafe { TaskRef::from_counted(cell) });
}
