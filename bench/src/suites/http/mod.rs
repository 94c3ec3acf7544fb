//! An HTTP server with trivial handlers, and one in which some requests compute.
//!
//! All systems run hyper's server. The load is closed: [`load::CONNECTIONS`] connections, each with
//! one request at a time, on [`load::THREADS`] threads that share the cores with the server. A
//! reading is the time from a request to its response. All traffic is on the loopback interface.

mod load;
mod server;
mod systems;

use crate::{
    harness::{Case, Config, Unit},
    pin::Placement,
};
use std::time::Duration;

/// The CPU time of a request that computes.
const COMPUTATION: Duration = Duration::from_millis(20);

/// One request in this many computes.
const COMPUTES: u32 = 100;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let case = |name| {
        // Each sample has a warm-up of its own.
        Case::new(name, 2, config)
            .rounds(0, config.pick(3, 7))
            .unit(Unit::Micros)
            .placement(Placement::Free)
    };
    let trivial = load::Load {
        window: config.pick(Duration::from_millis(300), Duration::from_millis(1000)),
        computes: None,
    };
    let mixed = load::Load {
        window: config.pick(Duration::from_millis(1000), Duration::from_millis(2000)),
        computes: Some(COMPUTES),
    };
    vec![
        systems::trivial(case("trivial"), trivial),
        systems::mixed(case("cpu_1_percent"), mixed),
    ]
}
