//! Collections of the items of a loop.

use super::{
    drive::{self, Block, FnSink, ItemSink},
    first_error::{FirstError, WhileOk},
    output::{self, Filled, WithOutput},
    over::{Loop, Mode},
    producer::Producer,
    stage::{LoopStage, Map},
};
use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque},
    hash::{BuildHasher, Hash},
};

/// What the items of a loop can be [collected](Loop::collect) into.
///
/// ```
/// use filch::prelude::*;
/// use std::collections::{BTreeSet, HashMap};
///
/// let words = ["to", "steal", "small", "things"];
/// let vector: Vec<usize> = words.par().map(|word| word.len()).collect();
/// let set: BTreeSet<usize> = words.par().map(|word| word.len()).collect();
/// let lengths: HashMap<&str, usize> = words.par().map(|word| (*word, word.len())).collect();
/// let text: String = words.par().copied().collect();
/// assert_eq!((vector[1], set.len(), lengths["small"], text.len()), (5, 3, 5, 18));
///
/// let numbers: Result<Vec<u8>, _> = ["1", "2", "x", "y"].par().map(|word| word.parse()).collect();
/// assert_eq!(numbers.err(), "x".parse::<u8>().err());    // the first error, in order
/// ```
///
/// Implement it for your own collection with [`Loop::fold`] or with one of the others:
///
/// ```
/// use filch::{par::*, prelude::*};
///
/// struct Bag(Vec<u32>);
///
/// impl FromPar<u32> for Bag {
///     fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
///     where
///         P: Producer,
///         S: LoopStage<P::Item, Out = u32>,
///         M: Mode,
///     {
///         M::convert(items.collect(), Self)
///     }
/// }
///
/// let bag: Bag = (0..10_u32).into_par().collect();
/// assert_eq!(bag.0.len(), 10);
/// ```
#[diagnostic::on_unimplemented(
    message = "the items of a loop, of type `{T}`, cannot be collected into `{Self}`",
    note = "items of type `T` can be collected into vectors and sets of `T`, pairs into maps, characters and \
        texts into a `String`, and each `Result` or `Option` of `T` into a `Result` or `Option` of these",
    note = "`fold` builds anything else"
)]
#[doc(alias = "FromParallelIterator")]
pub trait FromPar<T>: Sized {
    /// Runs the loop and collects its items, in order.
    ///
    /// ```
    /// use filch::{par::FromPar, prelude::*};
    ///
    /// assert_eq!(Vec::from_par((0..3).into_par()), [0, 1, 2]);
    /// ```
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = T>,
        M: Mode;
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Collects the items, in order.
    ///
    /// A vector of results of [`map`](Self::map) is written in place, without later copies; that of
    /// a [`filter`](Self::filter) is made of one for each stolen piece. A `Result` is the first
    /// error, in the order of the items, and the items after it are skipped.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let squares: Vec<u64> = (0..1_000_u64).into_par().map(|n| n * n).collect();
    /// assert_eq!(squares[30], 900);
    /// ```
    ///
    /// # Panics
    /// If a closure of the loop does, after all workers have stopped. The results so far are
    /// dropped.
    pub fn collect<C: FromPar<S::Out>>(self) -> M::Out<C> {
        C::from_par(self)
    }

    /// Collects the items into a vector: [`collect`](Self::collect) without a type to be named.
    ///
    /// ```
    /// assert_eq!(filch::over(1..4).map(|n| n * n).to_vec(), [1, 4, 9]);
    /// ```
    pub fn to_vec(self) -> M::Out<Vec<S::Out>>
    where
        S::Out: Send,
    {
        self.collect()
    }

    /// Collects pairs into two vectors.
    ///
    /// ```
    /// let (halves, rests) = filch::over(0..5).map(|n| (n / 2, n % 2)).unzip();
    /// assert_eq!((halves, rests), (vec![0, 0, 1, 1, 2], vec![0, 1, 0, 1, 0]));
    /// ```
    #[doc(alias = "unzip_into_vecs")]
    pub fn unzip<A: Send, B: Send>(self) -> M::Out<(Vec<A>, Vec<B>)>
    where
        S: LoopStage<P::Item, Out = (A, B)>,
    {
        self.collect_two(|lefts, rights, (left, right)| {
            lefts.push(left);
            rights.push(right);
        })
    }

    /// The items for which `wanted` holds, and the others.
    ///
    /// ```
    /// let (even, odd) = filch::over(0..5).partition(|n| n % 2 == 0);
    /// assert_eq!((even, odd), (vec![0, 2, 4], vec![1, 3]));
    /// ```
    #[expect(
        clippy::type_complexity,
        reason = "two vectors, in what the mode returns"
    )]
    pub fn partition(
        self,
        wanted: impl Fn(&S::Out) -> bool + Sync,
    ) -> M::Out<(Vec<S::Out>, Vec<S::Out>)>
    where
        S::Out: Send,
    {
        self.collect_two(|wanted_ones, others, item| {
            if wanted(&item) {
                wanted_ones.push(item);
            } else {
                others.push(item);
            }
        })
    }

    /// Calls `f` with every item until it fails; returns the error of the first item, in order,
    /// that has one. Items after that one are skipped, unless they have been started.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let words = ["1", "2", "x", "4", "y"];
    /// let checked = words.par().try_for_each(|word| match word.parse::<u32>() {
    ///     Ok(_) => Ok(()),
    ///     Err(error) => Err(format!("{word}: {error}")),
    /// });
    /// assert_eq!(checked.unwrap_err(), "x: invalid digit found in string");
    /// ```
    pub fn try_for_each<E: Send>(
        self,
        f: impl Fn(S::Out) -> Result<(), E> + Sync,
    ) -> M::Out<Result<(), E>> {
        self.map(f).collect()
    }

    /// Collects items into two vectors.
    fn collect_two<A: Send, B: Send>(
        self,
        add: impl Fn(&mut Vec<A>, &mut Vec<B>, S::Out) + Sync,
    ) -> M::Out<(Vec<A>, Vec<B>)> {
        self.run_then(
            &FnSink {
                start: <(VecParts<A>, VecParts<B>)>::default,
                feed: |mut parts: (VecParts<A>, VecParts<B>), block: Block<'_, P, S>| {
                    let (left, right) = (&mut parts.0.last, &mut parts.1.last);
                    block.items().for_each(|item| add(left, right, item));
                    parts
                },
                join: |left: (VecParts<A>, VecParts<B>), right: (VecParts<A>, VecParts<B>)| {
                    (left.0.append(right.0), left.1.append(right.1))
                },
            },
            |(left, right)| (left.into_vec(), right.into_vec()),
        )
    }

    /// Collects the items in one vector for each stolen piece.
    fn collect_parts<R>(self, then: impl FnOnce(VecParts<S::Out>) -> R) -> M::Out<R>
    where
        S::Out: Send,
    {
        self.run_then(
            &FnSink {
                start: VecParts::default,
                feed: |mut parts: VecParts<S::Out>, block: Block<'_, P, S>| {
                    block.extend(&mut parts.last);
                    parts
                },
                join: VecParts::append,
            },
            then,
        )
    }
}

/// Results in several vectors, in order.
struct VecParts<R> {
    before: Vec<Vec<R>>,
    /// The vector that is appended to.
    last: Vec<R>,
}

impl<R> Default for VecParts<R> {
    fn default() -> Self {
        Self {
            before: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<R> VecParts<R> {
    fn append(mut self, next: Self) -> Self {
        self.before.push(self.last);
        self.before.extend(next.before);
        Self {
            before: self.before,
            last: next.last,
        }
    }

    fn len(&self) -> usize {
        self.before.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    fn into_vec(self) -> Vec<R> {
        let len = self.len();
        let Self { before, last } = self;
        let mut parts = before.into_iter().chain([last]);
        let mut all = parts.next().unwrap_or_default();
        all.reserve_exact(len - all.len());
        parts.for_each(|mut part| all.append(&mut part));
        all
    }

    fn into_items(self) -> impl Iterator<Item = R> {
        self.before.into_iter().flatten().chain(self.last)
    }
}

impl<T: Send> FromPar<T> for Vec<T> {
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = T>,
        M: Mode,
    {
        if !(P::EXACT && S::EXACT) {
            return items.collect_parts(VecParts::into_vec);
        }
        let Loop {
            producer,
            stage,
            settings,
            ..
        } = items;
        let len = producer.size();
        let (vector, loop_end) = output::collect(len, |slots| {
            let items = WithOutput {
                items: producer,
                slots,
            };
            drive::run(&settings, items, &stage, &WriteInPlace)
        });
        assert!(
            vector.is_some() || loop_end.cancelled,
            "a source had fewer items than it said"
        );
        settings.output::<M, _>(vector.unwrap_or_default(), loop_end)
    }
}

/// A sink that writes each item to its place.
pub(super) struct WriteInPlace;

impl<'v, P, S> ItemSink<WithOutput<'v, P, S::Out>, S> for WriteInPlace
where
    P: Producer,
    S: LoopStage<P::Item, Out: Send>,
{
    type Acc = Filled<'v, S::Out>;

    #[inline]
    fn start(&self, piece: &WithOutput<'v, P, S::Out>) -> Self::Acc {
        Filled::starting_at(&piece.slots)
    }

    #[inline]
    fn feed(
        &self,
        mut filled: Self::Acc,
        block: Block<'_, WithOutput<'v, P, S::Out>, S>,
    ) -> Self::Acc {
        let WithOutput { items, slots } = block.producer;
        filled.fill(slots, block.stage.apply(block.at, items.items()));
        filled
    }

    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.append(right)
    }
}

/// Implements `FromPar` for collections that are made of the items one by one, on the caller.
macro_rules! from_items {
    ($($collection:ty, $item:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> FromPar<$item> for $collection {
            fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
            where
                P: Producer,
                S: LoopStage<P::Item, Out = $item>,
                M: Mode,
            {
                items.collect_parts(|parts| parts.into_items().collect())
            }
        }
    )*};
}

from_items! {
    HashMap<K, V, H>, (K, V), [K: Eq + Hash + Send, V: Send, H: BuildHasher + Default];
    HashSet<T, H>, T, [T: Eq + Hash + Send, H: BuildHasher + Default];
    BTreeMap<K, V>, (K, V), [K: Ord + Send, V: Send];
    BTreeSet<T>, T, [T: Ord + Send];
    BinaryHeap<T>, T, [T: Ord + Send];
    LinkedList<T>, T, [T: Send];
}

/// Implements `FromPar` for collections that a vector can be converted to.
macro_rules! from_vec {
    ($($collection:ty;)*) => {$(
        impl<T: Send> FromPar<T> for $collection {
            fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
            where
                P: Producer,
                S: LoopStage<P::Item, Out = T>,
                M: Mode,
            {
                M::convert(Vec::from_par(items), Into::into)
            }
        }
    )*};
}

from_vec! {
    VecDeque<T>;
    Box<[T]>;
    std::sync::Arc<[T]>;
}

/// Implements `FromPar` for a string of items that one can be extended with.
macro_rules! from_text {
    ($($item:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> FromPar<$item> for String {
            fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
            where
                P: Producer,
                S: LoopStage<P::Item, Out = $item>,
                M: Mode,
            {
                items.run(&FnSink {
                    start: String::new,
                    feed: |mut text: String, block: Block<'_, P, S>| {
                        text.extend(block.items());
                        text
                    },
                    join: |left: String, right: String| left + right.as_str(),
                })
            }
        }
    )*};
}

from_text! {
    char, [];
    &'t char, ['t];
    &'t str, ['t];
    String, [];
}

/// Collects nothing: for [`Loop::try_for_each`] and `collect::<Result<(), _>>()`.
impl FromPar<()> for () {
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = ()>,
        M: Mode,
    {
        items.for_each(|()| ())
    }
}

impl<T, C: FromPar<T>, E: Send> FromPar<Result<T, E>> for Result<C, E> {
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = Result<T, E>>,
        M: Mode,
    {
        let error = FirstError::new();
        let values = items.with_stage(|before| WhileOk {
            before,
            error: &error,
        });
        let collected = C::from_par(values);
        M::convert(collected, |collection| match error.into_error() {
            Some(error) => Err(error),
            None => Ok(collection),
        })
    }
}

impl<T, C: FromPar<T>> FromPar<Option<T>> for Option<C> {
    fn from_par<P, S, M>(items: Loop<'_, P, S, M>) -> M::Out<Self>
    where
        P: Producer,
        S: LoopStage<P::Item, Out = Option<T>>,
        M: Mode,
    {
        let results = items.with_stage(|before| Map {
            before,
            f: |item: Option<T>| item.ok_or(()),
        });
        M::convert(results.collect::<Result<C, ()>>(), Result::ok)
    }
}
