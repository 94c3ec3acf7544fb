//! Submitted tasks.
#![cfg(not(filch_loom))]

#[path = "../support/mod.rs"]
mod support;

mod after;
mod basics;
mod group;
mod handles;
mod nesting;
mod places;
mod queue;
mod stress;
