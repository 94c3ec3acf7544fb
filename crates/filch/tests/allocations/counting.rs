//! An allocator that counts.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// How many blocks have been allocated or resized.
pub(crate) fn allocations() -> usize {
    ALLOCATIONS.load(Relaxed)
}

/// How many bytes are allocated.
pub(crate) fn allocated_bytes() -> usize {
    BYTES.load(Relaxed)
}

/// The size of the largest block that was allocated since the program set it, in bytes.
pub(crate) static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn count(size: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    BYTES.fetch_add(size, Relaxed);
    LARGEST.fetch_max(size, Relaxed);
}

// SAFETY: every method is that of `System`, with counters beside it that do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller guarantees that the layout is not empty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees that `block` came from `alloc` or `realloc` with `layout`,
        // and both took it from `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees that `block` came from this allocator with `layout`, so it
        // is a block of `System`, and that `size` is valid for it.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
