//! Folds that are made of four closures.

use super::definition::Fold;
use std::{fmt, marker::PhantomData};

/// A [`Fold`] of four closures, made by [`fold`].
pub struct Functions<N, C, I, A, F> {
    children: C,
    init: I,
    accumulate: A,
    finalize: F,
    node: PhantomData<fn(N)>,
}

/// Makes a fold of four closures: `children` returns the children of a node, `init` the node's
/// accumulator, `accumulate` adds the result of a child to the accumulator, in the order of the
/// children, and `finalize` converts the accumulator to the result.
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
/// Nodes, accumulators and results move between workers, so they must be `Send`. An accumulator
/// that is not is rejected:
///
/// ```compile_fail
/// use filch::{Fold, fold};
/// use std::rc::Rc;
///
/// let count = fold(|n: u32| 0..n, |_| Rc::new(1), |_, _: u32| (), |acc| *acc);
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
    type Accumulator = H;
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
    fn accumulate(&self, acc: &mut H, child: R) {
        (self.accumulate)(acc, child);
    }

    #[inline(always)]
    fn finalize(&self, acc: H) -> R {
        (self.finalize)(acc)
    }
}

impl<N, C, I, A, F> fmt::Debug for Functions<N, C, I, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Functions")
    }
}
