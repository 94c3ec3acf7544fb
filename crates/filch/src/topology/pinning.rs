//! Which CPUs each worker may use.

use super::{
    cpu_set::CpuSet,
    distance::Distance,
    machine::{Cpu, Topology},
};
use crate::base::error::BuildError;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// What the threads of workers are confined to, see [`PoolBuilder::pin`](crate::PoolBuilder::pin).
/// Always inside of the [allowed](Topology::allowed) CPUs.
///
/// ```
/// use filch::topology::{PinOrder, Pinning, Topology};
///
/// let topology = Topology::flat(4);
/// let places = topology.place(2, &Pinning::List(vec![3, 1]), PinOrder::Compact)?;
/// assert_eq!(places.cpus(0).to_string(), "3");
/// assert_eq!(places.cpus(1).to_string(), "1");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// The system moves threads as it likes.
    ///
    /// This is right for most programs: a pinned worker cannot leave a core that another program
    /// uses as well.
    #[default]
    None,
    /// Each worker has a core. With SMT the system chooses one of its threads.
    Core,
    /// Each worker has the CPUs that share an L3 cache.
    L3,
    /// Each worker has the CPUs of a NUMA node.
    Node,
    /// Worker 0 has the first CPU of the list, worker 1 the second, and so on. There must be one
    /// for each worker; by default there are as many workers as CPUs in the list.
    List(Vec<usize>),
}

/// The order in which workers get cores, see [`PoolBuilder::pin_order`].
///
/// Either way, a core gets a second worker, for its second SMT thread, only when all cores have
/// one, and there is a third one for a CPU only when all CPUs have a worker.
///
/// [`PoolBuilder::pin_order`]: crate::PoolBuilder::pin_order
///
/// ```
/// use filch::topology::{PinOrder, Pinning, Topology};
///
/// let places = Topology::flat(4).place(2, &Pinning::Core, PinOrder::Spread)?;
/// assert_eq!(places.workers(), 2);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinOrder {
    /// Near cores first, for tasks that share data: an L3 group is full before the next one gets a
    /// worker, and so is a node.
    #[default]
    Compact,
    /// Far cores first, for tasks that need much memory bandwidth or cache each: the nodes get
    /// workers in turn, and so do the L3 groups of a node.
    Spread,
}

/// Where workers are on a machine.
///
/// ```
/// use filch::topology::{Distance, PinOrder, Pinning, Topology};
///
/// let places = Topology::flat(4).place(4, &Pinning::Core, PinOrder::Compact)?;
/// assert_eq!(places.cpus(3).to_string(), "3");
/// assert_eq!(places.distance(0, 3), Distance::L3);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPlaces {
    places: Vec<WorkerPlace>,
}

/// Where one worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkerPlace {
    /// Not empty.
    cpus: Arc<CpuSet>,
    /// The core, L3 group and node that all CPUs have in common; `SEVERAL` if there is none.
    core: usize,
    l3: usize,
    node: usize,
}

/// More than one core, L3 group or node.
const SEVERAL: usize = usize::MAX;

impl WorkerPlaces {
    /// The number of levels of [`groups`](Self::groups).
    pub(crate) const LEVELS: usize = 3;

    /// The core, L3 group and node of a worker, where it has one.
    pub(crate) fn groups(&self, worker: usize) -> [Option<usize>; Self::LEVELS] {
        let WorkerPlace { core, l3, node, .. } = &self.places[worker];
        [core, l3, node].map(|&group| (group != SEVERAL).then_some(group))
    }

    /// The numbers of all nodes with workers, ascending.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.workers()).filter_map(|w| self.node(w)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The number of workers.
    ///
    /// ```
    /// use filch::topology::{PinOrder, Pinning, Topology};
    ///
    /// let places = Topology::flat(2).place(8, &Pinning::Core, PinOrder::Compact)?;
    /// assert_eq!(places.workers(), 8); // four on each core
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.places.len()
    }

    /// The CPUs that a worker may use.
    ///
    /// ```
    /// use filch::topology::{PinOrder, Pinning, Topology};
    ///
    /// let places = Topology::flat(2).place(1, &Pinning::Node, PinOrder::Compact)?;
    /// assert_eq!(places.cpus(0).to_string(), "0-1");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn cpus(&self, worker: usize) -> &CpuSet {
        &self.places[worker].cpus
    }

    /// What two workers share for certain, wherever the system runs them: a few comparisons.
    ///
    /// ```
    /// use filch::{engine, topology::{Distance, PinOrder, Pinning, Topology}};
    ///
    /// let places = Topology::flat(2).place(4, &Pinning::Core, PinOrder::Compact)?;
    /// assert_eq!(places.distance(0, 2), Distance::Core);
    /// assert_eq!(places.distance(0, 1), Distance::L3);
    ///
    /// // As an engine gets it: near victims are visited first.
    /// let distances = engine::Distances::of_places(&places, 4);
    /// assert_eq!(distances.distance(0, 2), 0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        self.places[a].distance(&self.places[b])
    }

    /// The node of a worker, if it has one.
    ///
    /// ```
    /// use filch::topology::{PinOrder, Pinning, Topology};
    ///
    /// let places = Topology::flat(2).place(1, &Pinning::Core, PinOrder::Compact)?;
    /// assert_eq!(places.node(0), Some(0));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn node(&self, worker: usize) -> Option<usize> {
        Some(self.places[worker].node).filter(|&node| node != SEVERAL)
    }
}

impl WorkerPlace {
    fn distance(&self, other: &Self) -> Distance {
        let same = |a: usize, b: usize| a == b && a != SEVERAL;
        if same(self.core, other.core) {
            Distance::Core
        } else if same(self.l3, other.l3) {
            Distance::L3
        } else if same(self.node, other.node) {
            Distance::Node
        } else {
            Distance::Far
        }
    }
}

impl Topology {
    /// For each number of a CPU the nearest worker, if one shares at least the node.
    pub(crate) fn nearest_workers(&self, places: &WorkerPlaces) -> Vec<Option<u32>> {
        let last = { self.cpus().iter() }.map(|cpu| cpu.number).max();
        let mut nearest = vec![None; last.map_or(0, |last| last + 1)];
        for cpu in self.cpus() {
            let place = self.place_on([cpu.number].into_iter().collect());
            let workers = (0..).zip(&places.places);
            let distances = workers.map(|(worker, other)| (place.distance(other), worker));
            let best = distances.min().filter(|&(far, _)| far < Distance::Far);
            nearest[cpu.number] = best.map(|(_, worker)| worker);
        }
        nearest
    }

    /// Decides where workers are. With [`Pinning::None`] each may use all allowed CPUs.
    ///
    /// ```
    /// use filch::topology::{PinOrder, Pinning, Topology};
    ///
    /// let topology = Topology::flat(2);
    /// let error = topology.place(1, &Pinning::List(vec![7]), PinOrder::Compact).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a worker cannot be pinned to CPU 7; the allowed CPUs are 0-1"
    /// );
    /// ```
    ///
    /// # Errors
    /// When a list has a CPU that is not allowed, one of them twice, or fewer than there are
    /// workers.
    pub fn place(
        &self,
        workers: usize,
        pinning: &Pinning,
        order: PinOrder,
    ) -> Result<WorkerPlaces, BuildError> {
        let places = match pinning {
            Pinning::None => {
                let everywhere = self.place_on(self.allowed().clone());
                vec![everywhere; workers]
            }
            Pinning::List(list) => {
                self.check_list(workers, list)?;
                let place = |&cpu: &usize| self.place_on([cpu].into_iter().collect());
                list.iter().take(workers).map(place).collect()
            }
            Pinning::Core => self.places_by(workers, order, |cpu| cpu.core),
            Pinning::L3 => self.places_by(workers, order, |cpu| cpu.l3),
            Pinning::Node => self.places_by(workers, order, |cpu| cpu.node),
        };
        Ok(WorkerPlaces { places })
    }

    fn check_list(&self, workers: usize, list: &[usize]) -> Result<(), BuildError> {
        let allowed = self.allowed();
        if let Some(cpu) = list.iter().find(|cpu| !allowed.contains(**cpu)) {
            return Err(BuildError::config(format!(
                "a worker cannot be pinned to CPU {cpu}; the allowed CPUs are {allowed}"
            )));
        }
        // All are allowed, so up to the first duplicate there are no more than allowed CPUs.
        let duplicate = (1..list.len()).find(|&i| list[..i].contains(&list[i]));
        if let Some(i) = duplicate {
            return Err(BuildError::config(format!(
                "CPU {} is in the list of CPUs more than once; name it once, and others of {allowed}",
                list[i]
            )));
        }
        if list.is_empty() || list.len() < workers {
            return Err(BuildError::config(format!(
                "{} in the list to pin {workers} workers to; name one for each, of {allowed}",
                match list.len() {
                    0 => "there is no CPU".to_owned(),
                    1 => "there is only 1 CPU".to_owned(),
                    cpus => format!("there are only {cpus} CPUs"),
                }
            )));
        }
        Ok(())
    }

    /// Returns the places of workers, each on all allowed CPUs that have the same `unit` as its
    /// core.
    fn places_by(
        &self,
        workers: usize,
        order: PinOrder,
        unit: fn(&Cpu) -> usize,
    ) -> Vec<WorkerPlace> {
        let mut units: HashMap<usize, Vec<usize>> = HashMap::new();
        for cpu in self.allowed_cpus() {
            units.entry(unit(cpu)).or_default().push(cpu.number);
        }
        let place = |cpus: Vec<usize>| self.place_on(cpus.into_iter().collect());
        let units: HashMap<usize, WorkerPlace> = { units.into_iter() }
            .map(|(unit, cpus)| (unit, place(cpus)))
            .collect();
        let cpus = self.cpus_in_order(order);
        let cpus = cpus.iter().cycle().take(workers);
        cpus.map(|cpu| units[&unit(cpu)].clone()).collect()
    }

    fn allowed_cpus(&self) -> impl Iterator<Item = &Cpu> {
        let allowed = self.allowed();
        { self.cpus().iter() }.filter(|cpu| allowed.contains(cpu.number))
    }

    /// Returns the allowed CPUs in the order in which they get workers.
    fn cpus_in_order(&self, order: PinOrder) -> Vec<&Cpu> {
        let cpus: Vec<&Cpu> = self.allowed_cpus().collect();
        // The threads of a core are next to each other.
        let cores = cpus.chunk_by(|a, b| a.core == b.core);
        let mut cores: Vec<&[&Cpu]> = match order {
            PinOrder::Compact => cores.collect(),
            PinOrder::Spread => {
                let cores: Vec<&[&Cpu]> = cores.collect();
                let nodes = cores.chunk_by(|a, b| a[0].node == b[0].node);
                let nodes = nodes.map(|node| {
                    let groups = node.chunk_by(|a, b| a[0].l3 == b[0].l3);
                    interleave(groups.map(<[_]>::to_vec))
                });
                interleave(nodes)
            }
        };
        // The first thread of each core, then the second of those that have one, and so on.
        let threads = cores.iter().map(|core| core.len()).max().unwrap_or(0);
        let mut ordered = Vec::with_capacity(cpus.len());
        for thread in 0..threads {
            cores.retain(|core| core.len() > thread);
            ordered.extend(cores.iter().map(|core| core[thread]));
        }
        ordered
    }

    fn place_on(&self, cpus: CpuSet) -> WorkerPlace {
        let common = |number: fn(&Cpu) -> usize| {
            let mut numbers = cpus.iter().filter_map(|cpu| self.cpu(cpu)).map(number);
            let first = numbers.next().unwrap_or(SEVERAL);
            match numbers.all(|other| other == first) {
                true => first,
                false => SEVERAL,
            }
        };
        WorkerPlace {
            core: common(|cpu| cpu.core),
            l3: common(|cpu| cpu.l3),
            node: common(|cpu| cpu.node),
            cpus: Arc::new(cpus),
        }
    }
}

/// Takes one item of each list in turn.
fn interleave<T>(lists: impl Iterator<Item = Vec<T>>) -> Vec<T> {
    let mut lists: VecDeque<_> = lists.map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while let Some(mut list) = lists.pop_front() {
        if let Some(item) = list.next() {
            all.push(item);
            lists.push_back(list);
        }
    }
    all
}
