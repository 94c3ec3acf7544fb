//! A machine as a tree that people can read.

use super::machine::{Cpu, FULL_CAPACITY, Node, Topology};
use std::fmt;

/// Prints a line for each node, and below it one for each L3 group; then what the process may use,
/// and what could not be read.
///
/// ```
/// let text = filch::topology::Topology::flat(4).to_string();
/// assert_eq!(text, "\
/// machine: 4 CPUs, 4 cores, 1 L3 group, 1 node
/// └─ node 0, package 0
///    └─ L3 0: 4 cores, CPUs 0-3
/// allowed: CPUs 0-3, no quota, so 4 workers by default");
/// ```
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.cpus();
        let groups = cpus.iter().map(|cpu| cpu.l3 + 1).max().unwrap_or(0);
        let cores = cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
        write!(
            f,
            "machine: {}, {}, {}, {}",
            Count(cpus.len(), "CPU"),
            Count(cores, "core"),
            Count(groups, "L3 group"),
            Count(self.nodes().len(), "node"),
        )?;
        let uniform = cpus.iter().all(|cpu| cpu.capacity == FULL_CAPACITY);
        let mut nodes = self.nodes().iter().peekable();
        while let Some(node) = nodes.next() {
            let of_node = |cpu: &&Cpu| cpu.node == node.number;
            let cpus: Vec<Cpu> = cpus.iter().filter(of_node).copied().collect();
            self.write_node(
                f,
                node,
                &cpus,
                Branch::new("", nodes.peek().is_some()),
                uniform,
            )?;
        }
        let allowed = self.allowed();
        write!(f, "\nallowed: CPUs {allowed}, ")?;
        match self.quota() {
            Some(quota) => write!(f, "quota {quota} CPUs")?,
            None => f.write_str("no quota")?,
        }
        write!(f, ", so {} by default", Count(self.parallelism(), "worker"))?;
        self.notes()
            .iter()
            .try_for_each(|note| write!(f, "\n{note}"))
    }
}

impl Topology {
    fn write_node(
        &self,
        f: &mut fmt::Formatter<'_>,
        node: &Node,
        cpus: &[Cpu],
        branch: Branch,
        uniform: bool,
    ) -> fmt::Result {
        write!(f, "\n{}node {}", branch.start, node.number)?;
        let packages: Vec<_> = cpus.chunk_by(|a, b| a.package == b.package).collect();
        // A package gets a line of its own if there are several.
        if let [only] = packages[..] {
            write!(f, ", package {}", only[0].package)?;
        }
        let memory = { node.memory }.map(|bytes| format!("{:.1} GiB", bytes as f64 / GIB));
        let several = self.nodes().len() > 1;
        let distances = several.then(|| {
            let to = |other: &Node| self.node_distance(node.number, other.number).to_string();
            let all: Vec<String> = self.nodes().iter().map(to).collect();
            format!("distances {}", all.join(" "))
        });
        let empty = cpus.is_empty().then(|| "no CPUs".to_owned());
        let facts: Vec<String> = [memory, empty, distances].into_iter().flatten().collect();
        if !facts.is_empty() {
            write!(f, ": {}", facts.join(", "))?;
        }
        for (i, package) in packages.iter().enumerate() {
            let mut below = branch.below.clone();
            if packages.len() > 1 {
                let branch = Branch::new(&below, i + 1 < packages.len());
                write!(f, "\n{}package {}", branch.start, package[0].package)?;
                below = branch.below;
            }
            let mut groups = package.chunk_by(|a, b| a.l3 == b.l3).peekable();
            while let Some(group) = groups.next() {
                let branch = Branch::new(&below, groups.peek().is_some());
                write_group(f, group, &branch, uniform)?;
            }
        }
        Ok(())
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

/// Writes an L3 group: in one line, or with one for each kind of its cores.
fn write_group(
    f: &mut fmt::Formatter<'_>,
    group: &[Cpu],
    branch: &Branch,
    uniform: bool,
) -> fmt::Result {
    let cores: Vec<&[Cpu]> = group.chunk_by(|a, b| a.core == b.core).collect();
    let mut kinds = cores
        .chunk_by(|a, b| (a.len(), a[0].capacity) == (b.len(), b[0].capacity))
        .peekable();
    write!(f, "\n{}L3 {}", branch.start, group[0].l3)?;
    let mut is_first = true;
    while let Some(kind) = kinds.next() {
        if is_first && kinds.peek().is_none() {
            f.write_str(": ")?;
        } else {
            write!(
                f,
                "\n{}",
                Branch::new(&branch.below, kinds.peek().is_some()).start
            )?;
        }
        is_first = false;
        write!(f, "{}", Count(kind.len(), "core"))?;
        if kind[0].len() > 1 {
            write!(f, " with {} threads", kind[0].len())?;
        }
        if !uniform {
            write!(f, " of capacity {}", kind[0][0].capacity)?;
        }
        let cpus: super::CpuSet = kind
            .iter()
            .flat_map(|core| core.iter())
            .map(|cpu| cpu.number)
            .collect();
        write!(f, ", CPUs {cpus}")?;
    }
    Ok(())
}

/// The lines that lead to an entry of the tree, and to what is below it.
struct Branch {
    start: String,
    below: String,
}

impl Branch {
    fn new(above: &str, has_next: bool) -> Self {
        let (start, below) = if has_next {
            ("├─ ", "│  ")
        } else {
            ("└─ ", "   ")
        };
        Self {
            start: format!("{above}{start}"),
            below: format!("{above}{below}"),
        }
    }
}

/// A number and what is counted.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, what) = self;
        let plural = if *number == 1 { "" } else { "s" };
        write!(f, "{number} {what}{plural}")
    }
}
