//! Jobs that borrow from the frame of their waiter.
//!
//! A task of a scope borrows what outlives the scope. When the last task has counted itself as
//! done, the waiter returns and frees what the tasks have borrowed. The function that has counted
//! the task as done returns later, on another thread.
//!
//! A reference in an argument of a function must stay valid until that function returns: rustc
//! passes this to LLVM (`dereferenceable`), and Stacked Borrows and Tree Borrows require it (a
//! *protector*). So a function that has the user's closure as an argument must not notify the
//! waiter. [`scoped`] is the one place that calls such closures. It keeps the closure in a
//! [`MaybeDangling`], in which references need not be valid, calls it, and notifies the waiter when
//! that call has returned. The scoped threads of `std` have the same solution for the same reason
//! (rust-lang/rust#101983).
#![expect(unsafe_code, reason = "a closure whose borrows end before it is gone")]

use super::{
    active_jobs::{self, JobGroup},
    context::WorkerContext,
};
use std::mem::{ManuallyDrop, MaybeUninit};

/// The counter of pending jobs of a waiter. It is in the frame of the waiter, or lives until the
/// waiter is notified.
pub(crate) trait ScopedWaiter: Sync {
    /// Records that a job begins, for a waiter that searches for work at the worker that runs it.
    /// Returns whether that is another worker than the one that waits.
    #[inline]
    fn begin(&self, _context: &WorkerContext<'_, '_>) -> bool {
        true
    }

    /// The group for the list of active jobs.
    fn group(&self) -> JobGroup;

    /// Counts a job as done, and notifies the waiter if it was the last one. The job's last access
    /// to `this`. `is_elsewhere` is what [`begin`](Self::begin) has returned.
    ///
    /// # Safety
    /// The job is counted as pending, so `this` is alive when the call begins. `this` may be freed
    /// before the call ends, so it is passed as a pointer.
    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>, is_elsewhere: bool);
}

/// Combines `task` and the notification that follows it into one closure, for a job. `task` must
/// not panic.
///
/// # Safety
/// The caller has counted the job as pending in `waiter`, and calls the closure once. `waiter`, and
/// what `task` borrows, live until the job has been counted as done.
#[inline(always)]
pub(crate) unsafe fn scoped<W, F>(
    waiter: *const W,
    task: F,
) -> impl FnOnce(&WorkerContext<'_, '_>) + Send + use<W, F>
where
    W: ScopedWaiter,
    F: FnOnce(&W, &WorkerContext<'_, '_>) + Send,
{
    let (waiter, task) = (Pointer(waiter), MaybeDangling::new(task));
    move |context: &WorkerContext<'_, '_>| {
        let waiter = waiter.get();
        let task = task.into_inner();
        // SAFETY: the job is pending, so the waiter is alive; the reference ends with the call.
        let is_elsewhere = unsafe { &*waiter }.begin(context);
        // SAFETY: the job is pending, so the waiter is alive; the reference ends with the call.
        let group = || unsafe { &*waiter }.group();
        active_jobs::enter(group, is_elsewhere, || {
            // SAFETY: the job is pending until `done`, so the waiter is alive; the reference ends
            // with the call.
            task(unsafe { &*waiter }, context);
        });
        // SAFETY: the caller has counted the job as pending. No argument of this closure borrows
        // from the waiter any more.
        unsafe { W::done(waiter, context, is_elsewhere) };
    }
}

/// The address of a waiter, owned by a job.
struct Pointer<W>(*const W);

// SAFETY: it points to a `W`, which is `Sync`, so shared access from another thread is sound.
unsafe impl<W: Sync> Send for Pointer<W> {}

impl<W> Pointer<W> {
    fn get(&self) -> *const W {
        self.0
    }
}

/// A value that may hold references which are not valid any more, as long as it is not used.
struct MaybeDangling<T> {
    /// Always initialised. The compiler assumes nothing about what is in a `MaybeUninit`.
    value: MaybeUninit<T>,
}

impl<T> MaybeDangling<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self {
            value: MaybeUninit::new(value),
        }
    }

    #[inline(always)]
    fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is initialised, and read once: it will not be dropped.
        unsafe { this.value.assume_init_read() }
    }
}

impl<T> Drop for MaybeDangling<T> {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and `into_inner` has not taken it.
        unsafe { self.value.assume_init_drop() };
    }
}
