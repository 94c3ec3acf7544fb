//! Reads which CPUs share cores, caches, packages and nodes.

use super::{
    cpu_set::CpuSet,
    files::Files,
    limits::Limits,
    machine::{Cpu, FULL_CAPACITY, Node, Topology},
};
use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// The most levels of caches that are read.
const MAX_CACHES: usize = 16;

/// The CPUs and nodes of a machine.
#[derive(Debug)]
pub(super) struct Structure {
    cpus: Vec<Cpu>,
    nodes: Vec<Node>,
    notes: Vec<String>,
}

impl Structure {
    /// Reads the structure of these CPUs, of which there is at least one.
    ///
    /// # Errors
    /// Why the cores or packages are not known.
    pub(super) fn read(files: Files<'_>, online: &CpuSet) -> Result<Self, String> {
        let mut notes = Vec::new();
        let cores = groups(online, |cpu| siblings(files, cpu))?;
        let mut cpus: Vec<Cpu> = { online.iter() }
            .map(|number| Cpu {
                number,
                core: cores[&number],
                l3: 0,
                package: package(files, number),
                node: 0,
                capacity: FULL_CAPACITY,
            })
            .collect();
        if !has_nested_groups(&cpus, |cpu| cpu.core, |cpu| cpu.package) {
            return Err("a core is in two packages".to_owned());
        }
        set_l3_groups(files, &mut cpus).unwrap_or_else(|problem| notes.push(problem));
        set_capacities(files, &mut cpus);
        let nodes = read_nodes(files, &mut cpus).unwrap_or_else(|problem| {
            notes.push(problem);
            vec![Node {
                number: 0,
                memory: memory(files),
                distances: Vec::new(),
            }]
        });
        sort(&mut cpus);
        Ok(Self { cpus, nodes, notes })
    }

    pub(super) fn into_topology(self, limits: Limits) -> Topology {
        Topology::new(self.cpus, self.nodes, limits, self.notes)
    }
}

/// Groups CPUs by the sets that `set_of` returns, and returns the first of its set for each.
///
/// # Errors
/// When a set cannot be read, or is not the same for all its members.
fn groups(
    online: &CpuSet,
    set_of: impl Fn(usize) -> Result<CpuSet, String>,
) -> Result<HashMap<usize, usize>, String> {
    let mut firsts = HashMap::with_capacity(online.len());
    let mut sets: HashMap<usize, (CpuSet, usize)> = HashMap::new();
    for cpu in online.iter() {
        let set = set_of(cpu)?.intersection(online);
        let first = set.first().filter(|_| set.contains(cpu));
        let first = first.ok_or_else(|| format!("CPU {cpu} is not in its own group"))?;
        let (known, members) = sets.entry(first).or_insert_with(|| (set.clone(), 0));
        *members += 1;
        if *known != set {
            return Err(format!("the CPUs {first} and {cpu} contradict each other"));
        }
        firsts.insert(cpu, first);
    }
    match sets
        .iter()
        .find(|(_, (set, members))| set.len() != *members)
    {
        Some((first, _)) => Err(format!("the group of CPU {first} has CPUs of other groups")),
        None => Ok(firsts),
    }
}

/// Whether CPUs with the same `inner` number have the same `outer` number.
fn has_nested_groups(cpus: &[Cpu], inner: fn(&Cpu) -> usize, outer: fn(&Cpu) -> usize) -> bool {
    let mut seen = HashMap::new();
    { cpus.iter() }.all(|cpu| *seen.entry(inner(cpu)).or_insert(outer(cpu)) == outer(cpu))
}

/// Returns the SMT threads of a CPU's core.
fn siblings(files: Files<'_>, cpu: usize) -> Result<CpuSet, String> {
    // The first name is that of Linux 5.3 and later.
    let named = |name| files.list(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
    named("core_cpus_list").or_else(|problem| named("thread_siblings_list").map_err(|_| problem))
}

/// Returns the package of a CPU; zero if it is not known, as on some ARM machines.
fn package(files: Files<'_>, cpu: usize) -> usize {
    let path = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
    files.number(&path).unwrap_or(0)
}

/// Groups the CPUs by the caches that they share, else by package.
///
/// # Errors
/// When the caches make no sense. Then the groups are the packages.
fn set_l3_groups(files: Files<'_>, cpus: &mut [Cpu]) -> Result<(), String> {
    cpus.iter_mut().for_each(|cpu| cpu.l3 = cpu.package);
    let problem = |problem| format!("no caches: {problem}");
    let cores: HashMap<usize, usize> = cpus.iter().map(|cpu| (cpu.number, cpu.core)).collect();
    let mut caches = HashMap::with_capacity(cpus.len());
    // By package.
    let mut without: HashMap<usize, Vec<usize>> = HashMap::new();
    for cpu in cpus.iter() {
        match shared_cache(files, cpu.number, &cores).map_err(problem)? {
            Some(shared) => drop(caches.insert(cpu.number, shared)),
            None => without.entry(cpu.package).or_default().push(cpu.number),
        }
    }
    for numbers in without.into_values() {
        let set: CpuSet = numbers.iter().copied().collect();
        caches.extend(numbers.into_iter().map(|cpu| (cpu, set.clone())));
    }
    let online = cores.keys().copied().collect();
    let groups = groups(&online, |cpu| Ok(caches[&cpu].clone())).map_err(problem)?;
    if let Some(cpu) = cpus
        .iter()
        .find(|cpu| groups[&cpu.number] != groups[&cpu.core])
    {
        return Err(problem(format!("the core of CPU {} has two", cpu.number)));
    }
    cpus.iter_mut().for_each(|cpu| cpu.l3 = groups[&cpu.number]);
    Ok(())
}

/// Returns the CPUs that share the L3 cache of a CPU; if it has none, those that share its last
/// cache, if these are several cores.
fn shared_cache(
    files: Files<'_>,
    cpu: usize,
    cores: &HashMap<usize, usize>,
) -> Result<Option<CpuSet>, String> {
    let mut last: Option<(u32, CpuSet)> = None;
    for index in 0..MAX_CACHES {
        let cache = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        let Some(level) = files.number::<u32>(&format!("{cache}/level")) else {
            break;
        };
        // Beyond the third level it is a cache of memory, or of several packages.
        if level > 3 || last.as_ref().is_some_and(|(lower, _)| *lower >= level) {
            continue;
        }
        last = Some((level, files.list(&format!("{cache}/shared_cpu_list"))?));
    }
    Ok(last.and_then(|(level, cpus)| {
        let sharing: HashSet<_> = cpus.iter().filter_map(|cpu| cores.get(&cpu)).collect();
        (level == 3 || sharing.len() > 1).then_some(cpus)
    }))
}

/// Sets how fast the CPUs are. Where the machine does not say, all are equally fast.
fn set_capacities(files: Files<'_>, cpus: &mut [Cpu]) {
    let all = |file: &str| -> Option<Vec<u64>> {
        let of = |cpu: &Cpu| files.number(&format!("{CPUS}/cpu{}/{file}", cpu.number));
        let values: Option<Vec<u64>> = cpus.iter().map(of).collect();
        values.filter(|values| !values.contains(&0))
    };
    // Intel's machines with two kinds of cores list them. Older kernels have no capacities for
    // them; their highest frequencies are then the closest figure. On other machines these differ
    // between cores of one kind.
    let is_hybrid = || {
        let kinds = ["sys/devices/cpu_core/cpus", "sys/devices/cpu_atom/cpus"];
        kinds.iter().all(|kind| files.list(kind).is_ok())
    };
    let values = all("cpu_capacity").or_else(|| {
        is_hybrid()
            .then(|| all("cpufreq/cpuinfo_max_freq"))
            .flatten()
    });
    let Some(values) = values else { return };
    let most = values.iter().copied().max().unwrap_or(1);
    for (cpu, value) in cpus.iter_mut().zip(values) {
        // Rounded to the nearest, and at least 1. In 128 bits, since files may say anything.
        let scaled =
            (u128::from(value) * u128::from(FULL_CAPACITY) * 2 / u128::from(most)).div_ceil(2);
        cpu.capacity = u32::try_from(scaled).unwrap_or(FULL_CAPACITY).max(1);
    }
}

/// Reads the nodes, and sets those of the CPUs.
///
/// # Errors
/// Why there is only one node, of all CPUs.
fn read_nodes(files: Files<'_>, cpus: &mut [Cpu]) -> Result<Vec<Node>, String> {
    let problem = |problem| format!("one node: {problem}");
    let online = files.list(&format!("{NODES}/online")).map_err(problem)?;
    let mut node_of = HashMap::with_capacity(cpus.len());
    let mut nodes = Vec::with_capacity(online.len());
    for number in online.iter() {
        let folder = format!("{NODES}/node{number}");
        for cpu in files
            .list(&format!("{folder}/cpulist"))
            .map_err(problem)?
            .iter()
        {
            if node_of.insert(cpu, number).is_some() {
                return Err(problem(format!("CPU {cpu} is in two nodes")));
            }
        }
        let memory = files.read(&format!("{folder}/meminfo"));
        let distances = files
            .read(&format!("{folder}/distance"))
            .unwrap_or_default();
        let distances = distances.split_ascii_whitespace().map(str::parse);
        let distances: Vec<u32> = distances.collect::<Result<_, _>>().unwrap_or_default();
        nodes.push(Node {
            number,
            memory: memory.as_deref().and_then(memory_in),
            distances: { Some(distances) }
                .filter(|distances| distances.len() == online.len())
                .unwrap_or_default(),
        });
    }
    if let Some(cpu) = cpus.iter().find(|cpu| !node_of.contains_key(&cpu.number)) {
        return Err(problem(format!("CPU {} is in none", cpu.number)));
    }
    cpus.iter_mut()
        .for_each(|cpu| cpu.node = node_of[&cpu.number]);
    if !has_nested_groups(cpus, |cpu| cpu.core, |cpu| cpu.node) {
        cpus.iter_mut().for_each(|cpu| cpu.node = 0);
        return Err(problem("a core is in two".to_owned()));
    }
    Ok(nodes)
}

/// Returns the size of the machine's memory, in bytes.
pub(super) fn memory(files: Files<'_>) -> Option<u64> {
    memory_in(&files.read("proc/meminfo")?)
}

/// Returns the size of memory in a text with a line `MemTotal: 1024 kB`, in bytes.
fn memory_in(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("MemTotal:")?;
    let kilobytes: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Sorts the CPUs by what they share, fast ones first, and numbers cores and L3 groups.
fn sort(cpus: &mut [Cpu]) {
    let mut fastest: HashMap<usize, u32> = HashMap::new();
    for cpu in cpus.iter() {
        let most = fastest.entry(cpu.l3).or_default();
        *most = cpu.capacity.max(*most);
    }
    cpus.sort_by_key(|cpu| {
        let group = (cpu.node, cpu.package, Reverse(fastest[&cpu.l3]), cpu.l3);
        (group, Reverse(cpu.capacity), cpu.core, cpu.number)
    });
    let (mut cores, mut groups) = (HashMap::new(), HashMap::new());
    for cpu in cpus {
        let (next_core, next_group) = (cores.len(), groups.len());
        cpu.core = *cores.entry(cpu.core).or_insert(next_core);
        cpu.l3 = *groups.entry(cpu.l3).or_insert(next_group);
    }
}
