//! What the tasks of a graph see of their run.

use super::{remote::Remote, run::Run};
use crate::pool::context::WorkerContext;
use std::{cell::Cell, sync::Arc};

/// What a task can reach while it runs.
pub(super) struct Context<'a, 'w, 'c> {
    pub(super) run: &'a Run<'a>,
    pub(super) context: &'a WorkerContext<'w, 'c>,
    /// The task.
    pub(super) at: Cell<u32>,
    /// How many the strand has run.
    pub(super) ran: Cell<u64>,
    /// The worker is the one that waits for the run.
    pub(super) mine: bool,
    /// Whether a strand that ends may go on with another one, that this worker has queued.
    pub(super) goes_on: Cell<bool>,
    /// How many strands that the run counts as pending have been gone on with, so that so many can be queued without
    /// being counted.
    pub(super) spare: Cell<u32>,
    /// What it leaves to its strand; in special plans.
    pub(super) left: Option<&'a Left>,
}

/// What a task leaves to its strand.
#[derive(Default)]
pub(super) struct Left {
    /// The choices of a condition.
    pub(super) chosen: Cell<Vec<usize>>,
    /// How a task that is held comes into the hands of others. That has to wait until its closure has returned: they
    /// may finish the task at once, and in a loop call the same closure again.
    pub(super) later: Cell<Option<Later>>,
}

pub(super) type Later = Box<dyn FnOnce(&Context<'_, '_, '_>)>;

impl Context<'_, '_, '_> {
    /// The number of the task.
    pub(super) fn index(&self) -> u32 {
        self.at.get()
    }

    /// What special plans have.
    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.run.remote()
    }

    /// Calls `f` when the closure of the task, which is held, has returned.
    pub(super) fn later(&self, f: impl FnOnce(&Context<'_, '_, '_>) + 'static) {
        let left = self.left.expect("a special plan has it");
        left.later.set(Some(Box::new(f)));
    }
}
