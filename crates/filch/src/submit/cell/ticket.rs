//! The right to run a task: a claim, most often obtained with a ticket from a queue.
#![expect(unsafe_code, reason = "turns counted references into jobs and back")]

use super::{Cause, SubmitHeader, SubmitRef, TaskMeta, TaskStatus};
use crate::{
    base::unwind::Payload,
    engine::Priority,
    pool::{
        context::WorkerContext,
        current_task,
        job::{Job, untagged},
    },
    task::CancelTransition,
};
use std::{mem::ManuallyDrop, ptr::NonNull};

/// The bits of a ticket's pointer that hold its level.
const TAG: usize = 0b11;
const _: () = assert!(align_of::<SubmitHeader>() >= 8);

/// What is done with a ticket from a queue and with a claim that was dropped. Both may end a task
/// and queue its followers, so `TaskMeta` implements it above this file, in `run.rs`.
pub(in crate::submit) trait Lifecycle {
    /// Runs the task of a ticket that a worker has taken from a queue.
    fn run(ticket: TaskTicket, context: &WorkerContext<'_, '_>);

    /// Ends a task whose claim was dropped.
    fn on_dropped_claim(claim: Claim);
}

/// A reference in a queue of the pool. The worker that takes it may run the task, unless the ticket
/// is stale.
#[must_use = "a task without a ticket is never run"]
pub(in crate::submit) struct TaskTicket {
    pub(super) cell: SubmitRef,
    pub(super) level: Priority,
}

impl TaskTicket {
    /// Returns the level at which it is queued.
    pub(in crate::submit) fn level(&self) -> Priority {
        self.level
    }

    pub(in crate::submit) fn cell(&self) -> &SubmitRef {
        &self.cell
    }

    /// Returns the reference of a ticket that is not queued: the task is held.
    pub(in crate::submit) fn into_cell(self) -> SubmitRef {
        self.cell
    }

    /// Claims the task, if it still waits at the level of the ticket.
    #[inline]
    pub(in crate::submit) fn claim(self) -> Option<Claim> {
        let Self { cell, level } = self;
        // Built lazily: a claim that is dropped discards the task.
        cell.state.claim_at(level).then(|| Claim { cell })
    }

    /// Turns the ticket into a job for a queue.
    #[inline]
    pub(in crate::submit) fn into_job(self) -> Job {
        let Self { cell, level } = self;
        let cell = cell.into_counted().as_ptr();
        let tagged = cell.map_addr(|at| at | level as usize);
        // SAFETY: `run_ticket` takes over the reference that was just given up; a reference may be
        // sent to any thread, and keeps the cell until then. A `SubmitHeader` is aligned to eight
        // bytes.
        unsafe { Job::tagged(tagged.cast_const().cast(), run_ticket) }
    }

    /// Returns the ticket in a refused job; `None` if it is another kind of job.
    pub(in crate::submit) fn from_job(job: Job) -> Option<Self> {
        if !job.is_tagged() {
            return None;
        }
        // SAFETY: only `into_job` marks jobs; this one was a ticket, and will not be run any more.
        Some(unsafe { Self::from_data(job.into_data()) })
    }

    /// # Safety
    /// `data` is that of a job of `into_job`, and its reference is not taken by any other code.
    unsafe fn from_data(data: *const ()) -> Self {
        let level = Priority::ALL[data.addr() & TAG];
        let cell = untagged(data).map_addr(|at| at & !TAG);
        let cell = cell.cast_mut().cast::<SubmitHeader>();
        let cell = NonNull::new(cell).expect("cells are not at zero");
        // SAFETY: the caller guarantees that the reference of the job is not taken by other code.
        let cell = unsafe { SubmitRef::from_counted(cell) };
        Self { cell, level }
    }
}

/// # Safety
/// As for [`TaskTicket::from_data`].
#[inline(never)]
unsafe fn run_ticket(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: `data` is that of a job of `into_job`, whose reference is taken here, once.
    let ticket = unsafe { TaskTicket::from_data(data) };
    TaskMeta::run(ticket, context);
}

/// Whether `job` is a stale ticket.
pub(in crate::submit) fn is_stale(job: &Job) -> bool {
    if !job.is_tagged() {
        return false;
    }
    // SAFETY: only `into_job` marks jobs; this one still has its reference, which is only borrowed
    // here.
    let ticket = ManuallyDrop::new(unsafe { TaskTicket::from_data(job.address()) });
    let now = ticket.cell.snapshot();
    !now.is_queued() || now.level() != ticket.level
}

/// A claimed task: the closure is in the cell, and only the owner of this value calls it, drops it
/// or takes it back.
#[must_use = "a claimed task must be run or discarded"]
pub(in crate::submit) struct Claim {
    pub(super) cell: SubmitRef,
}

/// A claimed task that has its outcome, and must be finished.
#[must_use = "a thread may wait for it"]
pub(in crate::submit) struct EndedTask {
    cell: SubmitRef,
    status: TaskStatus,
}

impl Claim {
    pub(in crate::submit) fn cell(&self) -> &SubmitRef {
        &self.cell
    }

    /// Calls the closure, with this task as the current one of this thread.
    #[inline]
    pub(in crate::submit) fn call(self) -> EndedTask {
        let cell = self.disarm();
        let status = {
            let _current = current_task::enter(cell.pointer().as_ptr().cast_const().cast());
            // SAFETY: the task is claimed: there is one `Claim` for it, which is consumed here.
            unsafe { (cell.vtable.run)(cell.pointer()) }
        };
        EndedTask { cell, status }
    }

    /// Drops the closure. Also returns the payload if that panics.
    pub(in crate::submit) fn discard(self, cause: Cause) -> (EndedTask, Option<Payload>) {
        let cell = self.disarm();
        // The destructor of the closure may join this very task: then the join reports a deadlock.
        cell.meta().start_here();
        // SAFETY: the task is claimed: there is one `Claim` for it, which is consumed here.
        let payload = unsafe { (cell.vtable.drop_body)(cell.pointer()) };
        let status = TaskStatus::Cancelled(cause);
        (EndedTask { cell, status }, payload)
    }

    pub(super) fn disarm(self) -> SubmitRef {
        let this = ManuallyDrop::new(self);
        // SAFETY: the reference of the claim is passed to the caller: the claim is not dropped.
        unsafe { SubmitRef::from_counted(this.cell.pointer()) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Reached only by a panic in our own code. The waiters must not wait for ever.
        let claim = Self {
            cell: self.cell.clone(),
        };
        TaskMeta::on_dropped_claim(claim);
    }
}

impl EndedTask {
    /// Whether the closure panicked.
    pub(in crate::submit) fn panicked(&self) -> bool {
        self.status == TaskStatus::Panicked
    }

    /// Whether the task was requested to stop while it ran.
    #[inline]
    pub(in crate::submit) fn was_cancelled(&self) -> bool {
        self.cell.is_cancelled() || self.cell.meta().is_token_cancelled()
    }

    /// Hands the outcome over. Calls `notify_followers` if there are any. Returns a panic that
    /// reaches no waiter, or that of a drop.
    #[inline(always)]
    pub(in crate::submit) fn finish_then(
        self,
        notify_followers: impl FnOnce(&SubmitRef),
    ) -> Option<Payload> {
        let Self { cell, status } = self;
        // SAFETY: the claim was consumed by `call` or `discard`, which have taken the closure, and
        // stored the outcome.
        unsafe { cell.finish(status, notify_followers) }
    }
}

/// The effect of a cancellation, with the claim if the task had not started.
pub(in crate::submit) enum CancelEffect {
    /// It has not started, and will not. If it was `held`, it has no ticket in any queue.
    Claimed { claim: Claim, held: bool },
    /// It is running and was requested to stop; its token, if it has one, must be cancelled.
    Requested,
    /// It is done, or was requested to stop before.
    TooLate,
}

impl SubmitRef {
    /// Cancels the task: claims it if it has not started, otherwise requests it to stop.
    pub(in crate::submit) fn cancel(&self) -> CancelEffect {
        let cancelling = self.state.cancel();
        match cancelling {
            CancelTransition::Claimed | CancelTransition::ClaimedHeld => {
                // SAFETY: `TaskState::cancel` has counted a reference for the claim in both cases.
                let cell = unsafe { Self::from_counted(self.pointer()) };
                CancelEffect::Claimed {
                    claim: Claim { cell },
                    held: cancelling == CancelTransition::ClaimedHeld,
                }
            }
            CancelTransition::Requested => CancelEffect::Requested,
            CancelTransition::TooLate => CancelEffect::TooLate,
        }
    }

    /// Claims the task, if it is queued and not claimed.
    #[inline]
    pub(in crate::submit) fn claim(&self) -> Option<Claim> {
        // Built lazily: a claim that is dropped discards the task.
        self.state.claim().then(|| {
            // SAFETY: `TaskState::claim` has counted a reference for the claim when it returned
            // true.
            let cell = unsafe { Self::from_counted(self.pointer()) };
            Claim { cell }
        })
    }
}

/// Calls `f` with the task that this thread runs.
#[inline]
pub(in crate::submit) fn with_current<R>(f: impl FnOnce(Option<&SubmitHeader>) -> R) -> R {
    let current = current_task::current().cast::<SubmitHeader>();
    // SAFETY: it is null, or a cell that `Claim::call` keeps as long as it is current.
    f(unsafe { current.as_ref() })
}

/// Returns the task that this thread runs.
pub(in crate::submit) fn current() -> Option<SubmitRef> {
    let cell = NonNull::new(current_task::current().cast_mut().cast::<SubmitHeader>())?;
    // SAFETY: it is the reference of `Claim::call`, which keeps it as long as it is current; it is
    // only borrowed here.
    let current = ManuallyDrop::new(unsafe { SubmitRef::from_counted(cell) });
    Some(SubmitRef::clone(&current))
}
