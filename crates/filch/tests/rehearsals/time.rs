//! Clocks and what waits for them, in virtual time: random calls and random programs against their
//! oracles.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals time::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, sleeps, timers};

#[test]
fn sleeps_do_what_a_list_does() {
    all_seeds("sleeps_do", 1_000, sleeps::check);
}

#[test]
fn everything_happens_at_its_time() {
    all_seeds("everything", 500, timers::check);
}
