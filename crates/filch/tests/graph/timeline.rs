//! Recorded runs.
#![cfg(not(filch_loom))]

use crate::{
    graphs::{sleeping_diamond, ten_laps, two_at_once},
    support::{LIMIT, pool, quiet_panic, within},
};
use filch::Graph;
use std::{thread, time::Duration};

#[test]
fn a_recorded_run_has_tasks_times_and_workers() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let mut plan = sleeping_diamond();
            plan.run_on(&pool(workers)).unwrap();
            assert!(plan.timeline().tasks().is_empty(), "not recorded");
            plan.record(true);
            plan.run_on(&pool(workers)).unwrap();
            let timeline = plan.timeline();
            let tasks = timeline.tasks();
            assert_eq!(tasks.len(), 4);
            let path: Vec<_> = timeline.critical_path().map(|task| task.name()).collect();
            let took = |name| {
                let mut tasks = tasks.iter();
                tasks.find(|task| task.name() == name).unwrap().duration()
            };
            let longer = if took("short") > took("long") {
                "short" // on a very busy machine
            } else {
                "long"
            };
            assert_eq!(path, ["first", longer, "last <&>"]);
            assert_eq!(tasks[0].name(), "first");
            assert_eq!(tasks[0].start(), Duration::ZERO);
            for task in tasks {
                let end = task.start() + task.duration();
                assert!(end <= timeline.wall() && task.worker() <= workers + 32);
                assert_eq!(task.is_critical(), path.contains(&task.name()));
            }
            assert!(took("long") >= Duration::from_millis(30));
            assert!(timeline.critical_time() >= Duration::from_millis(34));
            assert!(timeline.critical_time() <= timeline.wall());
            let busy = timeline.busy_share();
            assert!(busy > 0.0 && busy <= 1.0, "{busy}");
            // Taken once; off again.
            assert!(plan.timeline().tasks().is_empty());
            plan.record(false);
            plan.run_on(&pool(workers)).unwrap();
            assert!(plan.timeline().tasks().is_empty());
        }
    });
}

#[test]
fn laps_and_runs_add_up_in_a_timeline() {
    within(LIMIT, || {
        let mut plan = ten_laps();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        plan.run_on(&pool(2)).unwrap();
        let timeline = plan.timeline();
        assert_eq!(timeline.tasks().len(), 2 * 22);
        // Everything of one of the runs, in its order.
        assert_eq!(timeline.critical_path().count(), 22);
    });
}

#[test]
fn a_task_that_panics_or_holds_a_graph_is_recorded_too() {
    within(LIMIT, || {
        let inner = Graph::new();
        inner.task("inner", || thread::sleep(Duration::from_millis(5)));
        let graph = Graph::new();
        let outer = graph.module("outer", inner.plan().unwrap());
        let bad = graph.task("bad", || quiet_panic("bad"));
        let never = graph.task("never", || ());
        outer.precede(bad);
        bad.precede(never);
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        assert_eq!(plan.run_on(&pool(2)).unwrap_err().panics().len(), 1);
        let timeline = plan.timeline();
        let names: Vec<_> = timeline.tasks().iter().map(|task| task.name()).collect();
        assert_eq!(names, ["outer", "bad"]);
        assert_eq!(timeline.critical_path().count(), 2);
        assert!(timeline.critical_time() >= Duration::from_millis(5));
    });
}

#[test]
fn two_workers_are_recorded() {
    within(LIMIT, || {
        let mut plan = two_at_once();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        assert_eq!(plan.timeline().workers().len(), 2);
    });
}
