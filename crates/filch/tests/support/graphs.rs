//! Graphs that several tests of graphs, of their descriptions and of their drawings use.
#![allow(dead_code, reason = "every test file uses some of it")]

use crate::support::pool;
use filch::{Graph, Plan, Pool};
use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

/// Pools with none, one, two and four workers.
pub(crate) fn pools() -> [Pool; 4] {
    [0, 1, 2, 4].map(pool)
}

/// `first`, then `short` and `long` at the same time, then `last <&>`: tasks that sleep.
pub(crate) fn sleeping_diamond() -> Plan<'static> {
    let graph = Graph::new();
    let sleep = |millis| move || thread::sleep(Duration::from_millis(millis));
    let first = graph.task("first", sleep(2));
    let short = graph.task("short", sleep(1));
    let long = graph.task("long", sleep(30));
    let last = graph.task("last <&>", sleep(2));
    first.precede([short, long]);
    last.succeed([short, long]);
    graph.plan().unwrap()
}

/// `begin`, ten times `lap` and `again?`, and `end`: 22 tasks a run.
pub(crate) fn ten_laps() -> Plan<'static> {
    let mut laps = 0;
    let graph = Graph::new();
    let begin = graph.task("begin", || ());
    let lap = graph.task("lap", || ());
    let again = graph.condition("again?", move || {
        laps += 1;
        usize::from(laps % 10 == 0)
    });
    let end = graph.task("end", || ());
    begin.precede(lap);
    lap.precede(again);
    again.precede([lap, end]);
    graph.plan().unwrap()
}

/// Two tasks that need two workers: each waits for the other.
pub(crate) fn two_at_once() -> Plan<'static> {
    let together = Arc::new(Barrier::new(2));
    let graph = Graph::new();
    for _ in 0..2 {
        let together = together.clone();
        graph.task("both", move || {
            together.wait();
        });
    }
    graph.plan().unwrap()
}

/// A task with this name, a condition that may go back to it, a placeholder and a task without a
/// name. No task is a source.
pub(crate) fn mixed_kinds(first: &'static str) -> Graph<'static> {
    let graph = Graph::new();
    let first = graph.task(first, || ());
    let maybe = graph.condition("maybe?", || 0);
    let later = graph.placeholder("later");
    let unnamed = graph.task("", || ());
    first.precede(maybe);
    maybe.precede([first, later]);
    first.precede(unnamed);
    graph
}

/// The module `wash` with two tasks, before the subflow `kept` with one, which is retained.
pub(crate) fn module_and_subflow() -> Graph<'static> {
    let inner = Graph::new();
    inner.linearize([inner.task("soap", || ()), inner.task("rinse", || ())]);
    let graph = Graph::new();
    let wash = graph.module("wash", inner.plan().unwrap());
    let retained = graph.subflow("kept", |sub| {
        sub.task("grain", || ());
        sub.retain();
    });
    wash.precede(retained);
    graph
}

/// A plan with modules a hundred thousand deep, of which the innermost has one task.
pub(crate) fn deep_modules<'env>(innermost: impl FnMut() + Send + 'env) -> Plan<'env> {
    let graph = Graph::new();
    graph.task("innermost", innermost);
    let mut plan = graph.plan().unwrap();
    for _ in 0..100_000 {
        let graph = Graph::new();
        graph.module("", plan);
        plan = graph.plan().unwrap();
    }
    plan
}
