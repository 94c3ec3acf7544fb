//! The system's allocator, with a counter that is switched off while anything is timed.
//!
//! Counting costs a shared read-modify-write, which would be charged to those systems that allocate
//! most. So it happens in warm-up rounds only; in the others it costs a load and a branch.
#![expect(unsafe_code, reason = "a global allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The allocator.
#[derive(Debug)]
pub(crate) struct Counting;

/// Allocations so far, on all threads, while counting was on. Growing a block counts too.
pub(crate) fn count() -> u64 {
    // Relaxed: a number of its own.
    COUNT.load(Ordering::Relaxed)
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

#[inline(always)]
fn note() {
    // Relaxed: as above.
    if COUNTING.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above; the block came from `System`.
        unsafe { System.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}
