//! The handle's side of a submitted task.
#![expect(unsafe_code, reason = "makes cells, and takes closures back")]

use super::{
    Body, SubmitRef, TaskMeta,
    ticket::{Claim, TaskTicket},
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind::Payload,
    },
    engine::Priority,
    submit::pool_context,
    task::{self, Cause, JoinRef, Joinable, LevelChange, TaskState, TaskStatus},
};
use std::marker::PhantomData;

/// A new task, which no other thread can access yet, with the type of its closure.
pub(in crate::submit) struct NewTask<F, T> {
    pub(in crate::submit) join: TaskJoin<T>,
    types: PhantomData<fn() -> F>,
}

/// Allocates a task for `func`. Returns its handle, and the ticket to queue it.
#[inline]
pub(in crate::submit) fn make<F, T>(
    func: F,
    level: Priority,
    meta: TaskMeta,
) -> (NewTask<F, T>, TaskTicket)
where
    F: Body<T>,
    T: Send + 'static,
{
    let pool = meta.pool;
    let cell = task::make_closure(TaskState::new(level), meta, func);
    // SAFETY: `TaskState::new` has counted the handle, and the value of the closure is a `T`.
    let join = unsafe { TaskJoin::new(cell, pool) };
    let new_task = NewTask {
        join,
        types: PhantomData,
    };
    // SAFETY: `TaskState::new` has counted a reference for the ticket, and this is it.
    let cell = unsafe { SubmitRef::from_counted(cell) };
    (new_task, TaskTicket { cell, level })
}

impl<F, T> NewTask<F, T>
where
    F: Body<T>,
    T: Send + 'static,
{
    /// Takes back the closure of a task that was not accepted after all.
    ///
    /// # Panics
    /// When `claim` is that of another task.
    pub(in crate::submit) fn take_back(self, claim: Claim) -> F {
        assert!(claim.cell.ptr_eq(self.join.task()), "another task's claim");
        let cell = claim.disarm();
        // SAFETY: the task is claimed, and a `NewTask` has the types of its cell.
        let func = unsafe { task::take_closure::<_, F, T>(&cell) };
        // SAFETY: the task is claimed, its closure was taken, and a cancelled task has no outcome.
        // It has no followers, because no other thread can access it.
        let _nothing = unsafe { cell.finish(TaskStatus::Cancelled(Cause::Closed), |_| ()) };
        func
    }
}

/// The handle's side of a submitted task.
pub(in crate::submit) type TaskJoin<T> = JoinRef<TaskMeta, T>;

impl Joinable for TaskMeta {
    fn report_panic(pool: u32, payload: Payload) {
        pool_context::report_panics(pool, [Some(payload)]);
    }
}

impl<T> TaskJoin<T> {
    /// Changes the level of the task, and queues a ticket for it there. Returns false when it does
    /// not wait any more. The order matters: a ticket that is taken before the level has changed is
    /// stale, and lost.
    pub(in crate::submit) fn set_level(
        &self,
        level: Priority,
        queue: impl FnOnce(TaskTicket),
    ) -> bool {
        let task = self.task();
        if broken(Canary::TaskMove) {
            queue(TaskTicket {
                cell: task.clone(),
                level,
            });
            // The reference that this transition counts is never released.
            return task.state.set_level(level) != LevelChange::TooLate;
        }
        match task.state.set_level(level) {
            LevelChange::Requeue => {
                // SAFETY: `set_level` has counted a reference for the ticket when it returned
                // `Requeue`.
                let cell = unsafe { SubmitRef::from_counted(task.pointer()) };
                queue(TaskTicket { cell, level });
                true
            }
            LevelChange::NoRequeue => true,
            LevelChange::TooLate => false,
        }
    }
}
