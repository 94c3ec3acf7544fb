//! Observers of the engine's events: counters and histograms.

mod counters;
mod histogram;
mod tasks;

pub use counters::{Counters, Metrics, WorkerMetrics};
pub use histogram::Histogram;
pub(crate) use tasks::{TaskCounters, TaskEvent};
pub use tasks::{TaskCounts, TaskMetrics};
