//! The description of a machine.

use super::{
    cpu_set::{CpuSet, MAX_CPUS},
    distance::Distance,
    limits::Limits,
};

/// The capacity of the fastest cores.
pub(super) const FULL_CAPACITY: u32 = 1024;

/// The distance of a node from itself, in the units of ACPI's table, where 20 is twice the latency.
const LOCAL: u32 = 10;

/// The distance of two nodes where the machine does not say, as in Linux.
const REMOTE: u32 = 20;

/// A CPU: what the system runs one thread on at a time. A core with SMT is two or more of them.
///
/// Cores and L3 groups are counted from zero over the whole machine, in the order of
/// [`Topology::cpus`].
///
/// ```
/// use filch::topology::Topology;
///
/// let topology = Topology::flat(2);
/// let cpu = topology.cpu(1).unwrap();
/// assert_eq!((cpu.number, cpu.core, cpu.l3, cpu.package, cpu.node), (1, 1, 0, 0, 0));
/// assert_eq!(cpu.capacity, 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The number that the system gives it.
    pub number: usize,
    /// Its core. CPUs of one core are its SMT threads.
    pub core: usize,
    /// Its L3 group: cores that share an L3 cache. Where there is none, cores that share the last
    /// cache which several cores share, and else those of a package.
    pub l3: usize,
    /// The number that the system gives to its package (socket).
    pub package: usize,
    /// The number that the system gives to its NUMA node.
    pub node: usize,
    /// How much work it does in a given time, relative to the fastest CPUs of the machine, which
    /// have 1024. Machines with cores of different kinds (P and E cores, big.LITTLE) have lower
    /// ones.
    pub capacity: u32,
}

/// A NUMA node: memory, and the CPUs that are next to it, if any.
///
/// ```
/// use filch::topology::Topology;
///
/// for node in Topology::detect().nodes() {
///     println!("node {}: {:?} bytes", node.number, node.memory);
/// }
/// assert_eq!(Topology::flat(4).nodes()[0].memory, None); // not known
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The number that the system gives it.
    pub number: usize,
    /// The size of its memory, in bytes, if that is known.
    pub memory: Option<u64>,
    /// Its distances from the nodes of [`Topology::nodes`], in that order; empty if not known.
    pub(super) distances: Vec<u32>,
}

/// A machine: its nodes, packages, caches and CPUs, and what the process may use of them.
///
/// ```
/// use filch::topology::{Distance, Topology};
///
/// let topology = Topology::detect();
/// println!("{topology}"); // as a tree
/// let cpus = topology.cpus();
/// let nearest = cpus.get(1).map(|cpu| topology.distance(cpus[0].number, cpu.number));
/// assert!(nearest.is_none_or(|distance| distance <= Distance::Far));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// By node, package, L3 group and core.
    cpus: Vec<Cpu>,
    /// The position in `cpus` for each number; `u32::MAX` where there is no such CPU.
    positions: Vec<u32>,
    /// By number.
    nodes: Vec<Node>,
    limits: Limits,
    notes: Vec<String>,
}

impl Topology {
    /// A machine of this structure. `cpus` is not empty, and all its nodes are in `nodes`.
    pub(super) fn new(
        cpus: Vec<Cpu>,
        nodes: Vec<Node>,
        limits: Limits,
        notes: Vec<String>,
    ) -> Self {
        let last = cpus.iter().map(|cpu| cpu.number).max().unwrap_or(0);
        let mut positions = vec![u32::MAX; last + 1];
        for (position, cpu) in (0..).zip(&cpus) {
            positions[cpu.number] = position;
        }
        Self {
            cpus,
            positions,
            nodes,
            limits,
            notes,
        }
    }

    /// A machine of `cpus` CPUs (at least 1, at most 65,536) that share everything but their cores.
    /// This is what [`detect`](Self::detect) returns where the system provides no more.
    ///
    /// ```
    /// use filch::topology::{Distance, Topology};
    ///
    /// let topology = Topology::flat(4);
    /// assert!(topology.is_flat());
    /// assert_eq!((topology.cpus().len(), topology.parallelism()), (4, 4));
    /// assert_eq!(topology.distance(0, 3), Distance::L3);
    /// ```
    #[must_use]
    pub fn flat(cpus: usize) -> Self {
        let cpus: CpuSet = (0..cpus.clamp(1, MAX_CPUS)).collect();
        let limits = Limits {
            allowed: cpus.clone(),
            quota: None,
        };
        Self::flat_with(&cpus, None, limits, Vec::new())
    }

    /// A flat machine of these CPUs, of which there is at least one.
    pub(super) fn flat_with(
        cpus: &CpuSet,
        memory: Option<u64>,
        limits: Limits,
        notes: Vec<String>,
    ) -> Self {
        let cpu = |(core, number)| Cpu {
            number,
            core,
            l3: 0,
            package: 0,
            node: 0,
            capacity: FULL_CAPACITY,
        };
        let node = Node {
            number: 0,
            memory,
            distances: Vec::new(),
        };
        let cpus = cpus.iter().enumerate().map(cpu).collect();
        Self::new(cpus, vec![node], limits, notes)
    }

    /// The CPUs that are switched on, allowed or not: near ones next to each other, and of cores
    /// that are equally near the fastest first.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// let topology = Topology::detect();
    /// let cores: std::collections::HashSet<_> = topology.cpus().iter().map(|cpu| cpu.core).collect();
    /// println!("{} cores", cores.len());
    /// # assert!(!cores.is_empty() && cores.len() <= topology.cpus().len());
    /// ```
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPU with this number, if there is one and it is switched on.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// let topology = Topology::flat(4);
    /// assert_eq!(topology.cpu(3).unwrap().number, 3);
    /// assert_eq!(topology.cpu(4), None);
    /// ```
    #[must_use]
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        let position = *self.positions.get(number)?;
        self.cpus.get(position as usize)
    }

    /// The NUMA nodes, by number; at least one. Some may have memory and no CPUs.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// let topology = Topology::detect();
    /// let memory: u64 = topology.nodes().iter().filter_map(|node| node.memory).sum();
    /// println!("{} nodes, {} GiB", topology.nodes().len(), memory >> 30);
    /// # assert!(!topology.nodes().is_empty());
    /// ```
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The CPUs that the process may use: those of the calling thread (`sched_getaffinity`) that
    /// its control groups allow as well. On a worker that is [pinned](super::Pinning) they are
    /// those that its thread could use before.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// let topology = Topology::detect();
    /// println!("this process may use the CPUs {}", topology.allowed());
    /// assert!(topology.allowed().iter().all(|cpu| topology.cpu(cpu).is_some()));
    /// ```
    #[must_use]
    pub fn allowed(&self) -> &CpuSet {
        &self.limits.allowed
    }

    /// The CPU time that the process may use, in CPUs: the least of its control group and the
    /// ancestors of that. `None` if it is not limited.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// if let Some(quota) = Topology::detect().quota() {
    ///     println!("no more than {quota} CPUs on average");
    /// #   assert!(quota > 0.0);
    /// }
    /// ```
    #[must_use]
    pub fn quota(&self) -> Option<f64> {
        self.limits.quota
    }

    /// The number of threads that can run at the same time, and so the number of workers of a pool
    /// by default: as many as there are [allowed](Self::allowed) CPUs, or as the
    /// [quota](Self::quota) admits, rounded up; at least 1.
    ///
    /// ```
    /// use filch::{Pool, topology::Topology};
    ///
    /// let topology = Topology::detect();
    /// # if std::env::var_os("FILCH_WORKERS").is_none() {
    /// assert_eq!(Pool::builder().build()?.workers(), topology.parallelism());
    /// # }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn parallelism(&self) -> usize {
        self.limits.parallelism()
    }

    /// What two CPUs share. [`Distance::Far`] if one of them does not exist.
    ///
    /// ```
    /// use filch::topology::{Distance, Topology};
    ///
    /// let topology = Topology::flat(2);
    /// assert_eq!(topology.distance(1, 1), Distance::Core);
    /// assert_eq!(topology.distance(0, 1), Distance::L3);
    /// assert_eq!(topology.distance(0, 7), Distance::Far);
    /// ```
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        match (self.cpu(a), self.cpu(b)) {
            (Some(a), Some(b)) if a.core == b.core => Distance::Core,
            (Some(a), Some(b)) if a.l3 == b.l3 => Distance::L3,
            (Some(a), Some(b)) if a.node == b.node => Distance::Node,
            _ => Distance::Far,
        }
    }

    /// How far the memory of node `b` is from the CPUs of node `a`, in the units of the machine's
    /// own table, where a node is 10 from itself, and 20 is twice the latency. Where the machine
    /// does not say, other nodes are 20 away.
    ///
    /// ```
    /// let topology = filch::topology::Topology::flat(2);
    /// assert_eq!((topology.node_distance(0, 0), topology.node_distance(0, 1)), (10, 20));
    /// ```
    #[must_use]
    pub fn node_distance(&self, a: usize, b: usize) -> u32 {
        let position = |number| { self.nodes.iter() }.position(|node| node.number == number);
        let known = position(a)
            .zip(position(b))
            .and_then(|(a, b)| self.nodes[a].distances.get(b));
        known
            .copied()
            .unwrap_or(if a == b { LOCAL } else { REMOTE })
    }

    /// Whether nothing is known of how CPUs share cores, caches and memory, or there is nothing to
    /// know: all are equally far from each other.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// assert!(Topology::flat(8).is_flat());
    /// ```
    #[must_use]
    pub fn is_flat(&self) -> bool {
        let cpus = { self.cpus.iter() }.zip(&self.cpus[1..]);
        self.nodes.len() == 1 && { cpus }.all(|(a, b)| a.l3 == b.l3 && a.core != b.core)
    }

    /// What could not be read of the description, in sentences; the last lines that `Display`
    /// prints.
    ///
    /// ```
    /// use filch::topology::Topology;
    ///
    /// let topology = Topology::read_from("a folder that does not exist");
    /// assert!(topology.is_flat());
    /// assert!(topology.notes()[0].contains("flat"));
    /// ```
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
