//! Programs of every interface in orders that seeds decide.
#![cfg(all(feature = "rehearse", not(filch_loom)))]

#[path = "../support/programs/mod.rs"]
mod programs;
#[path = "../support/mod.rs"]
mod support;

mod deadlock;
mod driver;
mod fold;
mod future;
mod graph;
mod par;
mod promises;
mod resize;
mod submit;
mod time;
