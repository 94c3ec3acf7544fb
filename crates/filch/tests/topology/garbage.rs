//! Files that say anything: the reader never fails, and what it returns is consistent.

use crate::fake::{Fake, big_little, hybrid, symmetric};
use filch::topology::{Cpu, PinOrder, Pinning, Topology};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};
use std::fs;

const PATHS: [&str; 27] = [
    "proc/self/status",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/meminfo",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu2/cache/index2/level",
    "sys/devices/system/cpu/cpu2/cache/index2/shared_cpu_list",
    "sys/devices/system/cpu/cpu3/cache/index1/shared_cpu_list",
    "sys/devices/system/cpu/cpu3/cpu_capacity",
    "sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_max_freq",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/distance",
    "sys/devices/system/node/node1/meminfo",
    "sys/devices/system/node/node1/cpulist",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/a/cpu.max",
    "sys/fs/cgroup/a/cpuset.cpus.effective",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us",
];

/// Contents that are nearly right.
const TEXTS: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "3",
    "0-3",
    "0,2,4-7",
    "4-7",
    "0-4000",
    "65536",
    "7-3",
    "0-",
    "18446744073709551615",
    "99999999999999999999999999",
    "10 21",
    "10 21 30",
    "max 100000",
    "1 18446744073709551615",
    "18446744073709551615 1",
    "Cpus_allowed_list:\t0,3-5\nMems_allowed:\t1",
    "Cpus_allowed_list:\t",
    "0::/a/b/../c//d",
    "4:cpuset:/\n3:cpu,cpuacct:/x:y\n0::",
    "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n - \n1 2 3 4 5 - cgroup\n1 2 3 /a /b - cgroup c cpu",
];

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => select(&TEXTS[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
        1 => "[0-9,: /a-]{0,30}".prop_map(String::into_bytes),
        1 => "\\PC{0,30}".prop_map(String::into_bytes),
    ]
}

/// What holds for every description.
fn check(topology: &Topology) -> Result<(), TestCaseError> {
    let (cpus, allowed) = (topology.cpus(), topology.allowed());
    prop_assert!(!cpus.is_empty() && !topology.nodes().is_empty());
    prop_assert!(!allowed.is_empty());
    prop_assert!(allowed.iter().all(|cpu| topology.cpu(cpu).is_some()));
    prop_assert!((1..=allowed.len()).contains(&topology.parallelism()));
    prop_assert!(topology.quota().is_none_or(|quota| quota > 0.0));
    for cpu in cpus {
        prop_assert_eq!(topology.cpu(cpu.number), Some(cpu));
        prop_assert!((1..=1024).contains(&cpu.capacity));
        prop_assert!(topology.nodes().iter().any(|node| node.number == cpu.node));
    }
    // The threads of a core are next to each other.
    for pair in cpus.windows(2).filter(|pair| pair[0].core == pair[1].core) {
        let shared = |cpu: &Cpu| (cpu.l3, cpu.node, cpu.package);
        prop_assert_eq!(shared(&pair[0]), shared(&pair[1]));
    }
    prop_assert!(topology.to_string().contains("machine: "));
    for pinning in [Pinning::None, Pinning::Core, Pinning::L3, Pinning::Node] {
        for order in [PinOrder::Compact, PinOrder::Spread] {
            let places = topology.place(9, &pinning, order).unwrap();
            for worker in 0..9 {
                let cpus = places.cpus(worker);
                prop_assert!(!cpus.is_empty() && cpus.iter().all(|cpu| allowed.contains(cpu)));
                prop_assert_eq!(places.distance(worker, 0), places.distance(0, worker));
            }
        }
    }
    Ok(())
}

#[test]
fn damaged_machines_are_read() {
    let machines = [
        Fake::new(&symmetric([1, 2, 2, 2], 2)),
        Fake::new(&hybrid()),
        Fake::without_nodes(&big_little()),
    ];
    machines.iter().for_each(|fake| fake.group("/a"));
    let damage = vec((select(&PATHS[..]), contents()), 1..4);
    let strategy = (0..machines.len(), damage);
    let mut runner = TestRunner::default();
    let result = runner.run(&strategy, |(machine, damage)| {
        let fake = &machines[machine];
        let before: Vec<_> = { damage.iter() }
            .map(|(path, _)| (path, fs::read(fake.root.join(path)).ok()))
            .collect();
        for (path, bytes) in &damage {
            fake.write_bytes(path, bytes);
        }
        let checked = check(&fake.read());
        // The latest damage is undone first, since a path may be there twice.
        for (path, bytes) in before.iter().rev() {
            match bytes {
                Some(bytes) => fake.write_bytes(path, bytes),
                None => fake.remove(path),
            }
        }
        checked
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn files_of_garbage_are_read() {
    let files = vec((select(&PATHS[..]), contents()), 0..PATHS.len());
    let mut runner = TestRunner::default();
    let result = runner.run(&files, |files| {
        let fake = Fake::empty();
        for (path, bytes) in files {
            fake.write_bytes(path, &bytes);
        }
        check(&fake.read())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn folders_and_long_files_are_no_error() {
    let fake = Fake::new(&symmetric([1, 1, 1, 4], 1));
    fake.group("/a");
    fake.write(
        "sys/fs/cgroup/a/cpu.max/file",
        "a folder where a file should be",
    );
    fake.write("sys/devices/system/cpu/cpu0/cpu_capacity/file", "1");
    fake.write("proc/self/cgroup", &format!("0::{}", "/a".repeat(1 << 20)));
    check(&fake.read()).unwrap();
    fake.write("sys/devices/system/cpu/online", &"0,".repeat(4 << 20));
    let topology = fake.read();
    check(&topology).unwrap();
    assert!(topology.notes()[0].starts_with("flat: "), "{topology}");
}
