//! Plans that are run many times by one call.

use crate::graphs::pools;
use crate::support::{panic_of, quiet_panic};
use filch::{Graph, Plan};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WIDTH: usize = 8;
const STAGES: usize = 6;

/// Stages in which each task waits for all tasks of the stage before, and counts its runs.
fn stages(runs: &[AtomicU32]) -> Plan<'_> {
    let graph = Graph::new();
    let tasks: Vec<_> = runs
        .iter()
        .map(|runs| graph.task("", || _ = runs.fetch_add(1, Relaxed)))
        .collect();
    for two in tasks.chunks(WIDTH).collect::<Vec<_>>().windows(2) {
        for task in two[1] {
            task.succeed(two[0].iter().copied());
        }
    }
    graph.plan().unwrap()
}

fn zeros(tasks: usize) -> Vec<AtomicU32> {
    (0..tasks).map(|_| AtomicU32::new(0)).collect()
}

#[test]
fn every_task_runs_once_a_lap_whichever_worker_helps() {
    let laps = if cfg!(miri) { 5 } else { 500 };
    for pool in pools() {
        let runs = zeros(WIDTH * STAGES);
        let mut plan = stages(&runs);
        let report = pool.install(|| plan.run_n(laps)).unwrap();
        assert_eq!(report.ran(), laps * runs.len() as u64);
        drop(plan);
        let counted = runs
            .iter()
            .all(|runs| u64::from(runs.load(Relaxed)) == laps);
        assert!(counted, "{runs:?}");
    }
}

#[test]
fn many_sources_run_once_a_lap() {
    let laps = if cfg!(miri) { 2 } else { 20 };
    for pool in pools() {
        let runs = zeros(if cfg!(miri) { 100 } else { 5_000 });
        let graph = Graph::new();
        for runs in &runs {
            graph.task("", || _ = runs.fetch_add(1, Relaxed));
        }
        let mut plan = graph.plan().unwrap();
        let report = pool.install(|| plan.run_n(laps)).unwrap();
        assert_eq!(report.ran(), laps * runs.len() as u64);
        drop(plan);
        assert!(
            runs.iter()
                .all(|runs| u64::from(runs.load(Relaxed)) == laps)
        );
    }
}

#[test]
fn a_failure_ends_the_laps_and_counts_those_before() {
    for pool in pools() {
        let lap = AtomicU32::new(0);
        let graph = Graph::new();
        let first = graph.task("first", || ());
        let third = graph.task("third", || {
            if lap.fetch_add(1, Relaxed) == 2 {
                quiet_panic("the third time");
            }
        });
        let last = graph.task("last", || ());
        graph.linearize([first, third, last]);
        let mut plan = graph.plan().unwrap();
        let error = pool.install(|| plan.run_n(10)).unwrap_err();
        assert_eq!(error.ran(), 3 + 3 + 1);
        assert_eq!(pool.install(|| plan.run_n(4)).unwrap().ran(), 12);
        drop(plan);
        assert_eq!(lap.load(Relaxed), 3 + 4);
    }
}

#[test]
fn a_panic_of_the_condition_leaves_a_plan_that_runs() {
    for pool in pools() {
        let runs = zeros(WIDTH * STAGES);
        let mut plan = stages(&runs);
        let mut asked = 0;
        let panic = panic_of(|| {
            pool.install(|| {
                plan.run_until(|| {
                    asked += 1;
                    if asked == 3 {
                        quiet_panic("no answer");
                    }
                    false
                })
            })
        });
        assert_eq!(panic, "no answer");
        assert_eq!(plan.run_on(&pool).unwrap().ran(), runs.len() as u64);
        drop(plan);
        assert!(runs.iter().all(|runs| runs.load(Relaxed) == 3));
    }
}

#[test]
fn each_lap_has_new_values() {
    let (mut seen, mut next) = (Vec::new(), 0);
    let graph = Graph::new();
    let number = graph.value("number", || {
        next += 1;
        next
    });
    graph.map("use", number, |number: &u32| seen.push(*number));
    graph.plan().unwrap().run_n(3).unwrap();
    assert_eq!(seen, [1, 2, 3]);
}
