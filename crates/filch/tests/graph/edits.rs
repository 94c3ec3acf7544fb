//! Removing tasks and edges, and walking along edges.

use crate::support::{Drops, panic_of};
use filch::{
    Graph, Semaphore,
    graph::{Task, TemplateGraph},
};
use std::sync::Mutex;

fn names<'g, 'env: 'g>(tasks: impl Iterator<Item = Task<'g, 'env>>) -> Vec<String> {
    tasks.map(Task::name).collect()
}

#[test]
fn neighbours_follow_every_change() {
    let graph = Graph::new();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| graph.task(name, || ()));
    assert_eq!(names(a.successors()), [""; 0]);
    a.precede([c, b]);
    d.succeed([a, b]).succeed(a);
    assert_eq!(names(a.successors()), ["c", "b", "d", "d"]);
    assert_eq!(names(d.predecessors()), ["a", "b", "a"]);
    a.remove_successors([d, c]);
    assert_eq!(names(a.successors()), ["b"]);
    assert_eq!(names(d.predecessors()), ["b"]);
    // Changes while it walks.
    for task in a.successors() {
        task.precede(c);
        graph.task("more", || ());
    }
    assert_eq!(names(c.predecessors()), ["b"]);
    graph.remove(b);
    assert_eq!(names(c.predecessors().chain(a.successors())), [""; 0]);
    let graph = graph.plan().unwrap().edit();
    let e = graph.task("e", || ());
    graph.get(1).unwrap().precede(e);
    assert_eq!(names(e.predecessors()), ["a"]);
}

#[test]
fn removed_tasks_are_gone_and_the_others_keep_their_numbers() {
    let ran = Mutex::new(Vec::new());
    let (drops, tools) = (Drops::default(), Semaphore::new(1));
    let graph = Graph::new();
    let inside = Graph::new();
    let counted = drops.value();
    inside.task("", move || {
        let _keep = &counted;
    });
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let (ran, counted) = (&ran, drops.value());
            graph.task(format!("t{n}"), move || {
                let _keep = &counted;
                ran.lock().unwrap().push(n);
            })
        })
        .collect();
    graph.linearize(tasks.iter().copied());
    let module = graph.module("module", inside.plan().unwrap());
    tasks[1].acquire([&tools]).priority(3);
    graph.remove([tasks[4], tasks[1], module]);
    assert_eq!(drops.seen(), 3);
    assert_eq!((graph.len(), graph.get(2).is_none()), (4, true));
    assert_eq!(graph.get(3).unwrap().name(), "t2");
    assert_eq!(tasks[5].index(), 6);
    tasks[2].succeed(tasks[5]); // the chain is in pieces: t0, t2 → t3, t5
    let described = graph.describe();
    let described_names: Vec<_> = described.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(described_names, ["t0", "t2", "t3", "t5"]);
    assert_eq!(described.edges, [(1, 2), (3, 1)]);
    assert!(described.limits.is_empty());
    drop(tasks);
    let mut plan = graph.plan().unwrap();
    assert_eq!((plan.len(), plan.describe()), (4, described));
    assert_eq!(plan.run().unwrap().ran(), 4);
    let graph = plan.edit();
    assert_eq!((graph.len(), graph.task("new", || ()).index()), (4, 8));
    assert_eq!(graph.plan().unwrap().run().unwrap().ran(), 5);
    let mut ran = ran.into_inner().unwrap();
    ran.sort_unstable();
    assert_eq!(ran, [0, 0, 2, 2, 3, 3, 5, 5]);
}

#[test]
fn all_tasks_can_be_removed() {
    let graph = Graph::new();
    let tasks: Vec<_> = (0..3).map(|_| graph.task("", || ())).collect();
    graph.linearize(tasks.iter().copied());
    graph.remove(tasks);
    assert!(graph.is_empty());
    assert_eq!(graph.plan().unwrap().run().unwrap().ran(), 0);
}

#[test]
fn a_removed_choice_shifts_the_numbers_behind_it() {
    let chosen = Mutex::new("");
    let graph = Graph::new();
    let choose = graph.condition("?", || 1);
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        let chosen = &chosen;
        graph.task(name, move || *chosen.lock().unwrap() = name)
    });
    choose.precede([a, b, c]);
    choose.remove_successors(b);
    graph.remove(b);
    let mut plan = graph.plan().unwrap();
    plan.run().unwrap();
    assert_eq!(plan.unreachable().count(), 0);
    drop(plan);
    assert_eq!(chosen.into_inner().unwrap(), "c");
}

#[test]
fn uses_of_removed_tasks_are_errors() {
    let graph = Graph::new();
    let (a, b) = (graph.task("a", || ()), graph.task("b", || ()));
    graph.remove(a);
    assert_eq!(panic_of(|| graph.remove(a)), "a task was removed before");
    assert_eq!(panic_of(|| a.work(|| ())), "the task was removed or joined");
    a.precede(b);
    assert_eq!(
        graph.plan().unwrap_err().to_string(),
        "an edge was added to task 1, which had been removed or joined; do not use its handle"
    );
    let graph = Graph::new();
    let value = graph.value("value", || 1);
    graph.map("user", value, |n: &i32| n + 1);
    graph.remove(graph.task_of(value));
    assert_eq!(
        graph.plan().unwrap_err().to_string(),
        "user uses the value of a task that was removed; remove user as well"
    );
    let graph = Graph::new();
    let value = graph.value("value", || 1);
    let moved = graph.map("moved", value.moved(), |n: i32| n);
    let user = graph.map("user", value, |n: &i32| n + 1);
    graph.remove(graph.task_of(moved));
    let mut plan = graph.plan().unwrap();
    plan.run().unwrap();
    assert_eq!(plan.take(user), Some(2));
    panic_of(|| plan.take(moved));
}

#[test]
fn a_template_without_one_of_its_tasks() {
    let graph = TemplateGraph::new();
    let (a, b) = (
        graph.task("a", |n: &Mutex<u32>| *n.lock().unwrap() += 1),
        graph.task("b", |n: &Mutex<u32>| *n.lock().unwrap() += 10),
    );
    a.precede(b);
    graph.remove(a);
    let template = graph.template().unwrap();
    assert_eq!(
        (template.len(), template.instance(Mutex::new(0)).len()),
        (1, 1)
    );
    let data = std::sync::Arc::new(Mutex::new(0));
    assert_eq!(template.instance(data.clone()).run().unwrap().ran(), 1);
    assert_eq!(*data.lock().unwrap(), 10);
}
