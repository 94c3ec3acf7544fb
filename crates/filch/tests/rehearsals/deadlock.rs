//! Joins in circles in rehearsals: each circle is reported, and nothing else is.
//!
//! Seeds as in `graph.rs`.
#![cfg(feature = "rehearse")]

use crate::rehearsal::{all_seeds, deadlocks};

#[test]
fn circles_are_reported_and_nothing_else() {
    all_seeds(
        "circles_are_reported_and_nothing_else",
        600,
        deadlocks::check,
    );
}

#[test]
fn a_chain_over_two_stacks_is_no_circle() {
    all_seeds(
        "a_chain_over_two_stacks_is_no_circle",
        300,
        deadlocks::check_chain,
    );
}

#[test]
fn locks_that_are_held_across_waits_end() {
    all_seeds(
        "locks_that_are_held_across_waits_end",
        100,
        deadlocks::check_locks,
    );
}

#[test]
fn many_seeds_have_a_circle() {
    let seeds = 0..300;
    let with = seeds.filter(|&seed| deadlocks::perform(seed).is_ok_and(|reports| reports > 0));
    let count = with.count();
    assert!((10..290).contains(&count), "{count} of 300");
}
