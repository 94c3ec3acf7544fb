//! The compile-time choices: when work is split off, where it is queued, when results are
//! accumulated, and when workers are woken.

use super::{Fold, each, lazy, sequence};
use crate::{
    engine::{PerWorker, Shared, WakePolicy},
    pool::{Pool, context::WorkerContext, on_current},
};
use std::{fmt, marker::PhantomData};

/// How a fold is distributed to workers: [`Lazy`] or [`Each`], or one of their presets.
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

/// When the results of children are accumulated: [`OnArrival`] or [`AtTheEnd`]. Always in the order
/// of the children.
pub trait BatchWait: sealed::BatchWait {}

/// When a sleeping worker is woken for work that was split off: [`EveryPush`], [`OncePerBatch`] or
/// [`EveryKth`].
///
/// It has no effect on one queue for all workers ([`Shared`]): there one worker is woken at a time,
/// and wakes the next if there is more to do.
pub trait Wake: sealed::Wake {}

/// Folds sequentially, and splits off siblings on demand.
///
/// A worker traverses its part of the tree as [`Fold::sequential`] does. Every ten microseconds or
/// so, or at each node if nodes take that long, it checks whether its offered siblings were stolen,
/// and if so offers the outermost siblings that it has not reached yet. When it reaches siblings
/// that were not stolen, it takes them back. So the cost of parallelism is paid only when other
/// workers are idle. If nodes take longer than that, all available siblings are always on offer, so
/// that no worker idles while another one is in a long node.
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

/// A task for each node except the first of its siblings, with which the worker continues. For
/// nodes that take microseconds each, and for comparisons.
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

/// The default: [`Lazy`], with results accumulated on arrival and a worker woken for each offered
/// piece.
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, Breadth, Quiet, Tasks}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.run(10), 512); // the default
/// assert_eq!(leaves.with::<Adaptive>().run(10), 512); // the same
/// assert_eq!(leaves.with::<Quiet>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks>().run(10), 512);
/// assert_eq!(leaves.with::<Breadth>().run(10), 512);
/// ```
pub type Adaptive = Lazy<OnArrival, EveryPush>;

/// [`Lazy`] that wakes at most one worker for each part that a worker traverses: for many small
/// folds beside other work, where sleeping workers should not be woken.
pub type Quiet = Lazy<OnArrival, OncePerBatch>;

/// [`Each`], with a queue for each worker: a task for each node, which can be stolen at once.
pub type Tasks = Each<PerWorker, OnArrival, EveryPush>;

/// [`Each`], with one FIFO queue for all workers: a node is begun before those that were found
/// after it.
pub type Breadth = Each<Shared, OnArrival, OncePerBatch>;

/// A child's result is accumulated as soon as those before it are.
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are stored until all children are done, and accumulated then, by one worker.
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// At each push.
#[derive(Clone, Copy, Debug)]
pub struct EveryPush;

/// At the first push in each part that a worker traverses.
#[derive(Clone, Copy, Debug)]
pub struct OncePerBatch;

/// At every `K`-th push, beginning with the first.
#[derive(Clone, Copy, Debug)]
pub struct EveryKth<const K: u32>;

/// Prevents implementations outside of this module.
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
pub struct Runner<'a, F, S> {
    fold: &'a F,
    pool: Option<Pool>,
    strategy: PhantomData<S>,
}

impl<'a, F: Fold, S: Strategy> Runner<'a, F, S> {
    pub(super) fn new(fold: &'a F) -> Self {
        Self {
            fold,
            pool: None,
            strategy: PhantomData,
        }
    }

    /// Runs it on this pool. The default is the caller's pool if it is a worker, else the global
    /// one.
    #[must_use]
    pub fn on(self, pool: &Pool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }

    /// Folds the tree below `root`.
    ///
    /// The calling thread takes part; a thread from outside becomes a worker for the duration of
    /// the call.
    ///
    /// # Panics
    /// If one of the fold's functions does, after all workers have stopped: with the first panic.
    /// Others are passed to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
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
        // There is no other worker to share with.
        return sequence::fold(fold, root);
    }
    S::fold(context, fold, root)
}

impl<F, S> fmt::Debug for Runner<'_, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
