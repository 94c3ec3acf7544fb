//! The suites. A suite is a list of cases.

mod balance;
mod board;
mod data;
mod executor;
mod fold;
pub(crate) mod future;
mod graph;
mod http;
mod idle;
mod join;
mod mixed;
mod queue;
mod small;
mod sort;
mod spawn;
mod submit;
mod symbolic;
mod traps;
mod wake;
mod work;

use crate::harness::{Case, Config};

/// A group of cases.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cases: fn(&Config) -> Vec<Case>,
}

/// All suites.
pub(crate) const ALL: &[Suite] = &[
    Suite {
        name: "queue",
        about: "the deque and the injector in isolation",
        cases: queue::cases,
    },
    Suite {
        name: "executor",
        about: "a million empty tasks, spawned from outside and by tasks",
        cases: executor::cases,
    },
    Suite {
        name: "idle",
        about: "CPU time of an idle pool",
        cases: idle::cases,
    },
    Suite {
        name: "wake",
        about: "latency of a spawn into a sleeping pool; CPU time of a nearly idle pool",
        cases: wake::cases,
    },
    Suite {
        name: "join",
        about: "trees of joins without a sequential cutoff",
        cases: join::cases,
    },
    Suite {
        name: "spawn",
        about: "tasks in scopes, and detached tasks",
        cases: spawn::cases,
    },
    Suite {
        name: "traps",
        about: "shapes that are hard for schedulers",
        cases: traps::cases,
    },
    Suite {
        name: "small",
        about: "small calls from outside of the pool",
        cases: small::cases,
    },
    Suite {
        name: "sort",
        about: "sorting numbers by joins",
        cases: sort::cases,
    },
    Suite {
        name: "submit",
        about: "empty tasks with results, submitted from outside and by tasks",
        cases: submit::cases,
    },
    Suite {
        name: "balance",
        about: "tasks of equal and unequal lengths, compared with a pool with one queue",
        cases: balance::cases,
    },
    Suite {
        name: "graph",
        about: "graphs of tiny tasks: built, run, and run again",
        cases: graph::cases,
    },
    Suite {
        name: "future",
        about: "futures: spawned, joined, woken; memory of pending futures",
        cases: future::cases,
    },
    Suite {
        name: "mixed",
        about: "lateness of a timer beside computations on all workers",
        cases: mixed::cases,
    },
    Suite {
        name: "http",
        about: "an HTTP server on loopback: trivial requests, and some that compute",
        cases: http::cases,
    },
    Suite {
        name: "fold",
        about: "trees of several shapes, folded with each strategy",
        cases: fold::cases,
    },
    Suite {
        name: "data",
        about: "loops over data: sums, maps, sorts, images, searches; large, and small from outside",
        cases: data::cases,
    },
    Suite {
        name: "symbolic",
        about: "computer algebra: polynomial products, derivatives, simplification, evaluation",
        cases: symbolic::cases,
    },
];
