//! How much memory futures that wait need, and how much stays when they have ended.

use super::{counting::allocated_bytes, support::in_a_child};
use filch::Pool;
use std::{future::pending, hint::black_box, thread, time::Duration};

#[test]
fn pending_futures_are_small_and_give_their_memory_back() {
    in_a_child(
        "futures::pending_futures_are_small_and_give_their_memory_back",
        measure,
    );
}

fn measure() {
    let pool = Pool::builder().workers(0).build().unwrap();
    let empty = || async { pending::<()>().await };
    let bytes = bytes_of_a_future(&pool, empty);
    assert!(bytes <= 72, "{bytes} bytes for a future of one word");
    assert!(bytes >= 50, "it measures something");
    let two_words = || async {
        let word = black_box(1_u64);
        pending::<()>().await;
        black_box(word);
    };
    assert_eq!(size_of_val(&two_words()), 16);
    let bytes = bytes_of_a_future(&pool, two_words);
    assert!(bytes <= 84, "{bytes} bytes for a future of two words");
    after_a_peak_the_memory_goes_back(&pool);
}

/// Heap bytes for a future that waits, beside its handle.
fn bytes_of_a_future<F>(pool: &Pool, future: impl Fn() -> F) -> usize
where
    F: Future<Output = ()> + Send + 'static,
{
    // So few that no blocks are given back meanwhile.
    const MANY: usize = 3_000;
    // The queues grow to their size, and some blocks are kept for later.
    for _ in 0..3 * MANY {
        pool.spawn_future(async {}).detach();
    }
    pool.run_until_stalled();
    let spawn = |n: usize| {
        let before = allocated_bytes();
        let futures: Vec<_> = (0..n)
            .map(|_| pool.spawn_future(future()).cancel_handle())
            .collect();
        pool.run_until_stalled();
        let own = futures.capacity() * size_of_val(&futures[0]);
        (futures, allocated_bytes() - before - own)
    };
    // The first ones use the blocks that are there.
    let (first, _) = spawn(3 * MANY);
    let (second, bytes) = spawn(MANY);
    for future in first.iter().chain(&second) {
        future.cancel();
    }
    pool.run_until_stalled();
    bytes / MANY
}

fn after_a_peak_the_memory_goes_back(pool: &Pool) {
    const PEAK: usize = 200_000;
    /// Futures that are queued at the same time, so that queues stay small.
    const STEP: usize = 1000;
    /// What stays: some blocks for the next tasks, and queues.
    const KEPT: usize = 3 << 20;
    let before = allocated_bytes();
    let mut futures = Vec::new();
    while futures.len() < PEAK {
        futures.extend((0..STEP).map(|_| pool.spawn_future(async { pending::<()>().await })));
        pool.run_until_stalled();
    }
    let peak = allocated_bytes() - before;
    assert!(peak > 3 * KEPT, "it measures something: {peak} bytes");
    while !futures.is_empty() {
        for future in futures.drain(futures.len() - STEP..) {
            future.cancel();
        }
        pool.run_until_stalled();
    }
    drop(futures);
    // It takes a few seconds, on a thread that has to be scheduled.
    for _ in 0..600 {
        if allocated_bytes() <= before + KEPT {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{} bytes stay of {peak}", allocated_bytes() - before);
}
