//! The adaptive strategy: folds sequentially, and splits off siblings on demand.

mod frame;
mod offer;
mod pace;
mod piece;
mod run;
mod split;
mod state;
mod walk;

pub(super) use pace::{CheckTimer, NodePace};
pub(super) use state::AdaptiveScheme;

use super::{
    Fold,
    team::{StateRef, Team},
};
use crate::{base::sync::Mutex, pool::context::WorkerContext};
use state::{AdaptiveState, FoldRun};
use std::{marker::PhantomData, sync::PoisonError};

/// Folds the tree below `root`.
pub(super) fn fold<F: Fold, S: AdaptiveScheme>(
    context: &WorkerContext<'_, '_>,
    fold: F,
    root: F::Node,
) -> F::Result {
    let code = FoldRun::<F, S>::of_tree as *const () as usize;
    let make = |team| AdaptiveState::<F, S> {
        team,
        fold,
        pace: NodePace::recall(code),
        result: Mutex::new(None),
        scheme: PhantomData,
    };
    let shared = Team::scope(context, make, |shared| {
        let state_ref = StateRef::new(shared);
        FoldRun::of_tree(root, &state_ref, context);
        state_ref.done(context);
    });
    shared.pace.remember(code);
    let result = shared.result.into_inner();
    result
        .unwrap_or_else(PoisonError::into_inner)
        .expect("without a panic there is a result")
}
