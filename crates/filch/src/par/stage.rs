//! The lazy steps of a loop: what happens to an item between its source and the end of the loop.
//!
//! A [`Loop`](super::Loop) has a source, which is split, and a stage, which is not: every worker
//! applies the same stage, by reference, to the iterator of each block. So `map` and its like cost
//! what they cost in a sequential iterator, and their closures need not be cloned.
//!
//! Stages that map items one by one are [`ItemStage`]s. After them the items still have indices,
//! so the loop can be zipped, enumerated, reversed and cut.

use super::output::extend_wanted;
use crate::sync::WorkerLocal;

/// The lazy steps of a loop, applied to the iterator of each block. Sealed: use the methods of
/// [`Loop`](super::Loop).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a step of a parallel loop over `{T}`",
    note = "steps are created by `map`, `filter` and the other methods of a loop"
)]
pub trait LoopStage<T>: Sync + sealed::Sealed {
    /// The type of the items after it.
    type Out;

    /// Whether it passes on as many items as it gets.
    #[doc(hidden)]
    const EXACT: bool = false;

    /// Applies it to the items of a block, which begins at index `at` of the source.
    #[doc(hidden)]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = Self::Out>;

    /// Appends what it makes of a block to `output`.
    #[doc(hidden)]
    #[inline]
    fn extend<I: Iterator<Item = T>>(&self, at: usize, items: I, output: &mut Vec<Self::Out>) {
        output.extend(self.apply(at, items));
    }

    /// Whether the items of the source from `at` on are no longer needed.
    #[doc(hidden)]
    #[inline]
    fn should_stop_at(&self, _at: usize) -> bool {
        false
    }

    /// Records that the items of the source after the block at `at` are not needed.
    #[doc(hidden)]
    #[inline]
    fn end_at(&self, _at: usize) {}
}

/// A stage that makes one item of each.
#[diagnostic::on_unimplemented(
    message = "the items of this loop have no indices: `filter`, `filter_map`, `flat_map` or `map_init` comes before",
    label = "needs the index of each item",
    note = "call it before `filter` and the like, or collect the items into a vector first"
)]
pub trait ItemStage<T>: LoopStage<T> {
    /// What it makes of one item.
    #[doc(hidden)]
    fn apply_one(&self, item: T) -> Self::Out;
}

/// The end of a stage that does not end by itself: that of the one before it.
macro_rules! ends_with_its_predecessor {
    () => {
        #[inline]
        fn should_stop_at(&self, at: usize) -> bool {
            self.before.should_stop_at(at)
        }

        #[inline]
        fn end_at(&self, at: usize) {
            self.before.end_at(at);
        }
    };
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// No step: passes on the items of the source.
#[derive(Clone, Copy, Debug)]
pub struct Identity;

impl sealed::Sealed for Identity {}

impl<T> LoopStage<T> for Identity {
    type Out = T;
    const EXACT: bool = true;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, _at: usize, items: I) -> impl Iterator<Item = T> {
        items
    }
}

impl<T> ItemStage<T> for Identity {
    #[inline]
    fn apply_one(&self, item: T) -> T {
        item
    }
}

/// The results of a function; from [`Loop::map`](super::Loop::map).
#[derive(Clone, Copy, Debug)]
pub struct Map<S, F> {
    pub(super) before: S,
    pub(super) f: F,
}

impl<S, F> sealed::Sealed for Map<S, F> {}

impl<T, R, S: LoopStage<T>, F: Fn(S::Out) -> R + Sync> LoopStage<T> for Map<S, F> {
    type Out = R;
    const EXACT: bool = S::EXACT;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = R> {
        self.before.apply(at, items).map(&self.f)
    }

    ends_with_its_predecessor!();
}

impl<T, R, S: ItemStage<T>, F: Fn(S::Out) -> R + Sync> ItemStage<T> for Map<S, F> {
    #[inline]
    fn apply_one(&self, item: T) -> R {
        (self.f)(self.before.apply_one(item))
    }
}

/// Items that a function has seen; from [`Loop::inspect`](super::Loop::inspect).
#[derive(Clone, Copy, Debug)]
pub struct Inspect<S, F> {
    pub(super) before: S,
    pub(super) f: F,
}

impl<S, F> sealed::Sealed for Inspect<S, F> {}

impl<T, S: LoopStage<T>, F: Fn(&S::Out) + Sync> LoopStage<T> for Inspect<S, F> {
    type Out = S::Out;
    const EXACT: bool = S::EXACT;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = S::Out> {
        self.before.apply(at, items).inspect(&self.f)
    }

    ends_with_its_predecessor!();
}

impl<T, S: ItemStage<T>, F: Fn(&S::Out) + Sync> ItemStage<T> for Inspect<S, F> {
    #[inline]
    fn apply_one(&self, item: T) -> S::Out {
        let item = self.before.apply_one(item);
        (self.f)(&item);
        item
    }
}

/// Clones of references; from [`Loop::cloned`](super::Loop::cloned) and
/// [`Loop::copied`](super::Loop::copied).
#[derive(Clone, Copy, Debug)]
pub struct Cloned<S> {
    pub(super) before: S,
}

impl<S> sealed::Sealed for Cloned<S> {}

impl<'t, T, U: Clone + 't, S: LoopStage<T, Out = &'t U>> LoopStage<T> for Cloned<S> {
    type Out = U;
    const EXACT: bool = S::EXACT;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = U> {
        self.before.apply(at, items).cloned()
    }

    ends_with_its_predecessor!();
}

impl<'t, T, U: Clone + 't, S: ItemStage<T, Out = &'t U>> ItemStage<T> for Cloned<S> {
    #[inline]
    fn apply_one(&self, item: T) -> U {
        self.before.apply_one(item).clone()
    }
}

/// The items that satisfy a condition; from [`Loop::filter`](super::Loop::filter).
#[derive(Clone, Copy, Debug)]
pub struct Filter<S, F> {
    pub(super) before: S,
    pub(super) wanted: F,
}

impl<S, F> sealed::Sealed for Filter<S, F> {}

impl<T, S: LoopStage<T>, F: Fn(&S::Out) -> bool + Sync> LoopStage<T> for Filter<S, F> {
    type Out = S::Out;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = S::Out> {
        self.before.apply(at, items).filter(&self.wanted)
    }

    #[inline]
    fn extend<I: Iterator<Item = T>>(&self, at: usize, items: I, output: &mut Vec<S::Out>) {
        extend_wanted(self.before.apply(at, items), &self.wanted, output);
    }

    ends_with_its_predecessor!();
}

/// The results that are `Some`; from [`Loop::filter_map`](super::Loop::filter_map).
#[derive(Clone, Copy, Debug)]
pub struct FilterMap<S, F> {
    pub(super) before: S,
    pub(super) f: F,
}

impl<S, F> sealed::Sealed for FilterMap<S, F> {}

impl<T, R, S: LoopStage<T>, F: Fn(S::Out) -> Option<R> + Sync> LoopStage<T> for FilterMap<S, F> {
    type Out = R;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = R> {
        self.before.apply(at, items).filter_map(&self.f)
    }

    ends_with_its_predecessor!();
}

/// The items of the results; from [`Loop::flat_map`](super::Loop::flat_map).
#[derive(Clone, Copy, Debug)]
pub struct FlatMap<S, F> {
    pub(super) before: S,
    pub(super) f: F,
}

impl<S, F> sealed::Sealed for FlatMap<S, F> {}

impl<T, R, S, F> LoopStage<T> for FlatMap<S, F>
where
    R: IntoIterator,
    S: LoopStage<T>,
    F: Fn(S::Out) -> R + Sync,
{
    type Out = R::Item;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = R::Item> {
        self.before.apply(at, items).flat_map(&self.f)
    }

    ends_with_its_predecessor!();
}

/// The results of a function with a scratch value; from
/// [`Loop::map_init`](super::Loop::map_init).
#[derive(Debug)]
pub struct MapInit<S, W, N, F> {
    pub(super) before: S,
    pub(super) scratch: WorkerLocal<W>,
    pub(super) init: N,
    pub(super) f: F,
}

impl<S, W, N, F> sealed::Sealed for MapInit<S, W, N, F> {}

impl<T, R, S, W, N, F> LoopStage<T> for MapInit<S, W, N, F>
where
    S: LoopStage<T>,
    W: Send,
    N: Fn() -> W + Sync,
    F: Fn(&mut W, S::Out) -> R + Sync,
{
    type Out = R;
    const EXACT: bool = S::EXACT;

    #[inline]
    fn apply<I: Iterator<Item = T>>(&self, at: usize, items: I) -> impl Iterator<Item = R> {
        let mut scratch = self.scratch.borrow_or_init(&self.init);
        let items = self.before.apply(at, items);
        items.map(move |item| (self.f)(&mut scratch, item))
    }

    ends_with_its_predecessor!();
}

/// Applies `S` to the items of pairs of an index and an item; from
/// [`Loop::enumerate`](super::Loop::enumerate).
#[derive(Clone, Copy, Debug)]
pub struct EnumerateStage<S>(pub(super) S);

impl<S> sealed::Sealed for EnumerateStage<S> {}

impl<T, S: ItemStage<T>> LoopStage<(usize, T)> for EnumerateStage<S> {
    type Out = (usize, S::Out);
    const EXACT: bool = true;

    #[inline]
    fn apply<I>(&self, _at: usize, items: I) -> impl Iterator<Item = Self::Out>
    where
        I: Iterator<Item = (usize, T)>,
    {
        items.map(|item| self.apply_one(item))
    }
}

impl<T, S: ItemStage<T>> ItemStage<(usize, T)> for EnumerateStage<S> {
    #[inline]
    fn apply_one(&self, (index, item): (usize, T)) -> (usize, S::Out) {
        (index, self.0.apply_one(item))
    }
}

/// The stages of two loops, whose items are pairs; from [`Loop::zip`](super::Loop::zip).
#[derive(Clone, Copy, Debug)]
pub struct ZipStage<A, B>(pub(super) A, pub(super) B);

impl<A, B> sealed::Sealed for ZipStage<A, B> {}

impl<T, U, A: ItemStage<T>, B: ItemStage<U>> LoopStage<(T, U)> for ZipStage<A, B> {
    type Out = (A::Out, B::Out);
    const EXACT: bool = true;

    #[inline]
    fn apply<I>(&self, _at: usize, items: I) -> impl Iterator<Item = Self::Out>
    where
        I: Iterator<Item = (T, U)>,
    {
        items.map(|item| self.apply_one(item))
    }
}

impl<T, U, A: ItemStage<T>, B: ItemStage<U>> ItemStage<(T, U)> for ZipStage<A, B> {
    #[inline]
    fn apply_one(&self, (left, right): (T, U)) -> (A::Out, B::Out) {
        (self.0.apply_one(left), self.1.apply_one(right))
    }
}

/// An item of one of two sources that are chained.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

/// The stages of two loops, one after the other; from [`Loop::chain`](super::Loop::chain).
#[derive(Clone, Copy, Debug)]
pub struct ChainStage<A, B>(pub(super) A, pub(super) B);

impl<A, B> sealed::Sealed for ChainStage<A, B> {}

impl<T, U, A, B> LoopStage<Either<T, U>> for ChainStage<A, B>
where
    A: ItemStage<T>,
    B: ItemStage<U, Out = A::Out>,
{
    type Out = A::Out;
    const EXACT: bool = true;

    #[inline]
    fn apply<I>(&self, _at: usize, items: I) -> impl Iterator<Item = A::Out>
    where
        I: Iterator<Item = Either<T, U>>,
    {
        items.map(|item| self.apply_one(item))
    }
}

impl<T, U, A, B> ItemStage<Either<T, U>> for ChainStage<A, B>
where
    A: ItemStage<T>,
    B: ItemStage<U, Out = A::Out>,
{
    #[inline]
    fn apply_one(&self, item: Either<T, U>) -> A::Out {
        match item {
            Either::First(item) => self.0.apply_one(item),
            Either::Second(item) => self.1.apply_one(item),
        }
    }
}
