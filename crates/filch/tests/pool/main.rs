//! Pools, their threads and their waits.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod deadlock;
mod driver;
mod lanes;
mod sync;
mod threads;
mod tick;
