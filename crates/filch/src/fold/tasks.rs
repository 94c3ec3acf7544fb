//! A task for each node, in the queues of the pool.

use super::{
    Fold,
    family::{Family, ResultTarget},
    team::{HasTeam, StateRef, Team},
};
use crate::{base::unwind, pool::context::WorkerContext};
use std::{
    marker::PhantomData,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

/// The compile-time choices.
pub(super) trait TasksScheme: Send + Sync {
    /// Results are accumulated when all of them are there, instead of on arrival.
    const AT_THE_END: bool;
    /// Pushes for each wake of a sleeping worker; 0 for one wake in each batch.
    const WAKE_EVERY: u32;
}

/// The state that all tasks of a fold share.
struct TasksState<F: Fold, S> {
    team: Team,
    fold: F,
    result: Mutex<Option<F::Result>>,
    scheme: PhantomData<S>,
}

impl<F: Fold, S: TasksScheme> HasTeam for TasksState<F, S> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// Folds the tree below `root`.
pub(super) fn fold<F: Fold, S: TasksScheme>(
    context: &WorkerContext<'_, '_>,
    fold: F,
    root: F::Node,
) -> F::Result {
    let make = |team| TasksState::<F, S> {
        team,
        fold,
        result: Mutex::new(None),
        scheme: PhantomData,
    };
    let shared = Team::scope(context, make, |shared| {
        let state_ref = StateRef::new(shared);
        visit(&state_ref, context, ResultTarget::root(), root);
        state_ref.done(context);
    });
    let result = shared.result.into_inner();
    result
        .unwrap_or_else(PoisonError::into_inner)
        .expect("without a panic there is a result")
}

/// One task: the node, then its first child, and so on; the other children become tasks of their
/// own. The caller counts it as done.
fn visit<F: Fold, S: TasksScheme>(
    state_ref: &StateRef<TasksState<F, S>>,
    context: &WorkerContext<'_, '_>,
    target: ResultTarget<F>,
    node: F::Node,
) {
    let shared = state_ref.get();
    let team = &shared.team;
    if team.has_failed() {
        unwind::discard((target, node));
    } else if let Err(payload) = unwind::contain(|| run(state_ref, context, target, node)) {
        team.fail(context, payload);
    }
}

fn run<F: Fold, S: TasksScheme>(
    state_ref: &StateRef<TasksState<F, S>>,
    context: &WorkerContext<'_, '_>,
    target: ResultTarget<F>,
    node: F::Node,
) {
    let shared = state_ref.get();
    let mut first_push = true;
    let queue = |target, child| {
        let task = move |state_ref: &StateRef<TasksState<F, S>>,
                         context: &WorkerContext<'_, '_>| {
            visit(state_ref, context, target, child);
        };
        let first = mem::take(&mut first_push);
        let placement = shared.team.placement(S::WAKE_EVERY, first);
        Team::spawn(state_ref, context, task, placement);
    };
    if let Some(whole) = walk(&shared.fold, S::AT_THE_END, target, node, queue) {
        *shared.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(whole);
    }
}

/// Folds `node`, then its first child, and so on, and passes the other children to `queue`, the
/// last one first, so that the newest is the next in order. Returns the result of the whole tree if
/// this was its last node.
pub(super) fn walk<F: Fold>(
    fold: &F,
    at_the_end: bool,
    mut target: ResultTarget<F>,
    mut node: F::Node,
    mut queue: impl FnMut(ResultTarget<F>, F::Node),
) -> Option<F::Result> {
    let mut result = loop {
        let acc = fold.init(&node);
        let mut children = fold.children(node);
        let Some(first) = children.next() else {
            break fold.finalize(acc);
        };
        let others: Vec<_> = children.collect();
        let family = Arc::new(Family::new(target, acc, 1 + others.len(), at_the_end));
        for (at, child) in others.into_iter().enumerate().rev() {
            queue(Family::target(&family, at + 1), child);
        }
        target = Family::target(&family, 0);
        node = first;
    };
    // The worker that delivers the last result of a node continues with its parent.
    loop {
        match target.deliver(fold, result) {
            Ok(Some((above, acc))) => {
                result = fold.finalize(acc);
                target = above;
            }
            Ok(None) => return None,
            Err(whole) => return Some(whole),
        }
    }
}
