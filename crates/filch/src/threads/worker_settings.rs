//! The settings that pools and executors have in common.

use super::{config::ThreadConfig, parker::Parkers};
use crate::{
    base::thread,
    engine::{IdlePolicy, Settings, Tiered, Topology},
};
use std::sync::Arc;

/// What a builder stores before it knows the number of workers.
pub(crate) struct WorkerSettings {
    pub(crate) threads: ThreadConfig,
    pub(crate) idle: Tiered,
    /// Replaces `idle`.
    pub(crate) custom_idle: Option<Box<dyn IdlePolicy>>,
    /// Flat by default.
    pub(crate) topology: Option<Topology>,
    /// The others. [`connect`](Self::connect) sets what depends on the fields above.
    pub(crate) engine: Settings,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            threads: ThreadConfig::default(),
            idle: Tiered::default(),
            custom_idle: None,
            topology: None,
            engine: Settings::new(0),
        }
    }
}

impl WorkerSettings {
    /// Returns the settings of an engine of `workers` workers, on threads that park in `parkers`.
    pub(crate) fn connect(self, workers: usize, parkers: &Arc<Parkers>) -> Settings {
        Settings {
            workers,
            topology: self.topology.unwrap_or_else(|| Topology::flat(workers)),
            idle: self.custom_idle.unwrap_or_else(|| Box::new(self.idle)),
            unpark: Box::new(parkers.clone()),
            current_core: Box::new(thread::core),
            is_pinned: Box::new(thread::is_pinned),
            ..self.engine
        }
    }
}
