//! A self-contained job in a heap block, which no stack frame holds.
#![expect(unsafe_code, reason = "a closure in a raw block")]

use super::{
    blocks,
    context::WorkerContext,
    job::{DETACHED, Job, SHARED},
    slab::Slab,
};
use std::{alloc::Layout, ptr::NonNull};

/// The minimum alignment of a closure in a block, as a job requires it.
#[repr(align(8))]
struct JobAligned;

/// The layout of a shared block. It has whole cache lines, since another thread frees it while this
/// one fills the next.
const fn layout<F>() -> Layout {
    match Layout::new::<F>().align_to(align_of::<JobAligned>()) {
        Ok(layout) => blocks::whole_lines(layout),
        Err(_) => panic!("a closure has a size"),
    }
}

/// Makes a job of `func`: in a block of the worker's slab if it fits, in a shared one otherwise.
///
/// # Safety
/// What `func` borrows must live until it has run. The job must be run: a job that is dropped
/// leaks.
#[inline(always)]
pub(crate) unsafe fn alloc_job<F>(context: &WorkerContext<'_, '_>, func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    if !Slab::fits::<F>() {
        // SAFETY: `alloc_shared_job` requires what this function requires of its caller.
        return unsafe { alloc_shared_job(func) };
    }
    // SAFETY: the context's worker is this thread, and `F` fits.
    let block: NonNull<F> = unsafe { context.slab().alloc(context.pool().reserve()) };
    // SAFETY: the block is new, owned by this call, and large and aligned enough.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run` has moved the closure out of it; `F` is `Send`.
    unsafe { Job::new(block.as_ptr().cast::<JobAligned>(), run::<F>) }
}

/// Makes a job of `func` on a thread that is not a worker: in a block that any thread may free.
///
/// # Safety
/// As [`alloc_job`].
pub(crate) unsafe fn alloc_shared_job<F>(func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    let block: NonNull<F> = blocks::alloc(layout::<F>()).cast();
    // SAFETY: the block is new, owned by this call, and of this layout.
    unsafe { block.write(func) };
    // SAFETY: the block stays until `run` has moved the closure out of it; `F` is `Send`.
    let job = unsafe { Job::new(block.as_ptr().cast::<JobAligned>(), run::<F>) };
    // SAFETY: `run` gets the block from the address without the bit.
    unsafe { job.with_bits(SHARED) }
}

/// [`alloc_job`] for a closure that no task waits for.
///
/// # Safety
/// As [`alloc_job`].
#[inline(always)]
pub(crate) unsafe fn alloc_detached_job<F>(context: &WorkerContext<'_, '_>, func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    // SAFETY: `alloc_job` requires what this function requires of its caller.
    let job = unsafe { alloc_job(context, func) };
    // SAFETY: the function of such jobs, `run`, ignores the bit.
    unsafe { job.with_bits(DETACHED) }
}

/// [`alloc_shared_job`] for a closure that no task waits for.
///
/// # Safety
/// As [`alloc_job`].
pub(crate) unsafe fn alloc_shared_detached_job<F>(func: F) -> Job
where
    F: FnOnce(&WorkerContext<'_, '_>) + Send,
{
    // SAFETY: `alloc_shared_job` requires what this function requires of its caller.
    let job = unsafe { alloc_shared_job(func) };
    // SAFETY: the function of such a job, `run`, ignores the bit.
    unsafe { job.with_bits(DETACHED) }
}

/// Returns the block that a job points to.
#[inline(always)]
fn block_of<F>(data: *const ()) -> NonNull<F> {
    let block = data.map_addr(|at| at & !(DETACHED | SHARED)).cast_mut();
    NonNull::new(block.cast()).expect("blocks are not at zero")
}

/// The function of all jobs in blocks. There is one for both kinds of blocks, so that only one
/// function calls the closure: the compiler inlines it then.
///
/// # Safety
/// `data` came from `alloc_job::<F>` or `alloc_shared_job::<F>`, and no other thread uses it.
unsafe fn run<F: FnOnce(&WorkerContext<'_, '_>)>(data: *const (), context: &WorkerContext<'_, '_>) {
    let block = block_of::<F>(data);
    // SAFETY: the closure is in the block, and moves out of it here, once.
    let func = unsafe { block.read() };
    if data.addr() & SHARED != 0 || !Slab::fits::<F>() {
        // SAFETY: `alloc_shared_job` allocated it with this layout, and it is empty now.
        unsafe { blocks::free(block.cast(), layout::<F>()) };
    } else {
        // SAFETY: this thread is the context's worker, and the block is empty now.
        unsafe { context.slab().free(block, context.pool().reserve()) };
    }
    func(context);
}
