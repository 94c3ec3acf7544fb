//! Folds over trees that are never in memory as a whole, and their memory use.
//!
//! A million nodes by default; `FILCH_STRESS=long cargo test --release --test fold large::` takes
//! tens of millions. Memory is that of the process, so each test runs in a process of its own.

use crate::support::{in_a_child, pool};
use filch::{
    Fold, Pool, fold,
    fold::{Adaptive, AtTheEnd, FewWakes, FoldStrategy, Tasks},
};
use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How much more memory a fold may take than there was in use before. The trees would be hundreds
/// of megabytes.
const MAX_MEMORY_GROWTH: usize = 48 << 20;

/// The binary logarithm of the number of leaves.
fn levels() -> u32 {
    match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => 24,
        _ => 19,
    }
}

/// Memory of the process that is in use, in bytes; zero where it is unknown.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1);
    4096 * pages.map_or(0, |pages| pages.parse().unwrap())
}

/// Samples the memory use at one node in this many.
const SELDOM: u64 = 1 << 15;

/// Folds a generated tree in which a node is a number: that of its leaves. Returns its result, and
/// the largest memory use that was seen.
fn fold_generated<S, C>(pool: &Pool, leaves: u64, children: C) -> (u64, usize)
where
    S: FoldStrategy,
    C: Fn(u64) -> std::iter::RepeatN<u64> + Sync,
{
    let most = AtomicUsize::new(0);
    let before = resident();
    let count = fold(
        children,
        |&below| u64::from(below == 1),
        |sum, child| {
            let (last, now): (u64, u64) = (*sum, *sum + child);
            if last / SELDOM != now / SELDOM {
                most.fetch_max(resident(), Relaxed);
            }
            *sum = now;
        },
        |sum| sum,
    );
    let came = count.with::<S>().on(pool).run(leaves);
    (came, most.into_inner().saturating_sub(before))
}

fn check<S: FoldStrategy>(pool: &Pool, fan: u64, leaves: u64) {
    let (came, more) = fold_generated::<S, _>(pool, leaves, |below| {
        std::iter::repeat_n(below / fan, if below == 1 { 0 } else { fan as usize })
    });
    assert_eq!(came, leaves);
    assert!(
        more < MAX_MEMORY_GROWTH,
        "{more} bytes more for {leaves} leaves, {fan} a node"
    );
}

#[test]
fn a_tree_of_millions_of_nodes_takes_little_memory() {
    in_a_child(
        "large::a_tree_of_millions_of_nodes_takes_little_memory",
        || {
            let (pool, leaves) = (pool(2), 1 << levels());
            // Twice as many nodes as leaves.
            check::<Adaptive>(&pool, 2, leaves);
            check::<FewWakes>(&pool, 2, leaves);
            check::<Adaptive<AtTheEnd>>(&pool, 2, leaves);
            check::<Tasks>(&pool, 2, leaves / 16);
            check::<Adaptive>(&pool, 32, 1 << (levels() / 5 * 5));
            // One root, and all others below.
            check::<Adaptive>(&pool, leaves, leaves);
            check::<FewWakes>(&pool, leaves, leaves);
        },
    );
}

#[test]
fn a_chain_of_millions_takes_the_heaps() {
    in_a_child("large::a_chain_of_millions_takes_the_heaps", || {
        let nodes = 1 << levels();
        let most = AtomicUsize::new(0);
        let before = resident();
        let depth = fold(
            |n: u32| n.checked_sub(1),
            |_| 0_u32,
            |depth, below| {
                *depth = below + 1;
                if *depth == 1 {
                    most.fetch_max(resident(), Relaxed);
                }
            },
            |depth| depth,
        );
        assert_eq!(depth.with::<Adaptive>().on(&pool(2)).run(nodes), nodes);
        let more = most.into_inner().saturating_sub(before);
        // A vector that grows is there twice, at times, in its old size and in its new one.
        let heaps = nodes as usize * size_of::<u32>();
        assert!(
            more < MAX_MEMORY_GROWTH + 3 * heaps,
            "{more} bytes more for {nodes} nodes"
        );
    });
}
