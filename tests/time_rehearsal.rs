//! Clocks and what waits for them, in virtual time: random calls and random programs against their oracles.
//!
//! `FILCH_REHEARSALS=1000000` takes minutes; a failure prints the command that repeats it.
#![cfg(feature = "simulate")]

mod rehearsal;
mod support;

use rehearsal::{all_seeds, sleeps, timers};

#[test]
fn sleeps_do_what_a_list_does() {
    all_seeds("time_rehearsal", "sleeps_do", 2_000, sleeps::check);
}

#[test]
fn everything_happens_at_its_time() {
    all_seeds("time_rehearsal", "everything", 2_000, timers::check);
}
