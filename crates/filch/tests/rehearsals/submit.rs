//! Submitted tasks in rehearsals: random trees, priorities, cancellations, joins from inside, full
//! pools, early ends.
//!
//! Seeds as in `graph.rs`.
#![cfg(feature = "rehearse")]

use crate::programs::{after, all_seeds, tasks};

#[test]
fn tasks_keep_their_promises() {
    all_seeds("tasks_keep_their_promises", 400, tasks::check);
}

#[test]
fn tasks_that_wait_for_others_keep_theirs() {
    all_seeds("tasks_that_wait_for_others_keep_theirs", 400, after::check);
}

#[test]
fn the_same_seed_runs_tasks_in_the_same_order() {
    for seed in 0..60 {
        assert_eq!(tasks::perform(seed), tasks::perform(seed), "seed {seed}");
        assert_eq!(after::perform(seed), after::perform(seed), "seed {seed}");
    }
}
