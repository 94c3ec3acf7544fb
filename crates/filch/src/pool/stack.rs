//! A job in the stack frame of its waiter.
#![expect(
    unsafe_code,
    reason = "a closure and its result, handed to another thread and back"
)]

use super::{
    active_jobs::{self, JobGroup},
    context::WorkerContext,
    job::Job,
    latch::WorkerLatch,
};
use crate::{
    base::{
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    engine::Mark,
};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A closure that is run at most once, by the worker that gets its job; the waiter's frame holds
/// it. The closure gets the context of that worker, and whether it was taken from a queue.
///
/// Three states: *queued* (the job is in a queue; the owner reads the latch, and no thread accesses
/// the other fields), *taken back* (the
/// owner has taken its job out of the queue: the closure belongs to the owner again), *stolen* (the
/// thief owns both cells until it sets the latch, after which they belong to the owner). The owner
/// leaves the frame only when it has taken the job back or the latch is set.
///
/// Aligned as a job requires it.
#[repr(align(8))]
pub(crate) struct StackJob<F, R> {
    func: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
    latch: WorkerLatch,
    /// The worker that runs it runs it isolated, as its owner would.
    isolated: bool,
}

impl<F, R> StackJob<F, R>
where
    F: FnOnce(&WorkerContext<'_, '_>, bool) -> R + Send,
    R: Send,
{
    /// Returns the job for a queue.
    ///
    /// # Safety
    /// The caller keeps `self` at its address until it has taken this job back itself or the latch
    /// is set, also when it panics; and makes one job of it.
    #[inline(always)]
    pub(crate) unsafe fn job(&self) -> Job {
        // SAFETY: `run` is called at most once (there is one job), and until then the caller keeps
        // `self` alive, which is what `run` needs. `F` and `R` are `Send`.
        unsafe { Job::new(&raw const *self, Self::run) }
    }

    /// # Safety
    /// As `Job::new`: `data` points to a `Self` that stays until its latch is set.
    unsafe fn run(data: *const (), context: &WorkerContext<'_, '_>) {
        // SAFETY: the frame that holds it stays until the latch is set.
        let group = begin(unsafe { &(*data.cast::<Self>()).latch }, context);
        let call = |func: F, isolated| {
            let call = || context.isolate_if(isolated, || func(context, true));
            unwind::contain(|| active_jobs::enter(|| group, true, call))
        };
        // SAFETY: a job is run once, and the owner has not taken it back, since this worker has it.
        unsafe { Self::execute(data.cast(), call, |latch| set(latch, context)) };
    }
}

impl<F, R> StackJob<F, R> {
    /// Creates one for a part that will be pushed at `mark`.
    #[inline(always)]
    pub(crate) fn new(func: F, isolated: bool, mark: Mark) -> Self {
        Self {
            func: UnsafeCell::new(ManuallyDrop::new(func)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
            latch: WorkerLatch::at(mark),
            isolated,
        }
    }

    /// Returns the closure of a job that was not stolen, to be called by the owner.
    ///
    /// # Safety
    /// The caller has taken the job of `self` out of its queue itself, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn take_back(&self) -> F {
        // SAFETY: no other thread has the job, because the caller took it out of its queue; and
        // `run` is never called.
        unsafe { self.take_func() }
    }

    /// # Safety
    /// The caller has the job of `self`, and calls this once.
    #[inline(always)]
    unsafe fn take_func(&self) -> F {
        self.func.with_mut(|func| {
            // SAFETY: the caller has the job, and the holder of the job owns the cell.
            let func = unsafe { &mut *func };
            // SAFETY: the caller calls this once, so the closure is taken once.
            unsafe { ManuallyDrop::take(func) }
        })
    }

    #[inline(always)]
    pub(crate) fn latch(&self) -> &WorkerLatch {
        &self.latch
    }

    /// Returns the result of the thief's call.
    ///
    /// # Safety
    /// The latch is set, and this is called once.
    pub(crate) unsafe fn take_result(&self) -> Result<R, Payload> {
        self.result.with(|result| {
            // SAFETY: the thief has written the result before it set the latch, and does not access
            // it any more.
            let result = unsafe { &*result };
            // SAFETY: the result is initialised, and the caller guarantees that it is read once.
            unsafe { result.assume_init_read() }
        })
    }

    /// Runs the closure and sets the latch.
    ///
    /// # Safety
    /// The caller has the job of `this`, and calls this once. Afterwards `this` may be freed: no
    /// reference to all of it may be alive then, so it is passed as a pointer.
    unsafe fn execute(
        this: *const Self,
        call: impl FnOnce(F, bool) -> Result<R, Payload>,
        set: impl FnOnce(&WorkerLatch),
    ) {
        // SAFETY: the frame that holds it stays until the latch is set.
        let job = unsafe { &*this };
        // SAFETY: the caller has the job of `this`, and calls this once.
        let func = unsafe { job.take_func() };
        let result = call(func, job.isolated);
        job.result.with_mut(|slot| {
            // SAFETY: the caller has the job, and the holder of the job owns the cell.
            let slot = unsafe { &mut *slot };
            slot.write(result);
        });
        // SAFETY: the frame stays until the latch is set. From here on only the latch is borrowed,
        // which is one atomic word.
        let latch = unsafe { &(*this).latch };
        // The last access to `this`.
        set(latch);
    }
}

/// Records that a job which was taken from a queue begins. Not inlined, so that it is compiled
/// once.
#[inline(never)]
fn begin(latch: &WorkerLatch, context: &WorkerContext<'_, '_>) -> JobGroup {
    context.declare_part();
    latch.begin(context.worker());
    JobGroup {
        end: latch.end(),
        plan_id: 0,
    }
}

/// Sets the latch of a job that was stolen. The latch may be freed before this returns; it is one
/// atomic word.
#[inline(never)]
fn set(latch: &WorkerLatch, context: &WorkerContext<'_, '_>) {
    unwind::or_abort(|| latch.set_with(|worker| context.pool().unpark(worker)));
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
