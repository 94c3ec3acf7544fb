//! A builder of the files that describe a machine.

use filch::topology::Topology;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A CPU of a machine. Those with equal numbers share what is numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FakeCpu {
    pub(crate) number: usize,
    pub(crate) core: usize,
    /// The caches of the second and third level.
    pub(crate) l2: Option<usize>,
    pub(crate) l3: Option<usize>,
    pub(crate) package: i64,
    pub(crate) node: usize,
    pub(crate) capacity: Option<u32>,
}

/// The files of a machine, in a folder that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) root: PathBuf,
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Fake {
    /// A machine without files.
    pub(crate) fn empty() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("machine-{}-{number}", process::id());
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    /// A machine of these CPUs, all of them online and allowed, without NUMA nodes.
    pub(crate) fn without_nodes(cpus: &[FakeCpu]) -> Self {
        let fake = Self::empty();
        let all = list(cpus.iter().map(|cpu| cpu.number));
        fake.write("sys/devices/system/cpu/online", &all);
        fake.allow(&all);
        fake.write(
            "proc/meminfo",
            "MemTotal:       16777216 kB\nMemFree: 1 kB\n",
        );
        let shared = |key: &dyn Fn(&FakeCpu) -> Option<i64>| {
            let mut lists: BTreeMap<Option<i64>, Vec<usize>> = BTreeMap::new();
            for cpu in cpus {
                lists.entry(key(cpu)).or_default().push(cpu.number);
            }
            let lists = lists.into_iter().map(|(key, cpus)| (key, list(cpus)));
            lists.collect::<BTreeMap<Option<i64>, String>>()
        };
        let cores = shared(&|cpu| Some(cpu.core as i64));
        let l2 = shared(&|cpu| cpu.l2.map(|l2| l2 as i64));
        let l3 = shared(&|cpu| cpu.l3.map(|l3| l3 as i64));
        for cpu in cpus {
            let folder = format!("sys/devices/system/cpu/cpu{}", cpu.number);
            let own = |file: &str, text: &str| fake.write(&format!("{folder}/{file}"), text);
            own("topology/core_cpus_list", &cores[&Some(cpu.core as i64)]);
            own("topology/physical_package_id", &cpu.package.to_string());
            // The first level is not shared.
            let mut caches = vec![(1, cpu.number.to_string())];
            let key = |cache: Option<usize>| cache.map(|cache| cache as i64);
            caches.extend(cpu.l2.map(|_| (2, l2[&key(cpu.l2)].clone())));
            caches.extend(cpu.l3.map(|_| (3, l3[&key(cpu.l3)].clone())));
            for (index, (level, shared)) in caches.into_iter().enumerate() {
                own(&format!("cache/index{index}/level"), &level.to_string());
                own(&format!("cache/index{index}/shared_cpu_list"), &shared);
            }
            if let Some(capacity) = cpu.capacity {
                own("cpu_capacity", &capacity.to_string());
            }
        }
        fake
    }

    /// A machine of these CPUs, with nodes of 16 GiB, which are 10 from themselves and 21 from
    /// others.
    pub(crate) fn new(cpus: &[FakeCpu]) -> Self {
        let fake = Self::without_nodes(cpus);
        let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for cpu in cpus {
            nodes.entry(cpu.node).or_default().push(cpu.number);
        }
        fake.write(
            "sys/devices/system/node/online",
            &list(nodes.keys().copied()),
        );
        for (node, cpus) in &nodes {
            let distances = nodes
                .keys()
                .map(|other| if other == node { "10" } else { "21" });
            let distances = distances.collect::<Vec<_>>().join(" ");
            let own = |file: &str, text: &str| {
                fake.write(&format!("sys/devices/system/node/node{node}/{file}"), text);
            };
            own("cpulist", &list(cpus.iter().copied()));
            own(
                "meminfo",
                &format!("Node {node} MemTotal:       16777216 kB\n"),
            );
            own("distance", &distances);
        }
        fake
    }

    /// Writes a file, with the line end that Linux writes.
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.write_bytes(path, format!("{text}\n").as_bytes());
    }

    pub(crate) fn write_bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.root.join(path);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(path));
    }

    /// Allows these CPUs to the process.
    pub(crate) fn allow(&self, cpus: &str) {
        let status = format!(
            "Name:\tfilch\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed:\t1"
        );
        self.write("proc/self/status", &status);
    }

    /// Puts the process into a group of version 2.
    pub(crate) fn group(&self, path: &str) {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        self.write("proc/self/mountinfo", mount);
        self.write("proc/self/cgroup", &format!("0::{path}"));
    }

    pub(crate) fn read(&self) -> Topology {
        Topology::read_from(&self.root)
    }
}

/// Writes a list of CPUs as Linux does.
pub(crate) fn list(cpus: impl IntoIterator<Item = usize>) -> String {
    cpus.into_iter()
        .collect::<filch::topology::CpuSet>()
        .to_string()
}

/// A machine of `packages` packages, each with `nodes` nodes of `l3` L3 groups of `cores` cores.
/// With SMT the second threads have the numbers after all first ones.
pub(crate) fn symmetric([packages, nodes, l3, cores]: [usize; 4], threads: usize) -> Vec<FakeCpu> {
    let all = packages * nodes * l3 * cores;
    let cpu = |number| {
        let core = number % all;
        FakeCpu {
            number,
            core,
            l2: Some(core),
            l3: Some(core / cores),
            package: (core / cores / l3 / nodes) as i64,
            node: core / cores / l3,
            capacity: None,
        }
    };
    (0..all * threads).map(cpu).collect()
}

/// Eight P cores with two threads each, sixteen E cores in clusters of four, one L3.
pub(crate) fn hybrid() -> Vec<FakeCpu> {
    let cpu = |number: usize| {
        let is_fast = number < 16;
        let core = if is_fast { number / 2 } else { number - 8 };
        FakeCpu {
            number,
            core,
            l2: Some(if is_fast { core } else { core / 4 + 100 }),
            l3: Some(0),
            package: 0,
            node: 0,
            capacity: Some(if is_fast { 1024 } else { 602 }),
        }
    };
    (0..32).map(cpu).collect()
}

/// Four small cores and four large ones, each four with a second-level cache, no third level.
pub(crate) fn big_little() -> Vec<FakeCpu> {
    let cpu = |number| FakeCpu {
        number,
        core: number,
        l2: Some(number / 4),
        l3: None,
        package: -1,
        node: 0,
        capacity: Some(if number < 4 { 446 } else { 1024 }),
    };
    (0..8).map(cpu).collect()
}
