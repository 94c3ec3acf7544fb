//! Memory blocks for jobs that live on the heap.
//!
//! Beside the magazines of `blocks`, which serve all threads and sizes, because spawns in a scope
//! come in thousands and a thief frees what it has not allocated: with magazines alone, a spawn in
//! a scope with two workers took 67 instead of 21 ns.
#![expect(
    unsafe_code,
    reason = "hands out raw blocks, and a cell of the worker's own"
)]

use super::blocks::RECYCLED;
use std::{
    alloc::Layout,
    cell::UnsafeCell,
    fmt,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A block: room for a closure of up to seven words and its scope.
#[repr(C, align(16))]
struct SlabBlock(MaybeUninit<[u8; Slab::BLOCK]>);

/// Blocks of one worker. They are handed out by the worker that spawns and freed by the worker that
/// runs the job; both are the same thread most of the time. A worker with too many free blocks
/// moves a page's worth to the pool's reserve, from which a worker without free blocks takes first.
/// Pages are allocated whole, kept for the life of the pool, and freed with it, so that in the
/// steady state a spawn allocates nothing.
pub(crate) struct Slab {
    /// Only the thread that is this slab's worker uses it; see `Slab::alloc`.
    state: UnsafeCell<SlabState>,
}

#[derive(Default)]
struct SlabState {
    free: Vec<NonNull<SlabBlock>>,
    pages: Vec<Box<[SlabBlock]>>,
    /// The number of blocks of the newest page that have never been handed out.
    fresh: usize,
}

/// Free blocks that belong to no worker at present.
#[derive(Default)]
pub(crate) struct SlabReserve {
    bundles: Mutex<Vec<Vec<NonNull<SlabBlock>>>>,
}

// SAFETY: free raw blocks have no other user, and `alloc` and `free` may be called only by the
// slab's worker.
unsafe impl Send for Slab {}
// SAFETY: only the slab's worker may call `alloc` and `free`, so a shared slab has one user at a
// time.
unsafe impl Sync for Slab {}
// SAFETY: the blocks are free, so they belong to the thread that has the reserve.
unsafe impl Send for SlabReserve {}
// SAFETY: the free blocks are behind a lock.
unsafe impl Sync for SlabReserve {}

impl Slab {
    /// Bytes per block.
    const BLOCK: usize = 64;
    /// Blocks per page: 64 KiB.
    const PAGE: usize = 1024;
    /// The maximum number of free blocks that a worker keeps to itself.
    const MAX_FREE: usize = 4 * Self::PAGE;

    pub(crate) fn new() -> Self {
        Self {
            state: UnsafeCell::new(SlabState::default()),
        }
    }

    /// Whether a `T` fits into a block. None does where blocks are not recycled.
    pub(crate) const fn fits<T>() -> bool {
        let layout = Layout::new::<T>();
        RECYCLED && layout.size() <= Self::BLOCK && layout.align() <= align_of::<SlabBlock>()
    }

    /// Returns a block for a `T`.
    ///
    /// # Safety
    /// The caller is the worker of this slab, and `T` fits.
    #[inline(always)]
    pub(crate) unsafe fn alloc<T>(&self, reserve: &SlabReserve) -> NonNull<T> {
        debug_assert!(Self::fits::<T>());
        // SAFETY: only the slab's worker calls this, and nothing here re-enters the slab.
        let state = unsafe { &mut *self.state.get() };
        match state.free.pop() {
            Some(block) => block.cast(),
            None => state.another_block(reserve).cast(),
        }
    }

    /// Returns a block for a `T`, if one is free.
    ///
    /// # Safety
    /// As [`alloc`](Self::alloc).
    #[inline(always)]
    pub(crate) unsafe fn alloc_free<T>(&self) -> Option<NonNull<T>> {
        debug_assert!(Self::fits::<T>());
        // SAFETY: as in `alloc`, only the slab's worker calls this, and nothing here re-enters the
        // slab.
        let state = unsafe { &mut *self.state.get() };
        state.free.pop().map(NonNull::cast)
    }

    /// Frees a block, of this slab or another one of the pool.
    ///
    /// # Safety
    /// The caller is the worker of this slab, and no thread uses the block any more.
    #[inline(always)]
    pub(crate) unsafe fn free<T>(&self, block: NonNull<T>, reserve: &SlabReserve) {
        // SAFETY: as in `alloc`, only the slab's worker calls this, and nothing here re-enters the
        // slab.
        let state = unsafe { &mut *self.state.get() };
        match state.free.len() < state.free.capacity() {
            true => state.free.push(block.cast()),
            false => state.free_slowly(block.cast(), reserve),
        }
    }
}

impl SlabState {
    #[cold]
    #[inline(never)]
    fn another_block(&mut self, reserve: &SlabReserve) -> NonNull<SlabBlock> {
        if self.fresh == 0 {
            if let Some(bundle) = reserve.lock().pop() {
                self.free = bundle;
                return self.free.pop().expect("bundles are not empty");
            }
            let page = (0..Slab::PAGE).map(|_| SlabBlock(MaybeUninit::uninit()));
            self.pages.push(page.collect());
            self.fresh = Slab::PAGE;
        }
        self.fresh -= 1;
        let page = self.pages.last_mut().expect("just made");
        NonNull::from(&mut page[self.fresh])
    }

    /// Frees a block where the list of free blocks has no room.
    #[cold]
    #[inline(never)]
    fn free_slowly(&mut self, block: NonNull<SlabBlock>, reserve: &SlabReserve) {
        if self.free.len() >= Slab::MAX_FREE {
            let bundle = self.free.split_off(self.free.len() - Slab::PAGE);
            reserve.lock().push(bundle);
        } else {
            self.free.reserve(1);
        }
        self.free.push(block);
    }
}

impl SlabReserve {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<NonNull<SlabBlock>>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slab")
    }
}
