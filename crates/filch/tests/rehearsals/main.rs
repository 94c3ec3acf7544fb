//! Programs of every interface in orders that seeds decide.
#![cfg(all(feature = "rehearse", not(filch_loom)))]

#[path = "../rehearsal/mod.rs"]
mod rehearsal;
#[path = "../support/mod.rs"]
mod support;

mod deadlock;
mod driver;
mod fold;
mod future;
mod graph;
mod par;
mod submit;
mod time;
