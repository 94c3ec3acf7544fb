//! Pictures of graphs and of their runs.

#[path = "../../filch/tests/support/graphs.rs"]
mod graphs;
#[path = "../../filch/tests/support/mod.rs"]
mod support;

use filch::{
    Graph, Semaphore,
    graph::{NotRun, TaskEnding, TaskTime, Timeline},
};
use filch_draw::{Dot, dot, json, prefix, svg};
use graphs::{
    deep_modules, mixed_kinds, module_and_subflow, sleeping_diamond, ten_laps, two_at_once,
};
use std::{ops::Range, time::Duration};
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

/// A run with everything that a drawing distinguishes, in milliseconds.
fn eventful() -> Timeline {
    let at = Duration::from_millis;
    let task = |number, worker, time: Range<u64>| {
        let name = format!("task {number} \"<&>\" \\ \u{1}");
        TaskTime::new(number, name, worker, at(time.start)..at(time.end))
    };
    let tasks = [
        task(1, 0, 0..10).with_wait(at(2)..at(9)),
        task(2, 1, 0..2).with_completed(at(8)),
        task(3, 0, 14..20).with_ending(TaskEnding::Failed),
        task(4, 1, 9..12).with_ending(TaskEnding::Cancelled),
    ];
    Timeline::new(2, tasks, [(1, 3), (2, 4)]).with_not_run([
        NotRun::new(5, "skipped <one>", TaskEnding::Skipped),
        NotRun::new(6, "refused", TaskEnding::Failed),
    ])
}

#[test]
fn endings_waits_and_delays_are_drawn_with_a_legend() {
    let drawn = svg(&eventful());
    check_xml(&drawn);
    // Each class once in the legend, and once for its task.
    for (class, times) in [
        ("failed", 3),
        ("cancelled", 2),
        ("wait", 2),
        ("suspended", 2),
        ("unrun", 2),
    ] {
        let found = drawn.matches(&format!("<rect class=\"{class}\"")).count();
        assert_eq!(found, times, "{class} in\n{drawn}");
    }
    for text in [
        ">waiting, not busy<",
        ">ready, not started<",
        "skipped &lt;one&gt;",
        "× refused",
        "started 4.0ms after it was ready",
        "<path class=\"ready\"",
    ] {
        assert!(drawn.contains(text), "{text} in\n{drawn}");
    }
    // Seven of ten milliseconds were waits, and then four of ten were idle.
    assert!(drawn.contains("45 % busy"), "{drawn}");
    // What does not occur is not in the legend.
    let plain = TaskTime::new(1, "a", 0, Duration::ZERO..Duration::from_millis(1));
    let drawn = svg(&Timeline::new(1, [plain], []));
    check_xml(&drawn);
    for class in ["failed", "cancelled", "wait", "suspended", "unrun", "ready"] {
        assert!(!drawn.contains(&format!("class=\"{class}\"")), "{class}");
    }
}

#[test]
fn json_can_be_parsed_back() {
    let timeline = eventful();
    let parsed: serde_json::Value = serde_json::from_str(&json(&timeline)).unwrap();
    let nanos = |value: &serde_json::Value| Duration::from_nanos(value.as_u64().unwrap());
    assert_eq!(parsed["version"], 1);
    assert_eq!(parsed["threads"], 2);
    assert_eq!(nanos(&parsed["wall_ns"]), timeline.wall());
    assert_eq!(nanos(&parsed["work_ns"]), timeline.work());
    assert_eq!(nanos(&parsed["critical_ns"]), timeline.critical_time());
    let tasks = parsed["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), timeline.tasks().len());
    for (json, task) in tasks.iter().zip(timeline.tasks()) {
        assert_eq!(json["task"], task.index());
        assert_eq!(json["name"], task.name());
        assert_eq!(json["run"], task.run());
        assert_eq!(json["worker"], task.worker());
        assert_eq!(nanos(&json["ready_ns"]), task.ready());
        assert_eq!(nanos(&json["start_ns"]), task.start());
        assert_eq!(nanos(&json["end_ns"]), task.end());
        assert_eq!(nanos(&json["completed_ns"]), task.completed());
        assert_eq!(json["ending"], task.ending().to_string());
        assert_eq!(json["critical"], task.is_critical());
        let waits = json["waits_ns"].as_array().unwrap().iter();
        let waits: Vec<_> = waits.map(|wait| nanos(&wait[0])..nanos(&wait[1])).collect();
        assert_eq!(waits, task.waits());
    }
    let not_run = parsed["not_run"].as_array().unwrap();
    assert_eq!(not_run.len(), 2);
    for (json, task) in not_run.iter().zip(timeline.not_run()) {
        assert_eq!(
            (&json["task"], &json["run"]),
            (&task.index().into(), &task.run().into())
        );
        assert_eq!(
            (json["name"].as_str(), json["ending"].as_str().unwrap()),
            (Some(task.name()), &*task.ending().to_string())
        );
    }
    let empty: serde_json::Value = serde_json::from_str(&json(&Timeline::new(0, [], []))).unwrap();
    assert_eq!(empty["tasks"], serde_json::json!([]));
}

#[test]
fn the_critical_path_is_drawn_alone() {
    within(LIMIT, || {
        let mut plan = sleeping_diamond();
        plan.record(true);
        plan.run_on(&pool(1)).unwrap();
        let (description, timeline) = (plan.describe(), plan.timeline());
        let drawn = Dot::new(&description).critical_path(&timeline).draw();
        assert_eq!(
            drawn.matches("label=").count(),
            timeline.critical_path().count()
        );
        assert_eq!(drawn.matches("->").count(), 2, "{drawn}");
        assert!(drawn.contains("last <&amp;>\\n"));

        let mut laps = ten_laps();
        laps.record(true);
        laps.run_on(&pool(1)).unwrap();
        let (description, timeline) = (laps.describe(), laps.timeline());
        let drawn = Dot::new(&description).critical_path(&timeline).draw();
        assert_eq!(drawn.matches(", 10 times").count(), 2, "{drawn}");
        assert!(drawn.contains("t2 -> t1 [style=dashed];"), "{drawn}");
    });
}

#[test]
fn a_large_graph_is_drawn_in_clusters() {
    let graph = Graph::new();
    let link = graph.task("link", || ());
    for n in 0..1_000 {
        let object = graph.task(format!("object {n}"), || ());
        graph.task(format!("check{n}"), || ()).succeed(object);
        object.precede(link);
    }
    graph.linearize([graph.task("end/a", || ()), graph.task("end/b \"", || ())]);
    let description = graph.describe();
    let drawn = Dot::new(&description)
        .clusters(prefix)
        .max_listed(10)
        .draw();
    for line in [
        "t0 [label=\"link\"];",
        "c1 [label=\"object\\n1000 tasks\", shape=box3d, style=filled, fillcolor=lightgrey];",
        "c1 -> c2 [label=\"1000\"];",
        "c1 -> t0 [label=\"1000\"];",
        "subgraph cluster_3 {",
        "t2001 -> t2002;",
    ] {
        assert!(
            drawn.lines().any(|found| found.trim() == line),
            "{line} in\n{drawn}"
        );
    }
    // Every task in its cluster, if none is too large.
    let drawn = Dot::new(&description).clusters(prefix).draw();
    assert_eq!(drawn.matches("subgraph").count(), 3);
    assert_eq!(drawn.matches("->").count(), description.edges.len());
    // Graphs inside tasks are left out.
    let drawn = Dot::new(&module_and_subflow().describe())
        .clusters(prefix)
        .draw();
    assert!(
        drawn.contains("t0 -> t1;") && !drawn.contains("soap"),
        "{drawn}"
    );
}
