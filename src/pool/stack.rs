//! A job in the stack frame of the one who waits for it.
#![expect(
    unsafe_code,
    reason = "a closure and its result, handed to another thread and back"
)]

use super::{
    job::Job,
    latch::{Awaited, Latch},
    site::Site,
};
use crate::ground::unwind::{self, Payload};
use std::{cell::UnsafeCell, mem::ManuallyDrop, mem::MaybeUninit};

/// A closure that is run at most once, by whoever gets its job; the waiter's frame holds it.
///
/// Three states: *queued* (the job is in a queue; nobody touches the fields), *taken back* (the owner has
/// popped its job: the closure is the owner's again), *stolen* (the thief owns both cells until it sets the
/// latch, after which they are the owner's). The owner leaves the frame only when it has taken the job back
/// or the latch is set.
pub(crate) struct StackJob<F, R> {
    func: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
    latch: Latch,
    /// Whoever runs it runs it isolated, as its owner would.
    isolated: bool,
}

impl<F, R> StackJob<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    #[inline(always)]
    pub(crate) fn new(func: F, isolated: bool) -> Self {
        Self {
            func: UnsafeCell::new(ManuallyDrop::new(func)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
            latch: Latch::new(),
            isolated,
        }
    }

    /// The job for a queue.
    ///
    /// # Safety
    /// The caller keeps `self` in its place until it has popped this job itself or the latch is set, also
    /// when it panics; and makes one job of it.
    #[inline(always)]
    pub(crate) unsafe fn job(&self) -> Job {
        // SAFETY: `run` is called at most once (there is one job), and until then the caller keeps
        // `self` alive, which is what `run` needs. `F` and `R` are `Send`.
        unsafe { Job::new((&raw const *self).cast(), Self::run) }
    }

    /// The job was not stolen: the closure, to be called right here.
    ///
    /// # Safety
    /// The caller has popped the job of `self` itself, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn take_back(&self) -> F {
        // SAFETY: nobody else has the job, so the cell is ours.
        let func = unsafe { &mut *self.func.get() };
        // SAFETY: called once, and `run` never.
        unsafe { ManuallyDrop::take(func) }
    }

    pub(crate) fn latch(&self) -> &impl Awaited {
        &self.latch
    }

    /// What the thief's call came to.
    ///
    /// # Safety
    /// The latch is set, and this is called once.
    pub(crate) unsafe fn take_result(&self) -> Result<R, Payload> {
        // SAFETY: the thief has written the result before it set the latch, and is done with it.
        let result = unsafe { &*self.result.get() };
        // SAFETY: written, and read once.
        unsafe { result.assume_init_read() }
    }

    /// # Safety
    /// As `Job::new`: `data` points to a `Self` that stays until its latch is set.
    unsafe fn run(data: *const (), site: &Site<'_, '_>) {
        site.is_part();
        // SAFETY: the duty of `job`.
        let this = unsafe { &*data.cast::<Self>() };
        // SAFETY: the job is ours, so the cell is.
        let func = unsafe { &mut *this.func.get() };
        // SAFETY: a job is run once, and the owner has not taken it back, since we have it.
        let func = unsafe { ManuallyDrop::take(func) };
        let result = if this.isolated {
            unwind::contain(|| site.isolate(|| func(true)))
        } else {
            unwind::contain(|| func(true))
        };
        // SAFETY: the job is ours, so the cell is.
        let place = unsafe { &mut *this.result.get() };
        place.write(result);
        // The last touch of `this`.
        unwind::or_abort(|| this.latch.set(site.pool()));
    }
}
