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
use std::{
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
};

/// The part of a [`StackJob`] that does not depend on the types of its closure and its result: what
/// uses only this is compiled once, and not for every join of a program.
///
/// Aligned as a job requires it.
#[repr(align(8))]
pub(crate) struct PartState {
    latch: WorkerLatch,
    /// The panic of the closure on another worker, if it panicked there. Initialised when the latch
    /// is set.
    panic: UnsafeCell<MaybeUninit<Option<Payload>>>,
    /// The worker that runs it runs it isolated, as its owner would.
    isolated: bool,
}

/// A closure that is run at most once, by the worker that gets its job; the waiter's frame holds
/// it. The closure gets the context of that worker, and whether it was taken from a queue.
///
/// Three states: *queued* (the job is in a queue; the owner reads the latch, and no thread accesses
/// the other fields), *taken back* (the owner has taken its job out of the queue: the closure
/// belongs to the owner again), *stolen* (the thief owns the cells until it sets the latch, after
/// which they belong to the owner). The owner leaves the frame only when it has taken the job back
/// or the latch is set.
///
/// `repr(C)`: a pointer to it is a pointer to its state.
#[repr(C)]
pub(crate) struct StackJob<F, R> {
    state: PartState,
    func: UnsafeCell<ManuallyDrop<F>>,
    /// Initialised when the latch is set and there is no panic.
    result: UnsafeCell<MaybeUninit<R>>,
}

/// A [`StackJob`] without its types, for its owner.
pub(crate) struct ErasedPart<'a> {
    /// A pointer to the whole job, which is borrowed.
    job: *const PartState,
    borrow: PhantomData<&'a PartState>,
    run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    drop_result: unsafe fn(*const PartState),
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

    /// Returns it without its types.
    #[inline(always)]
    pub(crate) fn erased(&self) -> ErasedPart<'_> {
        ErasedPart {
            job: (&raw const *self).cast(),
            borrow: PhantomData,
            run: Self::run,
            drop_result: Self::drop_result,
        }
    }

    /// # Safety
    /// As `Job::new`: `data` points to a `Self` that stays until its latch is set.
    unsafe fn run(data: *const (), context: &WorkerContext<'_, '_>) {
        // SAFETY: `data` points to a `Self`, which begins with its state and stays until its latch
        // is set. The job is run once, and the owner has not taken it back, since this worker has
        // it.
        unsafe { run_stolen(data.cast(), context, Self::call) };
    }

    /// Calls the closure and stores its result.
    ///
    /// # Safety
    /// `data` points to a `Self`, which stays until the call has returned. The caller has its job,
    /// and calls this once.
    unsafe fn call(data: *const PartState, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller guarantees that it points to a `Self` that stays.
        let job = unsafe { &*data.cast::<Self>() };
        // SAFETY: the caller has the job, and calls this once.
        unsafe { job.call_with(|func| func(context, true)) };
    }
}

impl<F, R> StackJob<F, R> {
    /// Creates one for a part that will be pushed at `mark`.
    #[inline(always)]
    pub(crate) fn new(func: F, isolated: bool, mark: Mark) -> Self {
        Self {
            state: PartState {
                latch: WorkerLatch::at(mark),
                panic: UnsafeCell::new(MaybeUninit::uninit()),
                isolated,
            },
            func: UnsafeCell::new(ManuallyDrop::new(func)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> &PartState {
        &self.state
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

    /// Passes the closure to `call`, and stores the result.
    ///
    /// # Safety
    /// The caller has the job of `self`, and calls this once.
    #[inline(always)]
    unsafe fn call_with(&self, call: impl FnOnce(F) -> R) {
        // SAFETY: the caller has the job, and calls this once.
        let result = call(unsafe { self.take_func() });
        self.result.with_mut(|slot| {
            // SAFETY: the caller has the job, and the holder of the job owns the cell.
            let slot = unsafe { &mut *slot };
            slot.write(result);
        });
    }

    /// Returns the result of the thief's call.
    ///
    /// # Safety
    /// The latch is set, there is [no panic](PartState::take_panic), and this is called once.
    #[inline(always)]
    pub(crate) unsafe fn take_result(&self) -> R {
        self.result.with(|result| {
            // SAFETY: the thief has written the result before it set the latch, and does not access
            // it any more.
            let result = unsafe { &*result };
            // SAFETY: the result is initialised, and the caller guarantees that it is read once.
            unsafe { result.assume_init_read() }
        })
    }

    /// Drops the result of the thief's call.
    ///
    /// # Safety
    /// As [`take_result`](Self::take_result); and `data` points to a `Self`.
    unsafe fn drop_result(data: *const PartState) {
        // SAFETY: the caller guarantees that it points to a `Self`, which its owner has borrowed.
        let job = unsafe { &*data.cast::<Self>() };
        // SAFETY: the caller guarantees that the latch is set, there is a result, and it is taken
        // once.
        drop(unsafe { job.take_result() });
    }
}

impl PartState {
    #[inline(always)]
    pub(crate) fn latch(&self) -> &WorkerLatch {
        &self.latch
    }

    /// Returns the panic of the thief's call, if there was one.
    ///
    /// # Safety
    /// The latch is set, and this is called once.
    pub(crate) unsafe fn take_panic(&self) -> Option<Payload> {
        self.panic.with(|panic| {
            // SAFETY: the thief has written it before it set the latch, and does not access it any
            // more.
            let panic = unsafe { &*panic };
            // SAFETY: it is initialised, and the caller guarantees that it is read once.
            unsafe { panic.assume_init_read() }
        })
    }

    /// Makes `call` with the closure, keeps its panic, and sets the latch.
    ///
    /// # Safety
    /// The caller has the job of `this`, and calls this once. Afterwards `this` may be freed: no
    /// reference to it may be alive then, so it is passed as a pointer.
    unsafe fn execute(
        this: *const Self,
        call: impl FnOnce() -> Result<(), Payload>,
        set: impl FnOnce(&WorkerLatch),
    ) {
        let panic = call().err();
        // SAFETY: the frame that holds it stays until the latch is set.
        let state = unsafe { &*this };
        state.panic.with_mut(|slot| {
            // SAFETY: the caller has the job, and the holder of the job owns the cell.
            let slot = unsafe { &mut *slot };
            slot.write(panic);
        });
        // SAFETY: the frame stays until the latch is set. From here on only the latch is borrowed,
        // which is one atomic word.
        let latch = unsafe { &(*this).latch };
        // The last access to `this`.
        set(latch);
    }
}

impl ErasedPart<'_> {
    pub(crate) fn state(&self) -> &PartState {
        // SAFETY: `job` points to a job, which begins with its state and is borrowed for as long as
        // this is.
        unsafe { &*self.job }
    }

    /// Returns the job for a queue again.
    ///
    /// # Safety
    /// As [`StackJob::job`]. The caller has taken the first one out of its queue.
    pub(crate) unsafe fn job(&self) -> Job {
        // SAFETY: `run` is that of this `StackJob`. It is called at most once, since there is one
        // job again, and until then the caller keeps the `StackJob` alive.
        unsafe { Job::new(self.job, self.run) }
    }

    /// Drops the result of the thief's call.
    ///
    /// # Safety
    /// As [`StackJob::take_result`].
    pub(crate) unsafe fn drop_result(&self) {
        // SAFETY: `drop_result` is that of this `StackJob`. The caller guarantees that the latch is
        // set, there is a result, and this is called once.
        unsafe { (self.drop_result)(self.job) };
    }
}

/// Runs a job that was stolen: `call` calls its closure. Not inlined, so that it is compiled once.
///
/// # Safety
/// `part` points to a job, which begins with its state and stays until its latch is set. The caller
/// has the job, and calls this once. `call` may be called once with `part`.
#[inline(never)]
unsafe fn run_stolen(
    part: *const PartState,
    context: &WorkerContext<'_, '_>,
    call: unsafe fn(*const PartState, &WorkerContext<'_, '_>),
) {
    // SAFETY: the frame that holds it stays until the latch is set.
    let state = unsafe { &*part };
    let group = begin(&state.latch, context);
    let isolated = state.isolated;
    let call = || {
        // SAFETY: the caller has the job, whose frame stays, and allows one call.
        let call = || unsafe { call(part, context) };
        let call = || context.isolate_if(isolated, call);
        unwind::contain(|| active_jobs::enter(|| group, true, call))
    };
    // SAFETY: the caller has the job, and calls this once.
    unsafe { PartState::execute(part, call, |latch| set(latch, context)) };
}

/// Records that a job which was taken from a queue begins.
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
fn set(latch: &WorkerLatch, context: &WorkerContext<'_, '_>) {
    unwind::or_abort(|| latch.set_with(|worker| context.pool().unpark(worker)));
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
