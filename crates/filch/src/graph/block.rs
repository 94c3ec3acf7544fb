//! Sources that a worker has taken and not started.
//!
//! # The protocol
//!
//! A worker takes sources from the cursor of a run in *blocks*: ranges of positions in the list of
//! sources. The worker that starts them, one after the other, is the *holder* of the block. The
//! positions that it has not claimed stay in the block, where a *thief*, another worker or a wait
//! further up the same stack, takes the far half of them.
//!
//! The word `next` is the first position that the holder has not claimed; only the holder writes
//! it. The word `end` is the position behind the last one; it is written under the lock. A block is
//! empty when `next` is not less than `end`.
//!
//! The holder claims position `at` in three steps: it stores `at + 1` in `next`, passes the light
//! barrier, and loads `end`. If `at` is less than `end`, the position is the holder's. Otherwise it
//! withdraws the claim, takes the lock, and loads `end` again: a thief may have put it back.
//!
//! A thief has the lock. It loads `next` and `end`, stores the middle of the two in `end`, passes
//! the heavy barrier, and loads `next` again. If that is not beyond the middle, the positions from
//! the middle on are the thief's. Otherwise the holder may own one of them: the thief puts `end`
//! back and takes nothing.
//!
//! Either the thief's second load comes after the holder's store, and sees the claim; or the
//! holder's load comes after the thief's store, and sees the new end. The barriers exclude that
//! both miss each other. So no position is claimed twice. None is lost: what the thief does not
//! take is below `end` when it releases the lock. The scheme is that of Cilk-5's deques (Frigo,
//! Leiserson, Randall, PLDI 1998), with a process-wide barrier on the thief's side, so that a claim
//! costs the holder a store and a load.
//!
//! # Why a thief finds every block
//!
//! A *feeder* is the job that hands out sources (see `run`). A holder queues a feeder *after* it
//! has opened its block. A feeder that starts takes from the cursor or from a block, and queues
//! another one; or it finds all of them empty, and ends. Only the holder of a block puts positions
//! into it. So as long as a position is unclaimed, a feeder is queued, or is running and has not
//! yet checked that block.

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, hint},
    sys::barrier,
    thread,
};
use std::{cell::Cell, ops::Range, sync::PoisonError};

/// Minimum number of sources for a plan to have blocks; with fewer, each source is taken
/// separately.
const MIN_SOURCES: usize = 16;

/// Maximum number of blocks of a plan. A worker that finds none free takes one source at a time.
const MAX_BLOCKS: usize = 128;

/// How many blocks a worker tries to acquire, one after the other.
const MAX_ACQUIRE_TRIES: usize = 4;

/// How long a thief waits between two checks of a block whose holder makes progress, in spin-loop
/// hints: about a microsecond, as long as the barrier takes.
const SPINS_PER_CHECK: u32 = 32;

/// How many times a thief checks for progress before it steals a part in spite of it.
const MAX_CHECKS: u32 = 4;

/// The blocks of a plan.
#[derive(Default)]
pub(super) struct SourceBlocks(Box<[Padded<SourceBlock>]>);

impl SourceBlocks {
    /// Creates as many blocks as workers may need for this number of sources.
    pub(super) fn new(sources: usize) -> Self {
        let mut this = Self::default();
        this.fit(sources);
        this
    }

    /// Makes them as many as workers may need for this number of sources. They are empty.
    #[inline]
    pub(super) fn fit(&mut self, sources: usize) {
        let blocks = match sources {
            ..MIN_SOURCES => 0,
            _ => (sources / MIN_SOURCES).clamp(2, MAX_BLOCKS),
        };
        if blocks != self.0.len() {
            let blocks = (0..blocks).map(|_| Padded::new(SourceBlock::new()));
            self.0 = blocks.collect();
        }
    }

    /// Whether sources are taken one at a time.
    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an empty block for a worker, if one is free.
    pub(super) fn acquire(&self, worker: usize) -> Option<BlockHolder<'_>> {
        let blocks = self.0.len();
        (0..MAX_ACQUIRE_TRIES.min(blocks)).find_map(|at| self.0[(worker + at) % blocks].acquire())
    }

    /// Steals unclaimed positions from a block: half of them, or only one if `one` is set. Returns
    /// `None` when all blocks are empty.
    #[cold]
    pub(super) fn steal(&self, worker: usize, one: bool) -> Option<Range<u32>> {
        loop {
            let mut empty = true;
            for at in 0..self.0.len() {
                // The worker's own block comes last.
                let block = &self.0[(worker + 1 + at) % self.0.len()];
                if block.is_empty() || block.wait_until_drained() {
                    continue;
                }
                match block.steal(one) {
                    Some(positions) => return Some(positions),
                    None => empty = false,
                }
            }
            if empty {
                return None;
            }
        }
    }
}

/// A range of positions, of which the holder claims the first and thieves take the last.
struct SourceBlock {
    /// Whether a worker holds the block.
    held: AtomicBool,
    /// No user code runs under the lock, and no rehearsal interrupts the thread that has it.
    lock: Mutex<()>,
    next: AtomicU32,
    end: AtomicU32,
}

impl SourceBlock {
    fn new() -> Self {
        Self {
            held: AtomicBool::new(false),
            lock: Mutex::new(()),
            next: AtomicU32::new(0),
            end: AtomicU32::new(0),
        }
    }

    /// Makes the caller the holder, unless there is one.
    fn acquire(&self) -> Option<BlockHolder<'_>> {
        // Relaxed: a hint, which avoids a write to the cache line of another holder.
        if self.held.load(Ordering::Relaxed) {
            return None;
        }
        // Acquire: pairs with the release in `BlockHolder::drop`; `next` is as the last holder left
        // it.
        let was_held = self.held.swap(true, Ordering::Acquire);
        (!was_held).then_some(BlockHolder(self))
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> u32 {
        // Relaxed: no data is handed over; where the value decides, a barrier or the lock orders
        // it.
        self.next.load(Ordering::Relaxed)
    }

    fn end(&self) -> u32 {
        // Relaxed: as in `next`.
        self.end.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.next() >= self.end()
    }

    /// Waits a few microseconds at most, as long as the holder makes progress. Returns true if the
    /// block is empty then.
    fn wait_until_drained(&self) -> bool {
        for _ in 0..thread::spin_limit(MAX_CHECKS) {
            let before = self.next();
            (0..thread::spin_limit(SPINS_PER_CHECK)).for_each(|_| hint::spin_loop());
            if self.is_empty() {
                return true;
            }
            if self.next() == before {
                return false;
            }
        }
        false
    }

    /// Steals the far half of the unclaimed positions, or only the last one if `one` is set.
    /// Returns `None` when there are none, or when the holder claims them at this moment.
    fn steal(&self, one: bool) -> Option<Range<u32>> {
        let _locked = self.lock();
        let (next, end) = (self.next(), self.end());
        if next >= end {
            return None;
        }
        let middle = if one {
            end - 1
        } else {
            next + (end - next) / 2
        };
        // Relaxed, here and below: the barrier orders the store before the load.
        self.end.store(middle, Ordering::Relaxed);
        // Pairs with the light barrier in `BlockHolder::claim`.
        barrier::heavy();
        if self.next() <= middle || broken(Canary::GraphBlock) {
            return Some(middle..end);
        }
        // Relaxed: a holder that has seen the other end loads it again under the lock.
        self.end.store(end, Ordering::Relaxed);
        None
    }

    /// Withdraws the holder's claim of position `at`, which a thief has taken or was about to take.
    /// Returns whether the position is the holder's in spite of that.
    #[cold]
    fn withdraw_claim(&self, at: u32) -> bool {
        // Relaxed: the thief that has the lock may see either value; with this one it takes the
        // position.
        self.next.store(at, Ordering::Relaxed);
        let _locked = self.lock();
        let holds = at < self.end();
        if holds {
            // Relaxed: thieves load it under the lock.
            self.next.store(at + 1, Ordering::Relaxed);
        }
        holds
    }
}

/// A block, as its holder sees it.
pub(super) struct BlockHolder<'a>(&'a SourceBlock);

impl<'a> BlockHolder<'a> {
    /// Puts positions into the block, which is empty, and starts to claim them.
    pub(super) fn open(&self, positions: Range<u32>) -> Claims<'a> {
        debug_assert!(self.0.is_empty(), "one range at a time");
        let _locked = self.0.lock();
        // Relaxed, twice: thieves load both under the lock.
        self.0.next.store(positions.start, Ordering::Relaxed);
        self.0.end.store(positions.end, Ordering::Relaxed);
        Claims {
            block: self.0,
            at: Cell::new(positions.start),
            limit: Cell::new(positions.end),
        }
    }
}

impl Drop for BlockHolder<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.is_empty(), "nothing is left in the block");
        // Release: pairs with the acquire in `SourceBlock::acquire`.
        self.0.held.store(false, Ordering::Release);
    }
}

/// The holder's claims, one after the other. Separate from the block, so that it can be in
/// registers.
pub(super) struct Claims<'a> {
    block: &'a SourceBlock,
    /// The value of `next`.
    at: Cell<u32>,
    /// The end of the block when it was opened. Lowered when a claim fails or the rest is
    /// taken.
    limit: Cell<u32>,
}

impl Claims<'_> {
    /// Whether the position that was claimed last is known to be the last one of the block. All
    /// later ones may have been stolen without this being known.
    #[inline(always)]
    fn is_last(&self) -> bool {
        self.at.get() >= self.limit.get()
    }

    /// Claims the next position, if there is one.
    #[inline(always)]
    fn claim(&self) -> Option<u32> {
        let at = self.at.get();
        if at >= self.limit.get() {
            return None;
        }
        // Relaxed: the barrier orders it before the load of `end`.
        self.block.next.store(at + 1, Ordering::Relaxed);
        thread::point();
        // Pairs with the heavy barrier in `SourceBlock::steal`.
        barrier::light();
        if at < self.block.end() || self.block.withdraw_claim(at) {
            self.at.set(at + 1);
            return Some(at);
        }
        self.limit.set(at);
        None
    }

    /// Takes all unclaimed positions out of the block.
    #[cold]
    fn take_all_unclaimed(&self) -> Range<u32> {
        let _locked = self.block.lock();
        let (at, end) = (self.at.get(), self.block.end());
        // Relaxed: as in `open`.
        self.block.end.store(at, Ordering::Relaxed);
        self.limit.set(at);
        at..end.max(at)
    }
}

/// Where strands get their first tasks from.
pub(super) trait FirstTasks {
    fn take(&self) -> Option<u32>;
    /// Whether the task that was taken last is known to be the last one.
    fn is_last(&self) -> bool;
    /// Takes all tasks that are left.
    fn take_remaining(&self) -> &[u32];
}

/// One task.
pub(super) struct SingleTask(Cell<Option<u32>>);

impl SingleTask {
    #[inline(always)]
    pub(super) fn new(task: u32) -> Self {
        Self(Cell::new(Some(task)))
    }
}

impl FirstTasks for SingleTask {
    #[inline(always)]
    fn take(&self) -> Option<u32> {
        self.0.take()
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        true
    }

    fn take_remaining(&self) -> &[u32] {
        &[]
    }
}

/// The sources in a block.
pub(super) struct BlockTasks<'a> {
    claims: Claims<'a>,
    sources: &'a [u32],
}

impl<'a> BlockTasks<'a> {
    #[inline(always)]
    pub(super) fn new(claims: Claims<'a>, sources: &'a [u32]) -> Self {
        Self { claims, sources }
    }
}

impl FirstTasks for BlockTasks<'_> {
    #[inline(always)]
    fn take(&self) -> Option<u32> {
        let at = self.claims.claim()?;
        Some(self.sources[at as usize])
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.claims.is_last()
    }

    fn take_remaining(&self) -> &[u32] {
        let take_remaining = self.claims.take_all_unclaimed();
        &self.sources[take_remaining.start as usize..take_remaining.end as usize]
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
