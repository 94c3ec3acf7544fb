//! The check of graphs inside tasks.
//!
//! Most of them are small and are checked soon after one another, so a thread keeps the buffers of
//! the check.

use super::{check::CheckBuffers, error::GraphError, plan::Plan, spare_parts::MAX_BUFFER_LEN};
use crate::pool::blocks::RECYCLED;
use std::cell::Cell;

thread_local! {
    static BUFFERS: Cell<CheckBuffers> = Cell::default();
}

/// Checks a plan.
#[inline]
pub(super) fn check(plan: &mut Plan<'_>) -> Result<(), GraphError> {
    if plan.check_independent() {
        return Ok(());
    }
    // A thread that is ending keeps nothing.
    let mut buffers = BUFFERS.try_with(Cell::take).unwrap_or_default();
    let result = plan.check(&mut buffers);
    if RECYCLED && buffers.capacity() <= MAX_BUFFER_LEN {
        let _ = BUFFERS.try_with(|kept| kept.set(buffers));
    }
    result
}
