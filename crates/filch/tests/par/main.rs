//! Loops over data.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod drops;
mod extension;
mod sort;
