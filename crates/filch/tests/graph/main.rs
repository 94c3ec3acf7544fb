//! Task graphs and pipelines.
#![cfg(not(filch_loom))]

#[path = "../support/graphs.rs"]
mod graphs;
#[path = "../support/mod.rs"]
mod support;

mod basics;
mod describe;
mod dynamic;
mod edge_cases;
mod pipeline;
mod sources;
mod timeline;
mod waits;
