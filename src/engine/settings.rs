//! The numbers and hooks of an engine.

use super::{
    idle::{IdlePolicy, Tiered, WakePolicy},
    lanes::Ageing,
    sleep::MAX_WORKERS,
    victims::Topology,
};
use crate::base::error::BuildError;
use std::fmt;

/// Wakes a worker that sleeps after [`Step::Park`](super::Step::Park).
///
/// The wake may come before the worker is asleep: it must then not fall asleep. The simulator and the
/// threads each have their own.
pub trait Unpark: Send + Sync {
    /// Wakes `worker`.
    fn unpark(&self, worker: usize);
}

/// Wakes nobody, for drivers that never wait.
#[derive(Clone, Copy, Debug)]
struct Nobody;

impl Unpark for Nobody {
    fn unpark(&self, _worker: usize) {}
}

/// The numbers and hooks of a [`Core`](super::Core).
///
/// ```
/// use filch::engine::{Settings, WakePolicy};
///
/// let settings = Settings {
///     wake: WakePolicy::OnHoard(WakePolicy::HOARD),
///     ..Settings::new(4)
/// };
/// assert_eq!(settings.workers, 4);
/// ```
pub struct Settings {
    /// The most workers at a time.
    pub workers: usize,
    /// Where the generators of the workers start. Seed 003's default.
    pub seed: u64,
    /// The most queues of others that one step tries to take from. Seed 001's 32: with fewer workers
    /// than that, a step visits everybody; with more, a step stays short.
    pub steal_tries: usize,
    /// The most tasks taken from the injector at once.
    pub inject_batch: usize,
    /// Every so many tasks a worker looks at the injector first, so that tasks from outside are not
    /// starved by a worker that feeds itself; zero never does. The pool's threads also do so by the clock, since tasks may be
    /// long ([`Worker::force_injector_poll`](super::Worker::force_injector_poll)). A prime, as in Go and tokio, so that
    /// it does not fall in step with the rhythm of a program.
    pub inject_interval: u32,
    /// How often less urgent tasks get a turn.
    pub ageing: Ageing,
    /// The most tasks from outside that wait in the injector, and in each lane.
    pub inject_capacity: Option<usize>,
    /// When a push looks for sleepers.
    pub wake: WakePolicy,
    /// How often a worker that was woken on the core of another worker gives way to that one before it takes part.
    ///
    /// Where the other one is blocked, each yield returns at once, and 64 take some 50 µs. Where it runs, each takes a
    /// time slice of the system's scheduler, some milliseconds.
    pub standby: u32,
    /// What a worker does that finds nothing.
    pub idle: Box<dyn IdlePolicy>,
    /// Whether a worker that has run out looks for events first, by
    /// [`IdleAction::Poll`](super::IdleAction::Poll), before it searches.
    pub polls: bool,
    /// Who is near whom.
    pub topology: Topology,
    /// Who wakes the sleeping.
    pub unpark: Box<dyn Unpark>,
    /// The core that the calling thread runs on, where that is known: a sleeper on another core is woken first.
    pub current_core: Box<dyn Fn() -> Option<u32> + Send + Sync>,
    /// Whether the calling thread cannot leave its core. One that can does not [stand by](Self::standby): the system
    /// may move it to a core that is free.
    pub is_pinned: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Settings {
    /// Seed 003's seed, the constant of PCG's reference implementation.
    pub const SEED: u64 = 0x853c_49e6_748f_ea9b;

    /// The defaults for at most `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            seed: Self::SEED,
            steal_tries: 32,
            inject_batch: 64,
            inject_interval: 61,
            ageing: Ageing::default(),
            inject_capacity: None,
            wake: WakePolicy::default(),
            standby: 64,
            idle: Box::new(Tiered::default()),
            polls: false,
            topology: Topology::flat(workers),
            unpark: Box::new(Nobody),
            current_core: Box::new(|| None),
            is_pinned: Box::new(|| false),
        }
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        if self.workers == 0 {
            return Err(BuildError::config(
                "no workers: ask for at least one worker, or leave the number out to get one for each core",
            ));
        }
        if self.workers > MAX_WORKERS {
            return Err(BuildError::config(format!(
                "{} workers are too many; ask for at most {MAX_WORKERS}",
                self.workers
            )));
        }
        if self.inject_capacity == Some(0) {
            return Err(BuildError::config(
                "an injector without room would refuse every task; set its capacity to 1 or more",
            ));
        }
        if self.topology.workers() != self.workers {
            return Err(BuildError::config(format!(
                "the topology is for {} workers, but there are {}",
                self.topology.workers(),
                self.workers
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("workers", &self.workers)
            .field("seed", &self.seed)
            .field("wake", &self.wake)
            .finish_non_exhaustive()
    }
}
