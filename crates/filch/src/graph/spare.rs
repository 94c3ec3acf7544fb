//! The memory of runs inside tasks, kept by the thread that ended them for the next ones.
//!
//! A task that builds a graph while it runs needs a plan, a run, and buffers for the check. Most
//! such graphs are small and are done soon, so the same memory serves one after the other. A thread
//! keeps a few of each, of small graphs only.

use super::{
    check::CheckBuffers,
    error::GraphError,
    plan::{GraphParts, Plan},
    spare_parts::{self, MAX_LEN, keep},
};
use crate::pool::blocks::RECYCLED;
use std::cell::RefCell;

/// What a thread keeps.
#[derive(Default)]
struct Spare {
    #[expect(
        clippy::vec_box,
        reason = "a run borrows its plan, and the boxes are reused"
    )]
    plans: Vec<Box<Plan<'static>>>,
    buffers: CheckBuffers,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Calls `f` with what this thread keeps. A thread that is ending keeps nothing.
fn with<R>(f: impl FnOnce(&mut Spare) -> R) -> Option<R> {
    SPARE.try_with(|spare| f(&mut spare.borrow_mut())).ok()
}

/// Returns an empty plan, whose parts have no memory.
pub(super) fn take_plan() -> Box<Plan<'static>> {
    let plan = with(|spare| spare.plans.pop()).flatten();
    plan.unwrap_or_else(|| Box::new(Plan::unchecked(GraphParts::default())))
}

/// Drops the tasks of a plan, which is the user's code, and keeps its memory.
pub(super) fn put_plan(mut plan: Box<Plan<'static>>) {
    if !RECYCLED || !plan.is_small(MAX_LEN) {
        return drop(plan);
    }
    plan.clear();
    spare_parts::put(&mut plan.parts);
    let left = with(|spare| keep(&mut spare.plans, plan));
    drop(left);
}

/// Checks a plan.
#[inline]
pub(super) fn check(plan: &mut Plan<'_>) -> Result<(), GraphError> {
    if plan.check_independent() {
        return Ok(());
    }
    let mut buffers = with(|spare| std::mem::take(&mut spare.buffers)).unwrap_or_default();
    let result = plan.check(&mut buffers);
    if RECYCLED && buffers.capacity() <= 4 * MAX_LEN {
        with(|spare| spare.buffers = buffers);
    }
    result
}
