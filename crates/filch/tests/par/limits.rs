//! Loops that use a limited number of workers.

use crate::support::{Gauge, LIMIT, pool, within};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

#[test]
fn no_more_workers_than_asked_for() {
    within(LIMIT, || {
        let pool = pool(4);
        for limit in 1..6 {
            let (gauge, items) = (Gauge::default(), AtomicUsize::new(0));
            pool.over(0..3_000)
                .max_chunk(7)
                .eager()
                .at_most(limit)
                .for_each(|n| {
                    gauge.call(|| {
                        items.fetch_add(n, SeqCst);
                        // Some are longer, so that workers wait for one another.
                        (0..n % 11).for_each(|_| thread::yield_now());
                    });
                });
            assert_eq!(items.into_inner(), 2_999 * 1_500);
            let most = gauge.most.into_inner();
            assert!(most <= limit, "{most} instead of {limit}");
        }
    });
}

#[test]
#[should_panic(expected = "0 at a time are too few for workers of a loop: allow at least one")]
fn none_are_too_few() {
    let _ = filch::over(0..10).at_most(0);
}

#[test]
fn as_many_workers_as_asked_for() {
    within(LIMIT, || {
        let (pool, barrier) = (pool(4), Barrier::new(2));
        for _ in 0..100 {
            // Each item needs the other one.
            pool.over(0..2).eager().at_most(2).for_each(|_| {
                barrier.wait();
            });
        }
    });
}

#[test]
fn chunks_and_results_and_inner_loops() {
    within(LIMIT, || {
        let pool = pool(3);
        let strategy = filch::par::ChunkingStrategy::new(1, 64, 4).unwrap();
        let gauge = Gauge::default();
        let sums: Vec<u64> = pool
            .over(0..300_u64)
            .chunking(strategy)
            .at_most(2)
            .map(|n| {
                let mut sum = 0;
                gauge.call(|| sum = filch::over(0..n).at_most(1).sum::<u64>());
                sum
            })
            .collect();
        assert!(gauge.most.into_inner() <= 2);
        assert!(
            sums.iter()
                .zip(0..)
                .all(|(&sum, n)| sum == n * u64::saturating_sub(n, 1) / 2)
        );
    });
}
