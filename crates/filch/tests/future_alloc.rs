//! How much memory a future that waits needs.
#![expect(unsafe_code, reason = "an allocator that counts")]

use filch::Pool;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::pending,
    sync::atomic::{AtomicIsize, Ordering::SeqCst},
};

/// Counts bytes.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator, with a count beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's duty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's duty.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_pending_future_takes_less_than_100_bytes() {
    const MANY: usize = 10_000;
    let pool = Pool::builder().workers(0).build().unwrap();
    // What is kept for later is there.
    for _ in 0..2 * MANY {
        pool.spawn_future(async {}).detach();
    }
    pool.run_until_stalled();
    let blocks_of_futures = |n: usize| {
        let before = BYTES.load(SeqCst);
        let futures: Vec<_> = (0..n)
            .map(|_| {
                pool.spawn_future(async { pending::<()>().await })
                    .abort_handle()
            })
            .collect();
        pool.run_until_stalled();
        let own = (futures.capacity() * size_of_val(&futures[0])) as isize;
        (BYTES.load(SeqCst) - before - own) as usize
    };
    // The first ones use the blocks that are there.
    blocks_of_futures(2 * MANY);
    let bytes = blocks_of_futures(MANY);
    assert!(bytes <= 100 * MANY, "{} bytes a future", bytes / MANY);
    assert!(bytes >= 50 * MANY, "it measures something");
}
