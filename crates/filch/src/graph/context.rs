//! The view of a run that its tasks have.

use super::{remote::Remote, run::Run};
use crate::pool::{context::WorkerContext, pending_group::PendingGroup};
use std::{cell::Cell, sync::Arc};

/// What a task can access while it runs.
pub(super) struct Context<'a, 'w, 'c> {
    pub(super) run: &'a Run<'a>,
    pub(super) context: &'a WorkerContext<'w, 'c>,
    /// The number of the task.
    pub(super) at: Cell<u32>,
    /// How many tasks the strand has run.
    pub(super) ran: Cell<u64>,
    /// Whether the worker is the one that waits for the run.
    pub(super) is_owner: bool,
    /// Whether a strand that ends may continue with another one that this worker has queued.
    pub(super) goes_on: Cell<bool>,
    /// The number of strands that were counted as pending and that this strand has continued with.
    /// This many tasks can be queued without being counted again.
    pub(super) spare: Cell<u32>,
    /// What the task leaves to its strand; only in special plans.
    pub(super) left: Option<&'a Left>,
}

/// What a task leaves to its strand.
#[derive(Default)]
pub(super) struct Left {
    /// The choices of a condition.
    pub(super) chosen: Cell<Vec<usize>>,
    /// Hands a held task over to the jobs that finish it. This has to wait until its closure has
    /// returned: the jobs may finish the task at once, and in a loop call the same closure again.
    pub(super) later: Cell<Option<Later>>,
}

pub(super) type Later = Box<dyn FnOnce(&Context<'_, '_, '_>)>;

impl Run<'_> {
    #[inline(always)]
    pub(super) fn context<'a, 'w, 'c>(
        &'a self,
        context: &'a WorkerContext<'w, 'c>,
        left: Option<&'a Left>,
    ) -> Context<'a, 'w, 'c> {
        let is_owner = self.is_owner(context);
        Context {
            run: self,
            context,
            at: Cell::new(0),
            ran: Cell::new(0),
            is_owner,
            goes_on: Cell::new(false),
            spare: Cell::new(0),
            left,
        }
    }
}

impl Context<'_, '_, '_> {
    /// Returns the number of the task.
    pub(super) fn index(&self) -> u32 {
        self.at.get()
    }

    /// Returns the state that special plans have.
    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.run.remote()
    }

    /// Calls `f` when the closure of the task, which is held, has returned.
    pub(super) fn later(&self, f: impl FnOnce(&Context<'_, '_, '_>) + 'static) {
        let left = self.left.expect("a special plan has it");
        left.later.set(Some(Box::new(f)));
    }
}
