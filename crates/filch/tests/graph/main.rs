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
mod edges;
mod edits;
mod failures;
mod inside_tasks;
mod laps;
mod options;
mod pipeline;
mod recycled;
mod runtimes;
mod served;
mod sources;
mod subflow_joins;
mod timeline;
mod waits;
