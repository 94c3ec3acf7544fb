//! Loops over data.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod chain_sources;
mod chains;
mod drops;
mod extension;
mod limits;
mod results;
mod sort;
