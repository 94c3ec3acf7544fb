//! A task for each node.

use super::{
    Fold,
    family::{Family, ResultPlace},
    team::{Common, Team, TeamLink},
};
use crate::{base::unwind, engine::Placement, pool::context::WorkerContext};
use std::{
    marker::PhantomData,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

/// The compile-time choices.
pub(super) trait EachScheme: Send + Sync {
    /// Results are accumulated when all of them are there, instead of on arrival.
    const AT_THE_END: bool;
    /// All workers share one queue, instead of one for each.
    const SHARED: bool;
    /// Pushes for each wake of a sleeping worker; 0 for one wake in each batch.
    const WAKE_EVERY: u32;
}

/// The state that all tasks of a fold share.
struct EachState<F: Fold, S> {
    team: Team,
    fold: F,
    result: Mutex<Option<F::Result>>,
    scheme: PhantomData<S>,
}

impl<F: Fold, S: EachScheme> Common for EachState<F, S> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// Folds the tree below `root`.
pub(super) fn fold<F: Fold, S: EachScheme>(
    context: &WorkerContext<'_, '_>,
    fold: F,
    root: F::Node,
) -> F::Result {
    let make = |team| EachState::<F, S> {
        team,
        fold,
        result: Mutex::new(None),
        scheme: PhantomData,
    };
    let shared = Team::gather(context, make, |shared| {
        let link = TeamLink::new(shared);
        visit(&link, context, ResultPlace::root(), root);
        link.done(context);
    });
    let result = shared.result.into_inner();
    result
        .unwrap_or_else(PoisonError::into_inner)
        .expect("without a panic there is a result")
}

/// One task: the node, then its first child, and so on; the other children become tasks of their
/// own. The caller counts it as done.
fn visit<F: Fold, S: EachScheme>(
    link: &TeamLink<EachState<F, S>>,
    context: &WorkerContext<'_, '_>,
    place: ResultPlace<F>,
    node: F::Node,
) {
    let shared = link.get();
    let team = &shared.team;
    if team.has_failed() {
        unwind::discard((place, node));
    } else if let Err(payload) = unwind::contain(|| walk(link, context, place, node)) {
        team.fail(context, payload);
    }
}

fn walk<F: Fold, S: EachScheme>(
    link: &TeamLink<EachState<F, S>>,
    context: &WorkerContext<'_, '_>,
    mut place: ResultPlace<F>,
    mut node: F::Node,
) {
    let shared = link.get();
    let (fold, team) = (&shared.fold, &shared.team);
    let mut first_push = true;
    let mut result = loop {
        let heap = fold.init(&node);
        let mut children = fold.children(node);
        let Some(first) = children.next() else {
            break fold.finalize(heap);
        };
        let others: Vec<_> = children.collect();
        let family = Arc::new(Family::new(place, heap, 1 + others.len(), S::AT_THE_END));
        let has_others = !others.is_empty();
        // The last one first: this worker continues with the first, and then pops the newest.
        for (at, child) in others.into_iter().enumerate().rev() {
            let place = Family::place(&family, at + 1);
            let task = move |link: &TeamLink<EachState<F, S>>, context: &WorkerContext<'_, '_>| {
                visit(link, context, place, child);
            };
            let placement = match S::SHARED {
                true => Placement::Local, // not used: the job goes to the team's queue
                false => team.placement(S::WAKE_EVERY, mem::take(&mut first_push)),
            };
            Team::spawn(link, context, task, S::SHARED, placement);
        }
        // Regardless of the policy: workers find the jobs in that queue only by a help job, and
        // this worker may be in the first child for long. There is one help job at a time, so this
        // wakes few workers.
        if S::SHARED && has_others {
            team.request_help(context);
        }
        place = Family::place(&family, 0);
        node = first;
    };
    // The worker that delivers the last result of a node continues with its parent.
    loop {
        match place.deliver(fold, result) {
            Ok(Some((above, heap))) => {
                result = fold.finalize(heap);
                place = above;
            }
            Ok(None) => return,
            Err(whole) => {
                let mut place = shared.result.lock().unwrap_or_else(PoisonError::into_inner);
                *place = Some(whole);
                return;
            }
        }
    }
}
