//! Recorded runs.
#![cfg(not(filch_loom))]

use crate::{
    graphs::{sleeping_diamond, ten_laps, two_at_once},
    support::{LIMIT, pool, quiet_panic, within},
};
use filch::{
    CancelToken, Graph, Semaphore,
    graph::{self, RunOptions, TaskEnding, Timeline},
};
use std::{sync::Arc, thread, time::Duration};

/// Returns the names of the tasks that ended in this way, with those that did not run in brackets.
fn ended(timeline: &Timeline, ending: TaskEnding) -> Vec<String> {
    let ran = timeline.tasks().iter();
    let ran = ran.filter(|task| task.ending() == ending);
    let others = timeline.not_run().iter();
    let others = others.filter(|task| task.ending() == ending);
    ran.map(|task| task.name().to_owned())
        .chain(others.map(|task| format!("({})", task.name())))
        .collect()
}

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

#[test]
fn failed_and_skipped_tasks_are_marked() {
    within(LIMIT, || {
        for workers in [0, 1, 2] {
            let graph = Graph::new();
            let good = graph.task("good", || ());
            let bad = graph.task("bad", || quiet_panic("bad"));
            let after = graph.task("after", || ());
            let last = graph.task("last", || ());
            graph.linearize([good, bad, after, last]);
            let mut plan = graph.plan().unwrap();
            plan.record(true);
            plan.run_on(&pool(workers)).unwrap_err();
            let timeline = plan.timeline();
            assert_eq!(ended(&timeline, TaskEnding::Done), ["good"]);
            assert_eq!(ended(&timeline, TaskEnding::Failed), ["bad"]);
            assert_eq!(ended(&timeline, TaskEnding::Skipped), ["(after)", "(last)"]);
            assert_eq!(timeline.count(TaskEnding::Skipped), 2);
            let text = timeline.to_string();
            assert!(text.contains(", 1 failed, 2 skipped\n"), "{text}");
        }
    });
}

#[test]
fn every_run_has_its_own_endings() {
    within(LIMIT, || {
        let mut runs = 0;
        let graph = Graph::new();
        let second = graph.task("second", move || {
            runs += 1;
            if runs == 2 {
                quiet_panic("the second time");
            }
        });
        second.precede(graph.task("after", || ()));
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        let pool = pool(1);
        plan.run_on(&pool).unwrap();
        plan.run_on(&pool).unwrap_err();
        plan.run_on(&pool).unwrap();
        let timeline = plan.timeline();
        let failed = timeline.tasks().iter();
        let mut failed = failed.filter(|task| task.ending() == TaskEnding::Failed);
        assert_eq!(failed.next().map(|task| task.run()), Some(1));
        assert!(failed.next().is_none());
        let skipped: Vec<_> = timeline.not_run().iter().map(|task| task.run()).collect();
        assert_eq!(skipped, [1]);
    });
}

#[test]
fn a_cancelled_run_marks_what_did_not_run() {
    within(LIMIT, || {
        let token = Arc::new(CancelToken::new());
        let graph = Graph::new();
        let stop = {
            let token = token.clone();
            graph.task("stop", move || {
                token.cancel();
            })
        };
        stop.precede(graph.task("late", || ()));
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        let options = RunOptions::new().cancel(&token);
        assert!(plan.run_with(&options).unwrap_err().is_cancelled());
        let timeline = plan.timeline();
        assert_eq!(ended(&timeline, TaskEnding::Done), ["stop"]);
        assert_eq!(ended(&timeline, TaskEnding::Cancelled), ["(late)"]);
    });
}

#[test]
fn a_task_with_an_error_has_failed() {
    within(LIMIT, || {
        let graph = Graph::new();
        let bad = graph.try_task("bad", || Err::<(), _>("no"));
        bad.precede(graph.task("after", || ()));
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run().unwrap_err();
        let timeline = plan.timeline();
        assert_eq!(ended(&timeline, TaskEnding::Failed), ["bad"]);
        assert_eq!(ended(&timeline, TaskEnding::Skipped), ["(after)"]);
    });
}

#[test]
fn removed_tasks_are_in_no_timeline() {
    within(LIMIT, || {
        let graph = Graph::new();
        let removed = graph.task("removed", || ());
        let bad = graph.try_task("bad", || Err::<(), _>("no"));
        bad.precede(graph.task("after", || ()));
        graph.remove([removed]);
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run().unwrap_err();
        let timeline = plan.timeline();
        assert_eq!(ended(&timeline, TaskEnding::Skipped), ["(after)"]);
    });
}

#[test]
fn futures_and_inner_graphs_that_do_not_end_are_marked() {
    within(LIMIT, || {
        let inner = Graph::new();
        inner.task("inner", || quiet_panic("inner"));
        let graph = Graph::new();
        graph.future("never", std::future::pending);
        graph.future("bad", async || quiet_panic("bad"));
        graph.module("outer", inner.plan().unwrap());
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run_on(&pool(0)).unwrap_err();
        let timeline = plan.timeline();
        // In which order they start is not said; of each it is known how it may have ended.
        let mut names: Vec<_> = [
            TaskEnding::Failed,
            TaskEnding::Cancelled,
            TaskEnding::Skipped,
        ]
        .iter()
        .flat_map(|ending| ended(&timeline, *ending))
        .collect();
        names.sort_unstable_by_key(|name| name.trim_matches(['(', ')']).to_owned());
        assert_eq!(names.len(), 3, "{timeline:?}");
        assert!(["never", "(never)"].contains(&&*names[1]));
        assert_eq!(timeline.count(TaskEnding::Done), 0);
        assert!(timeline.count(TaskEnding::Failed) >= 1);
    });
}

#[test]
fn a_refused_task_has_failed_without_running() {
    within(LIMIT, || {
        let tools = Semaphore::new(1);
        let graph = Graph::new();
        graph.task("saw", || ()).acquire([&tools]);
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        tools.close();
        plan.run_on(&pool(1)).unwrap_err();
        let timeline = plan.timeline();
        assert_eq!(ended(&timeline, TaskEnding::Failed), ["(saw)"]);
        assert_eq!(timeline.wall(), Duration::ZERO);
    });
}

#[test]
fn a_task_is_ready_when_its_last_predecessor_is_done() {
    within(LIMIT, || {
        let mut plan = sleeping_diamond();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        plan.run_on(&pool(2)).unwrap();
        let timeline = plan.timeline();
        for task in timeline.tasks() {
            let of_run = |name: &str| {
                let mut tasks = timeline.tasks().iter();
                let same = tasks.find(|other| other.name() == name && other.run() == task.run());
                same.unwrap()
            };
            match task.name() {
                "first" => assert!(task.ready() <= task.start()),
                "last <&>" => {
                    let before = of_run("short").end().max(of_run("long").end());
                    assert_eq!(task.ready(), before);
                }
                _ => assert_eq!(task.ready(), of_run("first").end()),
            }
            assert_eq!(task.delay(), task.start() - task.ready());
        }
    });
}

#[test]
fn declared_waits_are_not_busy() {
    within(LIMIT, || {
        let wait = Duration::from_millis(20);
        let graph = Graph::new();
        graph.task("waits", move || {
            graph::waiting(|| thread::sleep(wait));
            // The waits of a run inside that is not recorded are those of this task.
            let inner = Graph::new();
            inner.task("inner", || graph::waiting(|| ()));
            inner.plan().unwrap().run().unwrap();
            graph::waiting(|| thread::sleep(wait));
        });
        graph.task("panics", move || {
            graph::waiting(|| {
                thread::sleep(wait);
                quiet_panic("while it waits")
            });
        });
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run_on(&pool(0)).unwrap_err();
        let timeline = plan.timeline();
        for task in timeline.tasks() {
            let waited: Duration = task.waits().iter().map(|wait| wait.end - wait.start).sum();
            let (times, least) = match task.name() {
                "waits" => (3, 2 * wait),
                _ => (1, wait),
            };
            assert_eq!(task.waits().len(), times, "{task:?}");
            assert!(waited >= least);
        }
        let waited = timeline.tasks().iter().flat_map(|task| task.waits());
        let waited: Duration = waited.map(|wait| wait.end - wait.start).sum();
        let taken: Duration = timeline.tasks().iter().map(|task| task.duration()).sum();
        assert_eq!(timeline.work(), taken - waited);
        // Outside of a recorded task nothing is recorded.
        assert_eq!(graph::waiting(|| 5), 5);
    });
}
