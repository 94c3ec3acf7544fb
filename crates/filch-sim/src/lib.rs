//! A deterministic simulator of the scheduler of [filch]: the production engine, driven by virtual
//! workers in virtual time. It shows what a schedule does, on 64 workers for example, and finds the
//! order of events that breaks an invariant of the scheduler.
//!
//! A [`Simulation`] calls the same [`Core`](filch::engine::Core) and the same
//! [`Worker::step`](filch::engine::Worker::step) as the threads of a pool, but from one thread and
//! in an order that a seed decides. So a run can be repeated exactly, a worker can be preempted at
//! any event, a hundred workers need no hundred cores, and the invariants can be checked after
//! every move.
//!
//! ```
//! use filch_sim::{Case, Program, Simulation};
//!
//! // A thousand random cases; `cargo run -p filch-sim --example simulate` does more.
//! # let thousand = 20;
//! for seed in 0..thousand {
//!     if let Err(failure) = Simulation::from_seed(seed).run() {
//!         panic!("{failure}"); // names the broken rule and the command that repeats it
//!     }
//! }
//!
//! // A hand-written case: a binary tree of tasks on 64 workers.
//! let outcome = Simulation::new(Case::new(64, Program::tree(10, 2, 500)))?.run()?;
//! println!("{outcome}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Terms
//!
//! - A [`Case`] is the complete input of a run: [`Config`], [`Program`], [`Fault`]s and a
//!   [`Scheduler`]. It is plain data, and JSON on disk.
//! - A *move* is one step of one worker, or its entering, waking or leaving, or one external event.
//! - A task has a [`Priority`](filch::engine::Priority), or an affinity to a worker
//!   ([`Op::SpawnAt`], [`Op::SpawnFor`]).
//! - An [`Oracle`] is a rule that is checked after every move. A run that breaks one ends in a
//!   [`Failure`], which [shrinks](Failure::shrink) and can be [saved](Failure::save).
//!
//! # Time
//!
//! Time is virtual, in ticks. [`Costs`] defines the cost of a move, and its worker cannot move
//! again before that time has passed. A task's own work is charged at its end, when the tasks that
//! it spawned are already visible and can be stolen. With [`Scheduler::RoundRobin`] every worker
//! moves when it is due, as if there were a core for every worker. The other schedulers may delay
//! any worker, as a busy machine does, and may preempt a worker in the middle of a move, wherever
//! the engine notifies its observer: between a push and the check for sleepers, between a failed
//! search and the announcement of sleep, between choosing a sleeper and unparking it.
//!
//! # Scale
//!
//! With [`Config::groups`] workers have distances, and [`Costs`] charges probes and steals by them.
//! [`Scaling`] runs a [`Workload`] with up to a thousand workers on a [`Machine`], and
//! `cargo run --release -p filch-sim --example scale` writes tables and curves. All of that is
//! simulated: it compares schedules, and measures nothing.
//!
//! # What it cannot find
//!
//! A run is sequentially consistent, so a missing fence goes unnoticed, and between two events a
//! move is never interrupted. The loom models cover both, for a few steps; the simulator covers
//! whole programs.

mod bound;
mod case;
mod charge;
mod compile;
mod config;
mod curve;
mod error;
mod fault;
mod generate;
mod layout;
mod ledger;
mod oracle;
mod outcome;
mod probes;
mod program;
mod remote;
mod run;
mod scale;
mod schedule;
mod shrink;
mod simulation;
mod stage;
mod state;
mod unwind;
mod waiting;
mod workload;

pub use case::Case;
pub use config::{Config, Costs, Idle, Overflow, Queues, VictimOrder};
pub use curve::{Curve, Point};
pub use error::CaseError;
pub use fault::Fault;
pub use oracle::Oracle;
pub use outcome::{Failure, Outcome, Trace, What};
pub use program::{Act, Body, Join, Op, Outside, Program};
pub use scale::{Machine, Metric, ScalePoint, Scaling, WorkerTime, table};
pub use schedule::{Move, Preempt, Scheduler};
use simulation::Plan;
pub use simulation::Simulation;
pub use workload::Workload;
