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

use super::{checkpoint::leaf_checkpoint, pace::BlockPace, pieces::Pieces, settings::LoopSettings};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
    },
    fork::join_on,
    pool::context::WorkerContext,
};

/// The operation of a loop on its items.
pub(super) trait ItemSink<P: Pieces>: Sync {
    /// The accumulator of a piece.
    type Acc: Send;

    /// Creates an empty accumulator for `piece`.
    fn start(&self, piece: &P) -> Self::Acc;

    /// Runs a block.
    fn feed(&self, acc: Self::Acc, block: LoopPiece<P>) -> Self::Acc;

    /// Joins the accumulators of adjacent pieces.
    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// Whether the items from `at` on are no longer needed.
    #[inline]
    fn is_enough(&self, _at: usize) -> bool {
        false
    }
}

/// A sink of closures: create an accumulator, run a block, join.
pub(super) struct Steps<S, F, J> {
    pub(super) start: S,
    pub(super) feed: F,
    pub(super) join: J,
}

impl<P, A, S, F, J> ItemSink<P> for Steps<S, F, J>
where
    P: Pieces,
    A: Send,
    S: Fn() -> A + Sync,
    F: Fn(A, LoopPiece<P>) -> A + Sync,
    J: Fn(A, A) -> A + Sync,
{
    type Acc = A;

    #[inline]
    fn start(&self, _piece: &P) -> A {
        (self.start)()
    }

    #[inline]
    fn feed(&self, acc: A, block: LoopPiece<P>) -> A {
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

/// Runs a loop over `pieces` with `settings`, and accumulates with `sink`.
///
/// The user's closures run on the pool of the loop, so that loops and joins in them use the same
/// pool. Only a loop without items does not enter the pool.
pub(super) fn run<P, K>(settings: &LoopSettings<'_>, pieces: P, sink: &K) -> (K::Acc, LoopEnd)
where
    P: Pieces,
    K: ItemSink<P>,
{
    let len = pieces.size();
    if len == 0 {
        return (sink.start(&pieces), run_empty(settings));
    }
    settings.enter_worker(|context| run_on(context, settings, pieces, len, sink))
}

/// The end of a loop without items.
pub(super) fn run_empty(settings: &LoopSettings<'_>) -> LoopEnd {
    LoopState::new(settings, &()).end(0)
}

/// [`run`] for a caller that is on the pool of the loop. `len` is the size of `pieces`.
pub(super) fn run_on<P, K>(
    context: &WorkerContext<'_, '_>,
    settings: &LoopSettings<'_>,
    pieces: P,
    len: usize,
    sink: &K,
) -> (K::Acc, LoopEnd)
where
    P: Pieces,
    K: ItemSink<P>,
{
    let acc = sink.start(&pieces);
    let shared = LoopState::new(settings, sink);
    let pace = BlockPace::new(settings.pacing, len, context, settings.counts());
    let piece = LoopPiece { pieces, at: 0, len };
    let (acc, _) = shared.walk(context, piece, acc, pace);
    (acc, shared.end(len))
}

/// The shortest interval between two progress reports, in nanoseconds.
const PROGRESS_INTERVAL_NS: u64 = 10_000_000;

/// The state that the workers of one loop share.
struct LoopState<'l, 's, K> {
    settings: &'l LoopSettings<'s>,
    sink: &'l K,
    /// A worker has panicked: the result will not be used.
    stop: AtomicBool,
    /// A worker has skipped items because the loop is cancelled.
    cancelled: AtomicBool,
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
    pub(super) pieces: P,
    /// The index of its first item in the loop.
    pub(super) at: usize,
    /// The number of its items, if the source is correct.
    pub(super) len: usize,
}

impl<P: Pieces> LoopPiece<P> {
    #[inline]
    pub(super) fn items(self) -> P::Iter {
        self.pieces.items()
    }

    /// Requires that `index` is at most its length.
    #[inline]
    pub(super) fn split_at(self, index: usize) -> (Self, Self) {
        let (near, far) = self.pieces.split_at(index);
        let part = |pieces, at, len| Self { pieces, at, len };
        (
            part(near, self.at, index),
            part(far, self.at + index, self.len - index),
        )
    }
}

/// The result of the far half.
enum Far<P, A> {
    /// It was not stolen.
    Back(LoopPiece<P>),
    /// It was stolen, and its thief accumulated this.
    Done(A),
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

impl<'l, 's, K> LoopState<'l, 's, K> {
    fn new(settings: &'l LoopSettings<'s>, sink: &'l K) -> Self {
        Self {
            settings,
            sink,
            stop: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            reported: AtomicU64::new(0),
            began: settings.progress.as_ref().map(|_| thread::nanos()),
        }
    }

    /// Walks a piece; returns the accumulator and the adapted pace.
    fn walk<P>(
        &self,
        context: &WorkerContext<'_, '_>,
        mut piece: LoopPiece<P>,
        mut acc: K::Acc,
        mut pace: BlockPace,
    ) -> (K::Acc, BlockPace)
    where
        P: Pieces,
        K: ItemSink<P>,
    {
        let stop_on_unwind = StopOnUnwind(&self.stop);
        loop {
            let len = piece.len;
            if len == 0 || self.is_over::<P>(piece.at) {
                break;
            }
            if let Some(middle) = pace.share(context, piece.at, len) {
                let (near, far) = piece.split_at(middle);
                let (gathered, rest) = join_on(
                    context,
                    |_| self.walk(context, near, acc, pace),
                    |cx| {
                        if cx.migrated() {
                            Far::Done(self.walk_stolen(far, pace))
                        } else {
                            Far::Back(far)
                        }
                    },
                );
                (acc, pace) = gathered;
                let mut back = None;
                match rest {
                    Far::Back(far) => back = Some(far),
                    // After a panic the result is not used. Relaxed: the flag only saves work; as
                    // in `StopOnUnwind`.
                    Far::Done(right) if self.stop.load(Ordering::Relaxed) => drop(right),
                    Far::Done(right) if broken(Canary::LoopOrder) => {
                        acc = self.sink.join(right, acc);
                    }
                    Far::Done(right) => acc = self.sink.join(acc, right),
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
                return (acc, pace);
            }
            let items = pace.block(piece.at, len);
            let (block, rest) = piece.split_at(items);
            acc = self.sink.feed(acc, block);
            self.count(items);
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
        (acc, pace)
    }

    #[cold]
    fn walk_stolen<P>(&self, piece: LoopPiece<P>, pace: BlockPace) -> K::Acc
    where
        P: Pieces,
        K: ItemSink<P>,
    {
        WorkerContext::with(|context| {
            let context = context.expect("a job runs on a worker of its pool");
            // `start` may run user code.
            let stop_on_unwind = StopOnUnwind(&self.stop);
            let acc = self.sink.start(&piece.pieces);
            std::mem::forget(stop_on_unwind);
            self.walk(context, piece, acc, pace.stolen()).0
        })
    }

    /// Whether the items from `at` on should be skipped.
    #[inline]
    fn is_over<P>(&self, at: usize) -> bool
    where
        P: Pieces,
        K: ItemSink<P>,
    {
        // Relaxed: the flag only saves work.
        if self.stop.load(Ordering::Relaxed) || self.sink.is_enough(at) {
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
        if self.settings.counts() {
            self.count_and_report(items);
        }
    }

    #[cold]
    fn count_and_report(&self, items: usize) {
        // Relaxed: for display; the last value is read after the joins.
        let done = self.done.fetch_add(items, Ordering::Relaxed) + items;
        let (Some(progress), Some(began)) = (&self.settings.progress, self.began) else {
            return;
        };
        let now = thread::nanos().saturating_sub(began) / PROGRESS_INTERVAL_NS;
        // Relaxed: the worker that advances the number reports; no other data depends on it.
        if self.reported.fetch_max(now, Ordering::Relaxed) < now {
            progress(done);
        }
    }

    fn end(&self, total: usize) -> LoopEnd {
        // Relaxed: all workers are done, and the joins have ordered their writes before this.
        let done = self.done.load(Ordering::Relaxed);
        // Relaxed: as above.
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        if let Some(progress) = &self.settings.progress {
            progress(done);
        }
        LoopEnd {
            cancelled,
            done,
            total,
        }
    }
}
