//! How many items in one go, and when to share the rest.

use super::chunking::ChunkingStrategy;
use crate::{base::thread, pool::context::WorkerContext};

/// How long a block of items should take, in nanoseconds. An idle worker waits for the end of a block at most, and the look at the clock
/// and at the queue after it, some 50 ns, is lost in it.
const BLOCK: u64 = 16_000;

/// So long, in nanoseconds, a loop keeps its items for itself when somebody would have to be woken for them: waking takes about as long,
/// so a loop that is shorter costs no more than one in sequence, and a longer one is at most twice as late as it could
/// be. (The rule of those who rent skis.)
const WAKE_AFTER: u64 = 15_000;

/// The same when nobody sleeps: what a thief costs its victim, in cache lines that wander.
const STEAL_AFTER: u64 = 3_000;

/// What is tried out alone, after the first item, is such a part of a worker's share at most, so that it costs little. With
/// fewer items a worker than this, a loop is shared from the start: the first item alone may be a good part of the whole.
const TRIAL: usize = 16;

/// The same where there is nobody to share with, or something else to steal: such a part of the whole. Loops inside of
/// loops are most often short, and each look at the clock counts.
const INNER_TRIAL: usize = 4;

/// The most items of the second block, when one item has been timed: that may be next to nothing, or have been easy.
const SECOND: usize = 64;

/// The most items of the first block where nobody waits for it.
const INNER_FIRST: usize = 16;

/// The most items of the first block if the caller wants more at least, which is how little goes to others. Nothing is known
/// of them yet, and neither a cancellation nor a future that has been woken can wait for the end of a million.
const LEAST_FIRST: usize = INNER_FIRST * STEP;

/// The most items of a block: even bytes that are summed up by the dozen take some 10 µs, and items that follow may be
/// quite different.
const MOST: usize = 1 << 20;

/// The most by which a block grows or shrinks at a time: one measurement may be off.
const STEP: usize = 16;

/// Blocks and pieces of more items than this begin at a multiple of it, so that they lie in memory as the first one does:
/// vectors of numbers that stand across two lines take a fifth longer to be summed up.
const ALIGN: usize = 64;

/// What the caller asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pacing {
    /// Blocks that fit the time they take.
    Adaptive {
        /// The least items that go to somebody else.
        min: usize,
        /// The most.
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
}

/// The pace at which one worker goes through its piece of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The least items that go to somebody else.
    min: usize,
    /// The most items of a block.
    max: usize,
    /// How many items the next block has; at least one.
    block: usize,
    /// The most that the block after it may have.
    most: usize,
    shares: Shares,
    /// When the loop began, and when the last block ended; nothing where nobody wants to know. In a rehearsal time is what
    /// has happened.
    times: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shares {
    /// Whenever there is more than a chunk, which has `max` items. A chunk is done by one worker, but it has blocks as
    /// everything else: it may be as long as a third of the loop.
    Chunks,
    /// When it has been worth it for long enough.
    Later,
    /// When there is nothing in the queue.
    Now,
}

impl Pace {
    /// For a loop over `len` items. If somebody is `watching`, by a token or for the progress, the first block is as small
    /// as can be.
    pub(super) fn new(
        pacing: Pacing,
        len: usize,
        context: &WorkerContext<'_, '_>,
        watching: bool,
    ) -> Self {
        let workers = context.pool().threads() + usize::from(context.is_guest());
        let (min, max, shares) = match pacing {
            Pacing::Adaptive { min, max, eager } => {
                let shares = if eager { Shares::Now } else { Shares::Later };
                (min.max(1), max.max(1), shares)
            }
            Pacing::Chunks(strategy) => {
                let size = strategy.chunk_size(len, workers);
                (1, size, Shares::Chunks)
            }
        };
        let alone = workers == 1 || context.has_queued();
        let parts = if alone {
            INNER_TRIAL
        } else {
            workers.saturating_mul(TRIAL)
        };
        let few = len / min < parts;
        let trial = len / parts;
        // If others could help, they wait for the first block: one item may take long enough to share the rest.
        let (first, second) = if alone && !watching {
            (trial.min(INNER_FIRST), INNER_FIRST * STEP)
        } else {
            (1, trial.min(SECOND))
        };
        let block = first.max(min.min(LEAST_FIRST)).min(max);
        Self {
            // The most counts more.
            min: min.min(max),
            max,
            block,
            most: second.max(block),
            shares: match shares {
                Shares::Later if few => Shares::Now,
                shares => shares,
            },
            times: (len > block).then(|| {
                let now = thread::nanos();
                (now, now)
            }),
        }
    }

    /// For a piece that was stolen: the same pace, but whoever has stolen it shares it.
    pub(super) fn stolen(mut self) -> Self {
        if self.shares == Shares::Later {
            self.shares = Shares::Now;
        }
        self.go_on();
        self
    }

    /// What has passed since the last block was not spent on items.
    pub(super) fn go_on(&mut self) {
        if let Some((_, last)) = &mut self.times {
            *last = thread::nanos();
        }
    }

    /// How many items the next block has, of `len` from `at` on.
    #[inline]
    pub(super) fn block(&self, at: usize, len: usize) -> usize {
        if len <= self.block {
            len
        } else {
            aligned(at, self.block)
        }
    }

    /// Where to cut `len` items that are left, from `at` on, if some should be shared with others now.
    #[inline]
    pub(super) fn share(
        &mut self,
        context: &WorkerContext<'_, '_>,
        at: usize,
        len: usize,
    ) -> Option<usize> {
        if self.shares == Shares::Chunks {
            // Whole chunks on the left, and no fewer than on the right. What is walked is a chunk at most, so cuts are where
            // chunks begin.
            let chunks = len.div_ceil(self.max);
            return (chunks > 1).then(|| chunks.div_ceil(2) * self.max);
        }
        if len <= self.block {
            return None;
        }
        if len / 2 < self.min || context.has_queued() {
            // As long as there is something to steal here, nobody goes hungry (lazy binary splitting, after Tzannes,
            // Caragea, Barua and Vishkin).
            return None;
        }
        if self.shares == Shares::Later {
            let passed = self
                .times
                .map_or(0, |(began, last)| last.saturating_sub(began));
            if passed >= WAKE_AFTER {
                self.shares = Shares::Now;
            } else if passed < STEAL_AFTER || context.pool().core().sleep().wants_wake() {
                return None;
            }
        }
        let near = len - len / 2;
        let fewer = aligned(at, near);
        // Of a few items those that are taken off would be most of a half.
        let few = near < 16 * ALIGN || fewer < self.min;
        Some(if few { near } else { fewer })
    }

    /// A block of `items` has been done.
    #[inline]
    pub(super) fn adapt(&mut self, items: usize) {
        let Some((_, last)) = &mut self.times else {
            return;
        };
        let now = thread::nanos();
        let took = now.saturating_sub(*last).max(1);
        *last = now;
        let fits = (items as u64).saturating_mul(BLOCK) / took;
        let fits = usize::try_from(fits).unwrap_or(usize::MAX);
        let least = self.block / STEP;
        self.block = fits.max(least).min(self.most).min(self.max).max(1);
        self.most = self.block.saturating_mul(STEP).min(MOST);
    }
}

/// So many items from `at` on, or a few less, so that the next ones begin where they should.
#[inline]
fn aligned(at: usize, items: usize) -> usize {
    if items < ALIGN {
        items
    } else {
        items - at.wrapping_add(items) % ALIGN
    }
}
