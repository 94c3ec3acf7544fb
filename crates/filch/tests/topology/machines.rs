//! Kinds of machines, and files that are missing or wrong.

use crate::fake::{Fake, big_little, hybrid, symmetric};
use filch::topology::{Distance, Topology};

/// Numbers of CPUs, cores, L3 groups, packages and nodes.
fn counts(topology: &Topology) -> [usize; 5] {
    let count = |number: fn(&filch::topology::Cpu) -> usize| {
        let mut numbers: Vec<usize> = topology.cpus().iter().map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    [
        topology.cpus().len(),
        count(|cpu| cpu.core),
        count(|cpu| cpu.l3),
        count(|cpu| cpu.package),
        topology.nodes().len(),
    ]
}

#[test]
fn one_socket_with_smt() {
    let topology = Fake::new(&symmetric([1, 1, 1, 8], 2)).read();
    assert_eq!(counts(&topology), [16, 8, 1, 1, 1]);
    assert_eq!(topology.notes(), [""; 0]);
    assert_eq!(
        topology.distance(0, 8),
        Distance::Core,
        "two threads of a core"
    );
    assert_eq!(topology.distance(0, 1), Distance::L3);
    assert_eq!(topology.nodes()[0].memory, Some(16 << 30));
    assert!(!topology.is_flat());
    assert_eq!(
        topology.to_string(),
        "machine: 16 CPUs, 8 cores, 1 L3 group, 1 node\n\
         └─ node 0, package 0: 16.0 GiB\n   \
            └─ L3 0: 8 cores with 2 threads, CPUs 0-15\n\
         allowed: CPUs 0-15, no quota, so 16 workers by default"
    );
}

#[test]
fn two_sockets() {
    let topology = Fake::new(&symmetric([2, 1, 1, 8], 2)).read();
    assert_eq!(counts(&topology), [32, 16, 2, 2, 2]);
    assert_eq!(topology.distance(0, 16), Distance::Core);
    assert_eq!(topology.distance(0, 7), Distance::L3);
    assert_eq!(topology.distance(0, 8), Distance::Far);
    assert_eq!(topology.node_distance(0, 1), 21);
    assert_eq!(topology.node_distance(1, 1), 10);
    assert_eq!(
        topology.to_string(),
        "machine: 32 CPUs, 16 cores, 2 L3 groups, 2 nodes\n\
         ├─ node 0, package 0: 16.0 GiB, distances 10 21\n\
         │  └─ L3 0: 8 cores with 2 threads, CPUs 0-7,16-23\n\
         └─ node 1, package 1: 16.0 GiB, distances 21 10\n   \
            └─ L3 1: 8 cores with 2 threads, CPUs 8-15,24-31\n\
         allowed: CPUs 0-31, no quota, so 32 workers by default"
    );
}

#[test]
fn four_nodes_in_one_package() {
    let topology = Fake::new(&symmetric([1, 4, 2, 8], 2)).read();
    assert_eq!(counts(&topology), [128, 64, 8, 1, 4]);
    assert_eq!(topology.distance(0, 7), Distance::L3);
    assert_eq!(
        topology.distance(0, 8),
        Distance::Node,
        "the other L3 of the node"
    );
    assert_eq!(topology.distance(0, 16), Distance::Far, "the next node");
    let text = topology.to_string();
    assert!(
        text.contains("├─ node 2, package 0: 16.0 GiB, distances 21 21 10 21\n"),
        "{text}"
    );
    assert!(
        text.contains("│  ├─ L3 4: 8 cores with 2 threads, CPUs 32-39,96-103\n"),
        "{text}"
    );
}

#[test]
fn one_node_of_two_packages() {
    let mut cpus = symmetric([2, 1, 1, 4], 1);
    cpus.iter_mut().for_each(|cpu| cpu.node = 0);
    let topology = Fake::new(&cpus).read();
    assert_eq!(counts(&topology), [8, 8, 2, 2, 1]);
    assert_eq!(topology.distance(0, 4), Distance::Node);
    let text = topology.to_string();
    assert!(
        text.contains("└─ node 0: 16.0 GiB\n   ├─ package 0\n   │  └─ L3 0: 4 cores, CPUs 0-3\n"),
        "{text}"
    );
    assert!(
        text.contains("   └─ package 1\n      └─ L3 1: 4 cores, CPUs 4-7\n"),
        "{text}"
    );
}

#[test]
fn a_hybrid_machine_has_its_fast_cores_first() {
    let fake = Fake::new(&hybrid());
    let topology = fake.read();
    assert_eq!(counts(&topology), [32, 24, 1, 1, 1]);
    assert_eq!(topology.distance(0, 1), Distance::Core);
    assert_eq!(topology.distance(16, 17), Distance::L3);
    let capacities = topology.cpus().iter().map(|cpu| cpu.capacity);
    assert!(capacities.is_sorted_by(|a, b| a >= b));
    assert_eq!(topology.cpu(31).unwrap().capacity, 602);
    let text = topology.to_string();
    assert!(
        text.contains(
            "   └─ L3 0\n      \
               ├─ 8 cores with 2 threads of capacity 1024, CPUs 0-15\n      \
               └─ 16 cores of capacity 602, CPUs 16-31\n"
        ),
        "{text}"
    );

    // Kernels without capacities list the kinds, and have frequencies.
    for cpu in 0..32 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        fake.remove(&format!("{folder}/cpu_capacity"));
        let frequency = if cpu < 16 { "5000000" } else { "4000000" };
        fake.write(&format!("{folder}/cpufreq/cpuinfo_max_freq"), frequency);
    }
    let equal = fake.read();
    assert!(
        equal.cpus().iter().all(|cpu| cpu.capacity == 1024),
        "no kinds, so only turbo bins"
    );
    fake.write("sys/devices/cpu_core/cpus", "0-15");
    fake.write("sys/devices/cpu_atom/cpus", "16-31");
    assert_eq!(fake.read().cpu(16).unwrap().capacity, 819);
}

#[test]
fn cores_of_an_arm_machine_are_grouped_by_cluster() {
    let fake = Fake::without_nodes(&big_little());
    let topology = fake.read();
    assert_eq!(counts(&topology), [8, 8, 2, 1, 1]);
    assert_eq!(
        topology.distance(0, 3),
        Distance::L3,
        "they share a second-level cache"
    );
    assert_eq!(topology.distance(3, 4), Distance::Node);
    let fast: Vec<usize> = topology.cpus().iter().map(|cpu| cpu.number).collect();
    assert_eq!(fast, [4, 5, 6, 7, 0, 1, 2, 3], "large cores first");
    assert_eq!(
        topology.nodes()[0].memory,
        Some(16 << 30),
        "that of the machine"
    );
    // Also where the kernel has other names for the files.
    for cpu in 0..8 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        fake.remove(&format!("{folder}/core_cpus_list"));
        fake.write(&format!("{folder}/thread_siblings_list"), &cpu.to_string());
    }
    assert_eq!(fake.read(), topology);
}

#[test]
fn cores_with_private_caches_are_grouped_by_package() {
    let mut cpus = symmetric([2, 1, 1, 4], 1);
    cpus.iter_mut().for_each(|cpu| cpu.l3 = None);
    let topology = Fake::new(&cpus).read();
    assert_eq!(counts(&topology), [8, 8, 2, 2, 2]);
    assert_eq!(topology.distance(0, 3), Distance::L3);
    // An L3 for each core is one nevertheless.
    cpus.iter_mut().for_each(|cpu| cpu.l3 = Some(cpu.core));
    assert_eq!(counts(&Fake::new(&cpus).read())[2], 8);
}

#[test]
fn five_hundred_cpus() {
    let fake = Fake::new(&symmetric([2, 4, 4, 8], 2));
    let topology = fake.read();
    assert_eq!(counts(&topology), [512, 256, 32, 2, 8]);
    assert_eq!(topology.parallelism(), 512);
    assert_eq!(topology.distance(0, 256), Distance::Core);
    // Eight nodes of four L3 groups, and three lines beside them.
    assert_eq!(topology.to_string().lines().count(), 8 * 5 + 2);
}

#[test]
fn memory_without_cpus_is_a_node() {
    let fake = Fake::new(&symmetric([1, 1, 1, 2], 1));
    fake.write("sys/devices/system/node/online", "0,4");
    fake.write("sys/devices/system/node/node0/distance", "10 40");
    fake.write("sys/devices/system/node/node4/distance", "40 10");
    fake.write("sys/devices/system/node/node4/cpulist", "");
    fake.write(
        "sys/devices/system/node/node4/meminfo",
        "Node 4 MemTotal: 1048576 kB",
    );
    let topology = fake.read();
    assert_eq!(topology.node_distance(0, 4), 40);
    assert_eq!(topology.nodes()[1].memory, Some(1 << 30));
    let text = topology.to_string();
    assert!(
        text.contains("└─ node 4: 1.0 GiB, no CPUs, distances 40 10\n"),
        "{text}"
    );
}

/// Checks that the machine is flat, and that the description says why.
#[track_caller]
fn flat(fake: &Fake, cpus: usize, why: &str) {
    let topology = fake.read();
    assert!(topology.is_flat(), "{topology}");
    assert_eq!(topology.cpus().len(), cpus, "{topology}");
    let text = topology.to_string();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("flat: ") && last.contains(why), "{text}");
}

#[test]
fn without_a_structure_a_machine_is_flat() {
    let cpus = || Fake::new(&symmetric([2, 1, 1, 4], 2));
    let core = |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");

    let fake = cpus();
    fake.remove(&core(5));
    flat(&fake, 16, "cpu5/topology/core_cpus_list cannot be read");
    let fake = cpus();
    fake.write(&core(5), "five");
    flat(
        &fake,
        16,
        "cpu5/topology/core_cpus_list is no list of CPUs: \"five\"",
    );
    let fake = cpus();
    fake.write(&core(5), "6");
    flat(&fake, 16, "CPU 5 is not in its own group");
    let fake = cpus();
    fake.write(&core(8), "8");
    flat(&fake, 16, "group of CPU 0");
    let fake = cpus();
    fake.write(&core(8), "0-1,8");
    flat(&fake, 16, "contradict");
    let fake = cpus();
    fake.write(
        "sys/devices/system/cpu/cpu8/topology/physical_package_id",
        "1",
    );
    flat(&fake, 16, "two packages");
    let fake = cpus();
    fake.write("sys/devices/system/cpu/online", "");
    flat(&fake, 16, "no CPU is online");
    let fake = cpus();
    fake.write("sys/devices/system/cpu/online", "0-99999999999");
    flat(&fake, 16, "online is no list of CPUs");
    fake.allow("2-3");
    flat(&fake, 2, "online is no list of CPUs");
    let fake = cpus();
    fake.write_bytes("sys/devices/system/cpu/online", b"\xff\xfe");
    fake.remove("proc");
    flat(
        &fake,
        std::thread::available_parallelism().map_or(1, usize::from),
        "cannot be read",
    );
}

#[test]
fn without_sensible_nodes_there_is_one() {
    let cpus = symmetric([2, 1, 1, 4], 1);
    for (list, why) in [
        (None, "cannot be read"),
        (Some("?"), "is no list of CPUs"),
        (Some("3-7"), "CPU 3 is in two nodes"),
        (Some("4-6"), "CPU 7 is in none"),
    ] {
        let fake = Fake::new(&cpus);
        match list {
            Some(list) => fake.write("sys/devices/system/node/node1/cpulist", list),
            None => fake.remove("sys/devices/system/node"),
        }
        let topology = fake.read();
        assert_eq!(counts(&topology), [8, 8, 2, 2, 1]);
        let [note] = topology.notes() else {
            panic!("{topology}");
        };
        assert!(
            note.starts_with("one node: ") && note.contains(why),
            "{note}"
        );
    }
    // Distances that make no sense are left out.
    let fake = Fake::new(&cpus);
    fake.write("sys/devices/system/node/node0/distance", "10 11 12");
    fake.write("sys/devices/system/node/node1/distance", "-1 10");
    assert_eq!(fake.read().node_distance(0, 1), 20);
}

#[test]
fn without_sensible_caches_the_groups_are_packages() {
    let cpus = symmetric([2, 1, 2, 4], 1);
    let cache =
        |cpu: usize| format!("sys/devices/system/cpu/cpu{cpu}/cache/index2/shared_cpu_list");
    for damage in ["0-4", "none", "2"] {
        let fake = Fake::new(&cpus);
        fake.write(&cache(1), damage);
        let topology = fake.read();
        assert_eq!(counts(&topology), [16, 16, 2, 2, 2], "{topology}");
        assert!(topology.notes()[0].starts_with("no caches: "), "{topology}");
    }
}

#[test]
fn cpus_that_are_switched_off_are_left_out() {
    let fake = Fake::new(&symmetric([1, 1, 1, 4], 2));
    fake.write("sys/devices/system/cpu/online", "0-5,7");
    let topology = fake.read();
    assert_eq!(counts(&topology), [7, 4, 1, 1, 1]);
    assert_eq!(topology.allowed().to_string(), "0-5,7");
    assert_eq!(topology.cpu(6), None);
    assert_eq!(topology.notes(), [""; 0]);
}

#[test]
fn this_machine_is_described() {
    let topology = Topology::detect();
    println!("{topology}");
    assert!(!topology.allowed().is_empty());
    assert!(
        topology
            .allowed()
            .iter()
            .all(|cpu| topology.cpu(cpu).is_some())
    );
}
