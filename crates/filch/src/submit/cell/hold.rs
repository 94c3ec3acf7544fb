//! The handle's side of a submitted task.
#![expect(unsafe_code, reason = "makes cells, and takes closures back")]

use super::{
    Body, Ref, TaskMeta,
    ticket::{Claim, Ticket},
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind::Payload,
    },
    engine::Level,
    submit::place,
    task::{self, Cause, JoinRef, Joinable, LevelChange, TaskState, TaskStatus},
};
use std::marker::PhantomData;

/// A new task, which no other thread knows yet.
pub(in crate::submit) struct Fresh<F, T> {
    pub(in crate::submit) hold: Hold<T>,
    types: PhantomData<fn() -> F>,
}

/// Allocates a task for `func`. Returns its handle, and the ticket to queue it.
#[inline]
pub(in crate::submit) fn make<F, T>(func: F, level: Level, about: TaskMeta) -> (Fresh<F, T>, Ticket)
where
    F: Body<T>,
    T: Send + 'static,
{
    let pool = about.pool;
    let cell = task::make_closure(TaskState::new(level), about, func);
    // SAFETY: `TaskState::new` has counted the handle, and the value of the closure is a `T`.
    let hold = unsafe { Hold::new(cell, pool) };
    let fresh = Fresh {
        hold,
        types: PhantomData,
    };
    // SAFETY: `TaskState::new` has counted the ticket.
    let cell = unsafe { Ref::from_counted(cell) };
    (fresh, Ticket { cell, level })
}

impl<F, T> Fresh<F, T>
where
    F: Body<T>,
    T: Send + 'static,
{
    /// Takes back the closure of a task that was not accepted after all.
    ///
    /// # Panics
    /// When `claim` is that of another task.
    pub(in crate::submit) fn take_back(self, claim: Claim) -> F {
        assert!(claim.cell.ptr_eq(self.hold.task()), "another task's claim");
        let cell = claim.disarm();
        // SAFETY: the task is claimed, and a `Fresh` has the types of its cell.
        let func = unsafe { task::take_closure::<_, F, T>(&cell) };
        // SAFETY: the task is claimed, its closure was taken, and a cancelled task has no outcome.
        // It has no followers, because no other thread knows it.
        let _nothing = unsafe { cell.finish(TaskStatus::Cancelled(Cause::Closed), |_| ()) };
        func
    }
}

/// The handle's side of a submitted task.
pub(in crate::submit) type Hold<T> = JoinRef<TaskMeta, T>;

impl Joinable for TaskMeta {
    fn report_panic(pool: u32, payload: Payload) {
        place::report_panics(pool, [Some(payload)]);
    }
}

impl<T> Hold<T> {
    /// Moves the task to another level, and queues a ticket for it there. Returns false when it
    /// does not wait any more. The order matters: a ticket that is taken before the level has
    /// changed is stale, and lost.
    pub(in crate::submit) fn move_to(&self, level: Level, queue: impl FnOnce(Ticket)) -> bool {
        let task = self.task();
        if broken(Canary::TaskMove) {
            queue(Ticket {
                cell: task.clone(),
                level,
            });
            // The reference that this transition counts is never released.
            return task.state.set_level(level) != LevelChange::TooLate;
        }
        match task.state.set_level(level) {
            LevelChange::Requeue => {
                // SAFETY: the transition has counted the ticket.
                let cell = unsafe { Ref::from_counted(task.pointer()) };
                queue(Ticket { cell, level });
                true
            }
            LevelChange::Same => true,
            LevelChange::TooLate => false,
        }
    }
}
