//! Memory blocks for tasks that one thread creates and another one destroys.
//!
//! Blocks come in a few [sizes](class). Each thread has a *magazine* per size: two lists of free
//! blocks, of at most [`BUNDLE`] each. Blocks are popped from and pushed to the first list. When it
//! is empty (or full), it is swapped with the second list. Only when that one is empty (or full) as
//! well does the thread exchange a whole bundle with the [reserve], under a lock. So a thread that
//! only creates tasks, or only destroys them, takes the lock once per [`BUNDLE`] tasks, and a
//! thread that alternates does not take it at all. When the reserve is empty, a chunk of blocks is
//! allocated. So nothing is allocated in the steady state. A thread that ends gives its lists to
//! the reserve.
//!
//! Chunks whose blocks are all in the reserve, and have not been used for a second, are freed by a
//! thread of its own: see [trimmer]. Nothing on the way of a task counts the blocks of a chunk: a
//! chunk is aligned to its size, so the trimmer finds it from the addresses of its blocks.
//!
//! A checker cannot detect a use after free of a block that is handed out again. So with `--cfg
//! filch_no_recycle`, under Miri and under loom each block is allocated and freed individually, and
//! the slabs of the workers are not used.
#![expect(unsafe_code, reason = "hands out raw blocks")]

mod class;
mod list;
mod reserve;
#[cfg(all(test, not(filch_loom)))]
mod tests;
mod trimmer;

pub(crate) use class::whole_lines;

use crate::base::canary::{Canary, broken};
use class::{BUNDLE, CLASSES, class_of, not_empty, system};
use list::{FreeBlock, FreeList};
use reserve::RESERVES;
use std::{
    alloc::{self, Layout},
    ptr::NonNull,
};

/// Whether freed blocks are handed out again.
pub(crate) const RECYCLED: bool = !cfg!(any(filch_loom, filch_no_recycle, miri));

/// The free blocks of one size that a thread owns.
struct Magazine {
    class: usize,
    first: FreeList,
    second: FreeList,
}

impl Magazine {
    const fn new(class: usize) -> Self {
        Self {
            class,
            first: FreeList::empty(),
            second: FreeList::empty(),
        }
    }

    #[inline]
    fn take(&self) -> NonNull<FreeBlock> {
        match self.first.pop(CLASSES[self.class].size) {
            Some(block) => block,
            None => self.take_more(),
        }
    }

    #[cold]
    fn take_more(&self) -> NonNull<FreeBlock> {
        if self.second.len() > 0 {
            self.first.swap(&self.second);
        } else {
            self.first.swap(&RESERVES[self.class].take_bundle());
            if self.first.len() == 0 {
                self.allocate_more();
            }
        }
        let block = self.first.pop(CLASSES[self.class].size);
        block.expect("it was filled above")
    }

    /// Fills the first list from a new chunk. The reserve gets the other bundles.
    fn allocate_more(&self) {
        CLASSES[self.class].allocate_chunk(|bundle| {
            if self.first.len() == 0 {
                self.first.swap(&bundle);
            } else {
                RESERVES[self.class].put_bundle(&bundle);
            }
        });
    }

    /// # Safety
    /// As [`FreeList::push`].
    #[inline]
    unsafe fn put(&self, block: NonNull<FreeBlock>) {
        if self.first.len() >= BUNDLE {
            self.give_away();
        }
        // SAFETY: the caller guarantees that the block has this size and is unused, which is what
        // `push` requires.
        unsafe { self.first.push(block) };
    }

    #[cold]
    fn give_away(&self) {
        self.first.swap(&self.second);
        let reserve = &RESERVES[self.class];
        if reserve.put_bundle(&self.first) && reserve.claim_trimmer() {
            trimmer::start(reserve);
        }
    }
}

impl Drop for Magazine {
    fn drop(&mut self) {
        // No trimmer is started here: a thread that ends should not start another one. The blocks
        // are few.
        RESERVES[self.class].put_bundle(&self.first);
        RESERVES[self.class].put_bundle(&self.second);
    }
}

thread_local! {
    static MAGAZINES: [Magazine; CLASSES.len()] = const {
        [
            Magazine::new(0),
            Magazine::new(1),
            Magazine::new(2),
            Magazine::new(3),
            Magazine::new(4),
            Magazine::new(5),
        ]
    };
}

/// The class of the blocks that are recycled for `layout`, if there are any.
#[inline(always)]
const fn recycled_class(layout: Layout) -> Option<usize> {
    if RECYCLED { class_of(layout) } else { None }
}

/// Returns a block for `layout`, whose size may be zero. The compiler computes the class if the
/// layout is a constant.
#[inline(always)]
pub(crate) fn alloc(layout: Layout) -> NonNull<u8> {
    match recycled_class(layout) {
        Some(class) => alloc_recycled(class),
        None => system(layout),
    }
}

fn alloc_recycled(class: usize) -> NonNull<u8> {
    match MAGAZINES.try_with(|magazines| magazines[class].take()) {
        Ok(block) => block.cast(),
        // The thread is ending, and its magazines have been dropped.
        Err(_) => Magazine::new(class).take().cast(),
    }
}

/// Frees a block.
///
/// # Safety
/// It came from [`alloc`] with the same layout, and no thread uses it any more.
#[inline(always)]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller guarantees what `put_back` requires: the block is from `alloc`, for this
    // layout, and unused.
    unsafe { put_back(block, layout) };
    if broken(Canary::BlockUse) {
        // SAFETY: none, on purpose: a checker must report this read of a freed block.
        unsafe { block.read_volatile() };
    }
}

/// # Safety
/// As [`free`].
#[inline(always)]
unsafe fn put_back(block: NonNull<u8>, layout: Layout) {
    match recycled_class(layout) {
        // SAFETY: the caller guarantees that the block is unused, and of this layout, so `alloc`
        // took it from this class.
        Some(class) => unsafe { put_back_recycled(block.cast(), class) },
        // SAFETY: the caller guarantees the layout; without a class, `system` allocated the block
        // with the same layout.
        None => unsafe { alloc::dealloc(block.as_ptr(), not_empty(layout)) },
    }
}

/// # Safety
/// The block is of this class, and no thread uses it any more.
unsafe fn put_back_recycled(block: NonNull<FreeBlock>, class: usize) {
    let put = MAGAZINES.try_with(|magazines| {
        // SAFETY: the caller guarantees that the block is unused, and of this class.
        unsafe { magazines[class].put(block) };
    });
    if put.is_err() {
        // As in `alloc_recycled`: the thread is ending, and its magazines have been dropped.
        let own = Magazine::new(class);
        // SAFETY: the caller guarantees that the block is unused, and of this class.
        unsafe { own.put(block) };
    }
}
