//! Pools and executors on several nodes: distances from places, tasks with an affinity to a node,
//! near before far.

use crate::{
    fake::{Fake, FakeCpu, symmetric},
    pinning::machine,
    support::{Flag, LIMIT, counting, get, until, within},
};
use filch::{
    Affinity, Executor, Pool, current_worker,
    engine::Distances,
    topology::{PinOrder, Pinning, Topology},
};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

fn distances_of(topology: &Topology, workers: usize, pinning: &Pinning, slots: usize) -> Distances {
    let places = topology.place(workers, pinning, PinOrder::Compact);
    Distances::of_places(&places.unwrap(), slots)
}

fn from_first(distances: &Distances) -> Vec<usize> {
    (0..distances.workers())
        .map(|worker| distances.distance(0, worker))
        .collect()
}

#[test]
fn distances_have_the_levels_in_which_workers_differ() {
    // Two nodes of two L3 groups of two cores, and two more workers that are nowhere.
    let two = Fake::new(&symmetric([2, 1, 2, 2], 1)).read();
    let distances = distances_of(&two, 8, &Pinning::Core, 10);
    assert_eq!(from_first(&distances), [0, 0, 1, 1, 2, 2, 2, 2, 2, 2]);
    assert_eq!(distances.nodes(), 2);
    assert_eq!((distances.node(3), distances.node(4)), (Some(0), Some(1)));
    assert_eq!(distances.node(9), None);
    let twice = distances_of(&two, 16, &Pinning::Core, 16);
    assert_eq!(twice.distance(0, 8), 0, "the same core");
    assert_eq!((twice.distance(0, 1), twice.distance(0, 15)), (1, 3));
    let by_node = distances_of(&two, 5, &Pinning::Node, 5);
    assert_eq!(from_first(&by_node), [0, 0, 0, 0, 1]);
}

#[test]
fn on_one_node_the_nodes_of_the_engine_are_groups_that_share_a_cache() {
    let machine = Fake::new(&symmetric([1, 1, 4, 2], 1)).read();
    let distances = distances_of(&machine, 8, &Pinning::Core, 9);
    assert_eq!(from_first(&distances), [0, 0, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(distances.nodes(), 4);
}

#[test]
fn workers_that_share_the_same_are_equally_near() {
    let machine = Fake::new(&symmetric([2, 1, 1, 4], 2)).read();
    for (workers, pinning) in [
        (4, Pinning::Core),
        (1, Pinning::Core),
        (4, Pinning::Node),
        (3, Pinning::List(vec![0, 1, 2])),
        (8, Pinning::None),
    ] {
        let distances = distances_of(&machine, workers, &pinning, 12);
        assert_eq!(
            (distances.nodes(), from_first(&distances)),
            (0, vec![0; 12])
        );
    }
    // One worker on each node: all are far from each other.
    let apart = distances_of(&machine, 2, &Pinning::List(vec![0, 4]), 3);
    assert_eq!((apart.nodes(), from_first(&apart)), (2, vec![0, 1, 1]));
}

/// The first two CPUs of this machine as a machine of two nodes, 3 and 5, if it has two.
fn two_nodes() -> Option<Topology> {
    let allowed: Vec<usize> = machine()?.allowed().iter().take(2).collect();
    if allowed.len() < 2 {
        println!("SKIPPED: this machine has one CPU");
        return None;
    }
    let cpu = |(i, &number): (usize, &usize)| FakeCpu {
        number,
        core: number,
        l2: Some(i),
        l3: Some(i),
        package: i as i64,
        node: 3 + 2 * i,
        capacity: None,
    };
    let cpus: Vec<FakeCpu> = allowed.iter().enumerate().map(cpu).collect();
    let topology = Fake::new(&cpus).read();
    assert_eq!(topology.nodes()[1].number, 5, "{topology}");
    Some(topology)
}

/// A pool of `workers` workers, which alternate between two nodes.
fn pool(topology: &Topology, workers: usize) -> Pool {
    let pool = Pool::builder().topology(topology.clone()).workers(workers);
    pool.pin(Pinning::Core).build().unwrap()
}

#[test]
fn a_task_runs_on_the_node_that_it_prefers() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let pool = pool(&topology, 4);
        for round in 0..200 {
            let node = 3 + 2 * (round % 2);
            let task = pool.task(current_worker).affinity(Affinity::Node(node));
            let worker = task.submit().unwrap().join().unwrap().unwrap();
            assert!(worker < 4);
            if round % 20 == 0 {
                // All workers fall asleep.
                thread::sleep(Duration::from_millis(5));
            }
        }
        let total = pool.metrics().total();
        assert_eq!(total.affine_kept + total.affine_broken, 200);
        assert!(total.affine_kept > 100, "{total:?}");
    });
}

#[test]
fn a_task_for_a_busy_node_runs_elsewhere() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let pool = pool(&topology, 2);
        let (begun, end) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (blocked, released) = (begun.clone(), end.clone());
        let block = move || {
            blocked.wait();
            released.wait();
            current_worker().unwrap()
        };
        let blocker = pool.task(block).affinity(Affinity::Node(3)).submit();
        begun.wait();
        let task = pool.task(current_worker).affinity(Affinity::Node(3));
        let worker = task.submit().unwrap().join().unwrap();
        end.wait();
        let busy = blocker.unwrap().join().unwrap();
        assert!(worker.is_some_and(|worker| worker != busy));
    });
}

#[test]
fn nodes_without_workers_are_refused() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let refusal = |pool: &Pool, node| {
            let task = pool.task(|| ()).affinity(Affinity::Node(node));
            let refused = task.submit().unwrap_err();
            assert!(refused.is_misplaced());
            refused.to_string()
        };
        let both = pool(&topology, 2);
        assert_eq!(
            refusal(&both, 0),
            "no worker is pinned to node 0; the nodes of the workers are 3, 5"
        );
        let one = pool(&topology, 1);
        assert!(refusal(&one, 5).ends_with("are 3"));
        let there = one.task(|| 7).affinity(Affinity::Node(3)).submit();
        assert_eq!(there.unwrap().join().unwrap(), 7);
        let anywhere = Pool::builder().workers(2).build().unwrap();
        assert!(refusal(&anywhere, 3).ends_with("are 0"));
    });
}

/// Submits a task for the second node, while worker 0, which is on the other, is inside of a long
/// task. Returns whether the worker serves it between two joins.
fn is_served_elsewhere(pool: &Pool) -> bool {
    let (joins, done) = (Flag::default(), Flag::default());
    let (here, end) = (joins.clone(), done.clone());
    let long = pool.submit(move || {
        here.set();
        let start = Instant::now();
        while !end.is_set() && start.elapsed() < LIMIT / 10 {
            filch::join(|| (), || ());
        }
        end.is_set()
    });
    joins.wait("the long task runs");
    let task = pool.task(move || done.set()).affinity(Affinity::Node(5));
    let task = task.submit().unwrap();
    let is_served = long.join().unwrap();
    task.join().unwrap();
    is_served
}

/// A pool of this number of workers, of at most two on two nodes, and the number of those that have
/// left.
fn resizable(topology: &Topology, workers: usize) -> (Pool, Arc<AtomicUsize>) {
    let (left, count) = counting();
    let pool = Pool::builder().topology(topology.clone()).workers(workers);
    let pool = pool.max_workers(2).pin(Pinning::Core);
    (pool.on_exit(move |_| count()).build().unwrap(), left)
}

/// Tasks for a node that has no worker are tasks for all: they do not wait for an idle worker.
#[test]
fn tasks_for_a_node_without_workers_are_for_all() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let (pool, left) = resizable(&topology, 2);
        pool.resize(1).unwrap();
        until("worker 1 has left", || get(&left) == 1);
        assert!(is_served_elsewhere(&pool), "its worker has left");
        pool.resize(2).unwrap();
        let there = pool.task(current_worker).affinity(Affinity::Node(5));
        assert!(there.submit().unwrap().join().unwrap().is_some());
        let (pool, _) = resizable(&topology, 1);
        assert!(is_served_elsewhere(&pool), "its worker was never started");
    });
}

/// As above, while the worker of the node is asked to leave, and still runs a task.
#[test]
fn tasks_for_a_node_whose_worker_is_leaving_are_for_all() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let (pool, _) = resizable(&topology, 2);
        // Two tasks that occupy both workers.
        let began = Arc::new(Barrier::new(3));
        let release = [(); 2].map(|()| Flag::default());
        let tasks = [(); 2].map(|()| {
            let (began, release) = (began.clone(), release.clone());
            pool.submit(move || {
                began.wait();
                release[current_worker().unwrap()].wait("it may end");
            })
        });
        began.wait();
        pool.resize(1).unwrap();
        release[0].set();
        let is_served = is_served_elsewhere(&pool);
        release[1].set();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert!(is_served, "the worker is leaving");
    });
}

#[test]
fn everything_runs_once_on_two_nodes() {
    within(LIMIT, || {
        let Some(topology) = two_nodes() else { return };
        let pool = pool(&topology, 4);
        let ran = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, ran) = (&pool, &ran);
                scope.spawn(move || {
                    for n in 0..500 {
                        let ran = ran.clone();
                        let task = pool.task(move || ran.fetch_add(1, Ordering::Relaxed));
                        let task = match (thread + n) % 3 {
                            0 => task.affinity(Affinity::Node(3)),
                            1 => task.affinity(Affinity::Node(5)),
                            _ => task,
                        };
                        task.submit().unwrap().detach();
                    }
                });
            }
        });
        fn fib(n: u64) -> u64 {
            match n {
                0 | 1 => n,
                _ => {
                    let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
                    a + b
                }
            }
        }
        assert_eq!(pool.install(|| fib(18)), 2584);
        while ran.load(Ordering::Relaxed) < 2_000 {
            thread::yield_now();
        }
        let total = pool.metrics().total();
        assert!(total.stolen >= total.stolen_far, "{total:?}");
    });
}

#[test]
fn an_executor_steals_from_far_workers_only_what_near_ones_do_not_have() {
    within(LIMIT, || {
        // Real threads that are not pinned, said to be on two nodes.
        let distances = Distances::nested(4, 1, |worker, _| Some(worker / 2));
        let builder = Executor::builder().workers(4).distances(distances);
        let executor = builder.build(
            |_| (),
            |n: u32, context| {
                if n > 0 {
                    (0..4).for_each(|_| context.spawn(n - 1));
                }
            },
        );
        let executor = executor.unwrap();
        executor.spawn(7).unwrap();
        let total = executor.finish().metrics.total();
        assert_eq!(total.executed, (0..=7).map(|n| 4_u64.pow(n)).sum::<u64>());
        assert!(total.stolen >= total.stolen_far);
    });
}
