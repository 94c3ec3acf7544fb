//! Futures: spawning, waking, waiting, shutdown, dedicated workers, local sets.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod budget;
mod dedicated;
mod interop;
mod local;
mod promises;
mod schedule;
mod sets;
mod shutdown;
mod waits;
