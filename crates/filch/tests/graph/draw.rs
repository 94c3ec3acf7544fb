//! Pictures of graphs and of their runs.
#![cfg(not(filch_loom))]

use crate::support::{LIMIT, pool, quiet_panic, within};
use filch::{Graph, Semaphore};
use std::{thread, time::Duration};

/// Whether `text` is well-formed: what is opened is closed, attributes are quoted, entities are known.
fn check_xml(text: &str) {
    let mut open: Vec<&str> = vec![];
    let mut rest = text.trim_end();
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
            assert!(!open.is_empty() || rest.is_empty(), "one root");
            continue;
        }
        let (name, attributes) = tag
            .split_once(' ')
            .unwrap_or((tag.trim_end_matches('/'), ""));
        let mut attributes = attributes.trim_end_matches('/');
        while let Some((key, value)) = attributes.split_once("=\"") {
            assert!(
                key.trim().chars().all(|c| c.is_alphanumeric() || c == '-'),
                "{tag}"
            );
            let (value, more) = value.split_once('"').expect("a quote ends");
            check_text(value);
            attributes = more;
        }
        assert!(attributes.trim().is_empty(), "{tag}");
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest:?}");
}

fn check_text(text: &str) {
    for part in text.split('&').skip(1) {
        let (entity, _) = part.split_once(';').expect("an entity ends");
        assert!(["amp", "lt", "gt", "quot"].contains(&entity), "{entity}");
    }
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

#[test]
fn a_graph_and_its_plan_are_the_same_picture() {
    let graph = Graph::new();
    let first = graph.task("say \"hi\" \\ & go\n<on>", || ());
    let maybe = graph.condition("maybe?", || 0);
    let later = graph.placeholder("later");
    let unnamed = graph.task("", || ());
    first.precede(maybe);
    maybe.precede([first, later]);
    first.precede(unnamed);
    let dot = graph.to_dot();
    let lines: Vec<_> = dot.lines().map(str::trim).collect();
    for line in [
        r#"t0 [label="say \"hi\" \\ &amp; go\n<on>"];"#,
        r#"t1 [label="maybe?", shape=diamond];"#,
        r#"t2 [label="later", style=dotted];"#,
        r#"t3 [label="task 4"];"#,
        "t0 -> t1;",
        "t1 -> t0 [style=dashed];",
        "t1 -> t2 [style=dashed];",
        "t0 -> t3;",
    ] {
        assert!(lines.contains(&line), "{line} in\n{dot}");
    }
    assert!(dot.starts_with("digraph {") && dot.ends_with("}\n"));

    let start = graph.task("start", || ());
    start.precede(maybe);
    let mut of_graph: Vec<_> = graph.to_dot().lines().map(str::to_owned).collect();
    let plan = graph.plan().unwrap();
    let mut of_plan: Vec<_> = plan.to_dot().lines().map(str::to_owned).collect();
    of_graph.sort();
    of_plan.sort();
    assert_eq!(of_graph, of_plan);
}

#[test]
fn modules_and_retained_subflows_are_clusters() {
    let inner = Graph::new();
    inner.linearize([inner.task("soap", || ()), inner.task("rinse", || ())]);
    let graph = Graph::new();
    let wash = graph.module("wash", inner.plan().unwrap());
    let retained = graph.subflow("kept", |sub| {
        sub.task("grain", || ());
        sub.retain();
    });
    wash.precede(retained);
    let before = graph.to_dot();
    assert!(before.contains("subgraph cluster_t0 {"), "{before}");
    assert!(before.contains("t0_0 -> t0_1;") && before.contains("label=\"soap\""));
    assert!(!before.contains("cluster_t1") && before.contains("t0 -> t1;"));
    let mut plan = graph.plan().unwrap();
    plan.run_on(&pool(1)).unwrap();
    let after = plan.to_dot();
    assert!(after.contains("subgraph cluster_t1 {") && after.contains("label=\"grain\""));
    // Drawing takes nothing away.
    assert_eq!(after, plan.to_dot());
    plan.run_on(&pool(1)).unwrap();
    assert_eq!(after, plan.to_dot());
}

#[test]
fn a_semaphore_is_tied_to_its_tasks() {
    let (tools, desk) = (Semaphore::new(2), Semaphore::new(1));
    let graph = Graph::new();
    for _ in 0..3 {
        graph.task("", || ()).acquire([&tools]);
    }
    graph.task("", || ()).acquire([&tools, &desk]);
    for dot in [graph.to_dot(), graph.plan().unwrap().to_dot()] {
        assert!(dot.contains("limit0 [label=\"at most 2\""), "{dot}");
        assert!(dot.contains("limit1 [label=\"at most 1\""), "{dot}");
        assert_eq!(dot.matches("-> tlimit0").count(), 4);
        assert_eq!(dot.matches("-> tlimit1").count(), 1);
    }
}

#[test]
fn a_recorded_run_tells_what_ran_when_and_where() {
    within(LIMIT, || {
        for workers in [0, 1, 2, 4] {
            let graph = Graph::new();
            let nap = |millis| move || thread::sleep(Duration::from_millis(millis));
            let first = graph.task("first", nap(2));
            let short = graph.task("short", nap(1));
            let long = graph.task("long", nap(30));
            let last = graph.task("last <&>", nap(2));
            first.precede([short, long]);
            last.succeed([short, long]);
            let mut plan = graph.plan().unwrap();
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
            let svg = timeline.to_svg();
            check_xml(&svg);
            assert!(svg.contains("last &lt;&amp;&gt;"));
            assert_eq!(
                svg.matches("<rect class=\"critical\"").count(),
                3 + 1,
                "and the legend"
            );
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
        let mut laps = 0;
        let graph = Graph::new();
        let begin = graph.task("begin", || ());
        let lap = graph.task("lap", || ());
        let again = graph.condition("again?", || {
            laps += 1;
            usize::from(laps % 10 == 0)
        });
        let end = graph.task("end", || ());
        begin.precede(lap);
        lap.precede(again);
        again.precede([lap, end]);
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        plan.run_on(&pool(2)).unwrap();
        let timeline = plan.timeline();
        assert_eq!(timeline.tasks().len(), 2 * 22);
        // Everything of one of the runs, in its order.
        assert_eq!(timeline.critical_path().count(), 22);
        check_xml(&timeline.to_svg());
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
fn two_workers_have_two_lanes() {
    within(LIMIT, || {
        let together = std::sync::Barrier::new(2);
        let graph = Graph::new();
        for _ in 0..2 {
            graph.task("both", || {
                together.wait();
            });
        }
        let mut plan = graph.plan().unwrap();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        let timeline = plan.timeline();
        assert_eq!(timeline.workers().len(), 2);
        let svg = timeline.to_svg();
        check_xml(&svg);
        assert_eq!(svg.matches("class=\"lane\"").count(), 2);
    });
}
