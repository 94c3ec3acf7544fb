//! The settings of the engine under test, and the costs of its moves.

use crate::{error::CaseError, remote};
use filch::{
    BuildError,
    engine::{
        Ageing, Distances, MAX_WORKERS, PerWorkerSpec, Placement, Settings, SharedSpec, Tiered,
        Unpark, WakePolicy,
    },
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc, time::Duration};

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
    /// [`PerWorkerSpec::batch_from`].
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub batch_from: usize,
    /// The policy for a task that does not fit into its worker's queue.
    #[serde(default)]
    pub overflow: Overflow,
    /// When a push checks for sleepers.
    #[serde(default, with = "remote::WakePolicy")]
    pub wake: WakePolicy,
    /// [`Settings::wake_fanout`].
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub wake_fanout: usize,
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
    /// The machine, as the sizes of nested groups of workers, the innermost first: `[2, 16, 64]`
    /// has two workers on a core, 16 that share a cache, and 64 on a memory node. The distance of
    /// two workers is the number of groups that they do not share. If empty, all workers are
    /// equally near.
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub groups: Vec<usize>,
    /// The order in which thieves visit the other workers.
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub victims: VictimOrder,
    /// Whether affinities are to the nodes of workers, the outermost of the groups, and not to the
    /// workers themselves, if there are several nodes and the engine knows them.
    #[serde(default, skip_serializing_if = "default::is_default")]
    pub node_affinity: bool,
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
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Overflow {
    /// Half of the queue moves to the injector.
    #[default]
    Spill,
    /// The task runs immediately, inside of the task that spawned it.
    Inline,
    /// The spawn is refused: the task is returned and never runs.
    Return,
}

/// The order in which thieves visit the other workers.
///
/// ```
/// use filch_sim::{Config, VictimOrder};
///
/// // A machine of four nodes, whose structure the engine does not know.
/// let config = Config { groups: vec![16], victims: VictimOrder::Uniform, ..Config::new(64) };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VictimOrder {
    /// The engine gets the distances of [`Config::groups`], and visits near workers first.
    #[default]
    NearFirst,
    /// The engine gets no distances, and visits all workers in one order from a random start.
    /// Distances only have a cost.
    Uniform,
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
    /// The time that an unpark takes its caller.
    #[serde(default)]
    pub unpark: u64,
    /// A probe of the queue of another worker that takes nothing, by distance as in `steal`.
    /// Nothing if empty.
    #[serde(default)]
    pub probe: Vec<u64>,
    /// Moving one more task with a stolen one or one from the injector.
    #[serde(default)]
    pub moved: u64,
    /// Passing over a worker that is not busy in a search.
    #[serde(default)]
    pub skip: u64,
    /// Whether takes from one queue, a worker's or the injector, exclude each other: the next one
    /// begins when the one before has ended.
    #[serde(default)]
    pub exclusive: bool,
    /// The distances between nodes, the outermost of [`Config::groups`], as systems report them:
    /// 10 is local, 20 twice as far. The entries of `steal` and `probe` for the greatest distance
    /// are for the nearest two nodes, and others cost in proportion. More nodes than rows repeat
    /// them. If empty, all nodes are equally far from each other.
    ///
    /// ```
    /// use filch_sim::Costs;
    ///
    /// // Two packages with two nodes each.
    /// let nodes = [[10, 12, 32, 32], [12, 10, 32, 32], [32, 32, 10, 12], [32, 32, 12, 10]];
    /// let costs = Costs { nodes: nodes.map(Vec::from).to_vec(), ..Costs::measured() };
    /// ```
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Vec<u64>>,
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
            unpark: 0,
            probe: Vec::new(),
            moved: 0,
            skip: 0,
            exclusive: false,
            nodes: Vec::new(),
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
            unpark: 0,
            probe: Vec::new(),
            moved: 0,
            skip: 0,
            exclusive: false,
            nodes: Vec::new(),
        }
    }

    /// Returns the cost of stealing from a worker at `distance`.
    #[must_use]
    pub(crate) fn steal(&self, distance: usize) -> u64 {
        by_distance(&self.steal, distance)
    }

    /// Returns the cost of a probe of the queue of a worker at `distance`.
    #[must_use]
    pub(crate) fn probe(&self, distance: usize) -> u64 {
        by_distance(&self.probe, distance)
    }
}

impl Costs {
    /// Returns the distance of the nearest two nodes, if distances are known.
    fn far(&self) -> Option<u64> {
        let rows = self.nodes.iter().enumerate();
        let others = rows.flat_map(|(a, row)| {
            let others = row.iter().enumerate().filter(move |&(b, _)| a != b);
            others.map(|(_, &distance)| distance)
        });
        others.min()
    }

    fn has_valid_nodes(&self) -> bool {
        let is_valid = |row: &Vec<u64>| {
            row.len() == self.nodes.len() && row.iter().all(|&distance| distance >= 10)
        };
        self.nodes.iter().all(is_valid)
    }
}

/// Returns the entry for `distance`; the last one is for all greater distances.
fn by_distance(costs: &[u64], distance: usize) -> u64 {
    costs.get(distance).or(costs.last()).copied().unwrap_or(0)
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
    ///
    /// ```
    /// use filch_sim::Config;
    ///
    /// let config = Config { wake_fanout: 2, ..Config::new(8) };
    /// assert_eq!(config.workers, 8);
    /// ```
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            absent: Vec::new(),
            seed: Settings::SEED,
            queues: Queues::default(),
            batch_from: 0,
            overflow: Overflow::default(),
            wake: WakePolicy::default(),
            wake_fanout: 0,
            idle: Idle::default(),
            steal_tries: default::steal_tries(),
            inject_batch: default::inject_batch(),
            inject_interval: default::inject_interval(),
            ageing: Ageing::default(),
            inject_capacity: None,
            groups: Vec::new(),
            victims: VictimOrder::default(),
            node_affinity: false,
            cores: 0,
            costs: Costs::default(),
            max_moves: None,
        }
    }

    /// Returns the costs for a thief of a steal from `victim` and of a probe of its queue.
    pub(crate) fn steal_and_probe(&self, thief: usize, victim: usize) -> (u64, u64) {
        let distance = self.distance(thief, victim);
        let (steal, probe) = (self.costs.steal(distance), self.costs.probe(distance));
        let is_far = distance > 0 && distance == self.groups.len();
        match (self.groups.last(), self.costs.far(), is_far) {
            (Some(size), Some(least), true) => {
                let row = |worker: usize| worker / size % self.costs.nodes.len();
                // Nodes that share a row are as far from each other as the nearest two.
                let far = self.costs.nodes[row(thief)][row(victim)].max(least);
                (steal * far / least, probe * far / least)
            }
            _ => (steal, probe),
        }
    }

    /// Returns the distance of two workers: the number of groups that they do not share.
    pub(crate) fn distance(&self, a: usize, b: usize) -> usize {
        let apart = |&&size: &&usize| a / size != b / size;
        self.groups.iter().filter(apart).count()
    }

    /// Returns the distances between workers, as far as the engine knows them.
    fn distances(&self) -> Distances {
        if self.groups.is_empty() || self.victims == VictimOrder::Uniform {
            return Distances::flat(self.workers);
        }
        let levels = self.groups.len();
        Distances::nested(self.workers, levels, |worker, level| {
            Some(worker / self.groups[level])
        })
    }

    /// Returns the number of nodes to which tasks may have an affinity.
    pub(crate) fn affinity_nodes(&self) -> usize {
        let known = self.node_affinity && self.victims == VictimOrder::NearFirst;
        let size = self.groups.last().filter(|_| known);
        let nodes = size.map_or(0, |&size| self.workers.div_ceil(size));
        if nodes > 1 { nodes } else { 0 }
    }

    /// Returns the mailbox of a task with an affinity to `worker`: that of the worker, or after
    /// those of all workers that of its node.
    pub(crate) fn mailbox(&self, worker: usize) -> usize {
        match (self.affinity_nodes(), self.groups.last()) {
            (1.., Some(&size)) => self.workers + worker / size,
            _ => worker,
        }
    }

    /// Returns the workers that should run the tasks of a mailbox.
    pub(crate) fn mailbox_workers(&self, mailbox: usize) -> Range<usize> {
        match (mailbox.checked_sub(self.workers), self.groups.last()) {
            (Some(node), Some(&size)) => node * size..((node + 1) * size).min(self.workers),
            _ => mailbox..mailbox + 1,
        }
    }

    /// Returns the placement of a task in a mailbox.
    pub(crate) fn placement(&self, mailbox: usize) -> Placement {
        match mailbox.checked_sub(self.workers) {
            Some(node) => Placement::AffineNode(node),
            None => Placement::Affine(mailbox),
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
            wake_fanout: self.wake_fanout,
            idle: Box::new(Tiered {
                spin_rounds: self.idle.spin_rounds,
                yield_every: self.idle.yield_every,
                longest_pause: self.idle.longest_pause,
                park_timeout: self.idle.park_timeout.map(Duration::from_nanos),
            }),
            distances: self.distances(),
            // All producers are one thread, whose number must not matter.
            producer_node: Arc::new(|| Some(0)),
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
        } else if self.groups.contains(&0) {
            Some("a group of no workers; let it have 1 or more".to_owned())
        } else if !self.costs.has_valid_nodes() {
            Some(
                "the distances of nodes make no sense; give as many in each row as there are rows, \
                 and at least 10 each"
                    .to_owned(),
            )
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
    /// per worker. On a machine with nodes a round probes up to 16 near workers and one far one: it
    /// may take twice as many rounds as there are workers to probe a certain one, and twice that if
    /// it has a single task.
    pub(crate) fn max_failed_searches(&self) -> u64 {
        let workers = self.workers as u64 + 2;
        let rounds = if self.groups.is_empty() {
            0
        } else {
            4 * workers
        };
        (16 + 4) * workers + rounds * workers.min(16 + 1) + u64::from(STANDBY)
    }
}

/// Reports the engine's errors about its settings as errors of the case.
impl From<BuildError> for CaseError {
    fn from(error: BuildError) -> Self {
        Self::new(error.to_string())
    }
}

pub(crate) fn shared(capacity: Option<usize>) -> SharedSpec {
    SharedSpec { capacity }
}
