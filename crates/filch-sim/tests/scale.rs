//! Simulated scale: the same seed gives the same figures, costs are what the model says, and joins
//! keep their order.

use filch_sim::{
    Case, Config, Costs, Machine, Metric, Op, Outcome, Program, ScalePoint, Scaling, Simulation,
    VictimOrder, What, Workload, table,
};

fn run(case: Case) -> Outcome {
    let simulation = Simulation::new(case).unwrap_or_else(|error| panic!("{error}"));
    simulation
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

fn small(wake_fanout: usize) -> Scaling {
    Scaling {
        size: 0.004,
        wake_fanout,
        ..Scaling::new(Machine::published())
    }
}

fn points(scaling: &Scaling, victims: VictimOrder) -> Vec<ScalePoint> {
    let mut points = Vec::new();
    for workload in Workload::ALL {
        for workers in [1, 4, 18] {
            points.push(scaling.measure(workload, workers, victims).unwrap());
        }
    }
    points
}

#[test]
fn the_same_seed_gives_the_same_table() {
    for (victims, fanout) in [(VictimOrder::Uniform, 0), (VictimOrder::NearFirst, 2)] {
        let [a, b] = [(); 2].map(|()| points(&small(fanout), victims));
        for metric in Metric::ALL {
            assert_eq!(table(metric, &a), table(metric, &b));
        }
        let other = Scaling {
            seed: 5,
            ..small(fanout)
        };
        assert_ne!(a, points(&other, victims), "the seed has an effect");
    }
}

#[test]
fn every_workload_runs_faster_with_more_workers() {
    for point in points(&small(2), VictimOrder::NearFirst) {
        let least = match point.workers {
            1 => 0.9,
            4 => 1.5,
            _ => 1.5,
        };
        assert!(point.speedup > least, "{point:?}");
        assert!(point.speedup <= 1.01 * point.workers as f64, "{point:?}");
        assert_eq!(
            point.remote.is_some(),
            point.workers > 64 && point.steals > 0
        );
    }
}

/// Whatever the order of victims and the wakes, and with costs of another kind.
#[test]
fn no_run_is_faster_than_its_bound() {
    let mut machines = vec![Machine::published(); 3];
    machines[1].costs.unpark = 0;
    machines[2].costs = Costs::default();
    for (machine, seed) in machines.into_iter().zip(1..) {
        let scaling = Scaling {
            size: 0.02,
            seed,
            wake_fanout: 2,
            ..Scaling::new(machine)
        };
        for workload in Workload::ALL {
            for workers in [1, 2, 7, 64, 130] {
                let victims = VictimOrder::NearFirst;
                let point = scaling.measure(workload, workers, victims).unwrap();
                assert!(point.speedup <= point.bound, "{point:?}");
                assert!(point.bound <= workers as f64, "{point:?}");
            }
        }
    }
}

/// Returns when the last of `n` sleepers is awake after a batch of `n` long tasks, in wake
/// latencies.
fn until_awake(n: usize, wake_fanout: usize) -> f64 {
    let start = 1_000_000;
    let program = Program::new()
        .body("task", [Op::Work(10_000_000)])
        .inject(start, "task", n);
    let mut case = Case::new(n, program);
    case.config = Config {
        wake_fanout,
        costs: Costs::measured(),
        ..case.config
    };
    let latency = case.config.costs.wake as f64;
    let outcome = run(case);
    let woken = outcome.trace.iter().filter(|t| t.what == What::Resumed);
    let last = woken
        .filter(|t| t.at < outcome.makespan)
        .map(|t| t.at)
        .max();
    let at_work = outcome.metrics.workers.iter().filter(|w| w.executed > 0);
    assert_eq!(at_work.count(), n);
    (last.unwrap() - start) as f64 / latency
}

/// In a chain the time grows with the number of workers, in a tree with its logarithm.
#[test]
fn sleepers_wake_in_a_tree() {
    assert!(until_awake(64, 0) > 60.0);
    for n in [16_usize, 64, 256] {
        // On each level a waker makes two calls, each a little longer than the latency.
        let levels = f64::from(n.ilog2());
        assert!(until_awake(n, 2) < 3.0 * levels, "{n}");
    }
}

/// Runs a workload of the given size with near victims first and wakes in a tree.
fn measure(workload: Workload, workers: usize, size: f64) -> ScalePoint {
    let scaling = Scaling { size, ..small(2) };
    scaling
        .measure(workload, workers, VictimOrder::NearFirst)
        .unwrap()
}

/// With any victim first it would be three quarters.
#[test]
fn few_steals_of_a_balanced_tree_are_remote() {
    let point = measure(Workload::Fib, 256, 0.25);
    assert!(point.remote.unwrap() <= 0.1, "{point:?}");
}

/// With as much work for each worker. If a search probed all workers, it would be four times as
/// many.
#[test]
fn failed_probes_per_steal_do_not_grow_with_the_workers() {
    for (workload, size) in [
        (Workload::Fib, 0.5),
        (Workload::Uts, 1.0),
        (Workload::Graph, 0.5),
        (Workload::Loop, 0.5),
    ] {
        let [few, many] = [64, 256].map(|workers| {
            let point = measure(workload, workers, size * workers as f64 / 256.0);
            point.failed_probes.unwrap()
        });
        assert!(many < 1.5 * few + 1.0, "{workload}: {few} to {many}");
    }
}

/// If half of the workers could not search, they would sleep at the end of each region, and be
/// woken in the next one: 166 times as fast as one worker.
#[test]
fn workers_stay_awake_between_parallel_regions() {
    let point = measure(Workload::Regions, 256, 1.0);
    assert!(point.speedup > 200.0, "{point:?}");
    assert!(point.time.asleep_queued < 0.03, "{point:?}");
}

/// 75 times as fast as one worker if woken workers did not count the single tasks that they see,
/// and did not revisit the workers that have them.
#[test]
fn single_tasks_of_a_wavefront_are_found_soon() {
    let point = measure(Workload::Wavefront, 256, 1.0);
    assert!(point.speedup > 92.0, "{point:?}");
}

#[test]
fn trees_keep_256_workers_busy() {
    let point = measure(Workload::Fib, 256, 0.5);
    assert!(point.efficiency() > 0.9, "{point:?}");
    assert_eq!(point.woken, 256);
    // 25 wake latencies.
    assert!(point.awake < 75_000, "{point:?}");
}

/// A share of what is left instead of an equal one: 31 times as fast as one worker.
#[test]
fn a_burst_is_taken_in_equal_shares() {
    let point = measure(Workload::Burst, 256, 1.0);
    assert!(point.speedup > 70.0, "{point:?}");
}

/// A probe is charged by its distance, and only in a search.
#[test]
fn failed_probes_cost_and_are_counted_by_distance() {
    let outcome = |probe: Vec<u64>| {
        let mut case = Case::new(4, Program::wide(40, 1_000));
        case.config.groups = vec![1, 2];
        case.config.costs.probe = probe;
        run(case)
    };
    let free = outcome(Vec::new());
    assert_eq!(free.steals.len(), 3, "{:?}", free.steals);
    assert_eq!(free.steals[0], 0, "a group of one has no victim");
    assert_eq!(free.steals.iter().sum::<u64>(), free.metrics.total().stolen);
    assert!(free.failed_probes[1..].iter().any(|&n| n > 0));
    let dear = outcome(vec![0, 500, 900]);
    assert!(dear.makespan > free.makespan);
}

/// Workers on three nodes, of which the third is farther than the second.
#[test]
fn costs_follow_the_distances_of_nodes() {
    let makespan = |nodes: Vec<Vec<u64>>, thief: usize| {
        // Worker 0 has two tasks, and the thief is the only other worker.
        let mut case = Case::new(3, Program::wide(2, 10_000));
        case.config.absent = vec![3 - thief];
        case.config.groups = vec![1];
        case.config.costs = Costs {
            steal: vec![0, 100],
            nodes,
            ..Costs::free()
        };
        let outcome = run(case);
        assert_eq!(outcome.steals[1], 1);
        outcome.makespan
    };
    let nodes = [[10, 12, 36], [12, 10, 36], [36, 36, 10]];
    let nodes = nodes.map(Vec::from).to_vec();
    assert_eq!(makespan(Vec::new(), 2), makespan(Vec::new(), 1));
    assert_eq!(makespan(nodes.clone(), 1), makespan(Vec::new(), 1));
    assert_eq!(makespan(nodes.clone(), 2), makespan(nodes, 1) + 200);
}

#[test]
fn distances_of_nodes_that_make_no_sense_are_refused() {
    for nodes in [vec![vec![10, 20]], vec![vec![10, 5], vec![5, 10]]] {
        let mut case = Case::new(2, Program::wide(2, 10));
        case.config.costs.nodes = nodes;
        let refused = Simulation::new(case).unwrap_err().to_string();
        assert!(refused.contains("distances of nodes"), "{refused}");
    }
}

/// With as many workers on other nodes as on the nearest, most steals stay near.
#[test]
fn four_nodes_at_three_distances_are_simulated() {
    let point = |machine: Machine| {
        let scaling = Scaling {
            machine,
            size: 0.25,
            ..small(2)
        };
        let near = VictimOrder::NearFirst;
        scaling.measure(Workload::Fib, 256, near).unwrap()
    };
    let (equal, unequal) = (Machine::published(), Machine::two_nodes_each());
    let (equal, unequal) = (point(equal), point(unequal));
    assert!(unequal.remote.unwrap() <= 0.1, "{unequal:?}");
    assert!(unequal.speedup > 0.95 * equal.speedup, "{unequal:?}");
}

/// Takes from one queue wait for each other.
#[test]
fn exclusive_takes_wait() {
    let makespan = |exclusive| {
        let program = Program::new()
            .body("task", [Op::Work(1)])
            .inject(0, "task", 8);
        let mut case = Case::new(8, program);
        case.config.inject_batch = 1;
        case.config.costs = Costs {
            inject: 100,
            exclusive,
            ..Costs::free()
        };
        run(case).makespan
    };
    assert_eq!((makespan(false), makespan(true)), (101, 801));
}

/// An unpark takes its caller time.
#[test]
fn unparks_cost_their_caller() {
    let busy = |unpark| {
        let mut case = Case::new(2, Program::wide(3, 1_000).inject(9_000, "root", 1));
        case.config.costs.unpark = unpark;
        run(case).metrics.total().busy.as_nanos()
    };
    assert!(busy(700) >= busy(0) + 700);
}

#[test]
fn a_join_starts_after_the_work_of_all_arrivals() {
    let program = Program::new()
        .body("end", [Op::Work(10)])
        .body("short", [Op::Work(100), Op::arrive("all")])
        .body("long", [Op::Work(700), Op::arrive("all")])
        .join("all", 3, "end")
        .inject(0, "short", 2)
        .inject(0, "long", 1);
    for workers in [1, 2, 3] {
        let mut case = Case::new(workers, program.clone());
        case.config.costs = Costs::free();
        let expected = [910, 710, 710][workers - 1];
        assert_eq!(run(case).makespan, expected, "{workers} workers");
    }
}

#[test]
fn joins_that_make_no_sense_are_refused_with_a_reason() {
    let end = Program::new().body("end", [Op::Work(1)]);
    let refused = |program: Program| {
        let case = Case::new(1, program);
        Simulation::new(case).unwrap_err().to_string()
    };
    let arrives = |program: Program| program.body("a", [Op::arrive("j")]).inject(0, "a", 2);
    for (complaint, expected) in [
        (refused(arrives(end.clone())), "no such join"),
        (
            refused(arrives(end.clone().join("j", 1, "b"))),
            "no such body",
        ),
        (
            refused(arrives(end.clone().join("j", 3, "end"))),
            "waits for 3 arrivals, but there are 2",
        ),
        (
            refused(arrives(end.clone().join("j", 2, "end").join("j", 2, "end"))),
            "two joins",
        ),
        (refused(arrives(end.join("j", 2, "a"))), "never end"),
    ] {
        assert!(complaint.contains(expected), "{complaint:?}: {expected:?}");
    }
}

#[test]
fn joins_survive_json() {
    let program = Workload::Wavefront.program(0, 0.001);
    assert!(!program.joins.is_empty());
    assert_eq!(Program::from_json(&program.to_json()).unwrap(), program);
}
