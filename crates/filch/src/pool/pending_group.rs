//! A group of jobs that a worker waits for: the tasks of a scope, the strands of a graph run or of
//! a pipeline, the parts of a fold. How a job of a group is counted, begins and ends.
#![expect(
    unsafe_code,
    reason = "the end of a job is its last access to a group that may be freed then"
)]

use super::{
    inner::{Inner, Job, WorkerContext},
    latch::WaitTarget,
    pending::{self, Pending},
};
use crate::base::unwind::Payload;
use std::{
    ptr,
    sync::{Mutex, PoisonError},
};

/// The owner of a group that no worker waits for. No worker has this number.
pub(crate) const NO_OWNER: usize = usize::MAX;

/// A group of jobs, and the event that none of them is pending any more. The group is in the frame
/// of its waiter, or lives until its last job has ended.
pub(crate) trait PendingGroup {
    fn pending(&self) -> &Pending;

    /// The pool whose workers run the jobs. It outlives the group.
    fn pool(&self) -> *const Inner;

    /// The worker that waits, or [`NO_OWNER`].
    fn owner(&self) -> usize;

    /// As [`WaitTarget::take_job`].
    fn take_job(&self) -> Option<Job> {
        None
    }

    /// As [`WaitTarget::has_job`].
    fn has_job(&self) -> bool {
        false
    }

    /// Whether `context` is that of the worker that waits. Only its thread may use the owner's side
    /// of [`pending`](Self::pending).
    #[inline(always)]
    fn is_owner(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.worker() == self.owner() && ptr::eq(context.pool(), self.pool())
    }

    /// Counts one more pending job. The caller is the owner before it waits, or has a job of the
    /// group that is pending meanwhile.
    #[inline(always)]
    fn add_job(&self, context: &WorkerContext<'_, '_>) {
        if self.is_owner(context) {
            self.pending().add_here();
        } else {
            self.pending().add_elsewhere();
        }
    }

    /// Records that a job begins, for an owner that searches for work at the worker that runs it.
    /// Returns whether that is another worker than the owner.
    #[inline(always)]
    fn begin_job(&self, context: &WorkerContext<'_, '_>) -> bool {
        let is_elsewhere = !self.is_owner(context);
        if is_elsewhere {
            self.pending().begin_elsewhere(context.worker());
        }
        is_elsewhere
    }

    /// Counts a job as done, and wakes the owner if it sleeps and this was the last job. Returns
    /// true if this was the last job and there is [no owner](NO_OWNER) to wake.
    ///
    /// It is the job's last access to the group, except for the caller that gets true: the owner
    /// returns from its wait when all jobs are done, and frees the group and what the jobs have
    /// borrowed. So no argument of the caller may borrow from them any more (see `scoped`), and
    /// `this` is a pointer.
    ///
    /// # Safety
    /// The job is counted as pending, so that `this` is alive when the call begins.
    #[inline(always)]
    #[must_use]
    unsafe fn end_job(this: *const Self, context: &WorkerContext<'_, '_>) -> bool {
        // SAFETY: the caller's job is still counted as pending, so the group lives.
        let group = unsafe { &*this };
        if group.is_owner(context) {
            group.pending().done_here();
            return false;
        }
        // SAFETY: the caller's job is still counted as pending, and this is not the owner's thread.
        unsafe { Self::end_job_elsewhere(this, context.pool()) }
    }

    /// [`end_job`](Self::end_job) on any other thread than the owner's.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job). `pool` is the group's.
    #[inline(always)]
    #[must_use]
    unsafe fn end_job_elsewhere(this: *const Self, pool: &Inner) -> bool {
        // SAFETY: the caller's job is still counted as pending, so the group lives.
        let group = unsafe { &*this };
        let (owner, word) = (group.owner(), group.pending().elsewhere());
        let mut is_last = false;
        pending::done_elsewhere(word, || match owner {
            NO_OWNER => is_last = true,
            worker => pool.unpark(worker),
        });
        is_last
    }
}

impl<G: PendingGroup> WaitTarget for G {
    #[inline]
    fn happened(&self) -> bool {
        self.pending().happened()
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        self.pending().register_sleeper(worker)
    }

    fn unregister_sleeper(&self) {
        self.pending().unregister_sleeper();
    }

    fn take_job(&self) -> Option<Job> {
        PendingGroup::take_job(self)
    }

    fn has_job(&self) -> bool {
        PendingGroup::has_job(self)
    }

    fn runner(&self) -> Option<usize> {
        self.pending().runner()
    }
}

/// The panic that the waiter of a group receives: the first one.
#[derive(Default)]
pub(crate) struct FirstPanic(Mutex<Option<Payload>>);

impl FirstPanic {
    /// Stores the payload if it is the first, else passes it to the pool's handler.
    #[cold]
    pub(crate) fn keep(&self, pool: &Inner, payload: Payload) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
        } else {
            drop(first);
            pool.panicked(payload);
        }
    }

    pub(crate) fn take(&self) -> Option<Payload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
