//! Which code runs each strategy.

use super::{
    adaptive,
    definition::{Fold, sealed},
    queued,
    strategy::{Adaptive, Tasks, sealed::Accumulation},
    tasks,
};
use crate::{
    engine::{PerWorker, Strategy},
    pool::context::WorkerContext,
};
use std::any::TypeId;

impl<A: Accumulation, const WAKE_EVERY: u32> adaptive::AdaptiveScheme for Adaptive<A, WAKE_EVERY> {
    const AT_THE_END: bool = A::AT_THE_END;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<A: Accumulation, const WAKE_EVERY: u32> sealed::ExecuteFold for Adaptive<A, WAKE_EVERY> {
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        adaptive::fold::<F, Self>(context, fold, root)
    }
}

impl<Q: Strategy, A: Accumulation, const WAKE_EVERY: u32> tasks::TasksScheme
    for Tasks<Q, A, WAKE_EVERY>
{
    const AT_THE_END: bool = A::AT_THE_END;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<Q: Strategy, A: Accumulation, const WAKE_EVERY: u32> sealed::ExecuteFold
    for Tasks<Q, A, WAKE_EVERY>
{
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        // The pool's own queues are those of `PerWorker`.
        if TypeId::of::<Q>() == TypeId::of::<PerWorker>() {
            tasks::fold::<F, Self>(context, fold, root)
        } else {
            queued::fold::<F, Q>(context, fold, root, A::AT_THE_END)
        }
    }
}
