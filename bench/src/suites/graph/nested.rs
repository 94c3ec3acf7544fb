//! Graphs inside tasks, and tasks that follow two others: what a graph or a dependency costs that
//! is made once and used once.

use super::{
    Place,
    dynamic::{call_all, plan, planned, sampling},
    places,
};
use crate::{
    forks::{Filch, Rayon, Seq},
    harness::{Case, Config, ToSeq},
    suites::work::fork_case,
};
use filch::{Graph, Plan, Pool, TaskHandle, graph::Subflow};
use rayon::{Scope, ThreadPool};

/// The number of tasks of a module.
const INSIDE: usize = 10;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    cases_of(config, config.pick(16, 20), config.pick(10_000, 100_000))
}

/// The cases, with the Fibonacci number `n` and graphs of `tasks` tasks.
pub(super) fn cases_of(config: &Config, n: usize, tasks: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, systems: &dyn Fn(Case, usize) -> Case| {
        for workers in config.workers(&[1, 2]) {
            let case = fork_case(name, workers, config).rounds(1, config.pick(3, 9));
            cases.push(systems(case.beside_seq(ToSeq::Time), workers));
        }
    };
    add("subflow_fib", &|case, workers| fib(case, workers, n));
    add("module_small", &|case, workers| {
        case.system("filch", plan(workers, tasks, 1, move || modules(tasks)))
            .system(
                "seq",
                sampling::<Seq, _>(workers, tasks, 1, move || call_all(tasks)),
            )
    });
    add("runtime_spawn", &|case, workers| {
        case.system("filch", plan(workers, tasks, 1, move || spawns(tasks)))
            .system(
                "rayon",
                sampling::<Rayon, _>(workers, tasks, 1, move || scope_of(tasks)),
            )
            .system(
                "seq",
                sampling::<Seq, _>(workers, tasks, 1, move || call_all(tasks)),
            )
    });
    add("submit_after", &|case, workers| {
        case.system(
            "filch",
            sampling::<Filch, _>(workers, tasks, 1, move || submit_after(tasks)),
        )
        .system(
            "seq",
            sampling::<Seq, _>(workers, tasks, 1, move || call_all(tasks)),
        )
    });
    cases
}

/// The number of calls in the recursive computation of each Fibonacci number.
const CALLS: [usize; 24] = {
    let mut calls = [1; 24];
    let mut n = 2;
    while n < calls.len() {
        calls[n] = 1 + calls[n - 1] + calls[n - 2];
        n += 1;
    }
    calls
};

/// A subflow for each call, which marks its place. An operation is a subflow.
fn fib(case: Case, workers: usize, n: usize) -> Case {
    let all = CALLS[n];
    let flows = move || {
        let graph = Graph::new();
        graph.subflow("", move |flow| fib_flow(flow, n, &places()[..all]));
        planned(graph)
    };
    let scopes = move |pool: &ThreadPool| {
        pool.scope(|scope| fib_scope(scope, n, &places()[..all]));
    };
    case.system("filch", plan(workers, all, 1, flows))
        .system(
            "rayon",
            sampling::<Rayon, _>(workers, all, 1, move || scopes),
        )
        .system(
            "seq",
            sampling::<Seq, _>(workers, all, 1, move || {
                move |(): &()| fib_calls(n, &places()[..all])
            }),
        )
}

/// Marks the first place, and divides the others between the two calls.
fn split(n: usize, places: &'static [Place]) -> Option<(&'static [Place], &'static [Place])> {
    places[0].mark();
    (n >= 2).then(|| places[1..].split_at(CALLS[n - 1]))
}

fn fib_flow(flow: &Subflow<'static>, n: usize, places: &'static [Place]) {
    if let Some((left, right)) = split(n, places) {
        flow.subflow("", move |flow| fib_flow(flow, n - 1, left));
        flow.subflow("", move |flow| fib_flow(flow, n - 2, right));
    }
}

fn fib_scope(scope: &Scope<'_>, n: usize, places: &'static [Place]) {
    if let Some((left, right)) = split(n, places) {
        scope.spawn(move |scope| fib_scope(scope, n - 1, left));
        scope.spawn(move |scope| fib_scope(scope, n - 2, right));
    }
}

fn fib_calls(n: usize, places: &'static [Place]) {
    if let Some((left, right)) = split(n, places) {
        fib_calls(n - 1, left);
        fib_calls(n - 2, right);
    }
}

/// Modules of [`INSIDE`] tasks, which are the operations.
fn modules(tasks: usize) -> Plan<'static> {
    let graph = Graph::with_capacity(tasks / INSIDE);
    for places in places()[..tasks].chunks(INSIDE) {
        let inside = Graph::with_capacity(INSIDE);
        for place in places {
            inside.task("", || place.mark());
        }
        graph.module("", planned(inside));
    }
    planned(graph)
}

/// A task that spawns all others, and waits for them.
fn spawns(tasks: usize) -> Plan<'static> {
    let graph = Graph::new();
    graph.runtime("", move |runtime| {
        for place in &places()[..tasks] {
            runtime.spawn(|_| place.mark());
        }
        runtime.wait();
    });
    planned(graph)
}

fn scope_of(tasks: usize) -> impl FnMut(&ThreadPool) {
    move |pool| {
        pool.scope(|scope| {
            for place in &places()[..tasks] {
                scope.spawn(|_| place.mark());
            }
        });
    }
}

/// Tasks that each start when the two before them have ended.
fn submit_after(tasks: usize) -> impl FnMut(&Pool) {
    move |pool| {
        pool.install(|| {
            let mut handles = [filch::submit(|| ()), filch::submit(|| ())];
            for place in &places()[..tasks] {
                let next = filch::submit_after((&handles[0], &handles[1]), || place.mark());
                handles.rotate_left(1);
                handles[1] = next;
            }
            // Runs the tasks in the order in which they become ready. A join would begin at the
            // last.
            while !handles.iter().all(TaskHandle::is_finished) {
                filch::yield_now();
            }
        });
    }
}
