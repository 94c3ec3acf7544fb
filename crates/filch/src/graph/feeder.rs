//! Feeders: the jobs that hand out the sources of a run, a block at a time; see `run`.

use super::{block::BlockTasks, run::GraphRun};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::Ordering,
        thread,
    },
    pool::context::WorkerContext,
};
use std::ptr;

/// Maximum length of a block of sources. 1,024 empty tasks take six microseconds, so that the cost
/// of a block is negligible.
const MAX_BLOCK_LEN: usize = 1024;

/// Number of blocks of the maximum length for each one that is timed: reading the clock takes as
/// long as a few tasks.
const TIMED_BLOCK_INTERVAL: usize = 8;

/// Target duration of a block of sources, in nanoseconds: a few times as long as a thief needs to
/// steal a part of it.
const TARGET_BLOCK_NANOS: u64 = 8_000;

impl GraphRun<'_> {
    /// Takes some sources and runs their strands. Where tasks have runs inside them, most blocks
    /// are short, so this continues with the feeders that it has queued.
    pub(super) fn feed(&self, context: &WorkerContext<'_, '_>) {
        let mut clock = None;
        self.feed_block(context, &mut clock);
        if !self.is_special || self.ready.is_some() || !self.may_walk(context) {
            return;
        }
        let (mut continued, urgency) = (0, context.urgency());
        while !(self.has_time_slice(context) || urgency.is_raised() && self.should_yield(context))
            && self.take_back_feeder(context)
        {
            self.feed_block(context, &mut clock);
            continued += 1;
        }
        self.done_with_more(context, continued);
    }

    /// Takes the newest job of this worker if it is the feeder of this run. Only where strands may
    /// [walk](Self::may_walk).
    pub(super) fn take_back_feeder(&self, context: &WorkerContext<'_, '_>) -> bool {
        let feeder = ptr::from_ref(self).cast();
        context
            .continue_with(|data| ptr::eq(data, feeder))
            .is_some()
    }

    /// Takes one block of sources and runs their strands. `clock` is the time if it has just been
    /// read, before and after.
    fn feed_block(&self, context: &WorkerContext<'_, '_>, clock: &mut Option<u64>) {
        let before = clock.take();
        if let Some(ready) = &self.ready {
            return self.run_best_for_source(context, ready);
        }
        // A single source needs no cursor.
        if let &[only] = self.sources {
            return self.strand(context, only, false);
        }
        thread::point();
        let (all, workers) = (self.sources.len(), context.pool().live_workers().max(1));
        // Relaxed, twice: estimates.
        let left = all.saturating_sub(self.cursor.next.load(Ordering::Relaxed));
        let usual = self.cursor.block_len.load(Ordering::Relaxed);
        // Blocks get shorter towards the end: the last tasks may be long, and stealing one from a
        // block costs more than taking it from the cursor.
        let block_len = if left < 16 * workers || self.is_served(context) {
            1
        } else {
            usual.min(left / (8 * workers))
        };
        // A worker that has no block takes one source at a time.
        let holder = if block_len > 1 || left == 0 && !self.is_served(context) {
            self.blocks.acquire(context.worker())
        } else {
            None
        };
        let block_len = if holder.is_some() { block_len } else { 1 };
        // Relaxed: the sources were written before the first feeder was queued.
        let begin = match left {
            0 => all,
            _ => self.cursor.next.fetch_add(block_len, Ordering::Relaxed),
        };
        let positions = if begin < all {
            begin as u32..(begin + block_len).min(all) as u32
        } else if let Some(stolen) = self.blocks.steal(context.worker(), holder.is_none()) {
            stolen
        } else {
            return;
        };
        let block = holder.as_ref().filter(|_| positions.len() > 1);
        let claims = block.map(|block| block.open(positions.clone()));
        // After the block was opened, so that the worker that runs the feeder sees it. Before the
        // strands queue anything, so that the feeder is the oldest job, which thieves take first.
        let is_last = positions.end as usize == all && self.blocks.is_none();
        if !(is_last || broken(Canary::GraphFeeder) && begin + block_len >= all) {
            self.push_to(context, self.feeder_job(), self.placement());
        }
        let usual = block_len == usual && begin < all && !self.blocks.is_none();
        let timed = usual
            && (block_len < MAX_BLOCK_LEN
                || (begin / MAX_BLOCK_LEN).is_multiple_of(TIMED_BLOCK_INTERVAL));
        let began = timed.then(|| before.unwrap_or_else(thread::nanos));
        match claims {
            Some(claims) if self.is_special => {
                self.strands_special(context, &BlockTasks::new(claims, self.sources));
            }
            Some(claims) => self.strands(context, &BlockTasks::new(claims, self.sources)),
            None => self.strand(context, self.sources[positions.start as usize], false),
        }
        if let Some(began) = began {
            let now = thread::nanos();
            self.adjust_block_len(block_len, now.saturating_sub(began));
            *clock = Some(now);
        }
    }

    /// Adapts the block length after `block_len` sources have taken `nanos`: the next block should
    /// take [`TARGET_BLOCK_NANOS`], and is at most twice as long as the last one.
    fn adjust_block_len(&self, block_len: usize, nanos: u64) {
        let next = block_len as u64 * TARGET_BLOCK_NANOS / nanos.max(1);
        let next = next
            .clamp(1, 2 * block_len as u64)
            .min(MAX_BLOCK_LEN as u64) as usize;
        if next != block_len {
            // Relaxed: an estimate.
            self.cursor.block_len.store(next, Ordering::Relaxed);
        }
    }
}
