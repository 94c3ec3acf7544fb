//! Pools that lose workers in rehearsals: everything completes, whenever a worker leaves.
//!
//! Seeds as in `graph.rs`. Growing pools start threads, which no director controls.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, resizes};

#[test]
fn everything_completes_in_a_smaller_pool() {
    all_seeds(
        "everything_completes_in_a_smaller_pool",
        600,
        resizes::check,
    );
}
