//! Execution of a loop: in blocks, with the rest shared when a worker is idle.
//!
//! A worker walks its piece block by block. Between two blocks it checks whether its queue has a
//! job that others could steal. If not, it queues the far half of the remaining items, and
//! continues with the near half. If the far half has not been stolen by the end of the near half,
//! the worker takes it back and continues with the same accumulator: so a loop without thieves is a
//! sequential loop with a handful of pushes. A stolen piece has its own accumulator, which is
//! joined to that of the items before it.
//!
//! Pieces are halved, so the stack depth is at most the number of binary digits of the length.

use super::{
    checkpoint::leaf_checkpoint, pace::BlockPace, producer::Producer, settings::LoopSettings,
    stage::LoopStage,
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
    },
    fork::join_on,
    pool::context::WorkerContext,
};

/// The operation of a loop on its items, after a stage of type `S`.
pub(super) trait ItemSink<P: Producer, S>: Sync {
    /// The accumulator of a piece.
    type Acc: Send;

    /// Creates an empty accumulator for `piece`.
    fn start(&self, piece: &P) -> Self::Acc;

    /// Runs a block.
    fn feed(&self, acc: Self::Acc, block: Block<'_, P, S>) -> Self::Acc;

    /// Joins the accumulators of adjacent pieces.
    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// Whether the items from `at` on are no longer needed.
    #[inline]
    fn should_stop_at(&self, _at: usize) -> bool {
        false
    }
}

/// A sink of closures: create an accumulator, run a block, join.
pub(super) struct FnSink<N, F, J> {
    pub(super) start: N,
    pub(super) feed: F,
    pub(super) join: J,
}

impl<P, S, A, N, F, J> ItemSink<P, S> for FnSink<N, F, J>
where
    P: Producer,
    A: Send,
    N: Fn() -> A + Sync,
    F: Fn(A, Block<'_, P, S>) -> A + Sync,
    J: Fn(A, A) -> A + Sync,
{
    type Acc = A;

    #[inline]
    fn start(&self, _piece: &P) -> A {
        (self.start)()
    }

    #[inline]
    fn feed(&self, acc: A, block: Block<'_, P, S>) -> A {
        (self.feed)(acc, block)
    }

    #[inline]
    fn join(&self, left: A, right: A) -> A {
        (self.join)(left, right)
    }
}

/// The state of a loop at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopEnd {
    /// It was cancelled with items left.
    pub(super) cancelled: bool,
    /// The number of items done; counted only if the loop can be cancelled or reports progress.
    pub(super) done: usize,
    /// The number of items in total.
    pub(super) total: usize,
}

/// Runs a loop over `producer` with `settings`: `stage` is applied to each block, and `sink`
/// accumulates what comes out of it.
///
/// The user's closures run on the pool of the loop, so that loops and joins in them use the same
/// pool. Only a loop without items does not enter the pool.
pub(super) fn run<P, S, K>(
    settings: &LoopSettings<'_>,
    producer: P,
    stage: &S,
    sink: &K,
) -> (K::Acc, LoopEnd)
where
    P: Producer,
    S: LoopStage<P::Item>,
    K: ItemSink<P, S>,
{
    let len = producer.size();
    if len == 0 {
        return (sink.start(&producer), end_empty(settings));
    }
    settings.enter_worker(|context| run_on(context, settings, producer, len, stage, sink))
}

/// The end of a loop without items.
pub(super) fn end_empty(settings: &LoopSettings<'_>) -> LoopEnd {
    LoopState::new(settings, &(), &()).finish(0)
}

/// [`run`] for a caller that is on the pool of the loop. `len` is the size of `producer`.
pub(super) fn run_on<P, S, K>(
    context: &WorkerContext<'_, '_>,
    settings: &LoopSettings<'_>,
    producer: P,
    len: usize,
    stage: &S,
    sink: &K,
) -> (K::Acc, LoopEnd)
where
    P: Producer,
    S: LoopStage<P::Item>,
    K: ItemSink<P, S>,
{
    let acc = sink.start(&producer);
    let shared = LoopState::new(settings, stage, sink);
    let pace = BlockPace::new(settings.pacing, len, context, settings.is_counting());
    let piece = LoopPiece {
        producer,
        at: 0,
        len,
    };
    let walked = shared.walk(context, piece, acc, pace);
    (walked.acc, shared.finish(len))
}

/// The shortest interval between two progress reports, in nanoseconds.
const PROGRESS_INTERVAL_NS: u64 = 10_000_000;

/// The state that the workers of one loop share.
struct LoopState<'l, 's, S, K> {
    settings: &'l LoopSettings<'s>,
    stage: &'l S,
    sink: &'l K,
    /// A worker has panicked: the result will not be used.
    stop: AtomicBool,
    /// A worker has skipped items because the loop is cancelled.
    cancelled: AtomicBool,
    /// If the number of workers is limited: how many more pieces may be walked or offered.
    permits: Option<AtomicUsize>,
    /// The number of items done, if it is counted.
    done: AtomicUsize,
    /// When progress was last reported: in units of `PROGRESS_INTERVAL_NS` since the beginning.
    reported: AtomicU64,
    began: Option<u64>,
}

/// A part of the loop.
///
/// It has its own length: the source is asked for its size only once, before the loop. So even if a
/// user's source reports wrong sizes afterwards, pieces get shorter with every split and every
/// block, and the loop terminates.
pub(super) struct LoopPiece<P> {
    pub(super) producer: P,
    /// The index of its first item in the loop.
    pub(super) at: usize,
    /// The number of its items, if the source is correct.
    pub(super) len: usize,
}

impl<P: Producer> LoopPiece<P> {
    /// Requires that `index` is at most its length.
    #[inline]
    pub(super) fn split_at(self, index: usize) -> (Self, Self) {
        let (near, far) = self.producer.split_at(index);
        let part = |producer, at, len| Self { producer, at, len };
        (
            part(near, self.at, index),
            part(far, self.at + index, self.len - index),
        )
    }
}

/// Items that one worker runs without a break, and the stage that is applied to them.
pub(super) struct Block<'s, P, S> {
    pub(super) producer: P,
    /// The index of its first item in the loop.
    pub(super) at: usize,
    pub(super) stage: &'s S,
}

impl<'s, P: Producer, S: LoopStage<P::Item>> Block<'s, P, S> {
    /// The items after the stage.
    #[inline]
    pub(super) fn items(self) -> impl Iterator<Item = S::Out> + use<'s, P, S> {
        self.stage.apply(self.at, self.producer.items())
    }

    /// Appends the items after the stage.
    #[inline]
    pub(super) fn extend(self, output: &mut Vec<S::Out>) {
        self.stage.extend(self.at, self.producer.items(), output);
    }
}

/// The result of the far half.
enum FarHalf<P, A> {
    /// It was not stolen.
    NotStolen(LoopPiece<P>),
    /// It was stolen, and its thief accumulated this.
    Done(A),
}

/// What a walk returns.
struct Walked<A> {
    acc: A,
    /// The adapted pace.
    pace: BlockPace,
    /// The worker still counts as one that walks a piece. It does not after a wait for a thief:
    /// during the wait others may have shared more.
    counts: bool,
}

/// Sets the flag when dropped, so that the other workers stop; to be forgotten if no panic
/// occurred.
pub(super) struct StopOnUnwind<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnUnwind<'_> {
    #[cold]
    fn drop(&mut self) {
        if broken(Canary::LoopAlarm) {
            return;
        }
        // Relaxed: the flag only saves work.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'l, 's, S, K> LoopState<'l, 's, S, K> {
    fn new(settings: &'l LoopSettings<'s>, stage: &'l S, sink: &'l K) -> Self {
        Self {
            settings,
            stage,
            sink,
            stop: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            permits: settings
                .at_most
                .map(|workers| AtomicUsize::new(workers - 1)),
            done: AtomicUsize::new(0),
            reported: AtomicU64::new(0),
            began: settings.progress.as_ref().map(|_| thread::nanos()),
        }
    }

    /// Takes the permit for one more piece, if there is one left.
    #[inline]
    fn acquire_permit(&self) -> bool {
        let Some(permits) = &self.permits else {
            return true;
        };
        // Relaxed: only a count; the joins order the items.
        permits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |permits| {
                permits.checked_sub(1)
            })
            .is_ok()
    }

    /// Returns the permit of one piece.
    #[inline]
    fn release_permit(&self) {
        if let Some(permits) = &self.permits {
            // Relaxed: as in `acquire_permit`.
            permits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Walks a piece, for which the caller has a permit.
    ///
    /// If the number of workers is limited, each piece that is walked or offered takes a permit.
    /// The worker that has split a piece returns its own permit when it has walked the near half:
    /// if the far half was stolen, it waits from then on, and else it takes over the permit of that
    /// half.
    fn walk<P>(
        &self,
        context: &WorkerContext<'_, '_>,
        mut piece: LoopPiece<P>,
        mut acc: K::Acc,
        mut pace: BlockPace,
    ) -> Walked<K::Acc>
    where
        P: Producer,
        S: LoopStage<P::Item>,
        K: ItemSink<P, S>,
    {
        let stop_on_unwind = StopOnUnwind(&self.stop);
        loop {
            let len = piece.len;
            if len == 0 || self.should_skip(&piece) {
                break;
            }
            if let Some(middle) = pace.split_point(context, piece.at, len)
                && self.acquire_permit()
            {
                let (near, far) = piece.split_at(middle);
                let (walked, rest) = join_on(
                    context,
                    |_| {
                        let walked = self.walk(context, near, acc, pace);
                        if walked.counts {
                            self.release_permit();
                        }
                        walked
                    },
                    |cx| {
                        if cx.migrated() {
                            FarHalf::Done(self.walk_stolen(far, pace))
                        } else {
                            FarHalf::NotStolen(far)
                        }
                    },
                );
                (acc, pace) = (walked.acc, walked.pace);
                let mut back = None;
                match rest {
                    FarHalf::NotStolen(far) => back = Some(far),
                    // After a panic the result is not used. Relaxed: the flag only saves work; as
                    // in `StopOnUnwind`.
                    FarHalf::Done(right) if self.stop.load(Ordering::Relaxed) => drop(right),
                    FarHalf::Done(right) if broken(Canary::LoopOrder) => {
                        acc = self.sink.join(right, acc);
                    }
                    FarHalf::Done(right) => acc = self.sink.join(acc, right),
                }
                if let Some(back) = back {
                    piece = back;
                    // The near half may have been a single block, which has no checkpoint.
                    if leaf_checkpoint() {
                        pace.restart_timing();
                    }
                    continue;
                }
                std::mem::forget(stop_on_unwind);
                let counts = false;
                return Walked { acc, pace, counts };
            }
            let items = pace.next_block(piece.at, len);
            let (block, rest) = piece.split_at(items);
            acc = self.feed(acc, block);
            piece = rest;
            if items == len {
                break;
            }
            pace.adapt(items);
            if leaf_checkpoint() {
                pace.restart_timing();
            }
        }
        // The remaining items are dropped while the accumulator is still owned here: if a
        // destructor panics, the accumulator is dropped as well.
        drop(piece);
        std::mem::forget(stop_on_unwind);
        let counts = true;
        Walked { acc, pace, counts }
    }

    #[cold]
    fn walk_stolen<P>(&self, piece: LoopPiece<P>, pace: BlockPace) -> K::Acc
    where
        P: Producer,
        S: LoopStage<P::Item>,
        K: ItemSink<P, S>,
    {
        WorkerContext::with(|context| {
            let context = context.expect("a job runs on a worker of its pool");
            // `start` may run user code.
            let stop_on_unwind = StopOnUnwind(&self.stop);
            let acc = self.sink.start(&piece.producer);
            std::mem::forget(stop_on_unwind);
            let walked = self.walk(context, piece, acc, pace.for_thief());
            if walked.counts {
                self.release_permit();
            }
            walked.acc
        })
    }

    /// Runs `block`.
    #[inline]
    fn feed<P>(&self, acc: K::Acc, block: LoopPiece<P>) -> K::Acc
    where
        P: Producer,
        S: LoopStage<P::Item>,
        K: ItemSink<P, S>,
    {
        let LoopPiece { producer, at, len } = block;
        // If the items are in no order, what one block has found holds for all others.
        let at = if P::ORDERED { at } else { 0 };
        let stage = self.stage;
        let acc = self.sink.feed(
            acc,
            Block {
                producer,
                at,
                stage,
            },
        );
        self.count(len);
        acc
    }

    /// Whether the items of `piece`, and those after it, should be skipped.
    #[inline]
    fn should_skip<P>(&self, piece: &LoopPiece<P>) -> bool
    where
        P: Producer,
        S: LoopStage<P::Item>,
        K: ItemSink<P, S>,
    {
        // Relaxed: the flag only saves work.
        let stopped = self.stop.load(Ordering::Relaxed);
        let enough = self.sink.should_stop_at(piece.at) || self.stage.should_stop_at(piece.at);
        if stopped || enough || piece.producer.is_exhausted() {
            return true;
        }
        let cancelled = self.settings.is_cancelled();
        if cancelled {
            // Relaxed: read after the joins, when all workers are done.
            self.cancelled.store(true, Ordering::Relaxed);
        }
        cancelled
    }

    /// Counts `items` more as done.
    #[inline]
    fn count(&self, items: usize) {
        if self.settings.is_counting() {
            self.count_and_report(items);
        }
    }

    #[cold]
    fn count_and_report(&self, items: usize) {
        // Relaxed: for display; the last value is read after the joins.
        self.done.fetch_add(items, Ordering::Relaxed);
        let (Some(progress), Some(began)) = (&self.settings.progress, self.began) else {
            return;
        };
        let now = thread::nanos().saturating_sub(began) / PROGRESS_INTERVAL_NS;
        // Relaxed: the worker that advances the number reports; no other data depends on it.
        if self.reported.fetch_max(now, Ordering::Relaxed) < now {
            // Relaxed: for display. Loaded last, so that a report is seldom less than the one
            // before.
            progress(
                self.settings
                    .in_user_items(self.done.load(Ordering::Relaxed)),
            );
        }
    }

    /// Reports the progress for the last time, and returns how the loop has ended.
    fn finish(&self, total: usize) -> LoopEnd {
        // Relaxed: all workers are done, and the joins have ordered their writes before this.
        let done = self
            .settings
            .in_user_items(self.done.load(Ordering::Relaxed));
        // Relaxed: as above.
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        if let Some(progress) = &self.settings.progress {
            progress(done);
        }
        LoopEnd {
            cancelled,
            done,
            total: self.settings.in_user_items(total),
        }
    }
}
