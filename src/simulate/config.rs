//! How the engine under test is set up, and what its moves cost.

use super::error::CaseError;
use crate::{
    base::error::BuildError,
    engine::{
        Ageing, Capacity, PerWorkerSpec, Settings, SharedSpec, Tiered, Topology, Unpark,
        WakePolicy, sleep::MAX_WORKERS,
    },
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// [`Settings::standby`]: few, so that runs stay short.
const STANDBY: u32 = 2;

/// The engine's settings in a simulation.
///
/// ```
/// use filch::engine::WakePolicy;
/// use filch::simulate::{Config, Queues};
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
    /// The most workers at a time.
    pub workers: usize,
    /// Workers that do not take part from the start.
    #[serde(default)]
    pub absent: Vec<usize>,
    /// Where the generators of the workers start.
    #[serde(default)]
    pub seed: u64,
    /// How the workers share their tasks.
    #[serde(default)]
    pub queues: Queues,
    /// What becomes of a task that does not fit into its worker's queue.
    #[serde(default)]
    pub overflow: Overflow,
    /// When a push looks for sleepers.
    #[serde(default)]
    pub wake: WakePolicy,
    /// What an idle worker does.
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
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub ageing: Ageing,
    /// [`Settings::inject_capacity`].
    #[serde(default)]
    pub inject_capacity: Option<usize>,
    /// How many workers share a node; zero means that everybody is equally near.
    #[serde(default)]
    pub node: usize,
    /// How many cores the workers are on, which take turns; zero means that no worker knows its core.
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub cores: usize,
    /// What everything costs.
    #[serde(default)]
    pub costs: Costs,
    /// A run of more moves than this is given up as one that does not end. `None` is a million, and
    /// twenty for every task of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_moves: Option<u64>,
}

/// How the workers share their tasks.
///
/// ```
/// use filch::simulate::Queues;
/// let tiny: Queues = serde_json::from_str(r#"{"bounded": {"capacity": 2, "steal_batch": 1}}"#).unwrap();
/// assert_eq!(tiny, Queues::Bounded { capacity: 2, steal_batch: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// A deque each, which grows from room for `initial` tasks.
    Growable {
        /// Room at the start.
        initial: usize,
        /// The most tasks that a thief takes at once.
        steal_batch: usize,
    },
    /// A deque each, which holds `capacity` tasks and no more.
    Bounded {
        /// Room.
        capacity: usize,
        /// The most tasks that a thief takes at once.
        steal_batch: usize,
    },
    /// One queue for all.
    Shared {
        /// Room, if it is limited.
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

/// What becomes of a task that does not fit into its worker's queue: what a face may choose.
///
/// ```
/// use filch::simulate::{Case, Overflow, Program, Queues, Simulation};
///
/// let mut case = Case::new(1, Program::wide(10, 1));
/// case.config.queues = Queues::Bounded { capacity: 4, steal_batch: 1 };
/// case.config.overflow = Overflow::Return;
/// let outcome = Simulation::new(case)?.run().unwrap();
/// assert_eq!((outcome.executed, outcome.refused), (1 + 4, 6));
/// # Ok::<(), filch::simulate::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Half of the queue moves to the injector.
    #[default]
    Spill,
    /// The task runs at once, inside of the one that spawned it.
    Inline,
    /// The spawn is refused: the task is given back and never runs.
    Return,
}

/// What an idle worker does: [`Tiered`], with its time in ticks.
///
/// ```
/// use filch::simulate::Idle;
///
/// // Sleeps at once, and looks again every hundred ticks.
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
    /// Few rounds: a look in vain is a move, and moves are what a simulation spends.
    fn default() -> Self {
        Self {
            spin_rounds: 4,
            yield_every: 0,
            longest_pause: 8,
            park_timeout: None,
        }
    }
}

/// What moves cost, in ticks. A model to compare schedules with, not a measurement.
///
/// The defaults keep the proportions that matter: a task of its own costs a worker next to nothing, one
/// from elsewhere some ten times as much, and being woken some ten times as much again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Any step.
    pub step: u64,
    /// A spawn, on top of the step that runs the task.
    pub spawn: u64,
    /// Taking a task from the injector.
    pub inject: u64,
    /// Taking tasks from another worker, by distance; the last one holds for all that is farther.
    pub steal: Vec<u64>,
    /// One pause between two looks.
    pub pause: u64,
    /// Giving the core away between two looks.
    pub yield_now: u64,
    /// From the call that wakes a worker until it is awake.
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
    /// Only work takes time.
    ///
    /// ```
    /// use filch::simulate::Costs;
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

    /// What it costs to take tasks from a worker that is `distance` away.
    #[must_use]
    pub(super) fn steal(&self, distance: usize) -> u64 {
        self.steal
            .get(distance)
            .or(self.steal.last())
            .copied()
            .unwrap_or(0)
    }
}

mod default {
    use crate::engine::Settings;

    pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }

    pub(super) fn steal_tries() -> usize {
        Settings::new(1).steal_tries
    }

    pub(super) fn inject_batch() -> usize {
        Settings::new(1).inject_batch
    }

    pub(super) fn inject_interval() -> u32 {
        Settings::new(1).inject_interval
    }
}

impl Config {
    /// The engine's defaults, for `workers` workers.
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

    /// How far apart the workers are.
    pub(super) fn topology(&self) -> Topology {
        match self.node {
            0 => Topology::flat(self.workers),
            node => Topology::tiers(self.workers, |a, b| usize::from(a / node != b / node)),
        }
    }

    /// The core of `worker`, where cores are known.
    pub(super) fn core_of(&self, worker: usize) -> Option<u32> {
        let core = worker.checked_rem(self.cores)?;
        u32::try_from(core).ok()
    }

    pub(super) fn settings(
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

    pub(super) fn check(&self) -> Result<(), CaseError> {
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

    /// How many moves in a row may pass without a task run, a tick passing or a thing from outside
    /// before the run counts as one that goes round in circles: some rounds of everybody looking at
    /// everybody as often as the idle policy allows.
    pub(super) fn patience(&self) -> u64 {
        let steps_a_round = self.workers / self.steal_tries.max(1) + 3;
        let rounds = u64::from(self.idle.spin_rounds) + 3;
        1_000 + 4 * self.workers as u64 * steps_a_round as u64 * rounds
    }

    /// How many looks in vain in a row a worker may have while a task waits and nobody else does
    /// anything: a thief hesitates 16 times at a deque with a single task, and with one try a step, a round of
    /// everybody takes as many looks as there are workers.
    pub(super) fn blindness(&self) -> u64 {
        (16 + 4) * (self.workers as u64 + 2) + u64::from(STANDBY)
    }
}

/// The engine's own errors about settings, told as errors of the case.
impl From<BuildError> for CaseError {
    fn from(error: BuildError) -> Self {
        Self::new(error.to_string())
    }
}

pub(super) fn per_worker(capacity: Capacity, steal_batch: usize) -> PerWorkerSpec {
    PerWorkerSpec {
        capacity,
        steal_batch,
        ..PerWorkerSpec::default()
    }
}

pub(super) fn shared(capacity: Option<usize>) -> SharedSpec {
    SharedSpec { capacity }
}
