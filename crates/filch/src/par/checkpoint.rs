//! The checkpoint inside loops.

use crate::{base::thread, pool::context::WorkerContext};

/// A checkpoint between two blocks of a loop, or two runs of a sort, about every 16 µs. Returns
/// whether a task ran here, so that its time is not attributed to the items.
///
/// A task that runs here runs on the stack of the loop, and must not touch the jobs that the loop
/// has queued: a far half that is offered to thieves is taken back only by its owner.
#[inline]
pub(super) fn leaf_checkpoint() -> bool {
    // A scheduling point for rehearsals.
    thread::point();
    WorkerContext::with(|context| context.is_some_and(WorkerContext::leaf_checkpoint))
}
