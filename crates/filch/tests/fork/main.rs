//! Joins, scopes, spawned closures and the worker that a program passes along.

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod current_worker;
mod limits;
mod small_scopes;
