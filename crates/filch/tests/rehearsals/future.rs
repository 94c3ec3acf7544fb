//! Futures in rehearsals, with their timers in virtual time: spawns from everywhere, wakes from
//! foreign threads, cancels, panics, timeouts, groups, scopes, local sets, early ends.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals future::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, futures};
use std::collections::BTreeMap;

#[test]
fn futures_keep_their_promises() {
    all_seeds("futures_keep_their_promises", 400, futures::check);
}

#[test]
fn the_same_seed_runs_futures_in_the_same_way() {
    for seed in 0..60 {
        assert_eq!(
            futures::perform(seed),
            futures::perform(seed),
            "seed {seed}"
        );
    }
}

#[test]
fn the_seeds_show_everything() {
    let mut seen = BTreeMap::new();
    for seed in 0..200 {
        for feature in futures::perform(seed).unwrap().features {
            *seen.entry(feature).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 9, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 3), "{seen:?}");
}
