//! Memory of sorts: the largest allocation of each, as its documentation says.

use super::{counting::LARGEST, support::in_a_child};
use filch::Pool;
use std::sync::atomic::Ordering::Relaxed;

const LEN: usize = 200_000;
const SLICE_BYTES: usize = LEN * size_of::<u64>();

/// What a pool allocates anyway, such as the ring of a queue.
const SMALL: usize = 16 * 1024;

fn random(n: usize) -> u64 {
    (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13
}

/// The largest allocation, in bytes, while `sort` runs.
fn largest(mut items: Vec<u64>, sort: impl FnOnce(&mut [u64])) -> usize {
    LARGEST.store(0, Relaxed);
    sort(&mut items);
    let largest = LARGEST.load(Relaxed);
    assert!(items.is_sorted());
    largest
}

#[test]
fn sorts_allocate_what_their_documentation_says() {
    in_a_child(
        "sorts::sorts_allocate_what_their_documentation_says",
        measure,
    );
}

fn measure() {
    let few = Pool::builder().workers(3).build().unwrap();
    let many = Pool::builder().workers(9).build().unwrap();
    let unordered = || (0..LEN).map(random).collect::<Vec<_>>();
    let nearly = || {
        let value = |n| if n % 97 == 0 { random(n) } else { n as u64 };
        (0..LEN).map(value).collect::<Vec<_>>()
    };
    let ascending = || (0..LEN as u64).collect::<Vec<_>>();
    let descending = || (0..LEN as u64).rev().collect::<Vec<_>>();

    for pool in [&few, &many] {
        for ordered in [ascending(), descending()] {
            let stable = largest(ordered.clone(), |items| pool.over(items).sort());
            let unstable = largest(ordered, |items| pool.over(items).sort_unstable());
            assert!(stable.max(unstable) < SMALL, "{stable} and {unstable}");
        }
        let stable = largest(unordered(), |items| pool.over(items).sort());
        assert_eq!(stable, SLICE_BYTES);
    }
    let in_place = largest(unordered(), |items| few.over(items).sort_unstable());
    assert!(in_place < SMALL, "{in_place} bytes for a sort in place");
    let merged = largest(unordered(), |items| many.over(items).sort_unstable());
    assert_eq!(merged, SLICE_BYTES);
    // Each part has at most every 32nd of its items out of order, and a vector that grows has room
    // for twice as many, each with a number.
    let taken_out = largest(nearly(), |items| few.over(items).sort_unstable());
    assert!(taken_out < 2 * 2 * SLICE_BYTES / 32, "{taken_out} bytes");
}
