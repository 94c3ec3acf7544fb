//! Which code runs each strategy.

use super::{
    definition::{Fold, sealed},
    each, lazy,
    strategy::{
        Adaptive, Tasks,
        sealed::{Accumulation, TaskQueue},
    },
};
use crate::pool::context::WorkerContext;

impl<A: Accumulation, const WAKE_EVERY: u32> lazy::LazyScheme for Adaptive<A, WAKE_EVERY> {
    const AT_THE_END: bool = A::AT_THE_END;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<A: Accumulation, const WAKE_EVERY: u32> sealed::FoldStrategy for Adaptive<A, WAKE_EVERY> {
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        lazy::fold::<F, Self>(context, fold, root)
    }
}

impl<Q: TaskQueue, A: Accumulation, const WAKE_EVERY: u32> each::EachScheme
    for Tasks<Q, A, WAKE_EVERY>
{
    const AT_THE_END: bool = A::AT_THE_END;
    const SHARED: bool = Q::SHARED;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<Q: TaskQueue, A: Accumulation, const WAKE_EVERY: u32> sealed::FoldStrategy
    for Tasks<Q, A, WAKE_EVERY>
{
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        each::fold::<F, Self>(context, fold, root)
    }
}
