//! Memory for jobs that live on the heap.
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
struct Block(MaybeUninit<[u8; Slab::BLOCK]>);

/// Blocks of one worker. They are handed out by the worker that spawns and come back to the worker that
/// runs; both are one thread most of the time. A worker with too many free ones puts a page's worth into the
/// pool's reserve, where one that has none looks first. Pages are allocated whole, kept for the life of the pool,
/// and freed with it, so that in the steady state a spawn allocates nothing.
pub(crate) struct Slab {
    /// Only the thread that is this slab's worker uses it; see `Slab::alloc`.
    state: UnsafeCell<State>,
}

#[derive(Default)]
struct State {
    free: Vec<NonNull<Block>>,
    pages: Vec<Box<[Block]>>,
    /// How many blocks of the newest page have never been handed out.
    fresh: usize,
}

/// Free blocks that belong to no worker at present.
#[derive(Default)]
pub(crate) struct Reserve {
    bundles: Mutex<Vec<Vec<NonNull<Block>>>>,
}

// SAFETY: the raw blocks belong to nobody while they are free, and `alloc` and `free` say who may call them.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}
// SAFETY: free blocks, behind a lock.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

impl Slab {
    /// Bytes of a block.
    const BLOCK: usize = 64;
    /// Blocks of a page: 64 KiB.
    const PAGE: usize = 1024;
    /// The most free blocks that a worker keeps to itself.
    const KEEP: usize = 4 * Self::PAGE;

    pub(crate) fn new() -> Self {
        Self {
            state: UnsafeCell::new(State::default()),
        }
    }

    /// Whether a `T` fits into a block. Where blocks are not recycled none does.
    pub(crate) const fn fits<T>() -> bool {
        let layout = Layout::new::<T>();
        RECYCLED && layout.size() <= Self::BLOCK && layout.align() <= align_of::<Block>()
    }

    /// A block for a `T`.
    ///
    /// # Safety
    /// The caller is the worker of this slab, and `T` fits.
    #[inline(always)]
    pub(crate) unsafe fn alloc<T>(&self, reserve: &Reserve) -> NonNull<T> {
        debug_assert!(Self::fits::<T>());
        // SAFETY: only the slab's worker calls, and nothing here calls back.
        let state = unsafe { &mut *self.state.get() };
        match state.free.pop() {
            Some(block) => block.cast(),
            None => state.another_block(reserve).cast(),
        }
    }

    /// Takes a block back, of this slab or another one of the pool.
    ///
    /// # Safety
    /// The caller is the worker of this slab, and nobody uses the block any more.
    #[inline(always)]
    pub(crate) unsafe fn free<T>(&self, block: NonNull<T>, reserve: &Reserve) {
        // SAFETY: as in `alloc`.
        let state = unsafe { &mut *self.state.get() };
        state.free.push(block.cast());
        if state.free.len() >= Self::KEEP {
            state.give_away(reserve);
        }
    }
}

impl State {
    #[inline]
    fn another_block(&mut self, reserve: &Reserve) -> NonNull<Block> {
        if self.fresh == 0 {
            if let Some(bundle) = reserve.lock().pop() {
                self.free = bundle;
                return self.free.pop().expect("bundles are not empty");
            }
            let page = (0..Slab::PAGE).map(|_| Block(MaybeUninit::uninit()));
            self.pages.push(page.collect());
            self.fresh = Slab::PAGE;
        }
        self.fresh -= 1;
        let page = self.pages.last_mut().expect("just made");
        NonNull::from(&mut page[self.fresh])
    }

    #[cold]
    fn give_away(&mut self, reserve: &Reserve) {
        let bundle = self.free.split_off(self.free.len() - Slab::PAGE);
        reserve.lock().push(bundle);
    }
}

impl Reserve {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<NonNull<Block>>>> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slab")
    }
}
