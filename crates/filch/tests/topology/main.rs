//! Descriptions of machines, the number of workers that follows from them, and pinned workers.
//!
//! The machines are folders of files that `fake` writes, in the form of Linux.
#![cfg(not(any(filch_loom, target_family = "wasm")))]

#[path = "../support/mod.rs"]
mod support;

mod fake;
mod follow;
mod garbage;
mod limits;
mod machines;
mod nodes;
mod pinning;
mod places;
mod workers;
