//! Folds over trees and graphs.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod large;
mod queues;
mod shared_nodes;
