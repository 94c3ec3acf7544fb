//! Prefix sums (scans).
//!
//! Every worker computes the prefix sums of its own piece, and writes each to its place. A stolen
//! piece starts without the sum of the items before it. When all pieces are done, a second loop
//! adds that sum, segment by segment. Items that were not stolen are passed once, as in a
//! sequential scan.

use super::{
    drive::{self, Block, FnSink, ItemSink, LoopEnd},
    output::{self, Filled, WithOutput},
    over::{Loop, Mode},
    producer::{ExactProducer, Producer},
    settings::LoopSettings,
    stage::{Identity, ItemStage, LoopStage},
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind,
    },
    pool::context::WorkerContext,
};
use std::mem;

/// Prefix sums in their places, in segments that each start anew.
struct Totals<'v, R> {
    filled: Filled<'v, R>,
    /// The segments before the last one.
    ended: Vec<ScanSegment<R>>,
    /// The total of the last segment.
    total: Option<R>,
}

struct ScanSegment<R> {
    len: usize,
    total: Option<R>,
}

impl<'v, R> Totals<'v, R> {
    /// The length of the last segment.
    fn last_len(&self) -> usize {
        self.filled.len() - self.ended.iter().map(|segment| segment.len).sum::<usize>()
    }

    /// Ends the last segment, and returns the sums and all segments.
    fn finish(mut self) -> (Filled<'v, R>, Vec<ScanSegment<R>>) {
        let len = self.last_len();
        self.ended.push(ScanSegment {
            len,
            total: self.total,
        });
        (self.filled, self.ended)
    }

    fn append(self, next: Self) -> Self {
        let (filled, mut ended) = self.finish();
        let both = filled.len() + next.filled.len();
        let filled = filled.append(next.filled);
        if filled.len() < both {
            // Some results are missing in between, and those after them were dropped: the rest is
            // not needed.
            return Self {
                filled,
                ended,
                total: None,
            };
        }
        ended.extend(next.ended);
        Self {
            filled,
            ended,
            total: next.total,
        }
    }
}

/// Prefix sums including the item itself or, with a neutral value to begin with, excluding it.
struct Scan<R, F> {
    neutral: Option<R>,
    op: F,
}

impl<'v, P, S, R, F> ItemSink<WithOutput<'v, P, R>, S> for Scan<R, F>
where
    P: Producer,
    S: LoopStage<P::Item, Out = R>,
    R: Clone + Send + Sync,
    F: Fn(&R, &R) -> R + Sync,
{
    type Acc = Totals<'v, R>;

    fn start(&self, piece: &WithOutput<'v, P, R>) -> Self::Acc {
        Totals {
            filled: Filled::starting_at(&piece.slots),
            ended: Vec::new(),
            total: self.neutral.clone(),
        }
    }

    #[inline]
    fn feed(&self, mut totals: Self::Acc, block: Block<'_, WithOutput<'v, P, R>, S>) -> Self::Acc {
        let WithOutput { items, mut slots } = block.producer;
        let mut items = block.stage.apply(block.at, items.items());
        let mut total = match totals.total.take() {
            Some(total) => total,
            None => {
                // The first item of a segment is its first sum.
                let Some(first) = items.next() else {
                    return totals;
                };
                let (place, rest) = slots.split_at(1);
                slots = rest;
                totals.filled.fill(place, [first.clone()].into_iter());
                first
            }
        };
        if self.neutral.is_some() {
            let results = items.map(|item| {
                let next = (self.op)(&total, &item);
                mem::replace(&mut total, next)
            });
            totals.filled.fill(slots, results);
        } else {
            let results = items.map(|item| {
                total = (self.op)(&total, &item);
                total.clone()
            });
            totals.filled.fill(slots, results);
        }
        totals.total = Some(total);
        totals
    }

    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.append(right)
    }
}

/// Runs both loops. Returns the prefix sums, the total if there are items, and the end state.
///
/// The caller stays on the pool from the first loop to the end of the second: `op` is called
/// between them too.
fn scan<P, S, R, F>(
    settings: &LoopSettings<'_>,
    (producer, stage): (P, &S),
    neutral: Option<R>,
    op: F,
) -> (Vec<R>, Option<R>, LoopEnd)
where
    P: Producer,
    S: LoopStage<P::Item, Out = R>,
    R: Clone + Send + Sync,
    F: Fn(&R, &R) -> R + Sync,
{
    let len = producer.size();
    if len == 0 {
        return (Vec::new(), None, drive::end_empty(settings));
    }
    settings.enter_worker(|context| scan_on(context, settings, (producer, stage), len, neutral, op))
}

fn scan_on<P, S, R, F>(
    context: &WorkerContext<'_, '_>,
    settings: &LoopSettings<'_>,
    (producer, stage): (P, &S),
    len: usize,
    neutral: Option<R>,
    op: F,
) -> (Vec<R>, Option<R>, LoopEnd)
where
    P: Producer,
    S: LoopStage<P::Item, Out = R>,
    R: Clone + Send + Sync,
    F: Fn(&R, &R) -> R + Sync,
{
    let sink = Scan { neutral, op: &op };
    let (mut vector, segments, mut loop_end) =
        write_sums(context, settings, (producer, stage), len, &sink);
    let (mut before, mut at): (Option<R>, usize) = (None, 0);
    for ScanSegment { len, total } in segments {
        before = match (before, total) {
            (Some(before), Some(total)) => {
                let totals = &mut vector[at..at + len];
                loop_end.cancelled |=
                    !add_preceding(context, settings, totals, |total| op(&before, total));
                if broken(Canary::LoopScan) {
                    Some(total)
                } else if broken(Canary::LoopStray) {
                    Some(on_no_pool(|| op(&before, &total)))
                } else {
                    Some(op(&before, &total))
                }
            }
            (before, total) => before.or(total),
        };
        at += len;
    }
    (vector, before, loop_end)
}

/// A deliberate defect: calls `f` on a thread that is not on the pool.
fn on_no_pool<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    match std::thread::scope(|scope| scope.spawn(f).join()) {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}

/// The first loop: returns the sums, their segments, and the end state. Empty if it was cancelled.
fn write_sums<P, S, R, K>(
    context: &WorkerContext<'_, '_>,
    settings: &LoopSettings<'_>,
    (items, stage): (P, &S),
    len: usize,
    sink: &K,
) -> (Vec<R>, Vec<ScanSegment<R>>, LoopEnd)
where
    P: Producer,
    S: LoopStage<P::Item, Out = R>,
    R: Send,
    K: for<'v> ItemSink<WithOutput<'v, P, R>, S, Acc = Totals<'v, R>>,
{
    let (vector, (segments, loop_end)) = output::collect(len, |slots| {
        let (totals, loop_end) = drive::run_on(
            context,
            settings,
            WithOutput { items, slots },
            len,
            stage,
            sink,
        );
        let (filled, segments) = totals.finish();
        (filled, (segments, loop_end))
    });
    match vector {
        Some(vector) => (vector, segments, loop_end),
        None => {
            assert!(loop_end.cancelled, "a source had fewer items than it said");
            (Vec::new(), Vec::new(), loop_end)
        }
    }
}

/// The second loop: adds the preceding total to a segment. Returns false if it was cancelled.
fn add_preceding<R: Send>(
    context: &WorkerContext<'_, '_>,
    settings: &LoopSettings<'_>,
    totals: &mut [R],
    next: impl Fn(&R) -> R + Sync,
) -> bool {
    // The progress of these items has been reported before.
    let settings = LoopSettings {
        progress: None,
        ..*settings
    };
    let sink = FnSink {
        start: || (),
        feed: |(), block: Block<'_, &mut [R], Identity>| {
            block.items().for_each(|total| *total = next(total));
        },
        join: |(), ()| (),
    };
    let len = totals.len();
    let (_, loop_end) = drive::run_on(context, &settings, totals, len, &Identity, &sink);
    !loop_end.cancelled
}

impl<P: Producer, S: LoopStage<P::Item>, M: Mode> Loop<'_, P, S, M> {
    /// Prefix sums: of the first item, of the first two, and so on, combined with `op` in order.
    /// `op` only has to be associative.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// assert_eq!(over(1..6).inclusive_scan(|a, b| a + b), [1, 3, 6, 10, 15]);
    /// ```
    pub fn inclusive_scan(
        self,
        op: impl Fn(&S::Out, &S::Out) -> S::Out + Sync,
    ) -> M::Out<Vec<S::Out>>
    where
        P: ExactProducer,
        S: ItemStage<P::Item, Out: Clone + Send + Sync>,
    {
        let Self {
            producer,
            stage,
            settings,
            ..
        } = self;
        let (vector, _, loop_end) = scan(&settings, (producer, &stage), None, op);
        settings.output::<M, _>(vector, loop_end)
    }

    /// Prefix sums without the item itself: of no items, which is `neutral`, of the first, of the
    /// first two, and so on; and the total. `op` has to be associative, and `neutral` its neutral
    /// element.
    ///
    /// ```
    /// use filch::par::over;
    ///
    /// // The offset of each when they are concatenated, and the total length.
    /// let lengths = [3, 1, 4];
    /// assert_eq!(over(&lengths).cloned().exclusive_scan(0, |a, b| a + b), (vec![0, 3, 4], 8));
    /// ```
    pub fn exclusive_scan(
        self,
        neutral: S::Out,
        op: impl Fn(&S::Out, &S::Out) -> S::Out + Sync,
    ) -> M::Out<(Vec<S::Out>, S::Out)>
    where
        P: ExactProducer,
        S: ItemStage<P::Item, Out: Clone + Send + Sync>,
    {
        let Self {
            producer,
            stage,
            settings,
            ..
        } = self;
        let start = neutral.clone();
        let (vector, total, loop_end) = scan(&settings, (producer, &stage), Some(start), op);
        let total = total.unwrap_or(neutral);
        settings.output::<M, _>((vector, total), loop_end)
    }
}
