//! Which code runs each strategy.

use super::{
    adaptive,
    definition::{Fold, sealed},
    strategy::{
        Adaptive, Tasks,
        sealed::{Accumulation, TaskQueue},
    },
    tasks,
};
use crate::pool::context::WorkerContext;

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

impl<Q: TaskQueue, A: Accumulation, const WAKE_EVERY: u32> tasks::TasksScheme
    for Tasks<Q, A, WAKE_EVERY>
{
    const AT_THE_END: bool = A::AT_THE_END;
    const SHARED: bool = Q::SHARED;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<Q: TaskQueue, A: Accumulation, const WAKE_EVERY: u32> sealed::ExecuteFold
    for Tasks<Q, A, WAKE_EVERY>
{
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        tasks::fold::<F, Self>(context, fold, root)
    }
}
