//! The system's allocator, or that of the feature `mimalloc`, with counters that are switched off while anything is timed.
//!
//! Counting costs a shared read-modify-write, which would be charged to those systems that allocate
//! most. So it happens in warm-up rounds only; in the others it costs a load and a branch.
#![expect(unsafe_code, reason = "a global allocator")]

#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as System;
#[cfg(not(feature = "mimalloc"))]
use std::alloc::System;
use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);

/// The allocator.
#[derive(Debug)]
pub(crate) struct Counting;

/// Allocations so far, on all threads, while counting was on. Growing a block counts too.
pub(crate) fn count() -> u64 {
    // Relaxed: a number of its own.
    COUNT.load(Ordering::Relaxed)
}

/// Bytes that were allocated while counting was on, less those that were freed. What matters is how it changes.
pub(crate) fn held() -> i64 {
    // Relaxed: a number of its own.
    HELD.load(Ordering::Relaxed)
}

/// Counts while `part` runs.
pub(crate) fn counting<R>(part: impl FnOnce() -> R) -> R {
    // Relaxed: a thread that sees it late counts a little less; threads that are started, or given
    // work, after this see it.
    COUNTING.store(true, Ordering::Relaxed);
    let result = part();
    COUNTING.store(false, Ordering::Relaxed);
    result
}

/// A block of `new` bytes in place of one of `old`, where zero means none.
#[inline(always)]
fn note(old: usize, new: usize) {
    // Relaxed: as above.
    if COUNTING.load(Ordering::Relaxed) {
        count_block(old, new);
    }
}

#[cold]
fn count_block(old: usize, new: usize) {
    if new > 0 {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    HELD.fetch_add(footprint(new) - footprint(old), Ordering::Relaxed);
}

/// What a block of so many bytes takes from the heap: glibc puts a word before it, rounds it up to 16 and has none of
/// less than 32. Other allocators have classes of sizes, which comes to much the same.
fn footprint(bytes: usize) -> i64 {
    if bytes == 0 {
        return 0;
    }
    (bytes + 8).next_multiple_of(16).max(32) as i64
}

// SAFETY: everything is passed on to the allocator as it is.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), size);
        // SAFETY: as above; the block came from `System`.
        unsafe { System.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout.size(), 0);
        // SAFETY: as above; the block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::footprint;

    #[test]
    fn blocks_are_as_large_as_glibc_makes_them() {
        let blocks = [(0, 0), (1, 32), (24, 32), (25, 48), (64, 80), (1000, 1008)];
        for (bytes, block) in blocks {
            assert_eq!(footprint(bytes), block, "{bytes}");
        }
    }
}
