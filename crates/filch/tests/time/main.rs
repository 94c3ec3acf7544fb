//! Sleeps, timeouts, intervals and paused clocks.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod auto;
mod basics;
