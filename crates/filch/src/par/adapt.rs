//! Adapters of pieces.

use super::pieces::Pieces;
use std::{iter, ops::Range};

/// Pairs of items; from [`Loop::zip`](super::Loop::zip).
#[derive(Clone, Copy, Debug)]
pub struct Zip<A, B>(pub(super) A, pub(super) B);

impl<A: Pieces, B: Pieces> Pieces for Zip<A, B> {
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

/// Items with their indices; from [`Loop::indexed`](super::Loop::indexed).
#[derive(Clone, Copy, Debug)]
pub struct Indexed<P> {
    pub(super) pieces: P,
    /// The index of the first item.
    pub(super) at: usize,
}

impl<P: Pieces> Pieces for Indexed<P> {
    type Item = (usize, P::Item);
    type Iter = iter::Zip<Range<usize>, P::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.pieces.size()
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (pieces, more) = self.pieces.split_at(index);
        let at = self.at + index;
        (
            Self {
                pieces,
                at: self.at,
            },
            Self { pieces: more, at },
        )
    }

    #[inline]
    fn items(self) -> Self::Iter {
        // There are at most `usize::MAX` items, so `usize::MAX` is behind the last index. An
        // unbounded range would compute the index after the last one, and overflow.
        (self.at..usize::MAX).zip(self.pieces.items())
    }
}

/// Clones of the items; from [`Loop::cloned`](super::Loop::cloned).
#[derive(Clone, Copy, Debug)]
pub struct Cloned<P>(pub(super) P);

impl<'a, T: Clone + 'a, P: Pieces<Item = &'a T>> Pieces for Cloned<P> {
    type Item = T;
    type Iter = iter::Cloned<P::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[inline]
    fn split_at(self, index: usize) -> (Self, Self) {
        let (pieces, more) = self.0.split_at(index);
        (Self(pieces), Self(more))
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.0.items().cloned()
    }
}

/// Slices of `size` items, the last one perhaps shorter; from `Loop::chunks`.
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

impl<P: Pieces> Chunks<P> {
    fn count(&self) -> usize {
        self.slice.size().div_ceil(self.size)
    }

    fn cut(self, index: usize) -> (Self, Self) {
        let Self { slice, size } = self;
        // The last chunk may be short.
        let (slice, more) = {
            let at = index.saturating_mul(size).min(slice.size());
            slice.split_at(at)
        };
        (Self { slice, size }, Self { slice: more, size })
    }
}

impl<'a, T: Sync> Pieces for Chunks<&'a [T]> {
    type Item = &'a [T];
    type Iter = std::slice::Chunks<'a, T>;

    fn size(&self) -> usize {
        self.count()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        self.cut(index)
    }

    fn items(self) -> Self::Iter {
        self.slice.chunks(self.size)
    }
}

impl<'a, T: Send> Pieces for Chunks<&'a mut [T]> {
    type Item = &'a mut [T];
    type Iter = std::slice::ChunksMut<'a, T>;

    fn size(&self) -> usize {
        self.count()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        self.cut(index)
    }

    fn items(self) -> Self::Iter {
        self.slice.chunks_mut(self.size)
    }
}
