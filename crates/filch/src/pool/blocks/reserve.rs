//! The free blocks that belong to no thread at present, and how chunks of them are freed.
#![expect(unsafe_code, reason = "frees raw chunks, and links their blocks again")]

use super::{
    class::{BUNDLE, CLASSES, SizeClass},
    list::{FreeBlock, FreeList},
};
use crate::base::sys::memory;
use std::{
    collections::VecDeque,
    mem,
    ptr::NonNull,
    // Not from `base::sync`: a lock around plain data. Under the model checker no block is
    // recycled.
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Bytes of unused blocks of one size that a reserve may have without being trimmed. Less than most
/// programs of tasks need anyway, and enough for bursts of thousands of tasks.
pub(super) const KEPT_BYTES: usize = 1 << 20;

/// Bundles of free blocks of one size.
pub(super) struct Reserve {
    class: SizeClass,
    state: Mutex<ReserveState>,
}

struct ReserveState {
    /// Bundles are added and taken at the back, so those in front have been unused for the longest
    /// time.
    bundles: VecDeque<FreeList>,
    /// The least number of bundles since the last trim: those were not needed meanwhile.
    unused: usize,
    /// Whether bundles were added or taken since the last trim.
    used: bool,
    /// Whether there is a thread that trims, or will be one.
    has_trimmer: bool,
}

/// The result of a trim.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trimmed {
    /// A later trim may find more. Whether this one was worth its time: it has freed an eighth of
    /// the blocks that it sorted, or sorted none.
    More { worthwhile: bool },
    /// Nothing is left that could be freed before blocks are used again. The next thread that adds
    /// a bundle to a large reserve starts another trimmer.
    Settled,
}

pub(super) static RESERVES: [Reserve; CLASSES.len()] = {
    let mut reserves = [const { Reserve::new(CLASSES[0]) }; CLASSES.len()];
    let mut class = 0;
    while class < CLASSES.len() {
        reserves[class].class = CLASSES[class];
        class += 1;
    }
    reserves
};

impl Reserve {
    pub(super) const fn new(class: SizeClass) -> Self {
        Self {
            class,
            state: Mutex::new(ReserveState {
                bundles: VecDeque::new(),
                unused: 0,
                used: false,
                has_trimmer: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReserveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of full bundles that have [`KEPT_BYTES`].
    const fn kept(&self) -> usize {
        KEPT_BYTES / (self.class.size * BUNDLE)
    }

    /// Removes and returns a bundle, or an empty list.
    pub(super) fn take_bundle(&self) -> FreeList {
        let mut state = self.lock();
        let bundle = state.bundles.pop_back();
        (state.unused, state.used) = (state.unused.min(state.bundles.len()), true);
        bundle.unwrap_or(FreeList::empty())
    }

    /// Adds the blocks of `list` as one bundle, and empties `list`. Returns true if the reserve is
    /// large and has no trimmer. Then the caller may start one, after
    /// [`claim_trimmer`](Self::claim_trimmer).
    pub(super) fn put_bundle(&self, list: &FreeList) -> bool {
        let bundle = list.take();
        if bundle.len() == 0 {
            return false;
        }
        let mut state = self.lock();
        state.bundles.push_back(bundle);
        state.used = true;
        !state.has_trimmer && state.bundles.len() > self.kept()
    }

    /// Returns true for one caller: it must start the trimmer.
    #[must_use]
    #[cold]
    pub(super) fn claim_trimmer(&self) -> bool {
        !mem::replace(&mut self.lock().has_trimmer, true)
    }

    /// The trimmer could not be started.
    #[cold]
    pub(super) fn unclaim_trimmer(&self) {
        self.lock().has_trimmer = false;
    }

    /// Frees the chunks whose blocks have all been unused since the last trim, except some.
    ///
    /// It reads every unused block, but not under the lock.
    pub(super) fn trim(&self) -> Trimmed {
        let unused = match self.take_unused() {
            Ok(unused) => unused,
            Err(result) => return result,
        };
        let blocks = unused.iter().map(FreeList::len).sum();
        let mut sorted: Vec<NonNull<FreeBlock>> = Vec::with_capacity(blocks);
        for bundle in unused {
            while let Some(block) = bundle.unlink() {
                sorted.push(block);
            }
        }
        sorted.sort_unstable();
        let (rest, freed) = self.free_chunks(&sorted);
        memory::clear(sorted);
        self.put_rest(rest, freed, blocks)
    }

    /// Removes the bundles that were unused since the last trim, if they are many.
    fn take_unused(&self) -> Result<Vec<FreeList>, Trimmed> {
        let mut state = self.lock();
        if state.bundles.len() <= self.kept() {
            state.has_trimmer = false;
            return Err(Trimmed::Settled);
        }
        let unused = state.unused;
        if unused <= self.kept() {
            state.next_period();
            return Err(Trimmed::More { worthwhile: true });
        }
        Ok(state.bundles.drain(..unused).collect())
    }

    /// Frees complete chunks of `sorted` blocks, except [`KEPT_BYTES`] of them, and returns the
    /// other blocks in bundles. Also returns the number of blocks that it has freed.
    fn free_chunks(&self, sorted: &[NonNull<FreeBlock>]) -> (Vec<FreeList>, usize) {
        let in_one_chunk = |a: &NonNull<FreeBlock>, b: &NonNull<FreeBlock>| {
            SizeClass::chunk_address(*a) == SizeClass::chunk_address(*b)
        };
        let (mut rest, bundle, mut kept) = (Vec::new(), FreeList::empty(), 0);
        // What is kept has low addresses: allocators give the end of their memory back.
        for chunk in sorted.chunk_by(in_one_chunk) {
            let is_complete = chunk.len() == self.class.blocks_per_chunk();
            if is_complete && kept + chunk.len() > self.kept() * BUNDLE {
                // SAFETY: all blocks of the chunk were in this reserve and have been taken out of
                // their lists, so no thread uses them.
                unsafe { self.class.free_chunk(chunk) };
                continue;
            }
            kept += chunk.len();
            for &block in chunk {
                // SAFETY: the block was in this reserve, so it is unused and of this size.
                unsafe { bundle.push(block) };
                if bundle.len() == BUNDLE {
                    rest.push(bundle.take());
                }
            }
        }
        if bundle.len() > 0 {
            rest.push(bundle);
        }
        (rest, sorted.len() - kept)
    }

    /// Puts back what is left of `sorted` blocks, of which some were `freed`.
    fn put_rest(&self, rest: Vec<FreeList>, freed: usize, sorted: usize) -> Trimmed {
        let mut state = self.lock();
        for bundle in rest {
            state.bundles.push_front(bundle);
        }
        let (used, few) = (state.used, state.bundles.len() <= self.kept());
        state.bundles.shrink_to(2 * self.kept());
        state.next_period();
        if few || (freed == 0 && !used) {
            state.has_trimmer = false;
            return Trimmed::Settled;
        }
        Trimmed::More {
            worthwhile: freed >= sorted / 8,
        }
    }
}

impl ReserveState {
    fn next_period(&mut self) {
        (self.unused, self.used) = (self.bundles.len(), false);
    }
}
