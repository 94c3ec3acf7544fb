//! Listeners: what the engine's events become for people.

mod counters;

pub use counters::{Counters, Metrics, WorkerMetrics};
