//! The sources of loops: sequences that can be split in two.

use std::ops::{Range, RangeInclusive};

/// A source of a loop: a sequence of items that can be split in two and iterated over.
///
/// Slices, ranges of integers and vectors implement it, and so do [`Loop`](super::Loop)'s adapters.
/// Implement it for your own data structure to use every loop on it: a piece is what one worker
/// iterates over. Implement [`ExactProducer`] as well if the size is exact, to zip, enumerate,
/// reverse and scan.
///
/// ```
/// use filch::par::{Producer, over};
///
/// /// Every `step`-th number below `end`.
/// struct Steps { start: usize, end: usize, step: usize }
///
/// impl Producer for Steps {
///     type Item = usize;
///     type Iter = std::iter::StepBy<std::ops::Range<usize>>;
///
///     fn size(&self) -> usize {
///         (self.end - self.start).div_ceil(self.step)
///     }
///     fn split_at(self, index: usize) -> (Self, Self) {
///         let middle = self.end.min(self.start + index * self.step);
///         (Self { end: middle, ..self }, Self { start: middle, ..self })
///     }
///     fn items(self) -> Self::Iter {
///         (self.start..self.end).step_by(self.step)
///     }
/// }
///
/// let steps = Steps { start: 0, end: 10, step: 3 };
/// assert_eq!(over(steps).map(|n| n * n).to_vec(), [0, 9, 36, 81]);
/// ```
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot iterate over `{Self}`",
    label = "not a source of parallel loops",
    note = "sources are slices, ranges of integers and collections of the standard library; shared items \
        must be `Sync`, mutable and owned ones `Send`",
    note = "for an iterator call `par_bridge()`, or collect its items into a vector",
    note = "for your own type implement `filch::par::Producer`"
)]
#[doc(alias = "UnindexedProducer")]
pub trait Producer: Send + Sized {
    /// The type of the items.
    type Item;
    /// The iterator over a piece.
    type Iter: Iterator<Item = Self::Item>;

    /// Whether there are exactly as many items as [`size`](Self::size) returns. If not, it is an
    /// upper bound: a piece of a text of 100 bytes has at most 100 lines.
    const EXACT: bool = true;

    /// Whether the items of a piece are those between the items of its neighbours. If not, any
    /// piece may have any of the items, and a loop cannot be
    /// [`deterministic`](super::Loop::deterministic).
    const ORDERED: bool = true;

    /// The number of items; a loop calls it once. Wrong values lead to panics and wrong results,
    /// but not to undefined behaviour: a loop ends after as many items as were reported, if the
    /// iterators of its blocks end.
    ///
    /// ```
    /// use filch::par::Producer;
    ///
    /// assert_eq!((3..10).size(), 7);
    /// ```
    fn size(&self) -> usize;

    /// Splits it into the first `index` items and the rest. `index` is at most the size.
    ///
    /// ```
    /// use filch::par::Producer;
    ///
    /// assert_eq!((3..10).split_at(2), (3..5, 5..10));
    /// ```
    fn split_at(self, index: usize) -> (Self, Self);

    /// Whether it is known that no items are left, though its size says otherwise. It is for
    /// sources of unknown length.
    ///
    /// ```
    /// use filch::par::Producer;
    ///
    /// assert!(!(0..10).is_exhausted());
    /// ```
    #[inline]
    fn is_exhausted(&self) -> bool {
        false
    }

    /// Iterates over the items in order: as many as `size` returned, or fewer if it is not
    /// [`EXACT`](Self::EXACT).
    ///
    /// ```
    /// use filch::par::Producer;
    ///
    /// assert!((3..6_u32).items().eq([3, 4, 5]));
    /// ```
    fn items(self) -> Self::Iter;
}

/// A [`Producer`] whose size is exact, so that every item has an index: it can be zipped,
/// enumerated, reversed and cut.
///
/// ```
/// use filch::par::ExactProducer;
///
/// fn last_index(items: &impl ExactProducer) -> Option<usize> {
///     items.size().checked_sub(1)
/// }
/// assert_eq!(last_index(&(3..10)), Some(6));
/// ```
#[diagnostic::on_unimplemented(
    message = "the items of `{Self}` have no indices",
    note = "indices need a source of known length: a slice, a vector, a range of integers or another \
        collection; not an iterator, nor the lines or characters of a text",
    note = "collect the items into a vector first"
)]
pub trait ExactProducer: Producer {}

impl<T: Sync> ExactProducer for &[T] {}

impl<T: Send> ExactProducer for &mut [T] {}

/// The argument of [`over`](super::over): a [`Producer`], or what can be converted to one. Types
/// that implement it have [`into_par`](super::IntoPar::into_par) too.
///
/// ```
/// use filch::par::over;
///
/// let mut vector = vec![1, 2, 3];
/// assert_eq!(over(&vector).map(|n| n + 1).to_vec(), [2, 3, 4]); // items: &i32
/// over(&mut vector).for_each(|n| *n *= 2);                      // items: &mut i32
/// assert_eq!(over(vector).to_vec(), [2, 4, 6]);                 // items: i32
/// assert_eq!(over(0_u64..3).to_vec(), [0, 1, 2]);
/// assert_eq!(over(1..=3).to_vec(), [1, 2, 3]);
/// assert_eq!(over(&[1, 2]).to_vec(), [&1, &2]);                 // items: &i32
/// assert_eq!(over([1, 2]).to_vec(), [1, 2]);                    // items: i32
/// ```
///
/// # Panics
/// If a range includes the largest number of its type, as `0..=u8::MAX` does: use a wider type. If
/// a range has more than `usize::MAX` numbers, as those of `u128` may: loop over parts of it.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot iterate over `{Self}`",
    label = "not a source of parallel loops",
    note = "sources are slices, ranges of integers and collections of the standard library; shared items \
        must be `Sync`, mutable and owned ones `Send`",
    note = "for an iterator call `par_bridge()`, or collect its items into a vector",
    note = "for your own type implement `filch::par::Producer`"
)]
#[doc(alias = "IntoParallelIterator")]
pub trait IntoProducer {
    /// The type of the items.
    type Item;
    /// The producer of the items.
    type Producer: Producer<Item = Self::Item>;

    /// Converts it to a producer of all its items.
    ///
    /// ```
    /// use filch::par::{IntoProducer, Producer};
    ///
    /// assert_eq!(vec!['a', 'b'].into_producer().size(), 2);
    /// ```
    fn into_producer(self) -> Self::Producer;
}

impl<P: Producer> IntoProducer for P {
    type Item = P::Item;
    type Producer = P;

    fn into_producer(self) -> P {
        self
    }
}

impl<'a, T: Sync> IntoProducer for &'a Vec<T> {
    type Item = &'a T;
    type Producer = &'a [T];

    fn into_producer(self) -> &'a [T] {
        self
    }
}

impl<'a, T: Send> IntoProducer for &'a mut Vec<T> {
    type Item = &'a mut T;
    type Producer = &'a mut [T];

    fn into_producer(self) -> &'a mut [T] {
        self
    }
}

impl<'a, T: Sync, const N: usize> IntoProducer for &'a [T; N] {
    type Item = &'a T;
    type Producer = &'a [T];

    fn into_producer(self) -> &'a [T] {
        self
    }
}

impl<'a, T: Send, const N: usize> IntoProducer for &'a mut [T; N] {
    type Item = &'a mut T;
    type Producer = &'a mut [T];

    fn into_producer(self) -> &'a mut [T] {
        self
    }
}

impl<'a, T: Sync> Producer for &'a [T] {
    type Item = &'a T;
    type Iter = std::slice::Iter<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        <[T]>::split_at(self, index)
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.iter()
    }
}

impl<'a, T: Send> Producer for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = std::slice::IterMut<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        self.split_at_mut(index)
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.iter_mut()
    }
}

/// Integers, whose ranges are sources of loops. Ranges are implemented for all of them at once, so
/// that the type of `0..10` can follow from what is done with the items.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot iterate over a range of `{Self}`",
    note = "ranges of integers are sources of parallel loops"
)]
pub trait RangeInteger: Copy + PartialOrd + Send + sealed::Sealed {
    /// The number of integers from here to `end`, which is greater, if it fits.
    #[doc(hidden)]
    fn distance(self, end: Self) -> Option<usize>;

    /// The integer that is `count` greater, which exists.
    #[doc(hidden)]
    fn forward(self, count: usize) -> Self;

    /// The next integer, if there is one.
    #[doc(hidden)]
    fn successor(self) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($int:ty, $wide:ty;)*) => {$(
        impl sealed::Sealed for $int {}

        impl RangeInteger for $int {
            #[inline]
            fn distance(self, end: Self) -> Option<usize> {
                let distance = (end as $wide).wrapping_sub(self as $wide);
                usize::try_from(distance).ok()
            }

            #[inline]
            fn forward(self, count: usize) -> Self {
                (self as $wide).wrapping_add(count as $wide) as Self
            }

            #[inline]
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )*};
}

integers! {
    u8, u64; u16, u64; u32, u64; u64, u64; usize, u64;
    i8, u64; i16, u64; i32, u64; i64, u64; isize, u64;
    u128, u128; i128, u128;
}

impl<T: RangeInteger> Producer for Range<T>
where
    Self: Iterator<Item = T>,
{
    type Item = T;
    type Iter = Self;

    #[inline]
    fn size(&self) -> usize {
        if self.start >= self.end {
            return 0;
        }
        let size = self.start.distance(self.end);
        size.expect("a range that is longer than the memory; loop over parts of it")
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let middle = self.start.forward(index);
        (self.start..middle, middle..self.end)
    }

    #[inline]
    fn items(self) -> Self {
        self
    }
}

impl<T: RangeInteger> ExactProducer for Range<T> where Self: Iterator<Item = T> {}

impl<T: RangeInteger> IntoProducer for RangeInclusive<T>
where
    Range<T>: Iterator<Item = T>,
{
    type Item = T;
    type Producer = Range<T>;

    fn into_producer(self) -> Range<T> {
        if self.is_empty() {
            let (start, _) = self.into_inner();
            return start..start;
        }
        let (start, end) = self.into_inner();
        let Some(end) = end.successor() else {
            panic!("a range through the largest number of its type; take a wider type");
        };
        start..end
    }
}

impl<T: RangeInteger> IntoProducer for &Range<T>
where
    Range<T>: Iterator<Item = T>,
{
    type Item = T;
    type Producer = Range<T>;

    fn into_producer(self) -> Range<T> {
        self.clone()
    }
}

impl<T: RangeInteger> IntoProducer for &RangeInclusive<T>
where
    Range<T>: Iterator<Item = T>,
{
    type Item = T;
    type Producer = Range<T>;

    fn into_producer(self) -> Range<T> {
        self.clone().into_producer()
    }
}
