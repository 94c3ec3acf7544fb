//! What a fold is, and how it is run: the trait, the runner with a strategy and a pool, the memo.

use super::{
    adaptive::{CheckTimer, NodePace},
    strategy::Adaptive,
};
use crate::pool::{Pool, context::WorkerContext, on_current};
use std::{fmt, marker::PhantomData};

/// A fold over trees: how to access the children of a node, and the three functions that compute
/// its result.
///
/// [`fold`](super::fold()) makes one of four closures, which is enough for most programs. A type of
/// your own can implement it too, for a fold that has a name or settings, or that is stored.
///
/// Everything that moves between workers must be `Send`: nodes, the iterators over children,
/// accumulators and results.
///
/// ```
/// use filch::Fold;
///
/// /// The number of files below a directory: `fan` entries a level.
/// struct CountFiles {
///     fan: u32,
/// }
///
/// impl Fold for CountFiles {
///     type Node = u32; // remaining levels
///     type Children = std::iter::RepeatN<u32>;
///     type Accumulator = u64;
///     type Result = u64;
///
///     fn children(&self, levels: u32) -> Self::Children {
///         std::iter::repeat_n(levels.saturating_sub(1), if levels == 0 { 0 } else { self.fan as usize })
///     }
///     fn init(&self, levels: &u32) -> u64 {
///         u64::from(*levels == 0)
///     }
///     fn accumulate(&self, files: &mut u64, below: u64) {
///         *files += below;
///     }
///     fn finalize(&self, files: u64) -> u64 {
///         files
///     }
/// }
///
/// assert_eq!(CountFiles { fan: 10 }.run(4), 10_000);
/// ```
pub trait Fold: Sync {
    /// A node of the tree: a reference into a borrowed tree, a value of an owned one, an index into
    /// a list, or a description from which a generated tree is computed.
    type Node: Send;
    /// The children of a node, in order.
    type Children: Iterator<Item = Self::Node> + Send;
    /// The accumulator of a node.
    type Accumulator: Send;
    /// The result of a node.
    type Result: Send;

    /// The children of `node`, which is consumed. They are requested one by one, when they are
    /// needed. Children beyond the upper bound of [`size_hint`](Iterator::size_hint) may be lost.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert!(leaves.children(3).eq([0, 1, 2]));
    /// ```
    fn children(&self, node: Self::Node) -> Self::Children;

    /// Creates the accumulator of a node when it is entered, before any of its children.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!((leaves.init(&0), leaves.init(&3)), (1, 0));
    /// ```
    fn init(&self, node: &Self::Node) -> Self::Accumulator;

    /// Adds the result of a child. Called once for each child, in the order of the children.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// let mut acc = leaves.init(&3);
    /// leaves.accumulate(&mut acc, 5);
    /// assert_eq!(acc, 5);
    /// ```
    fn accumulate(&self, acc: &mut Self::Accumulator, child: Self::Result);

    /// Computes the result when all children are done.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.finalize(5), 5);
    /// ```
    fn finalize(&self, acc: Self::Accumulator) -> Self::Result;

    /// Folds the tree below `root` with the [default strategy](super::Adaptive), on the
    /// [current pool](crate::Pool#the-current-pool).
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.run(10), 512);
    /// ```
    ///
    /// # Panics
    /// As [`Runner::run`].
    fn run(&self, root: Self::Node) -> Self::Result
    where
        Self: Sized,
    {
        self.with::<Adaptive>().run(root)
    }

    /// Folds the tree below `root` on this thread, one node after the other. The result is that of
    /// [`run`](Self::run). Any depth is supported here too.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let depth = fold(|n: u32| n.checked_sub(1), |_| 0_u32, |depth, below| *depth = below + 1, |depth| depth);
    /// assert_eq!(depth.sequential(1_000_000), 1_000_000);
    /// ```
    fn sequential(&self, root: Self::Node) -> Self::Result
    where
        Self: Sized,
    {
        fold_sequentially::<Self, false>(self, root, &mut || 0)
    }

    /// Selects a [strategy](super#which-strategy) for this fold; a pool can be selected on the
    /// result.
    ///
    /// ```
    /// use filch::{Fold, fold, fold::Tasks};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.with::<Tasks>().run(10), 512);
    /// ```
    fn with<S: FoldStrategy>(&self) -> Runner<'_, Self, S>
    where
        Self: Sized,
    {
        Runner::new(self)
    }

    /// Folds a graph in which a node may be the child of several: each is folded once. Nodes with
    /// the same `key` are the same.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// // The Fibonacci numbers by naive recursion, which would take 2^100 steps without the memo.
    /// let fibonacci = fold(
    ///     |n: u32| if n < 2 { vec![] } else { vec![n - 1, n - 2] },
    ///     |n| u128::from(*n == 1),
    ///     |sum, child| *sum += child,
    ///     |sum| sum,
    /// );
    /// assert_eq!(fibonacci.memo(|n| *n).run(150), Ok(9_969_216_677_189_303_386_214_405_760_200));
    /// ```
    ///
    /// A graph with a cycle is refused, with the nodes that are on it:
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let edges = [vec![1], vec![2, 3], vec![1], vec![]];
    /// let edges = &edges;
    /// let count = fold(|i: usize| edges[i].iter().copied(), |_| 1, |sum, child: u32| *sum += child, |sum| sum);
    /// let error = count.memo(|i| *i).run(0).unwrap_err();
    /// assert_eq!(error.keys(), [1, 2]);
    /// ```
    fn memo<K, Q>(&self, key: Q) -> Memo<'_, Self, Q>
    where
        Self: Sized,
        Q: Fn(&Self::Node) -> K,
    {
        Memo::new(self, key)
    }
}

impl<F: Fold + ?Sized> Fold for &F {
    type Node = F::Node;
    type Children = F::Children;
    type Accumulator = F::Accumulator;
    type Result = F::Result;

    #[inline]
    fn children(&self, node: F::Node) -> F::Children {
        (**self).children(node)
    }

    #[inline]
    fn init(&self, node: &F::Node) -> F::Accumulator {
        (**self).init(node)
    }

    #[inline]
    fn accumulate(&self, acc: &mut F::Accumulator, child: F::Result) {
        (**self).accumulate(acc, child);
    }

    #[inline]
    fn finalize(&self, acc: F::Accumulator) -> F::Result {
        (**self).finalize(acc)
    }
}

/// How a fold is distributed to workers: [`Adaptive`], [`FewWakes`](super::FewWakes), which is a
/// variant of it, or [`Tasks`](super::Tasks).
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
    note = "strategies are `Adaptive`, the default, `FewWakes`, and `Tasks` with a queue strategy"
)]
pub trait FoldStrategy: sealed::ExecuteFold {}

/// A trait that is not implemented outside of this module.
pub(super) mod sealed {
    use super::{Fold, WorkerContext};

    #[expect(private_interfaces, reason = "the trait cannot be named outside")]
    pub trait ExecuteFold: Send + Sync + 'static {
        fn fold<F: Fold>(context: &WorkerContext<'_, '_>, fold: F, root: F::Node) -> F::Result;
    }
}

impl<S: sealed::ExecuteFold> FoldStrategy for S {}

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
    fn new(fold: &'a F) -> Self {
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
    /// use filch::{Fold, fold, fold::FewWakes};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.with::<FewWakes>().run(10), 512);
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
    let others = context.pool().live_workers() - usize::from(!context.is_temporary());
    if others == 0 {
        // There is no other worker to share with.
        let (mut timer, pace) = (CheckTimer::new(), NodePace::unknown());
        return fold_sequentially::<F, true>(fold, root, &mut || {
            timer.check(&pace, 0, 0, 0);
            if context.leaf_checkpoint() {
                timer.restart();
            }
            timer.left()
        });
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

/// A [`Fold`] over a graph with shared nodes: each is folded once, and its result is cloned for
/// each of its parents. Made by [`Fold::memo`].
///
/// ```
/// use filch::{Fold, Pool, fold};
///
/// let pool = Pool::builder().workers(2).build().unwrap();
/// let edges = &[vec![1, 2], vec![3], vec![3], vec![]]; // 3 is a child of 1 and of 2
/// let paths = fold(|i: usize| edges[i].iter().copied(), |i| u32::from(*i == 3), |sum, child| *sum += child, |sum| sum);
/// assert_eq!(paths.memo(|i| *i).on(&pool).run(0), Ok(2));
/// ```
pub struct Memo<'a, F, Q> {
    pub(super) fold: &'a F,
    pub(super) key: Q,
    pub(super) pool: Option<Pool>,
}

impl<'a, F, Q> Memo<'a, F, Q> {
    fn new(fold: &'a F, key: Q) -> Self {
        Self {
            fold,
            key,
            pool: None,
        }
    }
}

/// Folds the tree below `root` sequentially. The open nodes are on the heap, so any depth is
/// supported. If `CHECKED`, `check` is called first, and then whenever as many nodes as it has
/// returned are folded: some 0.2 ns for each node.
fn fold_sequentially<F: Fold, const CHECKED: bool>(
    fold: &F,
    root: F::Node,
    check: &mut dyn FnMut() -> u32,
) -> F::Result {
    let mut left = check();
    let mut acc = fold.init(&root);
    let mut children = fold.children(root);
    let mut open: Vec<(F::Accumulator, F::Children)> = Vec::new();
    let mut next = children.next();
    loop {
        let Some(child) = next else {
            let result = fold.finalize(acc);
            let Some((above, rest)) = open.pop() else {
                return result;
            };
            (acc, children) = (above, rest);
            fold.accumulate(&mut acc, result);
            next = children.next();
            continue;
        };
        if CHECKED {
            left -= 1;
            if left == 0 {
                left = check();
            }
        }
        let inner = fold.init(&child);
        let mut below = fold.children(child);
        match below.next() {
            // A leaf is not opened.
            None => {
                fold.accumulate(&mut acc, fold.finalize(inner));
                next = children.next();
            }
            grandchild => {
                open.push((acc, children));
                (acc, children) = (inner, below);
                next = grandchild;
            }
        }
    }
}
