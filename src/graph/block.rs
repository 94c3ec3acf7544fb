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
//! withdraws the claim, takes the lock, and looks again: a thief may have put `end` back.
//!
//! A thief has the lock. It loads `next` and `end`, stores the middle of the two in `end`, passes
//! the heavy barrier, and loads `next` again. If that is not beyond the middle, the positions from
//! the middle on are the thief's. Otherwise the holder may own one of them: the thief puts `end`
//! back and takes nothing.
//!
//! Either the thief's second look comes after the holder's store, and sees the claim; or the
//! holder's look comes after the thief's store, and sees the new end. The barriers exclude that
//! both miss each other. So no position is claimed twice. None is lost: what the thief does not
//! take is below `end` when it releases the lock. The scheme is that of Cilk-5's deques (Frigo,
//! Leiserson, Randall, PLDI 1998), with a process-wide barrier on the thief's side, so that a claim
//! costs the holder a store and a load.
//!
//! # Why a thief finds every block
//!
//! A holder queues a feeder *after* it has opened its block. A feeder that starts takes from the
//! cursor or from a block, and queues another one; or it finds all of them empty, and ends. Blocks
//! are never filled by anyone but their holder. So as long as a position is unclaimed, a feeder is
//! queued, or is running and has not yet looked at that block.

use crate::base::{
    canary::{Canary, broken},
    padded::Padded,
    sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, hint},
    sys::barrier,
    thread,
};
use std::{cell::Cell, ops::Range, sync::PoisonError};

/// A plan with fewer sources has no blocks: each is taken alone.
const FEWEST_SOURCES: usize = 16;

/// The most blocks of a plan. A worker that finds none free takes one source at a time.
const MOST_BLOCKS: usize = 128;

/// How many blocks a worker tries to get.
const TRIES: usize = 4;

/// How long a thief looks at a block whose holder makes progress, in spin-loop hints: about a
/// microsecond, as long as the barrier takes.
const LOOK: u32 = 32;

/// How many times it looks before it takes a part all the same.
const LOOKS: u32 = 4;

/// The blocks of a plan.
pub(super) struct Blocks(Box<[Padded<Block>]>);

impl Blocks {
    /// As many as workers may need for so many sources.
    pub(super) fn new(sources: usize) -> Self {
        let blocks = match sources {
            ..FEWEST_SOURCES => 0,
            _ => (sources / FEWEST_SOURCES).clamp(2, MOST_BLOCKS),
        };
        Self((0..blocks).map(|_| Padded::new(Block::new())).collect())
    }

    /// Whether sources are taken one at a time.
    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// An empty block for a worker, if one is free.
    pub(super) fn hold(&self, worker: usize) -> Option<Held<'_>> {
        let blocks = self.0.len();
        (0..TRIES.min(blocks)).find_map(|at| self.0[(worker + at) % blocks].hold())
    }

    /// Takes unclaimed positions from a block: half of them, or `one`. None when all blocks are
    /// empty.
    #[cold]
    pub(super) fn steal(&self, worker: usize, one: bool) -> Option<Range<u32>> {
        loop {
            let mut empty = true;
            for at in 0..self.0.len() {
                // Its own one last.
                let block = &self.0[(worker + 1 + at) % self.0.len()];
                if block.is_empty() || block.empties_soon() {
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
struct Block {
    /// Whether a worker holds the block.
    held: AtomicBool,
    /// No user code runs under it, and no rehearsal interrupts its owner.
    lock: Mutex<()>,
    next: AtomicU32,
    end: AtomicU32,
}

impl Block {
    fn new() -> Self {
        Self {
            held: AtomicBool::new(false),
            lock: Mutex::new(()),
            next: AtomicU32::new(0),
            end: AtomicU32::new(0),
        }
    }

    /// Makes the caller the holder, unless there is one.
    fn hold(&self) -> Option<Held<'_>> {
        // Relaxed: a hint, which saves the line of another holder a write.
        if self.held.load(Ordering::Relaxed) {
            return None;
        }
        // Acquire: pairs with the release in `Held::drop`; `next` is as the last holder left it.
        let was_held = self.held.swap(true, Ordering::Acquire);
        (!was_held).then_some(Held(self))
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

    /// Waits as long as the holder makes progress, but not for long. True when the block is empty
    /// then.
    fn empties_soon(&self) -> bool {
        for _ in 0..thread::patience(LOOKS) {
            let before = self.next();
            (0..thread::patience(LOOK)).for_each(|_| hint::spin_loop());
            if self.is_empty() {
                return true;
            }
            if self.next() == before {
                return false;
            }
        }
        false
    }

    /// Takes the far half of the unclaimed positions, or the last `one`. None when there are none,
    /// or when the holder claims them at this moment.
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
        // Pairs with the light barrier in `Held::claim`.
        barrier::heavy();
        if self.next() <= middle || broken(Canary::GraphBlock) {
            return Some(middle..end);
        }
        // Relaxed: a holder that has seen the other end looks again under the lock.
        self.end.store(end, Ordering::Relaxed);
        None
    }

    /// A thief has taken position `at`, or was about to: withdraws the holder's claim, and says whether
    /// it holds all the same.
    #[cold]
    fn confirm(&self, at: u32) -> bool {
        // Relaxed: the thief that has the lock may see either value; with this one it takes the
        // position.
        self.next.store(at, Ordering::Relaxed);
        let _locked = self.lock();
        let holds = at < self.end();
        if holds {
            // Relaxed: thieves look under the lock.
            self.next.store(at + 1, Ordering::Relaxed);
        }
        holds
    }
}

/// A block in the hands of its holder.
pub(super) struct Held<'a>(&'a Block);

impl<'a> Held<'a> {
    /// Puts positions into the block, which is empty, and starts to claim them.
    pub(super) fn open(&self, positions: Range<u32>) -> Claims<'a> {
        debug_assert!(self.0.is_empty(), "one range at a time");
        let _locked = self.0.lock();
        // Relaxed, twice: thieves look under the lock.
        self.0.next.store(positions.start, Ordering::Relaxed);
        self.0.end.store(positions.end, Ordering::Relaxed);
        Claims {
            block: self.0,
            at: Cell::new(positions.start),
            limit: Cell::new(positions.end),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.is_empty(), "nothing is left in the block");
        // Release: pairs with the acquire in `Block::hold`.
        self.0.held.store(false, Ordering::Release);
    }
}

/// The holder's claims, one after the other. Apart from the block, so that it can be in registers.
pub(super) struct Claims<'a> {
    block: &'a Block,
    /// What `next` says.
    at: Cell<u32>,
    /// Where the block ended when it was opened.
    limit: Cell<u32>,
}

impl Claims<'_> {
    /// Whether the position that was claimed last is the last one of the block; a later one may
    /// have been stolen.
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
        // Pairs with the heavy barrier in `Block::steal`.
        barrier::light();
        if at < self.block.end() || self.block.confirm(at) {
            self.at.set(at + 1);
            return Some(at);
        }
        self.limit.set(at);
        None
    }

    /// Takes what is left back.
    #[cold]
    fn take_rest(&self) -> Range<u32> {
        let _locked = self.block.lock();
        let (at, end) = (self.at.get(), self.block.end());
        // Relaxed: as in `open`.
        self.block.end.store(at, Ordering::Relaxed);
        self.limit.set(at);
        at..end.max(at)
    }
}

/// Where strands get their first tasks from.
pub(super) trait Firsts {
    fn take(&self) -> Option<u32>;
    /// Whether the task that was taken last is the last one. It may be so without being known.
    fn is_last(&self) -> bool;
    /// Takes all that are left.
    fn rest(&self) -> &[u32];
}

/// One task.
pub(super) struct Single(Cell<Option<u32>>);

impl Single {
    #[inline(always)]
    pub(super) fn new(task: u32) -> Self {
        Self(Cell::new(Some(task)))
    }
}

impl Firsts for Single {
    #[inline(always)]
    fn take(&self) -> Option<u32> {
        self.0.take()
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        true
    }

    fn rest(&self) -> &[u32] {
        &[]
    }
}

/// The sources in a block.
pub(super) struct Taken<'a> {
    claims: Claims<'a>,
    sources: &'a [u32],
}

impl<'a> Taken<'a> {
    #[inline(always)]
    pub(super) fn new(claims: Claims<'a>, sources: &'a [u32]) -> Self {
        Self { claims, sources }
    }
}

impl Firsts for Taken<'_> {
    #[inline(always)]
    fn take(&self) -> Option<u32> {
        let at = self.claims.claim()?;
        Some(self.sources[at as usize])
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.claims.is_last()
    }

    fn rest(&self) -> &[u32] {
        let rest = self.claims.take_rest();
        &self.sources[rest.start as usize..rest.end as usize]
    }
}

/// The protocol as it is, for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::{fmt, ops::Range};

    /// See the protocol of blocks.
    pub struct Block(super::Block);

    /// See the holder of a block.
    pub struct Held<'a>(super::Held<'a>);

    /// See the claims of a holder.
    pub struct Claims<'a>(super::Claims<'a>);

    #[expect(missing_docs, reason = "a shim for tests")]
    impl Block {
        #[expect(clippy::new_without_default, reason = "a shim for tests")]
        pub fn new() -> Self {
            Self(super::Block::new())
        }

        pub fn hold(&self) -> Option<Held<'_>> {
            self.0.hold().map(Held)
        }

        pub fn steal(&self) -> Option<Range<u32>> {
            self.0.steal(false)
        }
    }

    #[expect(missing_docs, reason = "a shim for tests")]
    impl<'a> Held<'a> {
        pub fn open(&self, positions: Range<u32>) -> Claims<'a> {
            Claims(self.0.open(positions))
        }
    }

    #[expect(missing_docs, reason = "a shim for tests")]
    impl Claims<'_> {
        pub fn claim(&self) -> Option<u32> {
            self.0.claim()
        }

        pub fn take_rest(&self) -> Range<u32> {
            self.0.take_rest()
        }
    }

    impl fmt::Debug for Block {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Block")
        }
    }

    impl fmt::Debug for Claims<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Claims")
        }
    }

    impl fmt::Debug for Held<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Held")
        }
    }
}
