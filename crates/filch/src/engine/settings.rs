//! The numbers and hooks of an engine.

use super::{
    distances::Distances,
    idle::{IdlePolicy, Tiered, WakePolicy},
    lanes::Ageing,
    sleep_state::MAX_WORKERS,
};
use crate::base::error::BuildError;
use std::{fmt, sync::Arc};

/// Wakes a worker that sleeps after [`Step::Park`](super::Step::Park).
///
/// The wake may precede the sleep: then the worker must not fall asleep. The simulator and the
/// threads each have their own.
pub trait Unpark: Send + Sync {
    /// Wakes `worker`.
    ///
    /// ```
    /// use filch::engine::{Settings, Unpark};
    /// use std::thread::{self, Thread};
    ///
    /// /// Wakes threads that sleep in `thread::park`.
    /// struct Threads(Vec<Thread>);
    ///
    /// impl Unpark for Threads {
    ///     fn unpark(&self, worker: usize) {
    ///         self.0[worker].unpark();
    ///     }
    /// }
    ///
    /// let settings = Settings {
    ///     unpark: Box::new(Threads(vec![thread::current()])),
    ///     ..Settings::new(1)
    /// };
    /// settings.unpark.unpark(0);
    /// thread::park(); // returns at once
    /// ```
    fn unpark(&self, worker: usize);
}

/// Wakes no worker, for drivers that never wait.
#[derive(Clone, Copy, Debug)]
struct NoUnpark;

impl Unpark for NoUnpark {
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
    /// The seed of the workers' random number generators.
    pub seed: u64,
    /// The most queues of other workers that one step tries to take from. The default is 32, more
    /// than a round of a search [probes](super::Victims::count_probe): a step is a round.
    pub steal_tries: usize,
    /// The most tasks taken from the injector at once.
    pub inject_batch: usize,
    /// The interval, in tasks, at which a worker checks the injector first, so that a worker that
    /// spawns tasks for itself does not starve tasks from outside; zero never does. The pool's
    /// threads also do so by the clock, since tasks may be long
    /// ([`Worker::force_injector_poll`](super::Worker::force_injector_poll)). A prime, as in Go and
    /// tokio, so that it does not coincide with the period of a program.
    pub inject_interval: u32,
    /// How many tasks less urgent ones wait for until they get a turn.
    pub ageing: Ageing,
    /// The capacity of the injector, and of each lane, for tasks from outside.
    pub inject_capacity: Option<usize>,
    /// When a push checks for sleepers.
    pub wake: WakePolicy,
    /// The most sleepers that a woken worker wakes in turn when it finds several tasks. With zero,
    /// the default, a worker wakes one other, and only if no worker searches: `n` sleepers are
    /// awake after `n` wakes, one after the other. With two, they wake in a tree.
    pub wake_fanout: usize,
    /// How many times a worker that was woken on the core of another worker yields to that one
    /// before it searches.
    ///
    /// If the other worker is blocked, each yield returns at once, and 64 take some 50 µs. If it
    /// runs, each takes a time slice of the system's scheduler, some milliseconds.
    pub standby: u32,
    /// What a worker does that finds no task.
    pub idle: Box<dyn IdlePolicy>,
    /// Whether a worker without tasks polls for events, by
    /// [`IdleAction::Poll`](super::IdleAction::Poll), before it searches.
    pub polls: bool,
    /// The distances between workers.
    pub distances: Distances,
    /// Wakes parked workers.
    pub unpark: Box<dyn Unpark>,
    /// Returns the [node](Distances::node) whose part of the injector the calling thread pushes to;
    /// workers of that node take from there first. Must return the same whenever a thread calls it:
    /// otherwise its tasks would lose their order. Called only if there are several nodes. `None`,
    /// the default, spreads threads over all parts.
    pub producer_node: Arc<dyn Fn() -> Option<usize> + Send + Sync>,
    /// Returns the core that the calling thread runs on, if known: a sleeper on another core is
    /// woken first.
    pub current_core: Box<dyn Fn() -> Option<u32> + Send + Sync>,
    /// Returns whether the calling thread is pinned to its core. A thread that is not does not
    /// [stand by](Self::standby): the system may move it to a free core.
    pub is_pinned: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Settings {
    /// The default seed: the constant of PCG's reference implementation.
    pub const SEED: u64 = 0x853c_49e6_748f_ea9b;

    /// Returns the defaults for at most `workers` workers.
    ///
    /// ```
    /// use filch::engine::Settings;
    ///
    /// let settings = Settings { inject_capacity: Some(1_000), ..Settings::new(4) };
    /// assert_eq!((settings.workers, settings.seed), (4, Settings::SEED));
    /// ```
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
            wake_fanout: 0,
            standby: 64,
            idle: Box::new(Tiered::default()),
            polls: false,
            distances: Distances::flat(workers),
            unpark: Box::new(NoUnpark),
            producer_node: Arc::new(|| None),
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
        if self.distances.workers() != self.workers {
            return Err(BuildError::config(format!(
                "the distances are for {} workers, but there are {}",
                self.distances.workers(),
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
