//! Folds over random trees in rehearsals: every order of events that a seed can think of, checked
//! against what a fold promises.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals fold::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, folds};
use std::collections::BTreeMap;

#[test]
fn folds_keep_their_promises() {
    all_seeds("folds_keep_their_promises", 600, folds::check);
}

#[test]
fn folds_of_spines_keep_their_promises() {
    all_seeds(
        "folds_of_spines_keep_their_promises",
        600,
        folds::check_spines,
    );
}

#[test]
fn the_same_seed_folds_in_the_same_way() {
    for seed in 0..60 {
        let [first, second] = [(); 2].map(|()| folds::perform(seed).unwrap());
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn the_seeds_show_everything() {
    let mut seen = BTreeMap::new();
    for seed in 0..400 {
        for feature in folds::perform(seed).unwrap().features() {
            *seen.entry(feature).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 16, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 3), "{seen:?}");
}
