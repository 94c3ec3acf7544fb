//! What is decided at compile time: when work is split off, where it is queued, when results are taken in, and who is
//! woken.

use super::{Fold, each, lazy, sequence};
use crate::{
    engine::{PerWorker, Shared, WakePolicy},
    pool::{Pool, context::WorkerContext, on_current},
};
use std::{fmt, marker::PhantomData};

/// How a fold is shared among workers: [`Lazy`] or [`Each`], or one of their presets.
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, Strategy, Tasks}};
///
/// fn count<S: Strategy>(n: u32) -> u32 {
///     fold(|n: u32| 0..n, |_| 1, |sum, child: u32| *sum += child, |sum| sum).with::<S>().run(n)
/// }
/// assert_eq!(count::<Adaptive>(8), count::<Tasks>(8));
/// ```
pub trait Strategy: sealed::Strategy {}

/// Where the tasks of [`Each`] are queued: [`PerWorker`] or [`Shared`].
pub trait Queue: sealed::Queue {}

/// When the results of children are taken in: [`OnArrival`] or [`AtTheEnd`]. In the order of the children, always.
pub trait BatchWait: sealed::BatchWait {}

/// When a sleeping worker is woken for work that was split off: at [`EveryPush`], [`OncePerBatch`] or [`EveryKth`].
///
/// In a queue for all ([`Shared`]) it makes no difference: there one is woken at a time, and wakes the next if there is more
/// to do.
pub trait Wake: sealed::Wake {}

/// Folds in sequence, and splits off siblings for others as they ask for them.
///
/// A worker goes through its part of the tree as [`Fold::sequential`] does. Every ten microseconds or so, or at each node
/// if nodes take that long, it looks whether what it has on offer was taken, and if so offers the outermost siblings
/// that it has not come to yet. When it comes to them and nobody has taken them, it takes them back. So the cost of
/// parallelism is paid when there is somebody to share with. Of nodes that take longer than that, all that can be
/// had at all is on offer, always: nobody waits for a worker that is in a node for long.
///
/// ```
/// use filch::{Fold, fold, fold::{AtTheEnd, EveryKth, Lazy}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Lazy>().run(10), 512);
/// assert_eq!(leaves.with::<Lazy<AtTheEnd, EveryKth<4>>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lazy<G = OnArrival, W = EveryPush>(PhantomData<(G, W)>);

/// A task for each node but the first of its siblings, with which the worker goes on: what seed 004 does. For nodes that
/// take microseconds each, and for those who want to know.
///
/// ```
/// use filch::{Fold, engine::{PerWorker, Shared}, fold, fold::{AtTheEnd, Each, EveryPush, OnArrival, OncePerBatch}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Each>().run(10), 512);
/// assert_eq!(leaves.with::<Each<PerWorker, AtTheEnd, EveryPush>>().run(10), 512);
/// assert_eq!(leaves.with::<Each<Shared, OnArrival, OncePerBatch>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Each<Q = PerWorker, G = OnArrival, W = EveryPush>(PhantomData<(Q, G, W)>);

/// The default: [`Lazy`], results on arrival, somebody woken for each piece.
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, Breadth, Quiet, Tasks}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.run(10), 512); // this one
/// assert_eq!(leaves.with::<Adaptive>().run(10), 512); // this one too
/// assert_eq!(leaves.with::<Quiet>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks>().run(10), 512);
/// assert_eq!(leaves.with::<Breadth>().run(10), 512);
/// ```
pub type Adaptive = Lazy<OnArrival, EveryPush>;

/// [`Lazy`] that wakes somebody at most once for each part that a worker goes through: for many small folds beside other
/// work, where the workers are asleep and had better stay so.
pub type Quiet = Lazy<OnArrival, OncePerBatch>;

/// [`Each`], with a queue for each worker: a task for each node, visible at once.
pub type Tasks = Each<PerWorker, OnArrival, EveryPush>;

/// [`Each`], with one queue for all, oldest first: a node is begun before those that were found after it.
pub type Breadth = Each<Shared, OnArrival, OncePerBatch>;

/// A child's result is accumulated as soon as those before it are.
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are kept until all children are done, and accumulated then, by one worker.
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// Each time.
#[derive(Clone, Copy, Debug)]
pub struct EveryPush;

/// The first time in each part that a worker goes through.
#[derive(Clone, Copy, Debug)]
pub struct OncePerBatch;

/// Every `K`-th time, beginning with the first.
#[derive(Clone, Copy, Debug)]
pub struct EveryKth<const K: u32>;

/// What nobody else implements.
mod sealed {
    use super::{
        AtTheEnd, EveryKth, EveryPush, Fold, OnArrival, OncePerBatch, PerWorker, Shared, WakePolicy,
    };
    use crate::pool::context::WorkerContext;

    #[expect(private_interfaces, reason = "nobody can call it, or name the trait")]
    pub trait Strategy: Send + Sync + 'static {
        fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result;
    }

    pub trait Queue: Send + Sync + 'static {
        const SHARED: bool;
    }

    pub trait BatchWait: Send + Sync + 'static {
        const AT_THE_END: bool;
    }

    pub trait Wake: Send + Sync + 'static {
        const POLICY: WakePolicy;
    }

    impl Queue for PerWorker {
        const SHARED: bool = false;
    }
    impl Queue for Shared {
        const SHARED: bool = true;
    }
    impl BatchWait for OnArrival {
        const AT_THE_END: bool = false;
    }
    impl BatchWait for AtTheEnd {
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

impl<S: sealed::Strategy> Strategy for S {}
impl<Q: sealed::Queue> Queue for Q {}
impl<G: sealed::BatchWait> BatchWait for G {}
impl<W: sealed::Wake> Wake for W {}

impl<G: BatchWait, W: Wake> lazy::Scheme for Lazy<G, W> {
    const AT_THE_END: bool = G::AT_THE_END;
    const WAKE: WakePolicy = W::POLICY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<G: BatchWait, W: Wake> sealed::Strategy for Lazy<G, W> {
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        lazy::fold::<F, Self>(context, fold, root)
    }
}

impl<Q: Queue, G: BatchWait, W: Wake> each::Scheme for Each<Q, G, W> {
    const AT_THE_END: bool = G::AT_THE_END;
    const SHARED: bool = Q::SHARED;
    const WAKE: WakePolicy = W::POLICY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<Q: Queue, G: BatchWait, W: Wake> sealed::Strategy for Each<Q, G, W> {
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        each::fold::<F, Self>(context, fold, root)
    }
}

/// A [`Fold`] with a strategy and a pool. Made by [`Fold::with`].
///
/// ```
/// use filch::{Fold, Pool, fold, fold::Tasks};
///
/// let pool = Pool::builder().workers(2).build().unwrap();
/// let leaves = fold(|n: u32| (0..n.min(4)).map(move |_| n - 4), |n| u32::from(*n == 0), |h, r| *h += r, |h| h);
/// assert_eq!(leaves.with::<Tasks>().on(&pool).run(12), 64);
/// ```
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

    /// On this pool; else it is the one that the caller works for, or the global one.
    #[must_use]
    pub fn on(self, pool: &Pool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }

    /// Folds the tree below `root`.
    ///
    /// The calling thread works on it too; one from outside becomes a worker for the time of the call.
    ///
    /// # Panics
    /// When one of the fold's functions does, after everybody has stopped: with the first panic. Others are told to the
    /// pool's [`on_panic`](crate::PoolBuilder::on_panic).
    pub fn run(&self, root: F::Node) -> F::Result {
        self.run_fold(self.fold, root)
    }

    pub(super) fn fold(&self) -> &'a F {
        self.fold
    }

    /// Runs another fold in the same way.
    pub(super) fn run_fold<G: Fold>(&self, fold: &G, root: G::Node) -> G::Result {
        match &self.pool {
            Some(pool) => pool.enter_worker(|context| fold_on::<G, S>(context, fold, root)),
            None => on_current(|context| fold_on::<G, S>(context, fold, root)),
        }
    }
}

fn fold_on<F: Fold, S: Strategy>(
    context: &WorkerContext<'_, '_>,
    fold: &F,
    root: F::Node,
) -> F::Result {
    let others = context.pool().threads() - usize::from(!context.is_guest());
    if others == 0 {
        // Nobody is there who could take anything.
        return sequence::fold(fold, root);
    }
    S::fold(context, fold, root)
}

impl<F, S> fmt::Debug for Plan<'_, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
