//! Where a loop lets others in.

use crate::{base::thread, pool::context::WorkerContext};

/// Between two blocks of a loop, and between two runs of a sort: the place where others get a chance, every 16 µs or so.
/// Says whether somebody took it, so that the time is not put down to the items.
///
/// Whatever runs here runs on the stack of the loop, and must leave alone what the loop has queued: a far half that is
/// offered to thieves is taken back by its owner only.
#[inline]
pub(super) fn leaf_checkpoint() -> bool {
    // Rehearsals let others go on here.
    thread::point();
    WorkerContext::with(|context| context.is_some_and(WorkerContext::leaf_checkpoint))
}
