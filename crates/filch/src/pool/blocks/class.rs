//! The sizes of blocks, and the chunks that they are cut from.
#![expect(unsafe_code, reason = "allocates, cuts and frees raw chunks")]

use super::list::{FreeBlock, FreeList};
use crate::base::sys::memory;
use std::{
    alloc::{self, Layout},
    ptr::NonNull,
};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The number of blocks that a thread exchanges with the reserve at once. With 64 the lock costs
/// about a nanosecond per task.
pub(super) const BUNDLE: usize = 64;

/// The alignment of a chunk, and its size with the data of the allocator, in bytes. Small, so that
/// a block in use keeps little memory; but the last page of a chunk cannot be given back, because
/// the data of the next one is there.
const CHUNK: usize = 32 << 10;

/// Bytes that the allocators of most systems need for their own data before each chunk. If a chunk
/// is smaller than its alignment by exactly this number, the next one follows without a gap.
const ALLOCATOR_HEADER: usize = 16;

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeClass {
    /// Bytes of a block.
    pub(super) size: usize,
}

/// From small to large. Blocks of whole lines share no line with others. The two other sizes are
/// for futures, which may wait in millions: a future of two words and its header have 72 bytes.
pub(super) const CLASSES: [SizeClass; 6] = [
    SizeClass { size: 64 },
    SizeClass { size: 80 },
    SizeClass { size: 96 },
    SizeClass { size: 128 },
    SizeClass { size: 192 },
    SizeClass { size: 256 },
];

/// The index in [`CLASSES`] of the smallest blocks that fit `layout`, if any do.
#[inline(always)]
pub(super) const fn class_of(layout: Layout) -> Option<usize> {
    let mut class = 0;
    while class < CLASSES.len() {
        if layout.size() <= CLASSES[class].size && layout.align() <= CLASSES[class].align() {
            return Some(class);
        }
        class += 1;
    }
    None
}

/// Returns the layout of a block for `layout` that shares no cache line with others. (Those that
/// are too large to be recycled may.)
pub(crate) const fn whole_lines(layout: Layout) -> Layout {
    match layout.align_to(LINE) {
        Ok(aligned) if class_of(aligned).is_some() => aligned,
        _ => layout,
    }
}

impl SizeClass {
    /// The alignment of each block, in bytes: the largest power of two that divides the size, at
    /// most a line.
    const fn align(self) -> usize {
        let power = 1 << self.size.trailing_zeros();
        if power < LINE { power } else { LINE }
    }

    /// Whether blocks share cache lines with their neighbours.
    const fn shares_lines(self) -> bool {
        self.align() < LINE
    }

    /// The number of blocks in a chunk.
    pub(super) const fn blocks_per_chunk(self) -> usize {
        CHUNK_LAYOUT.size() / self.size
    }

    /// The address of the chunk that `block` is in.
    pub(super) fn chunk_address(block: NonNull<FreeBlock>) -> usize {
        block.addr().get() & !(CHUNK - 1)
    }

    /// Calls `take` with the blocks of a new chunk, in bundles.
    pub(super) fn allocate_chunk(self, mut take: impl FnMut(FreeList)) {
        let chunk = system(CHUNK_LAYOUT).as_ptr();
        let bundle = FreeList::empty();
        // Of two blocks that share a line, the second is handed out half a chunk later: the thread
        // that fills it does not disturb the worker that has the first.
        let step = if self.shares_lines() { 2 } else { 1 };
        for first in 0..step {
            for at in (first..self.blocks_per_chunk()).step_by(step) {
                // SAFETY: `at` is less than the number of blocks, so it is inside the chunk.
                let block = unsafe { chunk.add(at * self.size) };
                let block = NonNull::new(block).expect("inside an allocation").cast();
                // SAFETY: the block is new, so it is unused, and it has the size of the list.
                unsafe { bundle.push(block) };
                if bundle.len() == BUNDLE {
                    take(bundle.take());
                }
            }
        }
        if bundle.len() > 0 {
            take(bundle);
        }
    }

    /// Frees a chunk, all blocks of which are in `blocks`, in the order of their addresses.
    ///
    /// # Safety
    /// The blocks are unused, and in no list any more.
    pub(super) unsafe fn free_chunk(self, blocks: &[NonNull<FreeBlock>]) {
        debug_assert_eq!(blocks.len(), self.blocks_per_chunk());
        // The first block begins where the chunk does.
        let chunk = blocks[0].cast::<u8>();
        // An allocator may keep the memory for later.
        // SAFETY: the caller guarantees that no thread uses any block of the chunk, which has these
        // bytes.
        unsafe { memory::discard(chunk, CHUNK_LAYOUT.size()) };
        // SAFETY: `allocate_chunk` made it with this layout, and the caller guarantees that no
        // thread uses any of its blocks.
        unsafe { alloc::dealloc(chunk.as_ptr(), CHUNK_LAYOUT) };
    }
}

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK - ALLOCATOR_HEADER, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk is small"),
};

/// Allocates a separate block from the global allocator.
pub(super) fn system(layout: Layout) -> NonNull<u8> {
    let layout = not_empty(layout);
    // SAFETY: `not_empty` returned a layout whose size is not zero.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// The layout to request: the allocator accepts no zero size, which a closure without captures has.
pub(super) const fn not_empty(layout: Layout) -> Layout {
    if layout.size() > 0 {
        return layout;
    }
    match Layout::from_size_align(1, layout.align()) {
        Ok(layout) => layout,
        Err(_) => panic!("one byte has room behind every address"),
    }
}
