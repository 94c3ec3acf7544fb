//! Folds over trees and graphs.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod shared_nodes;
