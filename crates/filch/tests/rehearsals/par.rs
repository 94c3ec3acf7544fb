//! Random loops in rehearsals: every order of events that a seed can think of, checked against the
//! same in sequence.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals par::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, par};
use std::collections::BTreeMap;

#[test]
fn loops_keep_their_promises() {
    all_seeds("loops_keep_their_promises", 300, par::check);
}

#[test]
fn sorts_lose_nothing() {
    all_seeds("sorts_lose_nothing", 30, par::check_sort);
}

#[test]
fn chains_keep_their_promises() {
    all_seeds("chains_keep_their_promises", 300, par::check_chains);
}

#[test]
fn limited_loops_use_as_few_workers_as_asked_for() {
    let name = "limited_loops_use_as_few_workers_as_asked_for";
    all_seeds(name, 300, par::check_limits);
}

#[test]
fn the_same_seed_loops_in_the_same_way() {
    for seed in 0..60 {
        for perform in [par::perform, par::perform_chains] {
            let [first, second] = [(); 2].map(|()| perform(seed).unwrap());
            assert_eq!(first, second, "seed {seed}");
        }
    }
}

/// Every feature must be seen several times in the first seeds.
fn shows(features: usize, perform: fn(u64) -> Result<par::Performed, String>) {
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        for feature in perform(seed).unwrap().features() {
            *seen.entry(feature.clone()).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), features, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 3), "{seen:?}");
}

#[test]
fn the_seeds_show_everything() {
    shows(23, par::perform);
    shows(19, par::perform_chains);
}
