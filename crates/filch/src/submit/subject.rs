//! Submitted tasks in the list of waits.

use super::cell::{self, DependencyEdge, Predecessors, SubmitRef, TaskMeta, TaskStatus};
use crate::{
    base::canary::{Canary, broken},
    pool::waits::{Needs, Party, Subject},
};

/// A task that is waited for.
struct AwaitedTask {
    cell: SubmitRef,
    /// The handle belongs to the waiter, and is not used for anything else meanwhile.
    is_joined: bool,
}

/// A task whose failure would end a wait.
struct AwaitedFailure(AwaitedTask);

/// Returns the end of a task whose handle belongs to the waiter.
pub(super) fn end_of(cell: &SubmitRef) -> Box<dyn Subject> {
    Box::new(joined_task(cell))
}

/// Returns the failure of a task whose handle belongs to the waiter.
pub(super) fn failure_of(cell: &SubmitRef) -> Box<dyn Subject> {
    Box::new(AwaitedFailure(joined_task(cell)))
}

/// Returns a task whose handle belongs to the waiter.
fn joined_task(cell: &SubmitRef) -> AwaitedTask {
    AwaitedTask {
        cell: cell.clone(),
        is_joined: true,
    }
}

/// Returns the task that this thread runs.
pub(super) fn current_party() -> Option<Party> {
    cell::with_current(|cell| cell.map(|cell| party(cell.meta())))
}

fn party(meta: &TaskMeta) -> Party {
    Party::task(meta.id.get(), meta.name().cloned())
}

impl Subject for AwaitedTask {
    fn needs(&self) -> Needs {
        let now = self.cell.snapshot();
        if now.is_held() {
            // The owner of the handle or of the token may cancel it.
            let is_free = self.cell.meta().token().is_some();
            return match is_free || now.has_handle() && !self.is_joined {
                true => Needs::Unknown,
                false => self.needs_while_held(),
            };
        }
        let is_running = now.has_started() && (!now.is_done() || broken(Canary::WaitStale));
        let position = self.cell.meta().position().filter(|_| is_running);
        position.map_or(Needs::Unknown, Needs::Return)
    }

    fn party(&self) -> Party {
        party(self.cell.meta())
    }

    fn identity(&self) -> Option<usize> {
        // A task that is joined has other needs.
        (!self.is_joined).then(|| self.cell.pointer().as_ptr().addr())
    }
}

impl AwaitedTask {
    /// Returns the needs of a held task: the ends of its predecessors; but if one fails whose
    /// outcome matters, the task ends as well.
    fn needs_while_held(&self) -> Needs {
        // The task is stuck if one of its predecessors is, and so is each one whose failure would
        // end it.
        let (mut predecessors_left, mut may_fail) = (Vec::<Box<dyn Subject>>::new(), Vec::new());
        let predecessors = self.cell.meta().predecessors();
        // All of them are handed on, since none may be dropped with the list locked. One that has
        // ended does not block the task.
        for DependencyEdge { cell, any_outcome } in
            predecessors.map_or_else(Vec::new, Predecessors::edges)
        {
            let one = |cell| -> Box<dyn Subject> {
                Box::new(Self {
                    cell,
                    is_joined: false,
                })
            };
            if !any_outcome && cell.snapshot().status() != Some(TaskStatus::Succeeded) {
                may_fail.push(one(cell.clone()));
            }
            predecessors_left.push(one(cell));
        }
        Needs::Others {
            stuck_if_any: predecessors_left,
            and_if_all: may_fail,
        }
    }
}

impl Subject for AwaitedFailure {
    fn needs(&self) -> Needs {
        match self.0.cell.snapshot().status() {
            Some(TaskStatus::Succeeded) => Needs::Never,
            Some(_) => Needs::Unknown,
            None => self.0.needs(),
        }
    }

    fn party(&self) -> Party {
        self.0.party()
    }
}
