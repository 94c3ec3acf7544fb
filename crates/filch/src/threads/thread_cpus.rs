//! Moves new threads to their CPUs.

use super::config::ThreadConfig;
use crate::{
    base::{
        error::BuildError,
        sys::cores::{self, InheritedPin},
    },
    topology::WorkerPlaces,
};
use std::sync::Arc;

/// The CPUs of threads that are being started. By default a thread stays where it is.
#[derive(Clone, Default)]
pub(super) struct ThreadCpus {
    /// Those of the workers, if these are pinned.
    places: Option<Arc<WorkerPlaces>>,
    /// What a thread inherits that a pinned worker starts.
    inherited: Option<InheritedPin>,
}

impl ThreadCpus {
    /// For threads that this one starts.
    pub(super) fn new(config: &ThreadConfig) -> Self {
        Self {
            places: config.places.clone(),
            inherited: InheritedPin::of_this_thread(),
        }
    }

    /// Moves this thread, which has the number `id`, to its CPUs.
    pub(super) fn apply(self, id: usize) -> Result<(), BuildError> {
        // First, so that the CPUs of before are those of before for a pinned worker too.
        if let Some(inherited) = self.inherited {
            inherited.undo();
        }
        // Threads that are not workers, those dedicated to futures, have higher numbers.
        let Some(places) = self.places.filter(|places| id < places.workers()) else {
            return Ok(());
        };
        let cpus = places.cpus(id);
        cores::pin(cpus.iter()).map_err(|error| {
            BuildError::config(format!(
                "the system did not pin worker {id} to CPU {cpus}: {error}; \
                 `Topology::detect` says which CPUs are allowed"
            ))
        })
    }
}
