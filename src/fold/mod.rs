//! Folds over trees.

mod each;
mod family;
mod functions;
mod lazy;
mod sequence;
mod slots;
mod strategy;
mod team;

pub use functions::{Fold, Functions, fold};
pub use strategy::{
    AtTheEnd, Each, EveryKth, EveryPush, Gather, Lazy, OnArrival, OncePerBatch, Plan, Queue, Strategy, Wake,
};

/// Folds.
pub fn run<F: Fold>(fold: &F, root: F::Node) -> F::Result {
    with::<F, Lazy>(fold).run(root)
}

/// Folds in sequence.
pub fn sequential<F: Fold>(fold: &F, root: F::Node) -> F::Result {
    sequence::fold(fold, root)
}

/// With a strategy.
pub fn with<F: Fold, S: Strategy>(fold: &F) -> Plan<'_, F, S> {
    Plan::new(fold)
}
