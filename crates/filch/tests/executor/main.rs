//! The typed executor: its tasks, its end, and the tasks that wait for units.

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod resize;
mod waits;
