//! The settings of the engine under test, and the costs of its moves.

use crate::{error::CaseError, remote};
use filch::{
    BuildError,
    engine::{
        Ageing, Capacity, MAX_WORKERS, PerWorkerSpec, Settings, SharedSpec, Tiered, Topology,
        Unpark, WakePolicy,
    },
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// [`Settings::standby`], in yields: few, so that runs stay short.
const STANDBY: u32 = 2;

/// The engine's settings in a simulation.
///
/// ```
/// use filch::engine::WakePolicy;
/// use filch_sim::{Config, Queues};
///
/// let config = Config {
///     queues: Queues::Shared { capacity: None },
///     wake: WakePolicy::OncePerBatch,
///     ..Config::new(100)
/// };
/// assert_eq!(config.workers, 100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The maximum number of workers at a time.
    pub workers: usize,
    /// Workers that are absent at the start.
    #[serde(default)]
    pub absent: Vec<usize>,
    /// The seed of the workers' random number generators.
    #[serde(default)]
    pub seed: u64,
    /// The queue strategy.
    #[serde(default)]
    pub queues: Queues,
    /// The policy for a task that does not fit into its worker's queue.
    #[serde(default)]
    pub overflow: Overflow,
    /// When a push checks for sleepers.
    #[serde(default, with = "remote::WakePolicy")]
    pub wake: WakePolicy,
    /// The idle policy.
    #[serde(default)]
    pub idle: Idle,
    /// [`Settings::steal_tries`].
    #[serde(default = "default::steal_tries")]
    pub steal_tries: usize,
    /// [`Settings::inject_batch`].
    #[serde(default = "default::inject_batch")]
    pub inject_batch: usize,
    /// [`Settings::inject_interval`].
    #[serde(default = "default::inject_interval")]
    pub inject_interval: u32,
    /// [`Settings::ageing`].
    #[serde(
        default,
        skip_serializing_if = "default::is_default",
        with = "remote::Ageing"
    )]
    pub ageing: Ageing,
    /// [`Settings::inject_capacity`].
    #[serde(default)]
    pub inject_capacity: Option<usize>,
    /// The number of workers per memory node; zero means that all workers are equally near.
    #[serde(default)]
    pub node: usize,
    /// The number of cores, which are assigned to workers round-robin; zero means that cores are
    /// unknown.
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub cores: usize,
    /// The costs of moves.
    #[serde(default)]
    pub costs: Costs,
    /// The limit of moves, after which a run counts as one that does not end. `None` is a million,
    /// plus twenty for every task of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_moves: Option<u64>,
}

/// The queue strategy: how workers share their tasks.
///
/// ```
/// use filch_sim::Queues;
/// let tiny: Queues = serde_json::from_str(r#"{"bounded": {"capacity": 2, "steal_batch": 1}}"#).unwrap();
/// assert_eq!(tiny, Queues::Bounded { capacity: 2, steal_batch: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// One growable deque per worker.
    Growable {
        /// The initial capacity, in tasks.
        initial: usize,
        /// The most tasks that a thief takes at once.
        steal_batch: usize,
    },
    /// One bounded deque per worker.
    Bounded {
        /// The capacity, in tasks.
        capacity: usize,
        /// The most tasks that a thief takes at once.
        steal_batch: usize,
    },
    /// One queue for all workers.
    Shared {
        /// The capacity in tasks, if the queue is bounded.
        capacity: Option<usize>,
    },
}

impl Default for Queues {
    fn default() -> Self {
        Self::Growable {
            initial: 4,
            steal_batch: PerWorkerSpec::default().steal_batch,
        }
    }
}

/// The policy for a task that does not fit into its worker's queue. Public interfaces of the
/// library choose one of these.
///
/// ```
/// use filch_sim::{Case, Overflow, Program, Queues, Simulation};
///
/// let mut case = Case::new(1, Program::wide(10, 1));
/// case.config.queues = Queues::Bounded { capacity: 4, steal_batch: 1 };
/// case.config.overflow = Overflow::Return;
/// let outcome = Simulation::new(case)?.run().unwrap();
/// assert_eq!((outcome.executed, outcome.refused), (1 + 4, 6));
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Half of the queue moves to the injector.
    #[default]
    Spill,
    /// The task runs immediately, inside of the task that spawned it.
    Inline,
    /// The spawn is refused: the task is returned and never runs.
    Return,
}

/// The idle policy: [`Tiered`], with its time in ticks.
///
/// ```
/// use filch_sim::Idle;
///
/// // Sleeps at once, and searches again every hundred ticks.
/// let idle = Idle { spin_rounds: 0, park_timeout: Some(100), ..Idle::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// [`Tiered::spin_rounds`].
    pub spin_rounds: u32,
    /// [`Tiered::yield_every`].
    pub yield_every: u32,
    /// [`Tiered::longest_pause`].
    pub longest_pause: u32,
    /// [`Tiered::park_timeout`], in ticks.
    pub park_timeout: Option<u64>,
}

impl Default for Idle {
    /// Few rounds, because every failed search is a move and lengthens the run.
    fn default() -> Self {
        Self {
            spin_rounds: 4,
            yield_every: 0,
            longest_pause: 8,
            park_timeout: None,
        }
    }
}

/// The costs of moves, in ticks. A model to compare schedules with, not a measurement.
///
/// The defaults keep the proportions: a local task is cheap, a task from another queue costs some
/// ten times as much, and a wake some ten times as much again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A step of a worker.
    pub step: u64,
    /// A spawn, in addition to the step that runs the task.
    pub spawn: u64,
    /// Taking a task from the injector.
    pub inject: u64,
    /// Stealing from another worker, by distance; the last entry is for all greater distances.
    pub steal: Vec<u64>,
    /// One spin hint between two searches.
    pub pause: u64,
    /// A yield of the core between two searches.
    pub yield_now: u64,
    /// The latency from the unpark of a worker until it is awake.
    pub wake: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            step: 1,
            spawn: 1,
            inject: 5,
            steal: vec![10, 30],
            pause: 1,
            yield_now: 10,
            wake: 100,
        }
    }
}

impl Costs {
    /// Returns costs of zero, so that only the tasks' own work takes time.
    ///
    /// ```
    /// use filch_sim::Costs;
    /// assert_eq!(Costs::free().wake, 0);
    /// ```
    #[must_use]
    pub fn free() -> Self {
        Self {
            step: 0,
            spawn: 0,
            inject: 0,
            steal: Vec::new(),
            pause: 0,
            yield_now: 0,
            wake: 0,
        }
    }

    /// Returns the cost of stealing from a worker at `distance`.
    #[must_use]
    pub(crate) fn steal(&self, distance: usize) -> u64 {
        self.steal
            .get(distance)
            .or(self.steal.last())
            .copied()
            .unwrap_or(0)
    }
}

mod default {
    use filch::engine::Settings;

    pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }

    pub(crate) fn steal_tries() -> usize {
        Settings::new(1).steal_tries
    }

    pub(crate) fn inject_batch() -> usize {
        Settings::new(1).inject_batch
    }

    pub(crate) fn inject_interval() -> u32 {
        Settings::new(1).inject_interval
    }
}

impl Config {
    /// Returns the engine's defaults for `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            absent: Vec::new(),
            seed: Settings::SEED,
            queues: Queues::default(),
            overflow: Overflow::default(),
            wake: WakePolicy::default(),
            idle: Idle::default(),
            steal_tries: default::steal_tries(),
            inject_batch: default::inject_batch(),
            inject_interval: default::inject_interval(),
            ageing: Ageing::default(),
            inject_capacity: None,
            node: 0,
            cores: 0,
            costs: Costs::default(),
            max_moves: None,
        }
    }

    /// Returns the distances between workers.
    pub(crate) fn topology(&self) -> Topology {
        match self.node {
            0 => Topology::flat(self.workers),
            node => Topology::tiers(self.workers, |a, b| usize::from(a / node != b / node)),
        }
    }

    /// Returns the core of `worker` if cores are known.
    pub(crate) fn core_of(&self, worker: usize) -> Option<u32> {
        let core = worker.checked_rem(self.cores)?;
        u32::try_from(core).ok()
    }

    pub(crate) fn settings(
        &self,
        unpark: Box<dyn Unpark>,
        current_core: Box<dyn Fn() -> Option<u32> + Send + Sync>,
    ) -> Settings {
        Settings {
            current_core,
            is_pinned: Box::new(|| true),
            standby: STANDBY,
            seed: self.seed,
            steal_tries: self.steal_tries,
            inject_batch: self.inject_batch,
            inject_interval: self.inject_interval,
            ageing: self.ageing,
            inject_capacity: self.inject_capacity,
            wake: self.wake,
            idle: Box::new(Tiered {
                spin_rounds: self.idle.spin_rounds,
                yield_every: self.idle.yield_every,
                longest_pause: self.idle.longest_pause,
                park_timeout: self.idle.park_timeout.map(Duration::from_nanos),
            }),
            topology: self.topology(),
            unpark,
            ..Settings::new(self.workers)
        }
    }

    pub(crate) fn check(&self) -> Result<(), CaseError> {
        let problem = if !(1..=MAX_WORKERS).contains(&self.workers) {
            Some(format!(
                "{} workers; there must be at least 1 and at most {MAX_WORKERS}",
                self.workers
            ))
        } else if let Some(stranger) = self.absent.iter().find(|&&w| w >= self.workers) {
            Some(format!(
                "worker {stranger} is absent, but there are only {} workers, counted from 0",
                self.workers
            ))
        } else if matches!(self.wake, WakePolicy::EveryKth(0) | WakePolicy::OnHoard(0)) {
            Some("the wake policy counts to zero; let it count to 1 or more".to_owned())
        } else {
            None
        };
        problem.map_or(Ok(()), |what| Err(CaseError::new(what)))
    }

    /// Returns the number of consecutive moves without progress after which a run counts as a
    /// livelock. Progress is a task that runs, a tick that passes or an external event. The limit
    /// allows some rounds in which every worker checks every other one as often as the idle policy
    /// permits.
    pub(crate) fn max_moves_without_progress(&self) -> u64 {
        let steps_a_round = self.workers / self.steal_tries.max(1) + 3;
        let rounds = u64::from(self.idle.spin_rounds) + 3;
        1_000 + 4 * self.workers as u64 * steps_a_round as u64 * rounds
    }

    /// Returns the number of consecutive failed searches that a worker may have while a task is
    /// queued and no other worker makes a change. A thief checks a deque with a single task 16
    /// times before it steals, and with one try per step a round over all workers takes one search
    /// per worker.
    pub(crate) fn max_failed_searches(&self) -> u64 {
        (16 + 4) * (self.workers as u64 + 2) + u64::from(STANDBY)
    }
}

/// Reports the engine's errors about its settings as errors of the case.
impl From<BuildError> for CaseError {
    fn from(error: BuildError) -> Self {
        Self::new(error.to_string())
    }
}

pub(crate) fn per_worker(capacity: Capacity, steal_batch: usize) -> PerWorkerSpec {
    PerWorkerSpec {
        capacity,
        steal_batch,
        ..PerWorkerSpec::default()
    }
}

pub(crate) fn shared(capacity: Option<usize>) -> SharedSpec {
    SharedSpec { capacity }
}
