//! Joins in circles in rehearsals: each circle is reported, and nothing else is.
//!
//! Seeds as in `graph.rs`.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, deadlocks};

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
fn circles_through_other_waits_are_reported_and_nothing_else() {
    all_seeds(
        "circles_through_other_waits_are_reported_and_nothing_else",
        600,
        deadlocks::check_mixed,
    );
}

#[test]
fn many_seeds_have_a_circle() {
    for perform in [deadlocks::perform, deadlocks::perform_mixed] {
        let with = (0..300).filter(|&seed| perform(seed).is_ok_and(|reports| reports > 0));
        let count = with.count();
        assert!((10..290).contains(&count), "{count} of 300");
    }
}
