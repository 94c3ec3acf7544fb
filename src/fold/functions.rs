//! What a fold is: a way to reach the children, and three functions.

use super::strategy::{Plan, Strategy};
use std::{fmt, marker::PhantomData};

/// A fold over trees: how to reach the children of a node, and the three functions that make a result of it.
///
/// [`fold`] makes one of four closures, which is what most programs do. A type of your own can implement it too: for
/// a fold with a name, with settings, or one that is stored.
///
/// Everything that moves between workers must be `Send`: nodes, the iterators over children, heaps and results.
///
/// ```
/// use filch::fold::Fold;
///
/// /// How many files there are below a directory that is too large to write down: `fan` entries a level.
/// struct CountFiles {
///     fan: u32,
/// }
///
/// impl Fold for CountFiles {
///     type Node = u32; // levels that are left
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
/// assert_eq!(filch::fold::run(&CountFiles { fan: 10 }, 4), 10_000);
/// ```
pub trait Fold: Sync {
    /// A node of the tree: a reference into a borrowed one, a value of an owned one, an index into a list, or
    /// whatever a generated one is made of.
    type Node: Send;
    /// The children of a node, in their order.
    type Children: Iterator<Item = Self::Node> + Send;
    /// What a node has while its children come in.
    type Heap: Send;
    /// What becomes of a node.
    type Result: Send;

    /// The children of `node`, which is not needed any more. They are asked for one by one, when their turn comes.
    fn children(&self, node: Self::Node) -> Self::Children;

    /// A node is entered: its heap, before any of its children.
    fn init(&self, node: &Self::Node) -> Self::Heap;

    /// A child is done. Called once for each child, in the order of the children.
    fn accumulate(&self, heap: &mut Self::Heap, child: Self::Result);

    /// All children are done.
    fn finalize(&self, heap: Self::Heap) -> Self::Result;
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

/// Makes a fold of four closures: `children` gives the children of a node, `init` the node's heap, `accumulate` adds
/// the result of a child to the heap, in the order of the children, and `finalize` makes the result of the heap.
///
/// ```
/// use filch::fold;
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
/// let size = fold::fold(
///     |directory: &Directory| &directory.below,
///     |directory| directory.bytes,
///     |sum, below| *sum += below,
///     |sum| sum,
/// );
/// assert_eq!(size.run(&root), 4950);
/// assert_eq!(size.sequential(&root), 4950);
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

impl<N, C, I, A, F> Functions<N, C, I, A, F>
where
    Self: Fold,
{
    /// [`run`](super::run) with this fold.
    pub fn run(&self, root: <Self as Fold>::Node) -> <Self as Fold>::Result {
        super::run(self, root)
    }

    /// [`sequential`](super::sequential) with this fold.
    pub fn sequential(&self, root: <Self as Fold>::Node) -> <Self as Fold>::Result {
        super::sequential(self, root)
    }

    /// [`with`](super::with) this fold.
    pub fn with<S: Strategy>(&self) -> Plan<'_, Self, S> {
        super::with(self)
    }
}

impl<N, C, I, A, F> fmt::Debug for Functions<N, C, I, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Functions")
    }
}
