//! Running totals.
//!
//! Every worker makes the totals of its own piece, each written in its place. A piece that was stolen does not know what
//! comes before it, so its totals lack that; when all are there, it is put to them in a second loop, segment by segment.
//! What nobody has stolen is gone through once, as in sequence.

use super::{
    drive::{self, End, Sink, Steps},
    output::{self, Filled, Into},
    over::{Loop, Mode, Settings},
    pieces::Pieces,
};
use std::mem;

/// Totals in their places, in segments that begin anew.
struct Totals<'v, R> {
    filled: Filled<'v, R>,
    /// The segments before the last one.
    ended: Vec<Segment<R>>,
    /// The total of the last segment, where the totals in their places lack the last item.
    total: Option<R>,
}

struct Segment<R> {
    len: usize,
    total: Option<R>,
}

impl<'v, R> Totals<'v, R> {
    fn before<P>(piece: &Into<'v, P, R>, total: Option<R>) -> Self {
        Self {
            filled: Filled::before(&piece.room),
            ended: Vec::new(),
            total,
        }
    }

    /// The length of the last segment.
    fn last_len(&self) -> usize {
        self.filled.len() - self.ended.iter().map(|segment| segment.len).sum::<usize>()
    }

    fn end(mut self) -> (Filled<'v, R>, Vec<Segment<R>>) {
        let len = self.last_len();
        self.ended.push(Segment {
            len,
            total: self.total,
        });
        (self.filled, self.ended)
    }

    fn and(self, next: Self) -> Self {
        let (filled, mut ended) = self.end();
        ended.extend(next.ended);
        Self {
            filled: filled.and(next.filled),
            ended,
            total: next.total,
        }
    }
}

/// Totals with the item itself.
struct Inclusive<F>(F);

impl<'v, P, R, F> Sink<Into<'v, P, R>> for Inclusive<F>
where
    P: Pieces<Item = R>,
    R: Send,
    F: Fn(&R, &R) -> R + Sync,
{
    type Acc = Totals<'v, R>;

    fn start(&self, piece: &Into<'v, P, R>) -> Self::Acc {
        Totals::before(piece, None)
    }

    #[inline]
    fn feed(&self, mut totals: Self::Acc, block: Into<'v, P, R>, _at: usize) -> Self::Acc {
        // Nothing of a segment before this one: `last` would not be its own.
        let mut first = totals.last_len() == 0;
        let next = |before: Option<&R>, item| match before {
            Some(before) if !mem::take(&mut first) => (self.0)(before, &item),
            _ => item,
        };
        totals.filled.fill(block.room, block.items.items(), next);
        totals
    }

    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.and(right)
    }
}

/// Totals without the item itself, which begin with a value that changes nothing.
struct Exclusive<R, F> {
    neutral: R,
    op: F,
}

impl<'v, P, R, F> Sink<Into<'v, P, R>> for Exclusive<R, F>
where
    P: Pieces<Item = R>,
    R: Clone + Send + Sync,
    F: Fn(&R, &R) -> R + Sync,
{
    type Acc = Totals<'v, R>;

    fn start(&self, piece: &Into<'v, P, R>) -> Self::Acc {
        Totals::before(piece, Some(self.neutral.clone()))
    }

    #[inline]
    fn feed(&self, mut totals: Self::Acc, block: Into<'v, P, R>, _at: usize) -> Self::Acc {
        let Some(mut total) = totals.total.take() else {
            return totals;
        };
        let next = |_: Option<&R>, item| {
            let next = (self.op)(&total, &item);
            mem::replace(&mut total, next)
        };
        totals.filled.fill(block.room, block.items.items(), next);
        totals.total = Some(total);
        totals
    }

    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.and(right)
    }
}

/// The first loop: totals, the segments that they are in, and how it ended. Nothing when it was cancelled.
fn write<P, R, K>(settings: &Settings<'_>, items: P, sink: &K) -> (Vec<R>, Vec<Segment<R>>, End)
where
    P: Pieces<Item = R>,
    R: Send,
    K: for<'v> Sink<Into<'v, P, R>, Acc = Totals<'v, R>>,
{
    let (vector, (segments, end)) = output::collect(items.len(), |room| {
        let (totals, end) = drive::run(settings, Into { items, room }, sink);
        let (filled, segments) = totals.end();
        (filled, (segments, end))
    });
    match vector {
        Some(vector) => (vector, segments, end),
        None => {
            assert!(end.cancelled, "a source had fewer items than it said");
            (Vec::new(), Vec::new(), end)
        }
    }
}

/// The second loop. False when it was cancelled.
fn put_to<R: Send>(
    settings: &Settings<'_>,
    totals: &mut [R],
    next: impl Fn(&R) -> R + Sync,
) -> bool {
    // Of these items everybody has been told before.
    let settings = Settings {
        progress: None,
        ..*settings
    };
    let sink = Steps {
        start: || (),
        feed: |(), block: &mut [R]| block.iter_mut().for_each(|total| *total = next(total)),
        join: |(), ()| (),
    };
    !drive::run(&settings, totals, &sink).1.cancelled
}

impl<P: Pieces, M: Mode> Loop<'_, P, M>
where
    P::Item: Send + Sync,
{
    /// Running totals: of the first item, of the first two, and so on, as `op` puts them together in their order. It is
    /// enough that it is associative.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// assert_eq!(over(1..6).inclusive_scan(|a, b| a + b), [1, 3, 6, 10, 15]);
    /// ```
    pub fn inclusive_scan(
        self,
        op: impl Fn(&P::Item, &P::Item) -> P::Item + Sync,
    ) -> M::Out<Vec<P::Item>> {
        let Self {
            pieces, settings, ..
        } = self;
        let len = pieces.len();
        let (mut vector, segments, mut end) = write(&settings, pieces, &Inclusive(&op));
        let mut at = 0;
        for segment in segments {
            let (before, rest) = vector.split_at_mut(at);
            if let Some(before) = before.last() {
                let totals = &mut rest[..segment.len];
                end.cancelled |= !put_to(&settings, totals, |total| op(before, total));
            }
            at += segment.len;
        }
        settings.out::<M, _>(vector, end, len)
    }

    /// Running totals without the item itself: of none, which is `neutral`, of the first, of the first two, and so on;
    /// and the total of all. It is enough that `op` is associative and that `neutral` changes nothing.
    ///
    /// ```
    /// use filch::loops::over;
    ///
    /// // Where each of these goes when they are put one behind the other, and how long they are together.
    /// let lengths = [3, 1, 4];
    /// assert_eq!(over(&lengths).cloned().exclusive_scan(0, |a, b| a + b), (vec![0, 3, 4], 8));
    /// ```
    pub fn exclusive_scan(
        self,
        neutral: P::Item,
        op: impl Fn(&P::Item, &P::Item) -> P::Item + Sync,
    ) -> M::Out<(Vec<P::Item>, P::Item)>
    where
        P::Item: Clone,
    {
        let Self {
            pieces, settings, ..
        } = self;
        let len = pieces.len();
        let scan = Exclusive { neutral, op: &op };
        let (mut vector, segments, mut end) = write(&settings, pieces, &scan);
        let (mut before, mut at) = (None, 0);
        for Segment { len, total } in segments {
            let total = total.expect("it is kept");
            before = match before {
                None => Some(total),
                Some(before) => {
                    let totals = &mut vector[at..at + len];
                    end.cancelled |= !put_to(&settings, totals, |total| op(&before, total));
                    Some(op(&before, &total))
                }
            };
            at += len;
        }
        let total = before.unwrap_or(scan.neutral);
        settings.out::<M, _>((vector, total), end, len)
    }
}
