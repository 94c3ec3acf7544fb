//! A self-contained job in a heap block, which no stack frame holds.
#![expect(unsafe_code, reason = "a closure in a raw block")]

use super::{blocks, context::WorkerContext, job::Job};
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

/// Makes a job of `func`, in a block that any thread may free.
///
/// # Safety
/// What `func` borrows must live until it has run. The job must be run: a job that is dropped
/// leaks.
#[inline]
pub(crate) unsafe fn job<F>(func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    let block: NonNull<F> = blocks::alloc(layout::<F>()).cast();
    // SAFETY: the block is new, owned by this call, and of this layout.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run_block` has moved the closure out of it; `F` is `Send`.
    unsafe { Job::new(block.as_ptr().cast::<JobAligned>(), run_block::<F>) }
}

/// # Safety
/// `data` came from `job::<F>`, and no other thread uses it.
unsafe fn run_block<F: FnOnce(&WorkerContext<'_, '_>)>(
    data: *const (),
    context: &WorkerContext<'_, '_>,
) {
    let block = NonNull::new(data.cast_mut().cast::<F>()).expect("blocks are not at zero");
    // SAFETY: the closure is in the block, and moves out of it here, once.
    let func = unsafe { block.read() };
    // SAFETY: `job` allocated it with this layout, and it is empty now.
    unsafe { blocks::free(block.cast(), layout::<F>()) };
    func(context);
}
