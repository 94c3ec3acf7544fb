//! A group of jobs that a worker waits for: the tasks of a scope, the strands of a graph run or of
//! a pipeline, the parts of a fold. How a job of a group is counted, begins and ends.
#![expect(
    unsafe_code,
    reason = "the end of a job is its last access to a group that may be freed then"
)]

use super::{
    active_jobs::JobGroup,
    inner::{Inner, Job, WorkerContext},
    latch::WaitTarget,
    pending::{self, Pending},
    waits::{EventId, EventKind},
};
use crate::base::{
    sync::{AtomicBool, Ordering},
    unwind::Payload,
};
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

    /// The group for the list of active jobs.
    #[inline(always)]
    fn group(&self) -> JobGroup {
        JobGroup {
            end: EventId::end_of(self.pending(), EventKind::Scope),
            plan_id: 0,
        }
    }

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
    /// group that is pending meanwhile. Returns whether it is the owner.
    #[inline(always)]
    fn add_job(&self, context: &WorkerContext<'_, '_>) -> bool {
        let is_owner = self.is_owner(context);
        if is_owner {
            self.pending().add_by_owner();
        } else {
            self.pending().add_by_other();
        }
        is_owner
    }

    /// Records that a job begins, for an owner that searches for work at the worker that runs it.
    /// Returns whether that is another worker than the owner.
    #[inline(always)]
    fn begin_job(&self, context: &WorkerContext<'_, '_>) -> bool {
        let is_other = !self.is_owner(context);
        if is_other {
            self.pending().begin_by_other(context.worker());
        }
        is_other
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
        let is_elsewhere = !unsafe { &*this }.is_owner(context);
        // SAFETY: the job is counted as pending, and `is_elsewhere` was found on this thread.
        unsafe { Self::end_begun_job(this, context, is_elsewhere) }
    }

    /// [`end_job`](Self::end_job) where it is known whether this is another worker than the owner.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job), and `is_elsewhere` is what [`begin_job`](Self::begin_job) has
    /// returned on this thread.
    #[inline(always)]
    #[must_use]
    unsafe fn end_begun_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        is_elsewhere: bool,
    ) -> bool {
        if is_elsewhere {
            // SAFETY: the caller's job is still counted as pending, and this is not the owner's
            // thread.
            return unsafe { Self::end_job_by_other(this, context.pool()) };
        }
        // SAFETY: the caller's job is still counted as pending, so the group lives.
        unsafe { &*this }.pending().done_by_owner();
        false
    }

    /// [`end_job`](Self::end_job) on any other thread than the owner's.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job). `pool` is the group's.
    #[inline(always)]
    #[must_use]
    unsafe fn end_job_by_other(this: *const Self, pool: &Inner) -> bool {
        // SAFETY: the caller's job is still counted as pending, so the group lives.
        let group = unsafe { &*this };
        let (owner, word) = (group.owner(), group.pending().shared());
        let mut is_last = false;
        pending::done_by_other(word, || match owner {
            NO_OWNER => is_last = true,
            worker => pool.unpark(worker),
        });
        is_last
    }
}

impl<G: PendingGroup> WaitTarget for G {
    #[inline]
    fn has_happened(&self) -> bool {
        self.pending().has_happened()
    }

    #[inline(always)]
    fn owned_jobs(&self) -> i64 {
        self.pending().owned_jobs()
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

    fn event(&self) -> Option<EventId> {
        Some(self.group().end)
    }
}

/// The panic that the waiter of a group receives: the first one.
#[derive(Default)]
pub(crate) struct FirstPanic {
    payload: Mutex<Option<Payload>>,
    /// Whether there is one, so that the waiter of a group without panics need not lock.
    is_set: AtomicBool,
}

impl FirstPanic {
    /// Stores the payload if it is the first, else passes it to the pool's handler.
    #[cold]
    pub(crate) fn keep(&self, pool: &Inner, payload: Payload) {
        let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            // Relaxed: the job that panicked is counted as done after this, with a release that the
            // waiter has acquired.
            self.is_set.store(true, Ordering::Relaxed);
        } else {
            drop(first);
            pool.panicked(payload);
        }
    }

    /// Whether there is one. All jobs of the group are done.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: as in `keep`.
        self.is_set.load(Ordering::Relaxed)
    }

    /// Takes the payload. All jobs of the group are done.
    #[inline]
    pub(crate) fn take(&self) -> Option<Payload> {
        if !self.is_set() {
            return None;
        }
        let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        first.take()
    }
}
