//! Pictures of graphs and of their runs.

#[path = "../../filch/tests/support/graphs.rs"]
mod graphs;
#[path = "../../filch/tests/support/mod.rs"]
mod support;

use filch::{Graph, Semaphore};
use filch_draw::{dot, svg};
use graphs::{
    deep_modules, mixed_kinds, module_and_subflow, sleeping_diamond, ten_laps, two_at_once,
};
use support::{LIMIT, in_a_child, pool, within};

/// Whether `text` is well-formed: elements are closed, attributes are quoted, entities are
/// known.
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
    let graph = mixed_kinds("say \"hi\" \\ & go\n<on>");
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

    let maybe = graph.get(2).unwrap();
    maybe.succeed(graph.task("start", || ()));
    let mut of_graph: Vec<_> = dot(&graph.describe()).lines().map(str::to_owned).collect();
    let plan = graph.plan().unwrap();
    let mut of_plan: Vec<_> = dot(&plan.describe()).lines().map(str::to_owned).collect();
    of_graph.sort();
    of_plan.sort();
    assert_eq!(of_graph, of_plan);
}

#[test]
fn modules_and_retained_subflows_are_clusters() {
    let graph = module_and_subflow();
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
            let drawn = dot(&deep_modules(|| ()).describe());
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
            let mut plan = sleeping_diamond();
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
        let mut plan = ten_laps();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        plan.run_on(&pool(2)).unwrap();
        check_xml(&svg(&plan.timeline()));
    });
}

#[test]
fn two_workers_have_two_lanes() {
    within(LIMIT, || {
        let mut plan = two_at_once();
        plan.record(true);
        plan.run_on(&pool(2)).unwrap();
        let drawn = svg(&plan.timeline());
        check_xml(&drawn);
        assert_eq!(drawn.matches("class=\"lane\"").count(), 2);
    });
}
