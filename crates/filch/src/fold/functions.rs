//! The fold trait: an access to the children, and three functions.

use super::{
    memo::Memo,
    sequence,
    strategy::{Adaptive, FoldStrategy, Runner},
};
use std::{fmt, marker::PhantomData};

/// A fold over trees: how to access the children of a node, and the three functions that compute
/// its result.
///
/// [`fold`] makes one of four closures, which is enough for most programs. A type of your own can
/// implement it too, for a fold that has a name or settings, or that is stored.
///
/// Everything that moves between workers must be `Send`: nodes, the iterators over children, heaps
/// and results.
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
///     type Heap = u64;
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
    type Heap: Send;
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

    /// Creates the heap of a node when it is entered, before any of its children.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!((leaves.init(&0), leaves.init(&3)), (1, 0));
    /// ```
    fn init(&self, node: &Self::Node) -> Self::Heap;

    /// Adds the result of a child. Called once for each child, in the order of the children.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// let mut heap = leaves.init(&3);
    /// leaves.accumulate(&mut heap, 5);
    /// assert_eq!(heap, 5);
    /// ```
    fn accumulate(&self, heap: &mut Self::Heap, child: Self::Result);

    /// Computes the result when all children are done.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let leaves = fold(|n: u32| 0..n, |n| u32::from(*n == 0), |sum, child| *sum += child, |sum| sum);
    /// assert_eq!(leaves.finalize(5), 5);
    /// ```
    fn finalize(&self, heap: Self::Heap) -> Self::Result;

    /// Folds the tree below `root` with the [default strategy](super::Adaptive), on the caller's
    /// pool if it is a worker, else on the global one.
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
        sequence::fold(self, root)
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
    /// // The Fibonacci numbers by naive recursion, which would not end without the memo.
    /// let fibonacci = fold(
    ///     |n: u32| if n < 2 { vec![] } else { vec![n - 1, n - 2] },
    ///     |n| u128::from(*n % 2 * u32::from(*n < 2)),
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
    type Heap = F::Heap;
    type Result = F::Result;

    #[inline]
    fn children(&self, node: F::Node) -> F::Children {
        (**self).children(node)
    }

    #[inline]
    fn init(&self, node: &F::Node) -> F::Heap {
        (**self).init(node)
    }

    #[inline]
    fn accumulate(&self, heap: &mut F::Heap, child: F::Result) {
        (**self).accumulate(heap, child);
    }

    #[inline]
    fn finalize(&self, heap: F::Heap) -> F::Result {
        (**self).finalize(heap)
    }
}

/// A [`Fold`] of four closures, made by [`fold`].
pub struct Functions<N, C, I, A, F> {
    children: C,
    init: I,
    accumulate: A,
    finalize: F,
    node: PhantomData<fn(N)>,
}

/// Makes a fold of four closures: `children` returns the children of a node, `init` the node's
/// heap, `accumulate` adds the result of a child to the heap, in the order of the children, and
/// `finalize` converts the heap to the result.
///
/// ```
/// use filch::{Fold, fold};
///
/// struct Directory {
///     bytes: u64,
///     below: Vec<Directory>,
/// }
///
/// let root = Directory {
///     bytes: 1,
///     below: (2..100).map(|bytes| Directory { bytes, below: vec![] }).collect(),
/// };
/// let size = fold(
///     |directory: &Directory| &directory.below,
///     |directory| directory.bytes,
///     |sum, below| *sum += below,
///     |sum| sum,
/// );
/// assert_eq!(size.run(&root), 4950);
/// assert_eq!(size.sequential(&root), 4950);
/// ```
///
/// Nodes, heaps and results move between workers, so they must be `Send`. A heap that is not is
/// rejected:
///
/// ```compile_fail
/// use filch::{Fold, fold};
/// use std::rc::Rc;
///
/// let count = fold(|n: u32| 0..n, |_| Rc::new(1), |_, _: u32| (), |heap| *heap);
/// count.run(3);
/// ```
///
/// and so is a node:
///
/// ```compile_fail
/// use filch::{Fold, fold};
/// use std::rc::Rc;
///
/// let count = fold(|n: Rc<u32>| (0..*n).map(Rc::new), |_| 1, |sum, child: u32| *sum += child, |sum| sum);
/// count.run(Rc::new(3));
/// ```
///
/// and a result that is not `Send`, and a function that is not `Sync`:
///
/// ```compile_fail
/// use filch::{Fold, fold};
/// use std::rc::Rc;
///
/// let count = fold(|n: u32| 0..n, |_| 1, |sum, child: Rc<u32>| *sum += *child, Rc::new);
/// count.run(3);
/// ```
///
/// ```compile_fail
/// use filch::{Fold, fold};
/// use std::cell::Cell;
///
/// let calls = Cell::new(0);
/// let count = fold(|n: u32| 0..n, |_| calls.set(calls.get() + 1), |(), ()| (), |()| ());
/// count.run(3);
/// ```
pub fn fold<N, K, H, R, C, I, A, F>(
    children: C,
    init: I,
    accumulate: A,
    finalize: F,
) -> Functions<N, C, I, A, F>
where
    K: IntoIterator<Item = N>,
    C: Fn(N) -> K,
    I: Fn(&N) -> H,
    A: Fn(&mut H, R),
    F: Fn(H) -> R,
{
    Functions {
        children,
        init,
        accumulate,
        finalize,
        node: PhantomData,
    }
}

impl<N, K, H, R, C, I, A, F> Fold for Functions<N, C, I, A, F>
where
    N: Send,
    K: IntoIterator<Item = N, IntoIter: Send>,
    H: Send,
    R: Send,
    C: Fn(N) -> K + Sync,
    I: Fn(&N) -> H + Sync,
    A: Fn(&mut H, R) + Sync,
    F: Fn(H) -> R + Sync,
{
    type Node = N;
    type Children = K::IntoIter;
    type Heap = H;
    type Result = R;

    #[inline(always)]
    fn children(&self, node: N) -> K::IntoIter {
        (self.children)(node).into_iter()
    }

    #[inline(always)]
    fn init(&self, node: &N) -> H {
        (self.init)(node)
    }

    #[inline(always)]
    fn accumulate(&self, heap: &mut H, child: R) {
        (self.accumulate)(heap, child);
    }

    #[inline(always)]
    fn finalize(&self, heap: H) -> R {
        (self.finalize)(heap)
    }
}

impl<N, C, I, A, F> fmt::Debug for Functions<N, C, I, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Functions")
    }
}
