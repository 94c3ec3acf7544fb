//! A self-contained job in a heap block, which no stack frame holds.
#![expect(unsafe_code, reason = "a closure in a raw block")]

use super::{blocks, context::WorkerContext, job::Job, slab::Slab};
use std::{alloc::Layout, ptr::NonNull};

/// The minimum alignment of a closure in a block, as a job requires it.
#[repr(align(8))]
struct JobAligned;

const fn layout<F>() -> Layout {
    match Layout::new::<F>().align_to(align_of::<JobAligned>()) {
        Ok(layout) => layout,
        Err(_) => panic!("a closure has a size"),
    }
}

/// Makes a job of `func`: in a block of the worker's slab if it fits, in a shared one otherwise.
///
/// # Safety
/// What `func` borrows must live until it has run. The job must be run: a job that is dropped
/// leaks.
#[inline(always)]
pub(crate) unsafe fn job_on<F>(context: &WorkerContext<'_, '_>, func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    if !Slab::fits::<F>() {
        // SAFETY: `shared` requires what this function requires of its caller.
        return unsafe { shared(func) };
    }
    // SAFETY: the context's worker is this thread, and `F` fits.
    let block: NonNull<F> = unsafe { context.slab().alloc(context.pool().reserve()) };
    // SAFETY: the block is new, owned by this call, and large and aligned enough.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run_block` has moved the closure out of it; `F` is `Send`.
    unsafe { Job::new(block.as_ptr().cast::<JobAligned>(), run_block::<F>) }
}

/// Makes a job of `func` on a thread that is not a worker: in a block that any thread may free.
///
/// # Safety
/// As [`job_on`].
pub(crate) unsafe fn shared<F>(func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    let block: NonNull<F> = blocks::alloc(layout::<F>()).cast();
    // SAFETY: the block is new, owned by this call, and of this layout.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run_shared` has moved the closure out of it; `F` is `Send`.
    unsafe { Job::new(block.as_ptr().cast::<JobAligned>(), run_shared::<F>) }
}

/// # Safety
/// `data` is a block with an `F` in it, which no other thread uses.
unsafe fn run_block<F: FnOnce(&WorkerContext<'_, '_>)>(
    data: *const (),
    context: &WorkerContext<'_, '_>,
) {
    let block = NonNull::new(data.cast_mut().cast::<F>()).expect("blocks are not at zero");
    // SAFETY: the closure is in the block, and moves out of it here, once.
    let func = unsafe { block.read() };
    // SAFETY: this thread is the context's worker, and the block is empty now.
    unsafe { context.slab().free(block, context.pool().reserve()) };
    func(context);
}

/// # Safety
/// `data` came from `shared::<F>`, and no other thread uses it.
unsafe fn run_shared<F: FnOnce(&WorkerContext<'_, '_>)>(
    data: *const (),
    context: &WorkerContext<'_, '_>,
) {
    let block = NonNull::new(data.cast_mut().cast::<F>()).expect("blocks are not at zero");
    // SAFETY: the closure is in the block, and moves out of it here, once.
    let func = unsafe { block.read() };
    // SAFETY: `shared` allocated it with this layout, and it is empty now.
    unsafe { blocks::free(block.cast(), layout::<F>()) };
    func(context);
}
