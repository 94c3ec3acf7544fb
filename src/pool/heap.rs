//! A job of its own, that nobody's stack frame holds.
#![expect(unsafe_code, reason = "a closure in a raw block, or in a box")]

use super::{job::Job, site::Site, slab::Slab};
use std::ptr::NonNull;

/// Makes a job of `func`: in a block of the worker's slab if it fits, in a box otherwise.
///
/// # Safety
/// What `func` borrows must live until it has run. The job must be run: a job that is dropped leaks.
#[inline(always)]
pub(crate) unsafe fn job_on<F>(site: &Site<'_, '_>, func: F) -> Job
where
    F: FnOnce(&Site<'_, '_>) + Send,
{
    if !Slab::fits::<F>() {
        // SAFETY: the caller's duty.
        return unsafe { boxed(func) };
    }
    // SAFETY: the site's worker is this thread, and `F` fits.
    let block: NonNull<F> = unsafe { site.slab().alloc(site.pool().reserve()) };
    // SAFETY: the block is ours and large and aligned enough.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run_block` has moved the closure out of it; `F` is `Send`.
    unsafe { Job::new(block.as_ptr().cast(), run_block::<F>) }
}

/// Makes a job of `func` on a thread that is no worker.
///
/// # Safety
/// As [`job_on`].
pub(crate) unsafe fn boxed<F>(func: F) -> Job
where
    F: FnOnce(&Site<'_, '_>) + Send,
{
    let data = Box::into_raw(Box::new(func));
    // SAFETY: the box stays until `run_box` has taken it; `F` is `Send`.
    unsafe { Job::new(data.cast_const().cast(), run_box::<F>) }
}

/// # Safety
/// `data` is a block with an `F` in it, which nobody else uses.
unsafe fn run_block<F: FnOnce(&Site<'_, '_>)>(data: *const (), site: &Site<'_, '_>) {
    let block = NonNull::new(data.cast_mut().cast::<F>()).expect("blocks are not at zero");
    // SAFETY: the closure is in the block, and moves out of it here, once.
    let func = unsafe { block.read() };
    // SAFETY: this thread is the site's worker, and the block is empty now.
    unsafe { site.slab().free(block, site.pool().reserve()) };
    func(site);
}

/// # Safety
/// `data` came from `boxed::<F>`, and nobody else uses it.
unsafe fn run_box<F: FnOnce(&Site<'_, '_>)>(data: *const (), site: &Site<'_, '_>) {
    // SAFETY: `boxed` leaked it for us.
    let func = unsafe { Box::from_raw(data.cast_mut().cast::<F>()) };
    func(site);
}
