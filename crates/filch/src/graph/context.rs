//! The view of a run that its tasks have.

use super::{
    control::RunControl,
    node::Release,
    run::{GraphRun, PreparedRun},
};
use crate::pool::{context::WorkerContext, pending_group::PendingGroup};
use std::{cell::Cell, sync::Arc};

/// What a task can access while it runs.
pub(super) struct TaskContext<'a, 'w, 'c> {
    pub(super) run: &'a GraphRun<'a>,
    pub(super) context: &'a WorkerContext<'w, 'c>,
    /// The number of the task.
    pub(super) at: Cell<u32>,
    /// How many tasks the strand has run.
    pub(super) ran: Cell<u64>,
    /// Whether the worker is the one that waits for the run.
    pub(super) is_owner: bool,
    /// Whether a strand that ends may continue with another one that this worker has queued.
    pub(super) may_continue: Cell<bool>,
    /// The same for the strand of the last first task; only in plain plans.
    /// The number of strands that were counted as pending and that this strand has continued with.
    /// This many tasks can be queued without being counted again.
    pub(super) precounted: Cell<u32>,
    /// What the task leaves to its strand; only in special plans.
    pub(super) effects: Option<&'a TaskEffects>,
}

/// What a task leaves to its strand.
#[derive(Default)]
pub(super) struct TaskEffects {
    /// The choices of a condition.
    pub(super) chosen: Cell<Vec<usize>>,
    /// Hands a suspended task over to the jobs that finish it. This has to wait until its closure
    /// has returned: the jobs may finish the task at once, and in a loop call the same closure
    /// again.
    pub(super) after_return: Cell<Option<AfterReturn>>,
}

/// How a suspended task is handed over.
pub(super) enum AfterReturn {
    /// The run inside the task begins, which completes it.
    Start(PreparedRun),
    Call(Box<dyn FnOnce(&TaskContext<'_, '_, '_>)>),
}

impl GraphRun<'_> {
    #[inline(always)]
    pub(super) fn task_context<'a, 'w, 'c>(
        &'a self,
        context: &'a WorkerContext<'w, 'c>,
        effects: Option<&'a TaskEffects>,
    ) -> TaskContext<'a, 'w, 'c> {
        let is_owner = self.is_owner(context);
        TaskContext {
            run: self,
            context,
            at: Cell::new(0),
            ran: Cell::new(0),
            is_owner,
            may_continue: Cell::new(false),
            precounted: Cell::new(0),
            effects,
        }
    }
}

impl TaskContext<'_, '_, '_> {
    /// Returns the number of the task.
    pub(super) fn index(&self) -> u32 {
        self.at.get()
    }

    /// Returns the state that special plans have.
    pub(super) fn control(&self) -> &Arc<RunControl> {
        self.run.control()
    }

    /// Chooses the successors with these numbers.
    pub(super) fn choose(&self, numbers: impl IntoIterator<Item = usize>) -> Release {
        if let Some(effects) = self.effects {
            effects.chosen.set(numbers.into_iter().collect());
        }
        Release::Chosen
    }

    /// Sets what happens when the closure of the task, which is suspended, has returned.
    #[inline]
    pub(super) fn after_return(&self, then: AfterReturn) {
        let effects = self.effects.expect("a special plan has it");
        effects.after_return.set(Some(then));
    }
}
