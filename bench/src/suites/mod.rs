//! What is measured: a suite is a list of cases.

mod executor;
mod idle;
mod queue;
mod wake;

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
        about: "time from a spawn into a sleeping pool to the task's start",
        cases: wake::cases,
    },
];
