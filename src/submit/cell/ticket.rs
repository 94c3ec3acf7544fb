//! Who may run a task: whoever has claimed it, most often with a ticket from a queue.
#![expect(unsafe_code, reason = "turns counted references into jobs and back")]

use super::{
    Cause, Header, Ref,
    state::{Finished, TaskStatus},
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind::{self, Payload},
    },
    engine::Level,
    pool::{
        context::WorkerContext,
        job::{Job, unmarked},
        task,
    },
    submit::{after, run},
};
use std::{
    mem::{self, ManuallyDrop},
    ptr::NonNull,
    task::Waker,
};

/// Where the level of a ticket is in its pointer.
const TAG: usize = 0b11;
const _: () = assert!(align_of::<Header>() >= 8);

/// A reference in a queue of the pool. Whoever takes it out may run the task, unless the ticket is stale.
#[must_use = "a task without a ticket is never run"]
pub(in crate::submit) struct Ticket {
    pub(super) cell: Ref,
    pub(super) level: Level,
}

impl Ticket {
    /// The level at which it belongs.
    pub(in crate::submit) fn level(&self) -> Level {
        self.level
    }

    pub(in crate::submit) fn cell(&self) -> &Ref {
        &self.cell
    }

    /// The task, if it still waits at the level of the ticket.
    #[inline]
    pub(in crate::submit) fn claim(self) -> Option<Claim> {
        let Self { cell, level } = self;
        // Lazily: a claim that is dropped refuses the task.
        cell.state.claim_at(level).then(|| Claim { cell })
    }

    /// The job for a queue.
    #[inline]
    pub(in crate::submit) fn into_job(self) -> Job {
        let cell = ManuallyDrop::new(self.cell).cell;
        let tagged = cell.as_ptr().map_addr(|at| at | self.level as usize);
        // SAFETY: `run_ticket` takes over the reference that was just given up; a reference may go to any
        // thread, and keeps the cell until then. A `Header` is aligned to eight bytes.
        unsafe { Job::marked(tagged.cast_const().cast(), run_ticket) }
    }

    /// The ticket in a job that came back. None if it is another job.
    pub(in crate::submit) fn from_job(job: Job) -> Option<Self> {
        if !job.is_marked() {
            return None;
        }
        // SAFETY: only `into_job` marks jobs; this one was a ticket, and will not be run any more.
        Some(unsafe { Self::from_data(job.into_data()) })
    }

    /// # Safety
    /// `data` comes from a job of `into_job`, whose reference nobody else takes.
    unsafe fn from_data(data: *const ()) -> Self {
        let level = Level::ALL[data.addr() & TAG];
        let cell = unmarked(data).map_addr(|at| at & !TAG);
        let cell = cell.cast_mut().cast::<Header>();
        let cell = NonNull::new(cell).expect("cells are not at zero");
        Self {
            cell: Ref { cell },
            level,
        }
    }
}

/// # Safety
/// As [`Ticket::from_data`].
#[inline(never)]
unsafe fn run_ticket(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty.
    let ticket = unsafe { Ticket::from_data(data) };
    run::ticket(ticket, context);
}

/// Whether `job` is a ticket that has become useless.
pub(in crate::submit) fn is_stale(job: &Job) -> bool {
    if !job.is_marked() {
        return false;
    }
    // SAFETY: only `into_job` marks jobs; this one still has its reference, which is only borrowed
    // here.
    let ticket = ManuallyDrop::new(unsafe { Ticket::from_data(job.address()) });
    let now = ticket.cell.snapshot();
    !now.is_queued() || now.level() != ticket.level
}

/// A task that is the caller's alone: its closure is in the cell and will be called, dropped or taken back by nobody
/// else.
#[must_use = "a claimed task must be run or refused"]
pub(in crate::submit) struct Claim {
    pub(super) cell: Ref,
}

/// A claimed task that has its outcome, and must be finished.
#[must_use = "somebody may wait for it"]
pub(in crate::submit) struct Ended {
    pub(super) cell: Ref,
    pub(super) fate: TaskStatus,
}

impl Claim {
    pub(in crate::submit) fn cell(&self) -> &Ref {
        &self.cell
    }

    /// Calls the closure, as the task that this thread is in.
    #[inline]
    pub(in crate::submit) fn call(self) -> Ended {
        let cell = self.disarm();
        let panicked = {
            let _current = task::enter(cell.cell.as_ptr().cast_const().cast());
            // SAFETY: it is claimed, by the one value of this type that there is for it.
            unsafe { (cell.actions.call)(cell.cell) }
        };
        let fate = match panicked {
            true => TaskStatus::Panicked,
            false => TaskStatus::Fine,
        };
        Ended { cell, fate }
    }

    /// Drops the closure. What that panics with comes back as well.
    pub(in crate::submit) fn refuse(self, cause: Cause) -> (Ended, Option<Payload>) {
        let cell = self.disarm();
        // The closure's destructor may join the very task: then it learns that this cannot be.
        cell.about.start_here();
        // SAFETY: as in `call`.
        let payload = unsafe { (cell.actions.refuse)(cell.cell, cause) };
        let ended = Ended {
            cell,
            fate: cause.into(),
        };
        (ended, payload)
    }

    pub(super) fn disarm(self) -> Ref {
        let this = ManuallyDrop::new(self);
        // The reference goes over to the caller.
        Ref {
            cell: this.cell.cell,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Only a panic in our own code gets here. Whoever waits must not wait for ever.
        let claim = Self {
            cell: self.cell.clone(),
        };
        let (ended, payload) = claim.refuse(Cause::Asked);
        run::tell_all(ended.cell.about.pool, [payload, ended.finish()]);
    }
}

impl Ended {
    /// Whether the closure panicked.
    pub(in crate::submit) fn panicked(&self) -> bool {
        self.fate == TaskStatus::Panicked
    }

    /// Hands the outcome over, and lets those who follow go on. What nobody waits for, a panic or that of a drop,
    /// comes back.
    #[inline]
    pub(in crate::submit) fn finish(self) -> Option<Payload> {
        self.finish_then(after::settle)
    }

    /// The same; if others follow the task, `settle` has to tell them.
    #[inline(always)]
    pub(in crate::submit) fn finish_then(self, settle: impl FnOnce(&Ref)) -> Option<Payload> {
        let Self { cell, fate } = self;
        // SAFETY: the reference keeps the memory; only the word is borrowed, since with `Finished::Handed`
        // somebody else may free the cell at once.
        let state = unsafe { &(*cell.cell.as_ptr()).state };
        match state.finish(fate) {
            Finished::Handed => {
                mem::forget(cell);
                None
            }
            Finished::Wake => {
                // SAFETY: the waker is the claimer's now.
                wake(unsafe { take_waker(&cell) });
                None
            }
            // SAFETY: the outcome is the claimer's.
            Finished::Orphaned => unsafe { (cell.actions.drop_outcome)(cell.cell) },
            // SAFETY: it has just been finished so.
            Finished::Followed => unsafe { finish_followed(cell, settle) },
        }
    }
}

/// # Safety
/// The waker is the caller's.
unsafe fn take_waker(cell: &Ref) -> Option<Waker> {
    // SAFETY: the caller's duty, as the field says.
    let waker = cell.waker.with_mut(|waker| unsafe { (*waker).take() });
    waker.filter(|_| !broken(Canary::TaskWake))
}

/// Others follow a task that is done.
///
/// # Safety
/// The caller has claimed the task and finished it, as `Finished::Followed`, and this is the first call after that.
#[cold]
#[inline(never)]
unsafe fn finish_followed(cell: Ref, settle: impl FnOnce(&Ref)) -> Option<Payload> {
    let (now, mut payload) = (cell.snapshot(), None);
    if !now.has_handle() {
        // SAFETY: nobody wants the outcome, so it is the claimer's.
        payload = unsafe { (cell.actions.drop_outcome)(cell.cell) };
    } else if now.is_watched() {
        // SAFETY: the waker is the claimer's now.
        wake(unsafe { take_waker(&cell) });
    }
    settle(&cell);
    payload
}

/// Calls a waker, which may be the user's.
pub(super) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker
        && let Err(payload) = unwind::contain(|| waker.wake())
    {
        unwind::discard(payload);
    }
}
