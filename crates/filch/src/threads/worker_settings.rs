//! The settings that pools and executors have in common.

use super::{config::ThreadConfig, parker::Parkers};
use crate::{
    base::{error::BuildError, sys::cores, thread},
    engine::{Distances, IdlePolicy, Settings, Tiered},
    topology::{PinOrder, Pinning, Topology},
};
use std::sync::Arc;

/// How many sleepers a woken worker wakes in turn, if it sees as many more tasks: two make a tree,
/// and a third one would be woken by one of those two in the same time.
const WAKE_FANOUT: usize = 2;

/// What a builder stores before it knows the number of workers.
pub(crate) struct WorkerSettings {
    pub(crate) threads: ThreadConfig,
    pub(crate) pinning: Pinning,
    pub(crate) pin_order: PinOrder,
    /// The machine; that of the program by default.
    pub(crate) topology: Option<Topology>,
    pub(crate) idle: Tiered,
    /// Replaces `idle`.
    pub(crate) custom_idle: Option<Box<dyn IdlePolicy>>,
    /// For each CPU the nearest of the pinned workers, if any.
    nearest: Vec<Option<u32>>,
    /// Those of the pinned workers by default.
    pub(crate) distances: Option<Distances>,
    /// The others. [`connect`](Self::connect) sets what depends on the fields above.
    pub(crate) engine: Settings,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            threads: ThreadConfig::default(),
            pinning: Pinning::default(),
            pin_order: PinOrder::default(),
            topology: None,
            idle: Tiered::default(),
            custom_idle: None,
            nearest: Vec::new(),
            distances: None,
            engine: Settings {
                wake_fanout: WAKE_FANOUT,
                ..Settings::new(0)
            },
        }
    }
}

impl WorkerSettings {
    /// Decides on the number of workers, on how many there may be later, which is at most `max`,
    /// and on the CPUs of their threads.
    ///
    /// The first number is what the program has set, else the length of its list of CPUs, else that
    /// of the environment variable, else as many as can run at the same time.
    pub(crate) fn decide(&mut self, max: usize) -> Result<(usize, usize), BuildError> {
        if let (None, Pinning::List(cpus)) = (self.threads.workers, &self.pinning) {
            self.threads.workers = Some(cpus.len());
        }
        if self.pinning == Pinning::None {
            let workers = self.threads.workers(self.topology.as_ref(), max)?;
            return Ok((workers, self.threads.max_workers(workers, max)?));
        }
        if !cores::CAN_PIN {
            return Err(BuildError::config(
                "this system does not pin threads; leave the pinning out",
            ));
        }
        let topology = self.topology.take().unwrap_or_else(Topology::detect);
        let workers = self.threads.workers(Some(&topology), max)?;
        let most = self.threads.max_workers(workers, max)?;
        let places = topology.place(most, &self.pinning, self.pin_order)?;
        self.nearest = topology.nearest_workers(&places);
        self.threads.places = Some(Arc::new(places));
        Ok((workers, most))
    }

    /// Returns the settings of an engine of `workers` workers, on threads that park in `parkers`.
    pub(crate) fn connect(self, workers: usize, parkers: &Arc<Parkers>) -> Settings {
        let distances = self
            .distances
            .unwrap_or_else(|| match &self.threads.places {
                Some(places) => Distances::of_places(places, workers),
                None => Distances::flat(workers),
            });
        // The node of each CPU is that of the nearest worker.
        let node = |worker: &Option<u32>| distances.node((*worker)? as usize);
        let nodes: Vec<Option<usize>> = self.nearest.iter().map(node).collect();
        Settings {
            workers,
            producer_node: Arc::new(move || *nodes.get(thread::first_core()? as usize)?),
            distances,
            idle: self.custom_idle.unwrap_or_else(|| Box::new(self.idle)),
            unpark: Box::new(parkers.clone()),
            current_core: Box::new(thread::core),
            is_pinned: Box::new(thread::is_pinned),
            ..self.engine
        }
    }
}
