//! Graphs of random shapes in rehearsals: every order of events that a seed can think of, checked
//! against what a run promises.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals graph::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, graphs, sources};
use std::collections::BTreeMap;

#[test]
fn graphs_keep_their_promises() {
    all_seeds("graphs_keep_their_promises", 400, graphs::check);
}

#[test]
fn sources_are_reached_while_one_of_them_waits() {
    all_seeds(
        "sources_are_reached_while_one_of_them_waits",
        400,
        sources::check,
    );
}

#[test]
fn the_same_seed_runs_a_graph_in_the_same_way() {
    for seed in 0..60 {
        let [first, second] = [(); 2].map(|()| graphs::perform(seed).unwrap());
        assert_eq!(first.story(), second.story(), "seed {seed}");
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
    }
}

#[test]
fn the_seeds_show_everything() {
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        for feature in graphs::perform(seed).unwrap().features() {
            *seen.entry(feature).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 21, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 3), "{seen:?}");
}
