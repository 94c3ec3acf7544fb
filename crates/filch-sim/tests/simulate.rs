//! The scheduler under the simulator: random cases, saved ones, and the guarantees of the simulator
//! itself.

use filch::engine::{Ageing, Priority, Source, WakePolicy};
use filch_sim::{
    Act, Case, Config, Costs, Curve, Fault, Idle, Op, Oracle, Outcome, Overflow, Program, Queues,
    Scheduler, Simulation, What,
};
use std::fs;

fn run(case: Case) -> Outcome {
    let simulation = Simulation::new(case).unwrap_or_else(|error| panic!("{error}"));
    simulation
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

fn random(seed: u64) -> Scheduler {
    Scheduler::Random {
        seed,
        jump: 8,
        preempt: 4,
    }
}

/// A seed is an address: a failure here prints the command that repeats it.
#[test]
fn random_cases_break_no_rule() {
    for seed in 0..3_000 {
        if let Err(failure) = Simulation::from_seed(seed).run() {
            panic!("{failure}");
        }
    }
}

#[test]
fn saved_cases_break_no_rule() {
    let mut count = 0;
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case = Case::from_json(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!case.note.is_empty(), "{} says nothing", path.display());
        let ran = Simulation::new(case).unwrap().run();
        ran.unwrap_or_else(|failure| panic!("{}: {failure}", path.display()));
        count += 1;
    }
    assert!(count >= 3, "the corpus has only {count} cases");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        let [a, b] = [(); 2].map(|()| Simulation::from_seed(seed).run().unwrap());
        assert_eq!(a, b, "seed {seed}");
    }
    let different = (0..50)
        .filter(|&seed| {
            let [a, b] = [seed, seed + 1].map(|s| Simulation::from_seed(s).run().unwrap());
            a.schedule != b.schedule
        })
        .count();
    assert!(different > 45, "only {different} schedules of 50 differ");
}

#[test]
fn a_recorded_schedule_gives_the_same_run() {
    for seed in 0..300 {
        let original = Simulation::from_seed(seed);
        let outcome = original.run().unwrap();
        let mut case = original.case().clone();
        case.scheduler = Scheduler::Replay(outcome.schedule.clone());
        assert_eq!(run(case), outcome, "seed {seed}");
    }
}

#[test]
fn cases_survive_json() {
    for seed in 0..300 {
        let simulation = Simulation::from_seed(seed);
        let case = simulation.case();
        assert_eq!(&Case::from_json(&case.to_json()).unwrap(), case);
        let program = Program::from_json(&case.program.to_json()).unwrap();
        assert_eq!(program, case.program);
    }
}

#[test]
fn bad_json_is_refused_with_a_reason() {
    let program = |bodies: &str, outside: &str| {
        Program::from_json(&format!(
            r#"{{"bodies": [{bodies}], "outside": [{outside}]}}"#
        ))
        .unwrap_err()
        .to_string()
    };
    let complaints = [
        (program("{", ""), "line 1"),
        (
            program(r#"{"name": "a", "ops": [{"wrok": 1}]}"#, ""),
            "wrok",
        ),
        (program(r#"{"name": "a"}"#, ""), "missing field `ops`"),
        (program(r#"{"name": "a", "ops": [{"work": -1}]}"#, ""), "-1"),
        (
            program(r#"{"name": "a", "ops": [{"spawn_local": "b"}]}"#, ""),
            r#"body "a": it spawns "b", but there is no such body"#,
        ),
        (
            program(
                r#"{"name": "a", "ops": [{"spawn_local": "b"}]},
                   {"name": "b", "ops": [{"spawn_global": "a"}]}"#,
                "",
            ),
            r#""a" spawns "b" spawns "a""#,
        ),
        (
            program(r#"{"name": "a", "ops": []}, {"name": "a", "ops": []}"#, ""),
            r#"two bodies are called "a""#,
        ),
        (
            program(
                r#"{"name": "a", "ops": []}"#,
                r#"{"at": 0, "act": {"inject": {"body": "a", "count": 5000000}}}"#,
            ),
            "5000000 tasks",
        ),
        (program("", r#"{"at": 0, "act": "open"}"#), "open"),
    ];
    for (complaint, expected) in complaints {
        assert!(complaint.contains(expected), "{complaint:?}: {expected:?}");
    }
}

#[test]
fn senseless_cases_are_refused_with_a_reason() {
    let refused = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new(2, Program::wide(2, 1));
        change(&mut case);
        Simulation::new(case).unwrap_err().to_string()
    };
    let goes = |worker| Act::Leave(worker);
    let complaints = [
        (refused(&|c| c.config.workers = 0), "at least 1"),
        (refused(&|c| c.config.absent = vec![7]), "worker 7"),
        (refused(&|c| c.config.inject_capacity = Some(0)), "injector"),
        (
            refused(&|c| c.config.queues = Queues::Shared { capacity: Some(0) }),
            "at least one task",
        ),
        (
            refused(&|c| c.config.wake = WakePolicy::EveryKth(0)),
            "zero",
        ),
        (
            refused(&|c| c.faults = vec![Fault::Spurious { worker: 2, at: 0 }]),
            "worker 2",
        ),
        (
            refused(&|c| c.program = Program::wide(1, 1).inject_for(0, 3, "leaf", 1)),
            "for worker 3",
        ),
        (
            refused(&|c| {
                let body = "leaf".to_owned();
                c.program.bodies[1].ops = vec![Op::SpawnFor { worker: 2, body }];
            }),
            "for worker 2",
        ),
        (
            refused(&|c| {
                let program = Program::wide(1, 1).inject_for(0, 1, "leaf", 1);
                c.program = program;
                if let Act::Inject { level, .. } = &mut c.program.outside[1].act {
                    *level = Priority::High;
                }
            }),
            "a level and a worker",
        ),
        (
            refused(&|c| {
                let program = std::mem::take(&mut c.program);
                c.program = program.outside(1, goes(0)).outside(2, goes(1));
            }),
            "let one stay",
        ),
    ];
    for (complaint, expected) in complaints {
        assert!(complaint.contains(expected), "{complaint:?}: {expected:?}");
    }
}

/// A worker that feeds itself still lets a task from outside run, after at most as many of its own
/// tasks as the interval says.
#[test]
fn tasks_from_outside_are_not_starved() {
    for interval in [1, 7, 61] {
        let program = Program::wide(1_000, 3)
            .body("visitor", [Op::Work(1)])
            .inject(1_000, "visitor", 1);
        let mut case = Case::new(1, program);
        case.config.inject_interval = interval;
        let outcome = run(case);
        let came = outcome
            .trace
            .iter()
            .position(|t| t.what == What::Outside(1));
        let waited = outcome.trace[came.unwrap()..]
            .iter()
            .take_while(
                |t| !matches!(t.what, What::Ran { source, .. } if source == Source::Injector),
            )
            .filter(|t| matches!(t.what, What::Ran { .. }))
            .count();
        assert!(waited <= interval as usize, "{waited} > {interval}");
        let after = outcome.trace.len() - came.unwrap();
        assert!(after > 100, "the worker had more to do of its own");
    }
}

/// The level of the task that a move ran, where it came from a lane.
fn lane(what: What) -> Option<Priority> {
    match what {
        What::Ran {
            source: Source::Lane(level),
            ..
        } => Some(level),
        What::Ran { .. } => Some(Priority::Normal),
        _ => None,
    }
}

/// How many tasks are started from the `index`-th thing from outside until one of `level` is.
fn started_before(outcome: &Outcome, index: usize, level: Priority) -> usize {
    let mut moves = outcome.trace.iter().map(|t| t.what);
    assert!(moves.any(|what| what == What::Outside(index)));
    let levels: Vec<_> = moves.filter_map(lane).collect();
    levels.iter().position(|&l| l == level).unwrap()
}

/// With Low tasks everywhere, a Critical one is the next that is started.
#[test]
fn a_critical_task_is_next() {
    for workers in [1, 2, 5] {
        for seed in 0..20 {
            let program = Program::new()
                .body("leaf", [Op::Work(50)])
                .inject_at(0, Priority::Low, "leaf", 300)
                .inject_at(1_000, Priority::Critical, "leaf", 1);
            let mut case = Case::new(workers, program);
            if seed > 0 {
                // No move is interrupted: a choice that was made before the task came is no choice.
                let (jump, preempt) = (8, 0);
                case.scheduler = Scheduler::Random {
                    seed,
                    jump,
                    preempt,
                };
            }
            let outcome = run(case);
            assert_eq!(started_before(&outcome, 1, Priority::Critical), 0);
            assert_eq!(outcome.metrics.total().low, 300);
        }
    }
}

/// However many of a more urgent level there are, a task gets its turn.
#[test]
fn no_task_starves() {
    let Ageing { high, normal, low } = Ageing::default();
    for (few, many, after) in [
        (Priority::High, Priority::Critical, high),
        (Priority::Normal, Priority::Critical, normal),
        (Priority::Normal, Priority::High, normal),
        (Priority::Low, Priority::Critical, low),
        (Priority::Low, Priority::High, low),
        (Priority::Low, Priority::Normal, low),
    ] {
        for workers in [1, 3] {
            let program = Program::new()
                .body("leaf", [Op::Work(10)])
                .inject_at(0, many, "leaf", 1_000)
                .inject_at(100, few, "leaf", 1);
            let outcome = run(Case::new(workers, program));
            let before = started_before(&outcome, 1, few);
            // Every worker counts for itself.
            let limit = workers * (after as usize + 1);
            assert!(before <= limit, "{before} {many:?} before one {few:?}");
        }
    }
}

/// Tasks for one worker of an idle engine are run by that worker, one after the other.
#[test]
fn a_worker_that_is_free_gets_its_tasks() {
    for owner in 0..4 {
        let mut program = Program::new().body("leaf", [Op::Work(20)]);
        for n in 0..20 {
            program = program.inject_for(n * 500, owner, "leaf", 1);
        }
        for seed in 0..10 {
            let mut case = Case::new(4, program.clone());
            if seed > 0 {
                case.scheduler = Scheduler::Random {
                    seed,
                    jump: 0,
                    preempt: 0,
                };
            }
            let metrics = run(case).metrics;
            assert_eq!(metrics.workers[owner].affine_kept, 20);
            assert_eq!(metrics.total().affine_broken, 0);
        }
    }
}

/// Tasks for a node of an idle engine are run by workers of that node, and tasks for a busy node by
/// others, before it is free.
#[test]
fn a_node_that_is_free_gets_its_tasks_and_a_busy_one_is_helped() {
    for owner in 0..4 {
        let mut program = Program::new().body("leaf", [Op::Work(20)]);
        for n in 0..20 {
            program = program.inject_for(n * 500, owner, "leaf", 1);
        }
        let mut case = Case::new(4, program);
        (case.config.groups, case.config.node_affinity) = (vec![2], true);
        let metrics = run(case).metrics;
        let node = &metrics.workers[owner / 2 * 2..][..2];
        assert_eq!(
            node.iter().map(|worker| worker.affine_kept).sum::<u64>(),
            20
        );
        assert_eq!(metrics.total().affine_broken, 0);
    }
    let program = Program::new()
        .body("long", [Op::Work(100_000)])
        .body("leaf", [Op::Work(10)])
        .inject_for(0, 0, "long", 2)
        .inject_for(1_000, 0, "leaf", 5);
    let mut case = Case::new(4, program);
    (case.config.groups, case.config.node_affinity) = (vec![2], true);
    let outcome = run(case);
    let total = outcome.metrics.total();
    assert_eq!((total.affine_kept, total.affine_broken), (2, 5));
    let last = outcome.trace.iter().rfind(|t| lane(t.what).is_some());
    assert!(last.unwrap().at < 10_000, "{outcome}");
}

/// A worker in a long task does not get to what waits for it; a free one does, before that task is
/// over.
#[test]
fn a_worker_that_is_busy_is_helped() {
    let program = Program::new()
        .body("long", [Op::Work(100_000)])
        .body("leaf", [Op::Work(10)])
        .inject_for(0, 0, "long", 1)
        .inject_for(1_000, 0, "leaf", 5);
    let outcome = run(Case::new(2, program));
    assert_eq!(outcome.metrics.workers[1].affine_broken, 5);
    assert_eq!(outcome.metrics.workers[0].affine_kept, 1);
    let last = outcome.trace.iter().rfind(|t| lane(t.what).is_some());
    assert!(last.unwrap().at < 10_000, "{outcome}");
}

/// Levels and workers survive JSON, and programs without them need not name them.
#[test]
fn levels_are_plain_json() {
    let program = Program::from_json(
        r#"{
            "bodies": [
                {"name": "leaf", "ops": []},
                {"name": "root", "ops": [
                    {"spawn_at": {"level": "high", "body": "leaf"}},
                    {"spawn_for": {"worker": 1, "body": "leaf"}}
                ]}
            ],
            "outside": [
                {"at": 0, "act": {"inject": {"body": "root", "level": "critical"}}},
                {"at": 0, "act": {"inject": {"body": "root", "worker": 0, "count": 2}}},
                {"at": 0, "act": {"inject": {"body": "root"}}}
            ]
        }"#,
    )
    .unwrap();
    assert_eq!(program.tasks().unwrap(), 3 * 4);
    assert_eq!(Program::from_json(&program.to_json()).unwrap(), program);
    let outcome = run(Case::new(2, program));
    let total = outcome.metrics.total();
    assert_eq!((outcome.executed, total.critical, total.high), (12, 1, 4));
    assert_eq!(total.affine_kept + total.affine_broken, 2 + 4);
    assert!(
        !Case::new(2, Program::wide(1, 1))
            .to_json()
            .contains("level")
    );
}

#[test]
fn more_workers_than_a_word_has_bits() {
    for workers in [65, 100, 300] {
        let mut case = Case::new(workers, Program::wide(5_000, 2_000));
        case.config.groups = vec![16];
        let outcome = run(case);
        assert_eq!(outcome.executed, 5_001);
        let at_work = outcome.metrics.workers.iter().filter(|w| w.executed > 0);
        assert_eq!(at_work.count(), workers, "a worker was left out");
    }
}

#[test]
fn workers_that_come_and_go_lose_nothing() {
    for seed in 0..60 {
        let mut program = Program::tree(7, 2, 9);
        for worker in 1..6 {
            for round in 0..4 {
                let at = 40 * round + 7 * worker as u64;
                program = program
                    .outside(at, Act::Leave(worker))
                    .outside(at + 20, Act::Enter(worker));
            }
        }
        program.outside.sort_by_key(|outside| outside.at);
        let mut case = Case::new(6, program);
        case.scheduler = if seed == 0 {
            Scheduler::RoundRobin
        } else {
            random(seed)
        };
        let outcome = run(case);
        assert_eq!((outcome.executed, outcome.abandoned), (255, 0));
        let left = outcome.trace.iter().filter(|t| t.what == What::Left);
        assert!(left.count() > 5, "hardly any worker left");
    }
}

#[test]
fn a_stop_gives_back_what_it_leaves() {
    let (mut some_run, mut some_left) = (false, false);
    for seed in 0..60 {
        let program = Program::wide(200, 20).outside(100 + 20 * seed, Act::Stop);
        let mut case = Case::new(3, program);
        case.scheduler = random(seed);
        let outcome = run(case);
        // The root may be refused or abandoned, and then it never spawns.
        let all = outcome.executed + outcome.abandoned + outcome.refused;
        assert!(all == 201 || all == 1, "{outcome}");
        some_run |= outcome.executed > 1;
        some_left |= outcome.abandoned > 0;
    }
    assert!(some_run && some_left);
}

#[test]
fn full_queues_spill_run_inline_or_give_back() {
    for overflow in [Overflow::Spill, Overflow::Inline, Overflow::Return] {
        for queues in [
            Queues::Bounded {
                capacity: 2,
                steal_batch: 512,
            },
            Queues::Shared { capacity: Some(2) },
        ] {
            let mut case = Case::new(3, Program::wide(255, 5));
            case.config = Config {
                queues,
                overflow,
                ..case.config
            };
            let outcome = run(case);
            assert_eq!(outcome.executed + outcome.refused, 256);
            assert_eq!(outcome.refused > 0, overflow == Overflow::Return);
        }
    }
}

#[test]
fn a_panic_costs_one_task() {
    let program = Program::new()
        .body("good", [Op::Work(1)])
        .body("bad", [Op::spawn("good"), Op::Panic, Op::spawn("good")])
        .inject(0, "bad", 10);
    for seed in 0..20 {
        let mut case = Case::new(3, program.clone());
        case.scheduler = random(seed);
        let outcome = run(case);
        assert_eq!((outcome.executed, outcome.panicked), (20, 10));
    }
}

#[test]
fn every_scheduler_and_every_fault_runs_everything() {
    let faults = [
        Fault::Stall {
            worker: 1,
            from: 5,
            moves: 50,
        },
        Fault::Panic { task: 3 },
        Fault::LateWake {
            wake: 1,
            ticks: 999,
        },
        Fault::Refuse { push: 4 },
        Fault::Spurious { worker: 2, at: 30 },
    ];
    let schedulers = [
        Scheduler::RoundRobin,
        random(1),
        Scheduler::Pct {
            seed: 1,
            changes: 3,
            length: 200,
            preempt: 0,
        },
    ];
    for scheduler in schedulers {
        for fault in faults {
            let mut case = Case::new(4, Program::tree(5, 2, 7).inject(500, "level 3", 2));
            case.scheduler = scheduler.clone();
            case.faults = vec![fault];
            let expected = case.program.tasks().unwrap();
            let outcome = run(case);
            // The panic comes at the end of its task.
            assert_eq!(outcome.executed, expected, "{scheduler:?} {fault:?}");
        }
    }
}

#[test]
fn a_driver_that_loses_a_wake_is_found_out() {
    let mut case = Case::new(2, Program::wide(3, 50).inject(1_000, "leaf", 1));
    case.faults = vec![Fault::LoseWake { wake: 1 }];
    let mut failure = Simulation::new(case).unwrap().run().unwrap_err();
    assert_eq!(failure.oracle, Oracle::SleepsOnWork);
    let command = "cargo run --release -p filch-sim --example simulate -- --replay";
    assert!(failure.to_string().contains(command), "{failure}");

    let path = std::env::temp_dir().join(format!("filch-lost-wake-{}.json", std::process::id()));
    failure.save(&path).unwrap();
    let saved = Case::from_json(&fs::read_to_string(&path).unwrap()).unwrap();
    fs::remove_file(&path).unwrap();
    let again = Simulation::new(saved).unwrap().run().unwrap_err();
    assert_eq!(
        (again.oracle, again.trace),
        (failure.oracle, failure.trace.clone())
    );
    assert!(failure.to_string().contains(&path.display().to_string()));
}

#[test]
fn a_failure_shrinks_and_still_fails() {
    // A random case that is made to fail: the driver loses its first wake.
    let failure = (0..100)
        .find_map(|seed| {
            let mut case = Simulation::from_seed(seed).case().clone();
            case.faults = vec![Fault::LoseWake { wake: 1 }];
            Simulation::new(case).unwrap().run().err()
        })
        .expect("one of them wakes a worker");
    let small = failure.shrink(500);
    assert_eq!(small.oracle, failure.oracle);
    assert!(small.trace.len() <= failure.trace.len());
    let replayed = Simulation::new(small.case.clone()).unwrap().run();
    assert_eq!(replayed.unwrap_err().trace, small.trace);
}

#[test]
fn twice_the_workers_take_half_the_time() {
    let curve = Curve::draw(&Case::new(1, Program::wide(2_000, 300)), &[1, 2, 4, 8]).unwrap();
    for point in &curve.points {
        let ideal = point.workers as f64;
        assert!(
            (0.9 * ideal..=1.01 * ideal).contains(&point.speedup),
            "{curve}"
        );
    }
}

#[test]
fn a_chain_does_not_scale() {
    // Each task spawns the next and works after that: two workers can overlap, more cannot.
    let curve = Curve::draw(&Case::new(1, Program::tree(200, 1, 0)), &[1, 8]).unwrap();
    assert!(curve.points[1].speedup < 2.0, "{curve}");
}

/// Costs are what the config says: a steal from afar takes longer than one from next door.
#[test]
fn distance_costs() {
    let makespan = |node: usize| {
        let mut case = Case::new(2, Program::wide(2, 1_000));
        case.config.groups = vec![node];
        case.config.idle = Idle {
            spin_rounds: 1_000,
            ..Idle::default()
        };
        case.config.costs = Costs {
            steal: vec![100, 500],
            ..Costs::free()
        };
        run(case).makespan
    };
    assert_eq!(makespan(1) - makespan(2), 400);
}
