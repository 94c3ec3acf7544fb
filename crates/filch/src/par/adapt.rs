//! Adapters of sources.

use super::{
    over::Loop,
    producer::{ExactProducer, IntoProducer, Producer},
    stage::{Either, Identity, ItemStage},
};
use std::{iter, ops::Range};

/// The argument of [`Loop::zip`] and [`Loop::chain`]: a source of loops whose items have indices,
/// or a loop with lazy steps. Settings of that loop, such as its pool, have no effect.
///
/// ```
/// use filch::prelude::*;
///
/// let (a, b) = ([1, 2, 3], [10, 20, 30]);
/// let sums = a.par().zip(b.par().map(|n| n * 2)).map(|(a, b)| a + b);
/// assert_eq!(sums.to_vec(), [21, 42, 63]);
/// ```
#[diagnostic::on_unimplemented(
    message = "the items of `{Self}` have no indices",
    label = "needs the index of each item",
    note = "`zip` and `chain` take a slice, a vector, a range of integers, another collection, or a loop \
        without `filter`, `filter_map` and `flat_map`",
    note = "collect the items into a vector first"
)]
pub trait IndexedSource {
    /// The type of the items.
    type Item;
    /// Its source.
    type Producer: ExactProducer;
    /// Its lazy steps.
    type Stage: ItemStage<<Self::Producer as Producer>::Item, Out = Self::Item>;

    /// Returns both.
    #[doc(hidden)]
    fn into_source(self) -> (Self::Producer, Self::Stage);
}

impl<S: IntoProducer<Producer: ExactProducer>> IndexedSource for S {
    type Item = S::Item;
    type Producer = S::Producer;
    type Stage = Identity;

    fn into_source(self) -> (S::Producer, Identity) {
        (self.into_producer(), Identity)
    }
}

impl<P: ExactProducer, S: ItemStage<P::Item>, M> IndexedSource for Loop<'_, P, S, M> {
    type Item = S::Out;
    type Producer = P;
    type Stage = S;

    fn into_source(self) -> (P, S) {
        (self.producer, self.stage)
    }
}

/// Pairs of items; from [`Loop::zip`].
#[derive(Clone, Copy, Debug)]
pub struct Zip<A, B>(pub(super) A, pub(super) B);

impl<A: Producer, B: Producer> Producer for Zip<A, B> {
    type Item = (A::Item, B::Item);
    type Iter = iter::Zip<A::Iter, B::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.0.size().min(self.1.size())
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (a, more_a) = self.0.split_at(index);
        let (b, more_b) = self.1.split_at(index);
        (Self(a, b), Self(more_a, more_b))
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.0.items().zip(self.1.items())
    }
}

impl<A: ExactProducer, B: ExactProducer> ExactProducer for Zip<A, B> {}

/// Items with their indices; from [`Loop::enumerate`].
#[derive(Clone, Copy, Debug)]
pub struct Enumerate<P> {
    pub(super) producer: P,
    /// The index of the first item.
    pub(super) at: usize,
}

impl<P: Producer> Producer for Enumerate<P> {
    type Item = (usize, P::Item);
    type Iter = iter::Zip<Range<usize>, P::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.producer.size()
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (producer, more) = self.producer.split_at(index);
        let at = self.at + index;
        (
            Self {
                producer,
                at: self.at,
            },
            Self { producer: more, at },
        )
    }

    #[inline]
    fn items(self) -> Self::Iter {
        // Both are equally long, so that the pairs can be walked from the end too.
        let end = self.at.saturating_add(self.producer.size());
        (self.at..end).zip(self.producer.items())
    }
}

impl<P: ExactProducer> ExactProducer for Enumerate<P> {}

/// The items of one source, then those of another; from [`Loop::chain`].
#[derive(Clone, Copy, Debug)]
pub struct Chain<A, B> {
    first: A,
    first_len: usize,
    second: B,
}

impl<A: Producer, B: Producer> Chain<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self {
            first_len: first.size(),
            first,
            second,
        }
    }
}

impl<A: ExactProducer, B: ExactProducer> Producer for Chain<A, B> {
    type Item = Either<A::Item, B::Item>;
    type Iter = ChainIter<A::Iter, B::Iter>;

    #[inline]
    fn size(&self) -> usize {
        let len = self.first_len.checked_add(self.second.size());
        len.expect("two sources that are longer than the memory; loop over parts of them")
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let of_first = index.min(self.first_len);
        let (first, more_first) = self.first.split_at(of_first);
        let (second, more_second) = self.second.split_at(index - of_first);
        let part = |first, first_len, second| Self {
            first,
            first_len,
            second,
        };
        (
            part(first, of_first, second),
            part(more_first, self.first_len - of_first, more_second),
        )
    }

    #[inline]
    fn items(self) -> Self::Iter {
        ChainIter {
            first: self.first.items().fuse(),
            second: self.second.items().fuse(),
        }
    }
}

impl<A: ExactProducer, B: ExactProducer> ExactProducer for Chain<A, B> {}

/// The iterator of [`Chain`].
#[derive(Clone, Debug)]
pub struct ChainIter<A, B> {
    first: iter::Fuse<A>,
    second: iter::Fuse<B>,
}

impl<A: Iterator, B: Iterator> Iterator for ChainIter<A, B> {
    type Item = Either<A::Item, B::Item>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.first.next() {
            Some(item) => Some(Either::First(item)),
            None => self.second.next().map(Either::Second),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let ((least, most), (more_least, more_most)) =
            (self.first.size_hint(), self.second.size_hint());
        let most = most.and_then(|most| most.checked_add(more_most?));
        (least.saturating_add(more_least), most)
    }

    // Two loops, in each of which the compiler knows the variant.
    #[inline]
    fn fold<R, F: FnMut(R, Self::Item) -> R>(self, init: R, mut f: F) -> R {
        let first = self
            .first
            .fold(init, |acc, item| f(acc, Either::First(item)));
        self.second
            .fold(first, |acc, item| f(acc, Either::Second(item)))
    }
}

impl<A: DoubleEndedIterator, B: DoubleEndedIterator> DoubleEndedIterator for ChainIter<A, B> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self.second.next_back() {
            Some(item) => Some(Either::Second(item)),
            None => self.first.next_back().map(Either::First),
        }
    }
}

// The length does not overflow: `Chain::size` checks it.
impl<A: ExactSizeIterator, B: ExactSizeIterator> ExactSizeIterator for ChainIter<A, B> {}

/// The items from the last to the first; from [`Loop::rev`].
#[derive(Clone, Copy, Debug)]
pub struct Rev<P>(pub(super) P);

impl<P: ExactProducer<Iter: DoubleEndedIterator>> Producer for Rev<P> {
    type Item = P::Item;
    type Iter = iter::Rev<P::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let middle = self.0.size().saturating_sub(index);
        let (far, near) = self.0.split_at(middle);
        (Self(near), Self(far))
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.0.items().rev()
    }
}

impl<P: ExactProducer<Iter: DoubleEndedIterator>> ExactProducer for Rev<P> {}

/// Every item at a multiple of a step; from [`Loop::step_by`].
#[derive(Clone, Copy, Debug)]
pub struct StepBy<P> {
    pub(super) producer: P,
    /// Not zero.
    pub(super) step: usize,
}

impl<P: ExactProducer> Producer for StepBy<P> {
    type Item = P::Item;
    type Iter = iter::StepBy<P::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.producer.size().div_ceil(self.step)
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let Self { producer, step } = self;
        let at = index.saturating_mul(step).min(producer.size());
        let (near, far) = producer.split_at(at);
        (
            Self {
                producer: near,
                step,
            },
            Self {
                producer: far,
                step,
            },
        )
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.producer.items().step_by(self.step)
    }
}

impl<P: ExactProducer> ExactProducer for StepBy<P> {}

/// All slices of `size` adjacent items; from [`Loop::windows`].
#[derive(Clone, Copy, Debug)]
pub struct Windows<'t, T> {
    slice: &'t [T],
    /// Not zero.
    size: usize,
}

impl<'t, T> Windows<'t, T> {
    #[track_caller]
    pub(super) fn new(slice: &'t [T], size: usize) -> Self {
        assert!(size > 0, "windows of no items; ask for at least one");
        Self { slice, size }
    }
}

impl<'t, T: Sync> Producer for Windows<'t, T> {
    type Item = &'t [T];
    type Iter = std::slice::Windows<'t, T>;

    #[inline]
    fn size(&self) -> usize {
        // `size` is not zero.
        self.slice.len().saturating_sub(self.size - 1)
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let Self { slice, size } = self;
        // The windows before `index` end in the items after it.
        let end = match index {
            0 => 0,
            _ => index.saturating_add(size - 1).min(slice.len()),
        };
        let (near, far) = (&slice[..end], &slice[index.min(slice.len())..]);
        (Self { slice: near, size }, Self { slice: far, size })
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.slice.windows(self.size)
    }
}

impl<T: Sync> ExactProducer for Windows<'_, T> {}

/// Slices of `size` items, the last one perhaps shorter; from [`Loop::chunks`].
#[derive(Clone, Copy, Debug)]
pub struct Chunks<P> {
    pub(super) slice: P,
    /// Not zero.
    pub(super) size: usize,
}

impl<P> Chunks<P> {
    #[track_caller]
    pub(super) fn new(slice: P, size: usize) -> Self {
        assert!(size > 0, "chunks of no items; ask for at least one");
        Self { slice, size }
    }
}

impl<P: Producer> Chunks<P> {
    fn chunk_count(&self) -> usize {
        self.slice.size().div_ceil(self.size)
    }

    fn split_at_chunk(self, index: usize) -> (Self, Self) {
        let Self { slice, size } = self;
        // The last chunk may be short.
        let (slice, more) = {
            let at = index.saturating_mul(size).min(slice.size());
            slice.split_at(at)
        };
        (Self { slice, size }, Self { slice: more, size })
    }
}

impl<'a, T: Sync> Producer for Chunks<&'a [T]> {
    type Item = &'a [T];
    type Iter = std::slice::Chunks<'a, T>;

    fn size(&self) -> usize {
        self.chunk_count()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        self.split_at_chunk(index)
    }

    fn items(self) -> Self::Iter {
        self.slice.chunks(self.size)
    }
}

impl<'a, T: Send> Producer for Chunks<&'a mut [T]> {
    type Item = &'a mut [T];
    type Iter = std::slice::ChunksMut<'a, T>;

    fn size(&self) -> usize {
        self.chunk_count()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        self.split_at_chunk(index)
    }

    fn items(self) -> Self::Iter {
        self.slice.chunks_mut(self.size)
    }
}

impl<T: Sync> ExactProducer for Chunks<&[T]> {}

impl<T: Send> ExactProducer for Chunks<&mut [T]> {}
