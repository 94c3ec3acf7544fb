//! What is measured: a suite is a list of cases.

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

/// Cases that belong together.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cases: fn(&Config) -> Vec<Case>,
}

/// Every suite there is.
pub(crate) const ALL: &[Suite] = &[
    Suite {
        name: "queue",
        about: "the deque and the injector by themselves",
        cases: queue::cases,
    },
    Suite {
        name: "executor",
        about: "a million empty tasks, spawned from outside and by tasks",
        cases: executor::cases,
    },
    Suite {
        name: "idle",
        about: "CPU time of a pool that has nothing to do",
        cases: idle::cases,
    },
    Suite {
        name: "wake",
        about: "time from a spawn into a sleeping pool to the task's start; CPU time of a pool with little to do",
        cases: wake::cases,
    },
    Suite {
        name: "join",
        about: "trees of joins, down to the smallest",
        cases: join::cases,
    },
    Suite {
        name: "spawn",
        about: "tasks in scopes, and tasks that nobody waits for",
        cases: spawn::cases,
    },
    Suite {
        name: "traps",
        about: "shapes that schedulers stumble over",
        cases: traps::cases,
    },
    Suite {
        name: "small",
        about: "small jobs from outside of the pool",
        cases: small::cases,
    },
    Suite {
        name: "sort",
        about: "sorting numbers by joins",
        cases: sort::cases,
    },
    Suite {
        name: "submit",
        about: "empty tasks whose results are wanted, submitted from outside and by tasks",
        cases: submit::cases,
    },
    Suite {
        name: "balance",
        about: "tasks of equal and unequal lengths, beside one queue for all workers",
        cases: balance::cases,
    },
    Suite {
        name: "graph",
        about: "graphs of tiny tasks: built, run, and run again",
        cases: graph::cases,
    },
    Suite {
        name: "future",
        about: "futures: spawned, joined, woken; bytes of those that wait",
        cases: future::cases,
    },
    Suite {
        name: "mixed",
        about: "how late a future ticks beside computations that fill the machine",
        cases: mixed::cases,
    },
    Suite {
        name: "http",
        about: "a web server on loopback: trivial requests, and some that compute",
        cases: http::cases,
    },
    Suite {
        name: "fold",
        about: "trees of several shapes, folded with every strategy",
        cases: fold::cases,
    },
    Suite {
        name: "data",
        about: "loops over data: sums, maps, sorts, pictures, searches; large, and small ones from outside",
        cases: data::cases,
    },
    Suite {
        name: "symbolic",
        about: "computer algebra: products of polynomials, derivatives, simplification, values",
        cases: symbolic::cases,
    },
];
