//! Graphs as plain data.
#![cfg(not(filch_loom))]

use crate::{
    graphs::{deep_modules, mixed_kinds, module_and_subflow},
    support::{LIMIT, in_a_child, pool, within},
};
use filch::{
    Graph, Semaphore,
    graph::{Description, TaskKind},
};

fn names(description: &Description) -> Vec<&str> {
    let tasks = description.tasks.iter();
    tasks.map(|task| &task.name[..]).collect()
}

#[test]
fn a_graph_and_its_plan_have_one_description() {
    let graph = mixed_kinds("first");
    let maybe = graph.get(2).unwrap();
    maybe.succeed(graph.task("start", || ()));
    let mut of_graph = graph.describe();
    assert_eq!(
        names(&of_graph),
        ["first", "maybe?", "later", "task 4", "start"]
    );
    let kinds: Vec<_> = of_graph.tasks.iter().map(|task| task.kind).collect();
    assert_eq!(
        kinds[..3],
        [TaskKind::Plain, TaskKind::Condition, TaskKind::Empty]
    );
    let mut of_plan = graph.plan().unwrap().describe();
    of_graph.edges.sort_unstable();
    of_plan.edges.sort_unstable();
    assert_eq!(of_graph.edges, [(0, 1), (0, 3), (1, 0), (1, 2), (4, 1)]);
    assert_eq!(of_graph, of_plan);
}

#[test]
fn modules_and_retained_subflows_are_inside_their_tasks() {
    within(LIMIT, || {
        let graph = module_and_subflow();
        let before = graph.describe();
        assert_eq!(names(&before), ["wash", "kept", "soap", "rinse"]);
        assert_eq!(before.edges, [(0, 1), (2, 3)]);
        assert_eq!(before.tasks[3].inside, Some(0));
        let mut plan = graph.plan().unwrap();
        plan.run_on(&pool(1)).unwrap();
        let after = plan.describe();
        assert_eq!(names(&after), ["wash", "kept", "soap", "rinse", "grain"]);
        assert_eq!(after.tasks[4].inside, Some(1));
        // A description takes nothing away.
        assert_eq!(after, plan.describe());
        plan.run_on(&pool(1)).unwrap();
        assert_eq!(after, plan.describe());
    });
}

#[test]
fn a_limit_lists_its_tasks_in_all_graphs() {
    let (tools, desk) = (Semaphore::new(2), Semaphore::new(1));
    let inner = Graph::new();
    inner.task("", || ()).acquire([&tools]);
    let graph = Graph::new();
    graph.task("", || ()).acquire([&tools, &desk]);
    graph.module("", inner.plan().unwrap());
    graph.task("", || ()).acquire([&tools]);
    for description in [graph.describe(), graph.plan().unwrap().describe()] {
        let limits = description.limits.iter();
        let mut limits: Vec<_> = limits.map(|l| (l.permits, &l.tasks[..])).collect();
        limits.sort_unstable();
        assert_eq!(limits, [(1, &[0][..]), (2, &[0, 2, 3])]);
    }
}

#[test]
fn modules_a_hundred_thousand_deep_are_described_on_the_default_stack() {
    in_a_child(
        "describe::modules_a_hundred_thousand_deep_are_described_on_the_default_stack",
        || {
            let description = deep_modules(|| ()).describe();
            assert_eq!(description.tasks.len(), 100_001);
            assert_eq!(description.tasks[100_000].inside, Some(99_999));
            assert_eq!(description.clone(), description);
        },
    );
}
