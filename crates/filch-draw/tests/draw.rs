//! Pictures of graphs and of their runs.

#[path = "../../filch/tests/support/mod.rs"]
mod support;

use filch::{Graph, Semaphore};
use filch_draw::{dot, svg};
use std::{thread, time::Duration};
use support::{LIMIT, in_a_child, pool, within};

/// Whether `text` is well-formed: elements are closed, attributes are quoted, entities are known.
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
    let drawn = dot(&graph.describe());
    let lines: Vec<_> = drawn.lines().map(str::trim).collect();
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
        assert!(lines.contains(&line), "{line} in\n{drawn}");
    }
    assert!(drawn.starts_with("digraph {") && drawn.ends_with("}\n"));

    let start = graph.task("start", || ());
    start.precede(maybe);
    let mut of_graph: Vec<_> = dot(&graph.describe()).lines().map(str::to_owned).collect();
    let plan = graph.plan().unwrap();
    let mut of_plan: Vec<_> = dot(&plan.describe()).lines().map(str::to_owned).collect();
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
    let before = dot(&graph.describe());
    assert!(before.contains("subgraph cluster_t0 {"), "{before}");
    assert!(before.contains("t2 -> t3;") && before.contains("label=\"soap\""));
    assert!(!before.contains("cluster_t1") && before.contains("t0 -> t1;"));
    let mut plan = graph.plan().unwrap();
    plan.run_on(&pool(1)).unwrap();
    let after = dot(&plan.describe());
    assert!(after.contains("subgraph cluster_t1 {") && after.contains("label=\"grain\""));
    // Drawing takes nothing away.
    assert_eq!(after, dot(&plan.describe()));
    plan.run_on(&pool(1)).unwrap();
    assert_eq!(after, dot(&plan.describe()));
}

#[test]
fn a_semaphore_is_tied_to_its_tasks() {
    let (tools, desk) = (Semaphore::new(2), Semaphore::new(1));
    let graph = Graph::new();
    for _ in 0..3 {
        graph.task("", || ()).acquire([&tools]);
    }
    graph.task("", || ()).acquire([&tools, &desk]);
    for drawn in [
        dot(&graph.describe()),
        dot(&graph.plan().unwrap().describe()),
    ] {
        assert!(drawn.contains("limit0 [label=\"at most 2\""), "{drawn}");
        assert!(drawn.contains("limit1 [label=\"at most 1\""), "{drawn}");
        assert_eq!(drawn.matches("-> tlimit0").count(), 4);
        assert_eq!(drawn.matches("-> tlimit1").count(), 1);
    }
}

#[test]
fn modules_a_hundred_thousand_deep_are_drawn_on_the_default_stack() {
    in_a_child(
        "modules_a_hundred_thousand_deep_are_drawn_on_the_default_stack",
        || {
            let innermost = Graph::new();
            innermost.task("innermost", || ());
            let mut plan = innermost.plan().unwrap();
            for _ in 0..100_000 {
                let graph = Graph::new();
                graph.module("", plan);
                plan = graph.plan().unwrap();
            }
            let drawn = dot(&plan.describe());
            assert!(drawn.contains("t100000 [label=\"innermost\"];"));
            assert_eq!(drawn.matches("subgraph").count(), 100_000);
            assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
        },
    );
}

#[test]
fn a_recorded_run_is_drawn() {
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
            plan.record(true);
            plan.run_on(&pool(workers)).unwrap();
            let drawn = svg(&plan.timeline());
            check_xml(&drawn);
            assert!(drawn.contains("last &lt;&amp;&gt;"));
            assert_eq!(
                drawn.matches("<rect class=\"critical\"").count(),
                3 + 1,
                "and the legend"
            );
        }
    });
}

#[test]
fn laps_and_runs_are_drawn() {
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
        check_xml(&svg(&plan.timeline()));
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
        let drawn = svg(&plan.timeline());
        check_xml(&drawn);
        assert_eq!(drawn.matches("class=\"lane\"").count(), 2);
    });
}
