//! The memory of graphs inside tasks, kept by the thread that has dropped their tasks for the next
//! ones.

use super::plan::{PartsBox, Plan};
use crate::pool::blocks::RECYCLED;
use std::{cell::RefCell, mem};

/// Maximum number of elements of one kind that a thread keeps: more than the graphs that most
/// programs nest.
const MAX_KEPT: usize = 64;

/// Maximum number of tasks, of edges and of names that a graph has room for and is kept.
const MAX_LEN: usize = 64;

/// As [`MAX_LEN`], for the one larger graph that a thread keeps, so that a task whose graph is
/// large each time does not request its memory from the system again: about a megabyte.
const MAX_LARGE_LEN: usize = 16 << 10;

/// Maximum number of entries of the buffers of a check that are kept.
pub(super) const MAX_BUFFER_LEN: usize = 4 * MAX_LEN;

thread_local! {
    /// Plans without tasks. A graph that is built takes the parts of one, and then a plan for them.
    #[expect(clippy::vec_box, reason = "a run borrows its plan, and the boxes are reused")]
    static SPARE: RefCell<Vec<Box<Plan<'static>>>> = const { RefCell::new(Vec::new()) };
}

/// Adds an element to a list of what a thread keeps. Returns it if the list is full.
#[inline]
pub(super) fn keep<T>(list: &mut Vec<T>, new: T) -> Option<T> {
    if RECYCLED && list.len() < MAX_KEPT {
        list.push(new);
        return None;
    }
    Some(new)
}

/// Returns parts without tasks, if this thread keeps some. A thread that is ending keeps nothing.
#[inline]
pub(super) fn take_memory() -> PartsBox {
    let kept = SPARE.try_with(|spare| {
        let mut plans = spare.borrow_mut();
        // The last one, unless a graph is built while another one is.
        let mut from_last = plans.iter_mut().rev();
        let plan = from_last.find(|plan| plan.parts.has_begun())?;
        Some(mem::take(&mut plan.parts))
    });
    kept.ok().flatten().unwrap_or_default()
}

/// Returns a plan with these parts, which are taken.
#[inline]
pub(super) fn take_plan(parts: &mut PartsBox) -> Box<Plan<'static>> {
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    let mut plan = match spare.ok().flatten() {
        Some(plan) => plan,
        None => Box::new(Plan::unchecked(PartsBox::default())),
    };
    mem::swap(&mut plan.parts, parts);
    plan
}

/// Drops the tasks of a plan, which is the user's code, and keeps its memory.
#[inline]
pub(super) fn put_plan(mut plan: Box<Plan<'static>>) {
    if !RECYCLED || !plan.is_small(MAX_LARGE_LEN) {
        return drop(plan);
    }
    plan.clear();
    let left = SPARE.try_with(|spare| {
        let mut plans = spare.borrow_mut();
        let is_large = |plan: &Plan<'_>| !plan.is_small(MAX_LEN);
        if is_large(&plan) && plans.iter().any(|plan| is_large(plan)) {
            return Some(plan);
        }
        keep(&mut plans, plan)
    });
    drop(left);
}
