//! A machine with two NUMA nodes, which `.ci/numa` boots in an emulator: the topology that the
//! kernel reports, the CPUs of pinned threads, the nodes of pages, and limits of control groups.
#![cfg(all(target_os = "linux", not(any(filch_loom, miri))))]

use filch::{
    Affinity, Pool, current_worker,
    topology::{Distance, PinOrder, Pinning, Topology},
};
use std::{
    array, fs,
    hint::black_box,
    path::Path,
    process,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The machine: CPUs 0 to 3 on node 0, the others on node 1; two threads on each core.
const CPUS: usize = 8;
const NODES: usize = 2;

/// The distance of the nodes in the table of the firmware, as `.ci/numa` sets it.
const FAR: u32 = 21;

fn node_of(cpu: usize) -> usize {
    cpu * NODES / CPUS
}

/// Returns the CPU that this thread runs on.
fn current_cpu() -> usize {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name of the thread may contain spaces; it ends with the last parenthesis. The CPU is
    // field 39, and the one after the name is the third.
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(36).unwrap().parse().unwrap()
}

/// Returns the CPUs that this thread may run on, as the kernel prints them.
fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = { status.lines() }.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

/// Returns the number of pages of this process on each node.
fn pages() -> [usize; NODES] {
    let maps = fs::read_to_string("/proc/self/numa_maps").unwrap();
    array::from_fn(|node| {
        let on_node = |word: &str| {
            word.strip_prefix(&format!("N{node}="))?
                .parse::<usize>()
                .ok()
        };
        maps.split_whitespace().filter_map(on_node).sum()
    })
}

/// Keeps this thread busy.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "needs the machine of .ci/numa"]
fn the_topology_is_that_of_the_machine() {
    let topology = Topology::detect();
    println!("{topology}");
    assert!(topology.notes().is_empty(), "{:?}", topology.notes());
    assert_eq!(topology.cpus().len(), CPUS);
    let nodes: Vec<usize> = topology.nodes().iter().map(|node| node.number).collect();
    assert_eq!(nodes, [0, 1]);
    for node in topology.nodes() {
        let memory = node.memory.expect("the kernel reports it");
        assert!((300 << 20..=512 << 20).contains(&memory), "{memory} bytes");
    }
    assert_eq!(topology.node_distance(0, 0), 10);
    assert_eq!(topology.node_distance(0, 1), FAR);
    for a in 0..CPUS {
        assert_eq!(topology.cpu(a).unwrap().node, node_of(a));
        for b in 0..CPUS {
            let expected = match () {
                () if a / 2 == b / 2 => Distance::Core,
                () if node_of(a) == node_of(b) => Distance::L3,
                () => Distance::Far,
            };
            assert_eq!(topology.distance(a, b), expected, "CPUs {a} and {b}");
        }
    }
    assert_eq!((topology.quota(), topology.parallelism()), (None, CPUS));
}

#[test]
#[ignore = "needs the machine of .ci/numa"]
fn threads_run_on_the_cpus_asked_for() {
    // Each worker on one CPU, in an order that is not the usual one.
    let list: Vec<usize> = (0..CPUS).map(|worker| (3 * worker + 2) % CPUS).collect();
    let pinned = Pool::builder().pin(Pinning::List(list.clone())).build();
    assert_eq!(pinned.unwrap().broadcast(|_| current_cpu()), list);
    let topology = Topology::detect();
    for pinning in [Pinning::Core, Pinning::L3, Pinning::Node] {
        for order in [PinOrder::Compact, PinOrder::Spread] {
            let places = topology.place(CPUS, &pinning, order).unwrap();
            let pool = Pool::builder().pin(pinning.clone()).pin_order(order);
            for (worker, (cpu, allowed)) in pool
                .build()
                .unwrap()
                .broadcast(|_| (current_cpu(), allowed_cpus()))
                .into_iter()
                .enumerate()
            {
                let place = places.cpus(worker);
                assert_eq!(allowed, place.to_string(), "{pinning:?}, {order:?}");
                assert!(place.contains(cpu));
            }
        }
    }
}

/// What else the process allocates meanwhile: the buffer for `numa_maps`, stacks.
const OTHER_PAGES: usize = 64;

/// Returns the pages of each node that the process has gained while the worker on node `own` calls
/// `fill`, and the pool. One worker is on each node; the other one is occupied, and steals nothing.
fn grown(own: usize, fill: impl Fn() + Sync) -> ([usize; NODES], Pool) {
    let pool = Pool::builder().pin(Pinning::List(vec![1, 6])).build();
    let pool = pool.unwrap();
    let (both_begun, filled) = (Barrier::new(NODES), Barrier::new(NODES));
    let grown = pool.broadcast(|worker| {
        both_begun.wait();
        let before = pages();
        if worker == own {
            fill();
        }
        let after = pages();
        filled.wait();
        array::from_fn(|node| after[node].saturating_sub(before[node]))
    })[own];
    (grown, pool)
}

/// The queue of a worker that has many tasks grows, and all its memory is on the node of the
/// worker.
#[test]
#[ignore = "needs the machine of .ci/numa"]
fn the_pages_of_a_queue_are_on_the_node_of_its_worker() {
    const TASKS: usize = 1 << 18;
    for own in 0..NODES {
        let (grown, _) = grown(own, || (0..TASKS).for_each(|_| filch::spawn(|| ())));
        println!("a queue on node {own}: pages {grown:?}");
        // Two words for each task.
        assert!(grown[own] >= TASKS * 16 / 4096, "{grown:?}");
        assert!(grown[1 - own] <= OTHER_PAGES, "{grown:?}");
    }
}

/// Closures that fit into a block of a slab. The first pool stays, so that the second one does not
/// get its memory from the allocator.
#[test]
#[ignore = "needs the machine of .ci/numa"]
fn the_pages_of_a_slab_are_on_the_node_of_its_worker() {
    const TASKS: usize = 1 << 16;
    static RUN: AtomicU32 = AtomicU32::new(0);
    let mut pools = Vec::new();
    for own in 0..NODES {
        let data = [own; 7];
        let task = move || {
            black_box(data);
            RUN.fetch_add(1, Relaxed);
        };
        let (grown, pool) = grown(own, || (0..TASKS).for_each(|_| filch::spawn(task)));
        pools.push(pool);
        // The lists of free blocks grow while the tasks run.
        while (RUN.load(Relaxed) as usize) < TASKS * pools.len() {
            thread::sleep(Duration::from_millis(1));
        }
        println!("a slab on node {own}: pages {grown:?}");
        // A block of 64 bytes and an entry of the queue for each task.
        assert!(grown[own] >= TASKS * (64 + 16) / 4096, "{grown:?}");
        assert!(grown[1 - own] <= OTHER_PAGES, "{grown:?}");
    }
}

/// Submits `TASKS` tasks of `WORDS` words each.
fn submit_many<const WORDS: usize, const TASKS: usize>() {
    for _ in 0..TASKS {
        let data = [0_usize; WORDS];
        let task = move || {
            black_box(data);
        };
        filch::submit(task).detach();
    }
}

/// Blocks of submitted tasks are new ones here: the second worker needs larger ones than the first,
/// so that it gets none that the first has used.
#[test]
#[ignore = "needs the machine of .ci/numa"]
fn the_pages_of_new_blocks_are_on_the_node_of_their_worker() {
    const TASKS: usize = 1 << 15;
    let mut pools = Vec::new();
    for own in 0..NODES {
        let (bytes, fill): (_, fn()) = match own {
            0 => (128, submit_many::<9, TASKS>),
            _ => (192, submit_many::<17, TASKS>),
        };
        let (grown, pool) = grown(own, fill);
        pools.push(pool);
        println!("blocks on node {own}: pages {grown:?}");
        assert!(grown[own] >= TASKS * bytes / 4096, "{grown:?}");
        assert!(grown[1 - own] <= OTHER_PAGES, "{grown:?}");
    }
}

/// The halves of joins that another worker runs, by its distance from the worker that has queued
/// them.
#[derive(Default)]
struct Migrations {
    near: AtomicU32,
    far: AtomicU32,
}

impl Migrations {
    fn tree(&self, depth: u32) {
        if depth == 0 {
            return spin(Duration::from_micros(200));
        }
        let owner = current_worker().unwrap();
        let second = |context: filch::JoinContext| {
            if context.migrated() {
                let near = node_of(owner) == node_of(current_worker().unwrap());
                let count = if near { &self.near } else { &self.far };
                count.fetch_add(1, Relaxed);
            }
            self.tree(depth - 1);
        };
        filch::join_context(|_| self.tree(depth - 1), second);
    }
}

/// With victims of any distance four of seven steals would be far ones.
#[test]
#[ignore = "needs the machine of .ci/numa"]
fn steals_are_near_first() {
    let pool = Pool::builder().pin(Pinning::List((0..CPUS).collect()));
    let pool = pool.build().unwrap();
    let migrations = Migrations::default();
    for _ in 0..20 {
        pool.on_worker(|| migrations.tree(8));
    }
    let [near, far] = [&migrations.near, &migrations.far].map(|count| count.load(Relaxed));
    println!("{near} near and {far} far steals");
    assert!(near > 0 && far < near, "{near} near and {far} far steals");
    let counted = pool.metrics().total();
    println!(
        "counted: {} steals, {} far",
        counted.stolen, counted.stolen_far
    );
    assert!(2 * counted.stolen_far < counted.stolen);
}

/// One task at a time, so that its node always has a free worker.
#[test]
#[ignore = "needs the machine of .ci/numa"]
fn tasks_run_on_the_node_that_they_are_for() {
    const TASKS: usize = 100;
    let pool = Pool::builder().pin(Pinning::Core).build().unwrap();
    for node in 0..NODES {
        let kept = (0..TASKS).filter(|_| {
            let (send, receive) = mpsc::channel();
            let task = pool.task(move || send.send(node_of(current_cpu())).unwrap());
            let task = task.affinity(Affinity::Node(node)).submit().unwrap();
            task.detach();
            receive.recv().unwrap() == node
        });
        let kept = kept.count();
        println!("{kept} of {TASKS} tasks for node {node} ran there");
        assert!(kept >= TASKS * 9 / 10);
    }
}

/// A control group below the root, which this process is in until this is dropped.
struct Limited;

impl Limited {
    const ROOT: &str = "/sys/fs/cgroup";

    fn write(file: &str, text: &str) {
        let path = Path::new(Self::ROOT).join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Creates nested groups with these contents of files, and enters the last one.
    fn enter(groups: &[(&str, &[(&str, &str)])]) -> Self {
        Self::write("cgroup.subtree_control", "+cpu +cpuset");
        for (index, (group, limits)) in groups.iter().enumerate() {
            let _ = fs::create_dir(Path::new(Self::ROOT).join(group));
            for (file, value) in *limits {
                Self::write(&format!("{group}/{file}"), value);
            }
            if index + 1 < groups.len() {
                Self::write(&format!("{group}/cgroup.subtree_control"), "+cpu +cpuset");
            } else {
                Self::write(&format!("{group}/cgroup.procs"), &process::id().to_string());
            }
        }
        Self
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        Self::write("cgroup.procs", &process::id().to_string());
    }
}

#[test]
#[ignore = "needs the machine of .ci/numa"]
fn default_workers_follow_quota_and_cpuset() {
    let workers = || Pool::builder().build().unwrap().workers();
    assert_eq!(workers(), CPUS);
    let quota = |quota| ("cpu.max", quota);
    {
        let _limited = Limited::enter(&[("half", &[quota("50000 100000")])]);
        assert_eq!((workers(), Topology::detect().quota()), (1, Some(0.5)));
    }
    {
        let _limited = Limited::enter(&[("some", &[quota("250000 100000")])]);
        assert_eq!(workers(), 3);
    }
    {
        let outer: &[_] = &[quota("200000 100000")];
        let _limited = Limited::enter(&[("outer", outer), ("outer/inner", &[quota("max 100000")])]);
        assert_eq!(workers(), 2, "the ancestor has the tighter quota");
    }
    {
        let _limited = Limited::enter(&[("holes", &[("cpuset.cpus", "1-2,5")])]);
        let topology = Topology::detect();
        assert_eq!(topology.allowed().to_string(), "1-2,5");
        let pool = Pool::builder().pin(Pinning::Node).build().unwrap();
        let mut places = pool.broadcast(|_| allowed_cpus());
        places.sort();
        assert_eq!(places, ["1-2", "1-2", "5"]);
        let refused = Pool::builder().pin(Pinning::List(vec![1, 3])).build();
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("CPU 3") && refused.contains("1-2,5"),
            "{refused}"
        );
    }
    assert_eq!(workers(), CPUS, "the limits are gone");
}
