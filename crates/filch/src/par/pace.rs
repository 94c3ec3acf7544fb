//! Block sizes, and the decision when to share the remaining items.

use super::chunking::ChunkingStrategy;
use crate::{base::thread, pool::context::WorkerContext};

/// Target duration of a block, in nanoseconds. An idle worker waits at most one block, and the
/// clock read and queue check after it, some 50 ns, are negligible.
const TARGET_BLOCK_NS: u64 = 16_000;

/// How long, in nanoseconds, a loop shares no items if a sleeping worker would have to be woken for
/// them. Waking takes about as long, so a shorter loop costs no more than a sequential one, and a
/// longer one takes at most twice its optimal time (the ski-rental rule).
const WAKE_AFTER_NS: u64 = 15_000;

/// The same bound, in nanoseconds, if no worker has to be woken, because none sleeps or one is
/// searching already: what a steal costs its victim, in cache-line transfers.
const STEAL_AFTER_NS: u64 = 3_000;

/// The second block, which runs unshared after a first one of one item, is at most this fraction of
/// a worker's share (1/16), so that it costs little. With fewer items for each worker than this, a
/// loop is shared from the start: the first item alone may be a good part of the whole.
const TRIAL_DIVISOR: usize = 16;

/// The same fraction (1/4), but of the whole loop, if there is no other worker or the queue has
/// other jobs to steal. Inner loops are mostly short, and each clock read counts.
const INNER_TRIAL_DIVISOR: usize = 4;

/// The largest second block, in items, when only one item has been timed: that one may have been
/// atypically short.
const MAX_SECOND_BLOCK: usize = 64;

/// The largest first block, in items, if no worker waits for it.
const MAX_INNER_FIRST_BLOCK: usize = 16;

/// The largest first block, in items, if the caller requires a larger minimum of items to share.
/// Their cost is unknown at that point, and neither a cancellation nor a woken future can wait for
/// the end of a million items.
const MAX_FIRST_BLOCK_FOR_MIN: usize = MAX_INNER_FIRST_BLOCK * MAX_GROWTH_FACTOR;

/// The largest block, in items: even vectorised sums of bytes take some 10 µs for this many, and
/// the items that follow may be slower. A loop of more items than this takes longer than waking a
/// worker, so it is shared from the start: its first item may be as long as all others.
const MAX_BLOCK: usize = 1 << 20;

/// The largest factor by which a block grows or shrinks at a time: one measurement may be off.
const MAX_GROWTH_FACTOR: usize = 16;

/// Once a loop is shared, a block is at most this fraction (1/4) of the items that are left, so
/// that slow items at the end of a loop of fast ones can still be shared: their block was chosen
/// when they were not known to be slow.
const TAIL_DIVISOR: usize = 4;

/// That rule makes blocks no smaller than this fraction (1/64) of the size for `TARGET_BLOCK_NS`:
/// shorter ones would take less time than the checks between them.
const MIN_TAIL_DIVISOR: usize = 64;

/// Blocks and pieces of more items than this begin at a multiple of it, in items, so that they are
/// aligned like the first one: vector loads that cross cache lines make sums a fifth slower.
const ALIGN: usize = 64;

/// How the caller wants the loop to be split.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pacing {
    /// Block sizes that adapt to the measured time.
    Adaptive {
        /// The smallest number of items that is shared.
        min: usize,
        /// The largest block, in items.
        max: usize,
        /// Share from the start.
        eager: bool,
    },
    /// Chunks cut beforehand.
    Chunks(ChunkingStrategy),
}

impl Pacing {
    pub(super) const ADAPTIVE: Self = Self::Adaptive {
        min: 1,
        max: usize::MAX,
        eager: false,
    };

    /// The same for a loop whose items are chunks of `size` items, which are not cut again.
    pub(super) fn of_chunks(self, size: usize) -> Self {
        match self {
            Self::Adaptive { min, max, eager } => Self::Adaptive {
                min: min.div_ceil(size),
                max: (max / size).max(1),
                eager,
            },
            Self::Chunks(_) => Self::ADAPTIVE,
        }
    }
}

/// The block sizes and sharing state of one worker for its piece of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPace {
    /// The smallest number of items that is shared.
    min: usize,
    /// The largest block, in items.
    max: usize,
    /// The number of items of the next block; at least one.
    block: usize,
    /// The largest size of the block after it.
    max_next: usize,
    /// There is no other worker.
    is_only_worker: bool,
    sharing: Sharing,
    /// When the loop began, and when the last block ended, in nanoseconds; `None` if the loop is a
    /// single block. In a rehearsal the time is simulated.
    times: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Whenever there is more than a chunk, which has `max` items. A chunk is run by one worker,
    /// but in blocks: it may be as long as a third of the loop.
    Chunks,
    /// After `WAKE_AFTER_NS`, or after `STEAL_AFTER_NS` if no worker has to be woken.
    Later,
    /// Whenever the queue is empty.
    Now,
}

impl BlockPace {
    /// Creates the pace of a loop over `len` items. If `watching`, for a token or for the progress,
    /// the first block is as small as possible.
    pub(super) fn new(
        pacing: Pacing,
        len: usize,
        context: &WorkerContext<'_, '_>,
        watching: bool,
    ) -> Self {
        let workers = context.pool().live_workers() + usize::from(context.is_temporary());
        let (min, max, sharing) = match pacing {
            Pacing::Adaptive { min, max, eager } => {
                let sharing = if eager { Sharing::Now } else { Sharing::Later };
                (min.max(1), max.max(1), sharing)
            }
            Pacing::Chunks(strategy) => {
                let size = strategy.chunk_size(len, workers);
                (1, size, Sharing::Chunks)
            }
        };
        let alone = workers == 1 || context.has_queued();
        let parts = if alone {
            INNER_TRIAL_DIVISOR
        } else {
            workers.saturating_mul(TRIAL_DIVISOR)
        };
        let few = len / min < parts;
        let is_long = len > MAX_BLOCK;
        let trial = len / parts;
        // If other workers could help, they wait for the first block: one item may take long enough
        // to share the rest.
        let (first, second) = if alone && !watching {
            (
                trial.min(MAX_INNER_FIRST_BLOCK),
                MAX_INNER_FIRST_BLOCK * MAX_GROWTH_FACTOR,
            )
        } else {
            (1, trial.min(MAX_SECOND_BLOCK))
        };
        let block = first.max(min.min(MAX_FIRST_BLOCK_FOR_MIN)).min(max);
        Self {
            // `max` takes precedence.
            min: min.min(max),
            max,
            block,
            max_next: second.max(block),
            is_only_worker: workers == 1,
            sharing: match sharing {
                Sharing::Later if few || is_long => Sharing::Now,
                sharing => sharing,
            },
            times: (len > block).then(|| {
                let now = thread::nanos();
                (now, now)
            }),
        }
    }

    /// The pace of a stolen piece: the same, but its thief shares it without delay.
    pub(super) fn for_thief(mut self) -> Self {
        if self.sharing == Sharing::Later {
            self.sharing = Sharing::Now;
        }
        self.restart_timing();
        self
    }

    /// Excludes the time since the last block, which was not spent on items, from the measurement.
    pub(super) fn restart_timing(&mut self) {
        if let Some((_, last)) = &mut self.times {
            *last = thread::nanos();
        }
    }

    /// The number of items of the next block, out of `len` that begin at `at`.
    #[inline]
    pub(super) fn next_block(&self, at: usize, len: usize) -> usize {
        let block = self.max_block(len);
        if len <= block {
            len
        } else {
            aligned(at, block)
        }
    }

    /// The largest next block out of `len` items.
    #[inline]
    fn max_block(&self, len: usize) -> usize {
        if self.sharing != Sharing::Now || self.is_only_worker {
            return self.block;
        }
        let least = (self.block / MIN_TAIL_DIVISOR).max(1);
        self.block.min(least.max(len / TAIL_DIVISOR))
    }

    /// Where to split the remaining `len` items that begin at `at`, if some should be shared now.
    #[inline]
    pub(super) fn split_point(
        &mut self,
        context: &WorkerContext<'_, '_>,
        at: usize,
        len: usize,
    ) -> Option<usize> {
        if self.sharing == Sharing::Chunks {
            // Whole chunks on the left, and at least as many as on the right. A piece that is
            // walked is at most a chunk, so splits are at chunk boundaries.
            let chunks = len.div_ceil(self.max);
            return (chunks > 1).then(|| chunks.div_ceil(2) * self.max);
        }
        if len <= self.max_block(len) {
            return None;
        }
        if len / 2 < self.min || context.has_queued() {
            // As long as the queue has something to steal, no worker is idle because of this loop
            // (lazy binary splitting, after Tzannes, Caragea, Barua and Vishkin).
            return None;
        }
        if self.sharing == Sharing::Later {
            let passed = self
                .times
                .map_or(0, |(began, last)| last.saturating_sub(began));
            if passed >= WAKE_AFTER_NS {
                self.sharing = Sharing::Now;
            } else if passed < STEAL_AFTER_NS || context.pool().core().sleep_state().wants_wake() {
                return None;
            }
        }
        let near = len - len / 2;
        let fewer = aligned(at, near);
        // For a short piece the alignment would remove most of a half.
        let few = near < 16 * ALIGN || fewer < self.min;
        Some(if few { near } else { fewer })
    }

    /// Adapts the block size after a block of `items` has been run.
    #[inline]
    pub(super) fn adapt(&mut self, items: usize) {
        let Some((_, last)) = &mut self.times else {
            return;
        };
        let now = thread::nanos();
        let took = now.saturating_sub(*last).max(1);
        *last = now;
        let fits = (items as u64).saturating_mul(TARGET_BLOCK_NS) / took;
        let fits = usize::try_from(fits).unwrap_or(usize::MAX);
        let least = self.block / MAX_GROWTH_FACTOR;
        self.block = fits.max(least).min(self.max_next).min(self.max).max(1);
        self.max_next = self.block.saturating_mul(MAX_GROWTH_FACTOR).min(MAX_BLOCK);
    }
}

/// `items`, or a few less, so that the items after them begin at a multiple of `ALIGN`.
#[inline]
fn aligned(at: usize, items: usize) -> usize {
    if items < ALIGN {
        items
    } else {
        items - at.wrapping_add(items) % ALIGN
    }
}
