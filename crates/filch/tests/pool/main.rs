//! Pools, their threads and their waits.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod blocking;
mod blocking_stress;
mod cycles;
mod deadlock;
mod driver;
mod lanes;
mod resize;
mod sync;
mod threads;
mod tick;
mod turns;
