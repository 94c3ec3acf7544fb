//! The running task that the user's code has a view of.
#![expect(unsafe_code, reason = "points to the run of a task while it runs")]

use super::{control::on_pool, run::GraphRun};
use crate::pool::context::WorkerContext;
use std::ptr;

/// A task that is running on this thread, and its run. Runtimes and subflows, which the user's code
/// gets a reference to while the task runs, have one.
#[derive(Clone, Copy)]
pub(super) struct RunningTask {
    /// The run is not over: the task is running.
    run: *const GraphRun<'static>,
    pub(super) index: u32,
}

impl RunningTask {
    /// # Safety
    /// It is not used after the task of `run` with this number, or the part of it that the caller
    /// runs, has ended.
    pub(super) unsafe fn new(run: &GraphRun<'_>, index: u32) -> Self {
        Self {
            run: ptr::from_ref(run).cast(),
            index,
        }
    }

    pub(super) fn run(&self) -> &GraphRun<'static> {
        // SAFETY: the task is running, as `new` requires, so its run is not over.
        unsafe { &*self.run }
    }

    /// Calls `f` with the context of the task's worker, which this thread is.
    pub(super) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        // SAFETY: the task is running, so its pool is alive.
        let pool = unsafe { &*self.run().pool };
        on_pool(pool, f)
    }
}
