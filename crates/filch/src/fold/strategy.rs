//! The compile-time choices: when work is split off, where it is queued, when results are
//! accumulated, and when workers are woken.

use super::{Fold, each, lazy, sequence};
use crate::{
    engine::PerWorker,
    pool::{Pool, context::WorkerContext, on_current},
};
use std::{fmt, marker::PhantomData};

/// How a fold is distributed to workers: [`Adaptive`] or [`Tasks`].
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, FoldStrategy, Tasks}};
///
/// fn count<S: FoldStrategy>(n: u32) -> u32 {
///     fold(|n: u32| 0..n, |_| 1, |sum, child: u32| *sum += child, |sum| sum).with::<S>().run(n)
/// }
/// assert_eq!(count::<Adaptive>(8), count::<Tasks>(8));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a strategy of folds",
    note = "strategies are `Adaptive`, the default, `Quiet`, `Tasks` and `Tasks<Shared>`"
)]
pub trait FoldStrategy: sealed::FoldStrategy {}

/// The default: folds sequentially, and splits off siblings on demand.
///
/// A worker traverses its part of the tree as [`Fold::sequential`] does. Every ten microseconds or
/// so, or at each node if nodes take that long, it checks whether its offered siblings were stolen,
/// and if so offers the outermost siblings that it has not reached yet. When it reaches siblings
/// that were not stolen, it takes them back. So the cost of parallelism is paid only when other
/// workers are idle. If nodes take longer than that, all available siblings are always on offer, so
/// that no worker idles while another one is in a long node.
///
/// `A` is when the results of children are accumulated: [`OnArrival`] or [`AtTheEnd`]. A sleeping
/// worker is woken at every `WAKE_EVERY`-th offer; with 0 at the first offer of each part that a
/// worker traverses.
///
/// ```
/// use filch::{Fold, fold, fold::{Adaptive, AtTheEnd}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.run(10), 512);
/// assert_eq!(leaves.with::<Adaptive>().run(10), 512); // the same
/// assert_eq!(leaves.with::<Adaptive<AtTheEnd, 4>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adaptive<A = OnArrival, const WAKE_EVERY: u32 = 1>(PhantomData<A>);

/// [`Adaptive`] that wakes at most one worker for each part that a worker traverses: for many small
/// folds beside other work, where sleeping workers should not be woken.
///
/// ```
/// use filch::{Fold, fold, fold::Quiet};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Quiet>().run(10), 512);
/// ```
pub type Quiet = Adaptive<OnArrival, 0>;

/// A task for each node except the first of its siblings, with which the worker continues. For
/// nodes that take microseconds each, and for comparisons.
///
/// `Q` is where the tasks are queued: [`PerWorker`], where the newest is run first and the oldest
/// is stolen, or [`Shared`](crate::engine::Shared), one FIFO queue for all workers, so that a node
/// is begun before those that were found after it. `A` is when the results of children are
/// accumulated: [`OnArrival`] or [`AtTheEnd`].
///
/// A sleeping worker is woken at every `WAKE_EVERY`-th task that is queued; with 0 at the first one
/// of each task. It has no effect on a shared queue: there one worker is woken at a time, and wakes
/// the next if there is more to do.
///
/// ```
/// use filch::{Fold, engine::{PerWorker, Shared}, fold, fold::{AtTheEnd, Tasks}};
///
/// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(leaves.with::<Tasks>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<Shared>>().run(10), 512);
/// assert_eq!(leaves.with::<Tasks<PerWorker, AtTheEnd>>().run(10), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tasks<Q = PerWorker, A = OnArrival, const WAKE_EVERY: u32 = 1>(PhantomData<(Q, A)>);

/// A child's result is accumulated as soon as those before it are. See [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct OnArrival;

/// Results are stored until all children are done, and accumulated then, by one worker. See
/// [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct AtTheEnd;

/// Traits that are not implemented outside of this module.
mod sealed {
    use super::{AtTheEnd, Fold, OnArrival, PerWorker};
    use crate::{engine::Shared, pool::context::WorkerContext};

    #[expect(private_interfaces, reason = "the trait cannot be named outside")]
    pub trait FoldStrategy: Send + Sync + 'static {
        fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a queue for the tasks of a fold",
        note = "use `filch::engine::PerWorker` or `filch::engine::Shared`"
    )]
    pub trait TaskQueue: Send + Sync + 'static {
        const SHARED: bool;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not say when a fold accumulates results",
        note = "use `filch::fold::OnArrival` or `filch::fold::AtTheEnd`"
    )]
    pub trait Accumulation: Send + Sync + 'static {
        const AT_THE_END: bool;
    }

    impl TaskQueue for PerWorker {
        const SHARED: bool = false;
    }
    impl TaskQueue for Shared {
        const SHARED: bool = true;
    }
    impl Accumulation for OnArrival {
        const AT_THE_END: bool = false;
    }
    impl Accumulation for AtTheEnd {
        const AT_THE_END: bool = true;
    }
}

impl<S: sealed::FoldStrategy> FoldStrategy for S {}

impl<A: sealed::Accumulation, const WAKE_EVERY: u32> lazy::LazyScheme for Adaptive<A, WAKE_EVERY> {
    const AT_THE_END: bool = A::AT_THE_END;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<A: sealed::Accumulation, const WAKE_EVERY: u32> sealed::FoldStrategy
    for Adaptive<A, WAKE_EVERY>
{
    fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result {
        lazy::fold::<F, Self>(context, fold, root)
    }
}

impl<Q: sealed::TaskQueue, A: sealed::Accumulation, const WAKE_EVERY: u32> each::EachScheme
    for Tasks<Q, A, WAKE_EVERY>
{
    const AT_THE_END: bool = A::AT_THE_END;
    const SHARED: bool = Q::SHARED;
    const WAKE_EVERY: u32 = WAKE_EVERY;
}

#[expect(private_interfaces, reason = "as in the trait")]
impl<Q: sealed::TaskQueue, A: sealed::Accumulation, const WAKE_EVERY: u32> sealed::FoldStrategy
    for Tasks<Q, A, WAKE_EVERY>
{
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

impl<'a, F: Fold, S: FoldStrategy> Runner<'a, F, S> {
    pub(super) fn new(fold: &'a F) -> Self {
        Self {
            fold,
            pool: None,
            strategy: PhantomData,
        }
    }

    /// Runs it on this pool. The default is the caller's pool if it is a worker, else the global
    /// one.
    ///
    /// ```
    /// use filch::{Fold, Pool, fold, fold::Adaptive};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// let pool = Pool::builder().workers(2).build()?;
    /// assert_eq!(leaves.with::<Adaptive>().on(&pool).run(10), 512);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
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
    /// ```
    /// use filch::{Fold, fold, fold::Quiet};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.with::<Quiet>().run(10), 512);
    /// ```
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

fn fold_on<F: Fold, S: FoldStrategy>(
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
