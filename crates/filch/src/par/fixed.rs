//! Reductions that are cut in the same places whatever the number of workers.
//!
//! Each chunk has its own accumulator, and these are joined from the first to the last: so the
//! result of an operation that is not associative, such as a sum of floating-point numbers, depends
//! on the items alone.

use super::{
    drive::{Block, LoopPiece},
    over::{Loop, Mode},
    producer::Producer,
    settings::ChunkedItems,
    stage::{Identity, LoopStage, Map},
};
use std::{fmt, iter::Sum};

/// The largest number of chunks. It is enough to balance them among some hundred workers, and keeps
/// the accumulators few in comparison to the items.
const MAX_CHUNKS: usize = 1024;

/// A loop whose reductions do not depend on the number of workers; from
/// [`Loop::deterministic`](super::Loop::deterministic).
///
/// ```
/// use filch::prelude::*;
///
/// let data: Vec<f64> = (1..100_000).map(|n| 1.0 / f64::from(n)).collect();
/// let pools = [1, 3].map(|n| filch::Pool::builder().workers(n).build().unwrap());
/// let sums = pools.map(|pool| data.par().on(&pool).deterministic().sum::<f64>());
/// assert_eq!(sums[0].to_bits(), sums[1].to_bits());
/// ```
#[must_use = "a loop does nothing before its end: call `for_each`, `collect`, `sum` or another"]
pub struct Deterministic<'a, P, S, M> {
    pub(super) items: Loop<'a, P, S, M>,
}

impl<'a, P, S, M> Loop<'a, P, S, M> {
    /// Makes reductions independent of the number of workers: the items are cut in the same places
    /// whenever there are as many, and the results are combined in order. For sums of
    /// floating-point numbers that have to be equal to the last bit.
    ///
    /// It costs an allocation of at most 1,024 results, and a call for each. A chunk, of a 1,024th
    /// of the items, is not shared, and a token is checked only between two chunks. A loop over a
    /// [bridged](super::ParBridge) iterator does not compile, since its items are in no order:
    ///
    /// ```compile_fail
    /// use filch::prelude::*;
    ///
    /// (0..9).map(f64::from).par_bridge().deterministic().sum::<f64>();
    /// ```
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let data: Vec<f32> = (0..10_000).map(|n| (n as f32).sqrt()).collect();
    /// let sum: f32 = data.par().deterministic().sum();
    /// let again: f32 = data.par().eager().deterministic().sum();
    /// assert_eq!(sum.to_bits(), again.to_bits());
    /// ```
    pub fn deterministic(self) -> Deterministic<'a, P, S, M> {
        Deterministic { items: self }
    }
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Deterministic<'_, P, S, M> {
    /// As [`Loop::sum`](super::Loop::sum), with the same result for any number of workers.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// assert_eq!([0.1, 0.2, 0.3].par().deterministic().sum::<f64>(), 0.1 + 0.2 + 0.3);
    /// ```
    pub fn sum<R>(self) -> M::Out<R>
    where
        R: Sum<S::Out> + Sum<R> + Send,
    {
        let out = self.accumulate(|block| block.items().sum::<R>());
        M::convert(out, |sums| sums.into_iter().sum())
    }

    /// As [`Loop::reduce`](super::Loop::reduce), with the same result for any number of workers,
    /// also if `op` is not associative.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let data: Vec<f32> = (0..1_000).map(|n| n as f32 * 0.1).collect();
    /// let max = data.par().copied().deterministic().reduce(|a, b| if a > b { a } else { b });
    /// assert_eq!(max, Some(99.9));
    /// ```
    pub fn reduce(self, op: impl Fn(S::Out, S::Out) -> S::Out + Sync) -> M::Out<Option<S::Out>>
    where
        S::Out: Send,
    {
        let out = self.accumulate(|block| block.items().reduce(&op));
        M::convert(out, |parts| parts.into_iter().flatten().reduce(&op))
    }

    /// As [`Loop::fold`](super::Loop::fold), with the same result for any number of workers, also
    /// if `join` is not associative.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let (sum, square) = [1.0, 2.0, 3.0].par().deterministic().fold(
    ///     || (0.0, 0.0),
    ///     |(sum, square), x| (sum + x, square + x * x),
    ///     |left, right| (left.0 + right.0, left.1 + right.1),
    /// );
    /// assert_eq!((sum, square), (6.0, 14.0));
    /// ```
    pub fn fold<A: Send>(
        self,
        start: impl Fn() -> A + Sync,
        step: impl Fn(A, S::Out) -> A + Sync,
        join: impl Fn(A, A) -> A + Sync,
    ) -> M::Out<A> {
        let out = self.accumulate(|block| block.items().fold(start(), &step));
        M::convert(out, |parts| {
            parts.into_iter().reduce(&join).unwrap_or_else(&start)
        })
    }

    /// Runs `accumulate` on each chunk; returns the results in order.
    fn accumulate<A: Send>(
        self,
        accumulate: impl Fn(Block<'_, P, S>) -> A + Sync,
    ) -> M::Out<Vec<A>> {
        const {
            assert!(
                P::ORDERED,
                "the items of a bridged iterator are in no fixed order; collect them into a vector first"
            );
        }
        let len = self.items.producer.size();
        let size = len.div_ceil(MAX_CHUNKS).max(1);
        let mut items = self.items.with_producer(|producer| FixedChunks {
            piece: LoopPiece {
                producer,
                at: 0,
                len,
            },
            size,
        });
        items.settings.chunks = Some(ChunkedItems { size, total: len });
        items.settings.pacing = items.settings.pacing.of_chunks(size);
        let chunks = items.with_stage(|stage| Map {
            before: Identity,
            f: move |LoopPiece { producer, at, .. }| {
                let stage = &stage;
                accumulate(Block {
                    producer,
                    at,
                    stage,
                })
            },
        });
        chunks.collect()
    }
}

impl<P, S, M> fmt::Debug for Deterministic<'_, P, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deterministic").field(&self.items).finish()
    }
}

/// The chunks of a piece, all of the same size but the last.
struct FixedChunks<P> {
    piece: LoopPiece<P>,
    /// Not zero.
    size: usize,
}

impl<P: Producer> Producer for FixedChunks<P> {
    type Item = LoopPiece<P>;
    type Iter = FixedChunksIter<P>;

    fn size(&self) -> usize {
        self.piece.len.div_ceil(self.size)
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let Self { piece, size } = self;
        let at = index.saturating_mul(size).min(piece.len);
        let (near, far) = piece.split_at(at);
        (Self { piece: near, size }, Self { piece: far, size })
    }

    fn items(self) -> Self::Iter {
        FixedChunksIter {
            rest: Some(self.piece),
            size: self.size,
        }
    }
}

/// The iterator over chunks.
struct FixedChunksIter<P> {
    rest: Option<LoopPiece<P>>,
    size: usize,
}

impl<P: Producer> Iterator for FixedChunksIter<P> {
    type Item = LoopPiece<P>;

    fn next(&mut self) -> Option<LoopPiece<P>> {
        let rest = self.rest.take().filter(|rest| rest.len > 0)?;
        let at = self.size.min(rest.len);
        let (chunk, rest) = rest.split_at(at);
        self.rest = Some(rest);
        Some(chunk)
    }
}
