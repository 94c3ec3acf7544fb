//! Allocations and memory use, counted by a global allocator.
//!
//! The counts are those of the process, so each test runs in a process of its own.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod counting;

mod futures;
mod graphs;
mod sorts;
mod submitted_tasks;
