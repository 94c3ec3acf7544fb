//! The global allocator of the benchmark, with counters that are off while anything is timed. It
//! forwards to the system's allocator, or to mimalloc with the feature `mimalloc`.
//!
//! Counting costs a shared read-modify-write per allocation, which would be charged to the systems
//! that allocate most. So it is enabled in warm-up rounds only; in the others it costs a load and a
//! branch.
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

/// Counts allocations and forwards them.
#[derive(Debug)]
pub(crate) struct Counting;

/// Allocations on all threads while counting was on. Growing a block counts too.
pub(crate) fn count() -> u64 {
    // Relaxed: the counter orders nothing else.
    COUNT.load(Ordering::Relaxed)
}

/// Bytes allocated while counting was on, minus bytes freed. Only differences are meaningful.
pub(crate) fn held() -> i64 {
    // Relaxed: the counter orders nothing else.
    HELD.load(Ordering::Relaxed)
}

/// Counts while `part` runs.
pub(crate) fn counting<R>(part: impl FnOnce() -> R) -> R {
    // Relaxed: a thread that observes the switch late counts a little less. Threads that are
    // started or given work after this store observe it.
    COUNTING.store(true, Ordering::Relaxed);
    let result = part();
    COUNTING.store(false, Ordering::Relaxed);
    result
}

/// Records that a block of `new` bytes replaces one of `old`; zero means no block.
#[inline(always)]
fn note(old: usize, new: usize) {
    // Relaxed: the counters order nothing else.
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

/// The heap memory that a block of `bytes` bytes occupies: glibc adds a header word, rounds up to
/// 16 bytes and allocates at least 32. Allocators with size classes are close to that.
fn footprint(bytes: usize) -> i64 {
    if bytes == 0 {
        return 0;
    }
    (bytes + 8).next_multiple_of(16).max(32) as i64
}

// SAFETY: every call is forwarded unchanged to an allocator that upholds the contract.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: the caller upholds the contract of `alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`, which is that of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), size);
        // SAFETY: the caller upholds the contract, and the block came from `System`.
        unsafe { System.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout.size(), 0);
        // SAFETY: the caller upholds the contract, and the block came from `System`.
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
