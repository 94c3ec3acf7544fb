//! What is decided at compile time: when work is split, where it is queued, when results are taken in, and who is woken.

use super::{Fold, each, lazy, sequence};
use crate::{
    engine::{PerWorker, Shared, WakePolicy},
    pool::{Pool, on_current, site::Site},
};
use std::{fmt, marker::PhantomData};

/// Where the tasks of [`Each`] are queued: [`PerWorker`] or [`Shared`].
pub trait Queue: sealed::Queue {}

/// When the results of children are taken in.
pub trait Gather: sealed::Gather {}

/// A child's result is accumulated as soon as those before it are.
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are kept until all children are done, and accumulated then.
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// When a sleeping worker is woken for work that was split off.
pub trait Wake: sealed::Wake {}

/// Each time.
#[derive(Clone, Copy, Debug)]
pub struct EveryPush;

/// The first time in each run of a worker.
#[derive(Clone, Copy, Debug)]
pub struct OncePerBatch;

/// Every `K`-th time.
#[derive(Clone, Copy, Debug)]
pub struct EveryKth<const K: u32>;

mod sealed {
    use super::*;

    pub trait Gather: Send + Sync + 'static {
        const AT_THE_END: bool;
    }
    pub trait Wake: Send + Sync + 'static {
        const POLICY: WakePolicy;
    }
    pub trait Strategy: Send + Sync + 'static {
        fn fold<F: Fold>(site: &Site<'_, '_>, fold: F, root: F::Node) -> F::Result;
    }

    pub trait Queue: Send + Sync + 'static {
        const SHARED: bool;
    }

    impl Queue for PerWorker {
        const SHARED: bool = false;
    }
    impl Queue for Shared {
        const SHARED: bool = true;
    }
    impl Gather for OnArrival {
        const AT_THE_END: bool = false;
    }
    impl Gather for AtTheEnd {
        const AT_THE_END: bool = true;
    }
    impl Wake for EveryPush {
        const POLICY: WakePolicy = WakePolicy::EveryPush;
    }
    impl Wake for OncePerBatch {
        const POLICY: WakePolicy = WakePolicy::OncePerBatch;
    }
    impl<const K: u32> Wake for EveryKth<K> {
        const POLICY: WakePolicy = WakePolicy::EveryKth(K);
    }
}

impl<Q: sealed::Queue> Queue for Q {}
impl<G: sealed::Gather> Gather for G {}
impl<W: sealed::Wake> Wake for W {}

/// How a fold is shared among workers.
pub trait Strategy: sealed::Strategy {}
impl<S: sealed::Strategy> Strategy for S {}

/// Folds in sequence; what others can take is split off when what was split off before has been taken.
#[derive(Clone, Copy, Debug)]
pub struct Lazy<G = OnArrival, W = EveryPush>(PhantomData<(G, W)>);

impl<G: Gather, W: Wake> lazy::Scheme for Lazy<G, W> {
    const AT_THE_END: bool = G::AT_THE_END;
    const WAKE: WakePolicy = W::POLICY;
}

impl<G: Gather, W: Wake> sealed::Strategy for Lazy<G, W> {
    fn fold<F: Fold>(site: &Site<'_, '_>, fold: F, root: F::Node) -> F::Result {
        lazy::fold::<F, Self>(site, fold, root)
    }
}

/// A task for each node.
#[derive(Clone, Copy, Debug)]
pub struct Each<Q = PerWorker, G = OnArrival, W = EveryPush>(PhantomData<(Q, G, W)>);

impl<Q: Queue, G: Gather, W: Wake> each::Scheme for Each<Q, G, W> {
    const AT_THE_END: bool = G::AT_THE_END;
    const SHARED: bool = Q::SHARED;
    const WAKE: WakePolicy = W::POLICY;
}

impl<Q: Queue, G: Gather, W: Wake> sealed::Strategy for Each<Q, G, W> {
    fn fold<F: Fold>(site: &Site<'_, '_>, fold: F, root: F::Node) -> F::Result {
        each::fold::<F, Self>(site, fold, root)
    }
}

/// A fold with a strategy, and a pool to run on.
pub struct Plan<'a, F, S> {
    fold: &'a F,
    pool: Option<Pool>,
    strategy: PhantomData<S>,
}

impl<'a, F: Fold, S: Strategy> Plan<'a, F, S> {
    pub(super) fn new(fold: &'a F) -> Self {
        Self {
            fold,
            pool: None,
            strategy: PhantomData,
        }
    }

    /// On this pool.
    pub fn on(self, pool: &Pool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }

    /// Folds the tree below `root`.
    pub fn run(&self, root: F::Node) -> F::Result {
        match &self.pool {
            Some(pool) => pool.on_site(|site| fold_on::<F, S>(site, self.fold, root)),
            None => on_current(|site| fold_on::<F, S>(site, self.fold, root)),
        }
    }
}

fn fold_on<F: Fold, S: Strategy>(site: &Site<'_, '_>, fold: &F, root: F::Node) -> F::Result {
    let others = site.pool().threads() - usize::from(!site.is_guest());
    if others == 0 {
        return sequence::fold(fold, root);
    }
    S::fold(site, fold, root)
}

impl<F, S> fmt::Debug for Plan<'_, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("pool", &self.pool).finish()
    }
}
