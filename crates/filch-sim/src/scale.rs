//! Scaling curves: what the scheduler does with up to a thousand workers on a machine with
//! distances.

use crate::{
    bound::Bound,
    case::Case,
    config::{Config, Costs, Idle, VictimOrder},
    error::CaseError,
    outcome::{Outcome, What},
    simulation::Simulation,
    workload::Workload,
};
use filch::engine::{PerWorkerSpec, Tiered};
use serde::{Deserialize, Serialize};

/// When the program begins: all workers have searched, found nothing and fallen asleep.
const START: u64 = 5_000_000;

/// The transfer of a cache line between the two cores of [`Costs::measured`], in nanoseconds.
const MEASURED_LINE: u64 = 62;

/// A machine: how its workers are grouped, and what moves cost on it.
///
/// ```
/// use filch_sim::Machine;
///
/// let machine = Machine::published();
/// assert_eq!(machine.groups, [2, 16, 64]);
/// assert_eq!(machine.costs.probe.len(), 4); // same core, same cache, same node, another node
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A description for readers, with the sources of the figures.
    pub name: String,
    /// The sizes of nested groups of workers ([`Config::groups`]).
    pub groups: Vec<usize>,
    /// The costs of moves, in nanoseconds.
    pub costs: Costs,
}

impl Machine {
    /// Returns a large machine: nodes of four groups of eight cores that share a cache, with two
    /// workers on each core.
    ///
    /// The time to transfer a cache line is that of two AMD EPYC 7R13, as published with
    /// [core-to-core-latency](https://github.com/nviennot/core-to-core-latency): 9.8 ns between
    /// the threads of a core, 23 ns in a group, 107 ns between groups and 197 ns between sockets.
    /// The other costs are [measured](Costs::measured); those that depend on the distance are in
    /// proportion to the transfer of a line.
    ///
    /// ```
    /// use filch_sim::Machine;
    /// assert_eq!(Machine::published().groups, [2, 16, 64]);
    /// ```
    #[must_use]
    pub fn published() -> Self {
        Self {
            name: "nodes of 4 x 8 cores x 2 threads; lines as on 2 x AMD EPYC 7R13".to_owned(),
            groups: vec![2, 16, 64],
            costs: Costs::measured().from_lines(MEASURED_LINE, &[10, 23, 107, 197]),
        }
    }
}

impl Machine {
    /// Returns [`published`](Self::published) with two nodes in each package: the other one is at
    /// the distance 12, and those of other packages are at 32.
    ///
    /// ```
    /// use filch_sim::Machine;
    /// assert_eq!(Machine::two_nodes_each().costs.nodes[0], [10, 12, 32, 32]);
    /// ```
    #[must_use]
    pub fn two_nodes_each() -> Self {
        let distance = |a: u64, b: u64| match () {
            () if a == b => 10,
            () if a / 2 == b / 2 => 12,
            () => 32,
        };
        let mut machine = Self::published();
        machine.name += "; nodes at the distances 10, 12 and 32";
        let row = |a| (0..4).map(|b| distance(a, b)).collect();
        machine.costs.nodes = (0..4).map(row).collect();
        machine
    }
}

impl Costs {
    /// Returns the costs that the example `costs` of this crate measured between two cores that
    /// share a cache, in nanoseconds (`bench/results/scale/README.md` in the repository).
    ///
    /// ```
    /// use filch_sim::Costs;
    /// assert!(Costs::measured().steal[0] > Costs::measured().probe[0]);
    /// ```
    #[must_use]
    pub fn measured() -> Self {
        Self {
            step: 3,
            spawn: 2,
            inject: 261,
            steal: vec![193],
            pause: 11,
            yield_now: 292,
            wake: 2_940,
            unpark: 3_321,
            probe: vec![77],
            moved: 3,
            skip: 4,
            exclusive: true,
            nodes: Vec::new(),
        }
    }

    /// Returns these costs for other distances: `line` is the time to transfer a cache line between
    /// the two cores that these costs are about, and `lines` that for each distance. Steals and
    /// probes transfer lines, so they are in proportion to it.
    ///
    /// ```
    /// use filch_sim::Costs;
    ///
    /// let measured = Costs { steal: vec![300], probe: vec![60], ..Costs::free() };
    /// let costs = measured.from_lines(60, &[20, 120]);
    /// assert_eq!((costs.steal, costs.probe), (vec![100, 600], vec![20, 120]));
    /// ```
    #[must_use]
    pub fn from_lines(&self, line: u64, lines: &[u64]) -> Self {
        let at = |cost: u64| lines.iter().map(move |l| cost * l / line.max(1)).collect();
        Self {
            steal: at(self.steal(0)),
            probe: at(self.probe(0)),
            ..self.clone()
        }
    }
}

/// The settings of scaling curves.
///
/// Everything is **simulated**: the engine is the production engine, but time is that of a
/// [cost model](Costs). The figures compare schedules with each other; they are no measurements
/// of a large machine.
///
/// ```
/// use filch_sim::{Machine, Scaling, VictimOrder, Workload};
///
/// // One wake after the other, or in a tree.
/// let chain = Scaling::new(Machine::published());
/// let tree = Scaling { wake_fanout: 2, ..chain.clone() };
/// let awake = |scaling: &Scaling| {
///     let point = scaling.measure(Workload::Burst, 32, VictimOrder::Uniform).unwrap();
///     point.awake
/// };
/// assert!(awake(&tree) < awake(&chain) / 2);
/// ```
///
/// # What the model leaves out
///
/// - Two workers on one core are as fast as on two.
/// - The data of tasks has no place: a stolen task takes as long as one of the worker's own.
/// - The words that all workers share, the sleep word and the gate, are free. Takes from one queue
///   wait for each other.
/// - All nodes are equally far from each other, unless [`Costs::nodes`] has their distances. The
///   engine does not know those.
/// - What a task spawns can be stolen from its start on, before the steal of the task itself has
///   taken its time.
/// - A steal is one from a deque that thieves have opened. The knock at one that is not open takes
///   both sides a microsecond and more, and is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The simulated machine.
    pub machine: Machine,
    /// The size of the workloads; 1.0 is that of [`Workload`].
    pub size: f64,
    /// The seed of the workers' random number generators.
    pub seed: u64,
    /// [`Config::wake_fanout`].
    pub wake_fanout: usize,
}

/// One simulated run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScalePoint {
    /// The program.
    pub workload: Workload,
    /// The number of workers.
    pub workers: usize,
    /// The order of victims.
    pub victims: VictimOrder,
    /// From the arrival of the work until the last task ended, in ticks.
    pub ticks: u64,
    /// How many times faster than the work of all tasks alone, one after the other.
    pub speedup: f64,
    /// The speedup that no scheduler exceeds under the same costs: the wakes of sleeping workers,
    /// the critical path with a step for each task, the parts of the program that are too narrow
    /// for all workers, and the injector, from which workers take one after the other.
    pub bound: f64,
    /// The number of steals.
    pub steals: u64,
    /// Probes of the queues of busy workers that took nothing, for each steal; `None` without
    /// steals.
    pub failed_probes: Option<f64>,
    /// The share of steals from another node; `None` if there is one node or no steal.
    pub remote: Option<f64>,
    /// The number of workers that were woken.
    pub woken: usize,
    /// From the arrival of the work until the last of them was awake, in ticks.
    pub awake: u64,
    /// How the workers spent their time.
    pub time: WorkerTime,
}

/// How workers spend their time from the arrival of the work until the last task has ended, as
/// shares of the time of all workers. The rest after the work, the searches and the sleep are the
/// costs of the model in steps that run a task: spawns, takes and wakes.
///
/// ```
/// use filch_sim::{Machine, Scaling, VictimOrder, Workload};
///
/// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
/// let time = scaling.measure(Workload::Loop, 4, VictimOrder::Uniform)?.time;
/// assert!(time.work > 0.5 && time.searching_queued <= time.searching, "{time:?}");
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WorkerTime {
    /// The work of tasks.
    pub work: f64,
    /// Searches for tasks, with their pauses.
    pub searching: f64,
    /// The part of it in which tasks were queued.
    pub searching_queued: f64,
    /// Sleep, until the worker is awake.
    pub asleep: f64,
    /// The part of it in which tasks were queued.
    pub asleep_queued: f64,
}

impl ScalePoint {
    /// Returns the speedup for each worker.
    ///
    /// ```
    /// use filch_sim::{Machine, Scaling, VictimOrder, Workload};
    ///
    /// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
    /// let point = scaling.measure(Workload::Loop, 4, VictimOrder::Uniform).unwrap();
    /// assert!(point.efficiency() <= 1.0);
    /// ```
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.speedup / self.workers as f64
    }
}

impl Scaling {
    /// Returns the settings for full workloads on `machine`.
    ///
    /// ```
    /// use filch_sim::{Machine, Scaling};
    ///
    /// let scaling = Scaling { size: 0.5, ..Scaling::new(Machine::published()) };
    /// assert_eq!(scaling.wake_fanout, 0);
    /// ```
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        let seed = Config::new(1).seed;
        Self {
            machine,
            size: 1.0,
            seed,
            wake_fanout: 0,
        }
    }

    /// Returns the case of a workload: all workers sleep when it arrives.
    ///
    /// ```
    /// use filch_sim::{Machine, Scaling, VictimOrder, Workload};
    ///
    /// let case = Scaling::new(Machine::published()).case(Workload::Burst, 8, VictimOrder::Uniform);
    /// assert_eq!(case.config.workers, 8);
    /// ```
    #[must_use]
    pub fn case(&self, workload: Workload, workers: usize, victims: VictimOrder) -> Case {
        let mut case = Case::new(workers, workload.program(START, self.size));
        let idle = Tiered::default();
        case.config = Config {
            seed: self.seed,
            groups: self.machine.groups.clone(),
            victims,
            wake_fanout: self.wake_fanout,
            costs: self.machine.costs.clone(),
            // As in a pool.
            batch_from: PerWorkerSpec::POOL_BATCH_FROM,
            idle: Idle {
                spin_rounds: idle.spin_rounds,
                yield_every: idle.yield_every,
                longest_pause: idle.longest_pause,
                park_timeout: None,
            },
            max_moves: Some(u64::MAX),
            ..case.config
        };
        case
    }

    /// Runs a workload.
    ///
    /// ```
    /// use filch_sim::{Machine, Scaling, VictimOrder, Workload};
    ///
    /// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
    /// let point = scaling.measure(Workload::Fib, 16, VictimOrder::NearFirst)?;
    /// assert!(point.speedup > 4.0, "{point:?}");
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the machine makes no sense, or the run breaks a rule of the engine.
    pub fn measure(
        &self,
        workload: Workload,
        workers: usize,
        victims: VictimOrder,
    ) -> Result<ScalePoint, CaseError> {
        let case = self.case(workload, workers, victims);
        let compiled = case.program.compile()?;
        let (work, _) = compiled.work_and_span();
        let bound = Bound::new(&case.program, &compiled, &self.machine.costs).ticks(workers);
        let outcome = Simulation::new(case)?
            .run()
            .map_err(|failure| CaseError::new(failure.to_string()))?;
        let ticks = outcome.makespan.saturating_sub(START);
        let time = worker_time(&outcome, workers, work);
        let work = work as f64;
        let steals: u64 = outcome.steals.iter().sum();
        let per_steal = |count: u64| (steals > 0).then(|| count as f64 / steals as f64);
        let nodes = self
            .machine
            .groups
            .last()
            .map_or(1, |n| workers.div_ceil(*n));
        let (woken, awake) = woken(&outcome, workers);
        Ok(ScalePoint {
            workload,
            workers,
            victims,
            ticks,
            speedup: work / ticks.max(1) as f64,
            bound: work / bound.max(1) as f64,
            steals,
            failed_probes: per_steal(outcome.failed_probes.iter().sum()),
            remote: per_steal(*outcome.steals.last().unwrap_or(&0)).filter(|_| nodes > 1),
            woken,
            awake,
            time,
        })
    }
}

/// Returns the number of workers that were woken after the start, and when the last of them was
/// awake for the first time.
fn woken(outcome: &Outcome, workers: usize) -> (usize, u64) {
    let mut first = vec![None; workers];
    for step in &outcome.trace {
        if let (What::Resumed, Some(worker)) = (step.what, step.worker)
            && (START..outcome.makespan).contains(&step.at)
        {
            first[worker].get_or_insert(step.at - START);
        }
    }
    let times = first.into_iter().flatten();
    (times.clone().count(), times.max().unwrap_or(0))
}

/// Returns how the workers spent their time.
fn worker_time(outcome: &Outcome, workers: usize, work: u64) -> WorkerTime {
    #[derive(Clone, Copy, PartialEq)]
    enum Doing {
        Other,
        Search,
        Sleep,
    }
    let mut doing = vec![Doing::Other; workers];
    // How many search and sleep, and the time that they have spent, with tasks queued or not.
    let (mut counts, mut sums) = ([0_u64; 2], [[0_u64; 2]; 2]);
    let (mut since, mut queued) = (START, false);
    for step in &outcome.trace {
        let now = step.at.clamp(START, outcome.makespan);
        for (sum, count) in sums.iter_mut().zip(counts) {
            sum[usize::from(queued)] += count * (now - since);
        }
        (since, queued) = (now, step.queued > 0);
        let next = match step.what {
            What::Idle(_) => Doing::Search,
            What::Parked => Doing::Sleep,
            _ => Doing::Other,
        };
        if let Some(worker) = step.worker {
            let before = std::mem::replace(&mut doing[worker], next);
            for (count, what) in counts.iter_mut().zip([Doing::Search, Doing::Sleep]) {
                *count += u64::from(next == what);
                *count -= u64::from(before == what);
            }
        }
    }
    let all = outcome.makespan.saturating_sub(START).max(1) as f64 * workers as f64;
    let share = |ticks: u64| ticks as f64 / all;
    let [search, sleep] = sums;
    WorkerTime {
        work: share(work),
        searching: share(search[0] + search[1]),
        searching_queued: share(search[1]),
        asleep: share(sleep[0] + sleep[1]),
        asleep_queued: share(sleep[1]),
    }
}

/// A figure of a [`ScalePoint`] that tables and charts show.
///
/// ```
/// use filch_sim::{Machine, Metric, Scaling, VictimOrder, Workload, table};
///
/// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
/// let points = [2, 4].map(|workers| {
///     scaling.measure(Workload::Loop, workers, VictimOrder::Uniform).unwrap()
/// });
/// let table = table(Metric::Speedup, &points);
/// assert!(table.starts_with("| | 2 | 4 |\n|---|---|---|\n| loop | "), "{table}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// The speedup over the work alone, one task after the other.
    Speedup,
    /// [`ScalePoint::bound`].
    Bound,
    /// The speedup as a share of the bound, in percent.
    BoundShare,
    /// The share of the workers' time that they search while tasks are queued, in percent.
    SearchingQueued,
    /// The share of the workers' time that they sleep while tasks are queued, in percent.
    AsleepQueued,
    /// Failed probes for each steal.
    FailedProbes,
    /// The share of steals from another node, in percent.
    Remote,
    /// The time until the last worker that is woken is awake, in microseconds.
    Awake,
    /// The number of workers that are woken.
    Woken,
}

impl Metric {
    /// All figures.
    pub const ALL: [Self; 9] = [
        Self::Speedup,
        Self::Bound,
        Self::BoundShare,
        Self::SearchingQueued,
        Self::AsleepQueued,
        Self::FailedProbes,
        Self::Remote,
        Self::Awake,
        Self::Woken,
    ];

    /// Returns the name of the figure.
    ///
    /// ```
    /// use filch_sim::Metric;
    /// assert_eq!(Metric::FailedProbes.name(), "failed probes per steal");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Speedup => "speed-up",
            Self::Bound => "upper bound of the speed-up",
            Self::BoundShare => "speed-up, % of the bound",
            Self::SearchingQueued => "time in searches while tasks are queued, %",
            Self::AsleepQueued => "time asleep while tasks are queued, %",
            Self::FailedProbes => "failed probes per steal",
            Self::Remote => "steals from another node, %",
            Self::Awake => "until all are awake, µs",
            Self::Woken => "workers that are woken",
        }
    }

    /// Returns the figure of a point, if it has one.
    ///
    /// ```
    /// use filch_sim::{Machine, Metric, Scaling, VictimOrder, Workload};
    ///
    /// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
    /// let point = scaling.measure(Workload::Loop, 4, VictimOrder::Uniform).unwrap();
    /// assert_eq!(Metric::Speedup.of(&point), Some(point.speedup));
    /// ```
    #[must_use]
    pub fn of(self, point: &ScalePoint) -> Option<f64> {
        match self {
            Self::Speedup => Some(point.speedup),
            Self::Bound => Some(point.bound),
            Self::BoundShare => Some(100.0 * point.speedup / point.bound),
            Self::SearchingQueued => Some(100.0 * point.time.searching_queued),
            Self::AsleepQueued => Some(100.0 * point.time.asleep_queued),
            Self::FailedProbes => point.failed_probes,
            Self::Remote => point.remote.map(|share| 100.0 * share),
            Self::Awake => Some(point.awake as f64 / 1_000.0),
            Self::Woken => Some(point.woken as f64),
        }
    }
}

/// Returns a figure of points as a table in markdown: a row for each workload, a column for each
/// number of workers, in the order in which they first appear.
///
/// ```
/// use filch_sim::{Machine, Metric, Scaling, VictimOrder, Workload, table};
///
/// let scaling = Scaling { size: 0.01, ..Scaling::new(Machine::published()) };
/// let point = scaling.measure(Workload::Loop, 4, VictimOrder::Uniform).unwrap();
/// assert!(table(Metric::Woken, &[point]).starts_with("| | 4 |\n"));
/// ```
#[must_use]
pub fn table(metric: Metric, points: &[ScalePoint]) -> String {
    let (mut workers, mut workloads) = (Vec::new(), Vec::new());
    for point in points {
        if !workers.contains(&point.workers) {
            workers.push(point.workers);
        }
        if !workloads.contains(&point.workload) {
            workloads.push(point.workload);
        }
    }
    let head: String = workers.iter().map(|n| format!(" {n} |")).collect();
    let rule = "---|".repeat(workers.len() + 1);
    let mut table = format!("| |{head}\n|{rule}\n");
    for workload in workloads {
        let cell = |&workers: &usize| {
            let same = |p: &&ScalePoint| p.workload == workload && p.workers == workers;
            let value = points.iter().find(same).and_then(|p| metric.of(p));
            match value {
                None => " - |".to_owned(),
                Some(value) if value < 9.95 => format!(" {value:.1} |"),
                Some(value) => format!(" {value:.0} |"),
            }
        };
        let cells: String = workers.iter().map(cell).collect();
        table.push_str(&format!("| {workload} |{cells}\n"));
    }
    table
}
