//! The lazy strategy: folds sequentially, and splits off siblings on demand.

mod frame;
mod offer;
mod pace;
mod piece;
mod run;
mod split;
mod walk;

use super::{
    Fold,
    team::{Common, Team, TeamLink},
};
use crate::pool::context::WorkerContext;
use pace::NodePace;
use run::FoldRun;
use std::{
    marker::PhantomData,
    sync::{Mutex, PoisonError},
};

/// The compile-time choices.
pub(super) trait LazyScheme: Send + Sync {
    /// Results are accumulated when all of them are there, instead of on arrival.
    const AT_THE_END: bool;
    /// Pushes for each wake of a sleeping worker; 0 for one wake in each batch.
    const WAKE_EVERY: u32;
}

/// The state that all runs of a fold share.
pub(super) struct LazyState<F: Fold, S> {
    team: Team,
    fold: F,
    pace: NodePace,
    result: Mutex<Option<F::Result>>,
    scheme: PhantomData<S>,
}

impl<F: Fold, S: LazyScheme> LazyState<F, S> {
    fn store_result(&self, result: F::Result) {
        let mut place = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(result);
    }
}

impl<F: Fold, S: LazyScheme> Common for LazyState<F, S> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// Folds the tree below `root`.
pub(super) fn fold<F: Fold, S: LazyScheme>(
    context: &WorkerContext<'_, '_>,
    fold: F,
    root: F::Node,
) -> F::Result {
    let make = |team| LazyState::<F, S> {
        team,
        fold,
        pace: NodePace::new(),
        result: Mutex::new(None),
        scheme: PhantomData,
    };
    let shared = Team::gather(context, make, |shared| {
        let link = TeamLink::new(shared);
        FoldRun::of_tree(root, &link, context);
        link.done(context);
    });
    let result = shared.result.into_inner();
    result
        .unwrap_or_else(PoisonError::into_inner)
        .expect("without a panic there is a result")
}
