//! The engine without threads of its own: the injector, levels and affinity, and wake-ups; the
//! deque and the injector with many threads.

#[path = "../support/mod.rs"]
mod support;

mod injector;
mod lanes;
mod nodes;
mod stress;
mod wake;
