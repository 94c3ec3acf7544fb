//! Pools whose workers wait in a driver: random programs, one thread at a time.
//!
//! A few hundred seeds by default; `FILCH_REHEARSALS=100000 cargo test --release --all-features
//! --test rehearsals driver::` takes more, and `FILCH_REHEARSAL=seed` one of them.
#![cfg(feature = "rehearse")]

use crate::programs::{all_seeds, drivers};

#[test]
fn events_and_wakes_are_found() {
    all_seeds("events_and", 1_000, drivers::check);
}
