//! The flags that end a run of a pipeline early.

use crate::{
    base::sync::{AtomicU32, Ordering},
    cancel::{CancelReason, OnCancel, TaskBatch},
    graph::control::OnStop,
};
use std::sync::Arc;

/// Why the strands of a run have to end.
#[derive(Debug, Default)]
pub(super) struct StopFlags(AtomicU32);

const FAILED: u32 = 1;
const CANCELLED: u32 = 2;

impl StopFlags {
    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(super) fn fail(&self) {
        // Relaxed: as in `is_set`.
        self.0.fetch_or(FAILED, Ordering::Relaxed);
    }

    pub(super) fn cancel(&self) {
        // Relaxed: as in `is_set`.
        self.0.fetch_or(CANCELLED, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        // Relaxed: as in `is_set`.
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }
}

/// Called when the run of the graph that the pipeline is a task of has been stopped.
impl OnStop for StopFlags {
    fn on_stop(self: Arc<Self>) {
        self.cancel();
    }
}

/// Called when the token that can cancel the run has been cancelled.
impl OnCancel for StopFlags {
    fn on_cancel(self: Arc<Self>, _: CancelReason, _: &mut TaskBatch) {
        self.cancel();
    }
}
