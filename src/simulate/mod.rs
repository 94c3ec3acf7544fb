//! The scheduler in a test tube: the production engine, driven by virtual workers in virtual time.
//!
//! A [`Simulation`] calls the same [`Core`](crate::engine::Core) and the same
//! [`Worker::step`](crate::engine::Worker::step) as the threads of a pool, but from one thread and in an
//! order that a seed decides. So a run can be repeated exactly, a worker can be stopped wherever it hurts,
//! a hundred workers need no hundred cores, and after every move it is known what should be true.
//!
//! ```
//! use filch::simulate::{Case, Program, Simulation};
//!
//! // A thousand random cases; `cargo run --features simulate --example simulate` does more.
//! # let thousand = 20;
//! for seed in 0..thousand {
//!     if let Err(failure) = Simulation::from_seed(seed).run() {
//!         panic!("{failure}"); // says which rule was broken, and gives the command that repeats it
//!     }
//! }
//!
//! // A case of one's own: a binary tree of tasks on 64 workers.
//! let outcome = Simulation::new(Case::new(64, Program::tree(10, 2, 500)))?.run()?;
//! println!("{outcome}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Words
//!
//! - A [`Case`] is everything that decides how a run goes: [`Config`], [`Program`], [`Fault`]s and a
//!   [`Scheduler`]. It is plain data, and JSON on disk.
//! - A *move* is one step of one worker, or its coming, waking or leaving, or one thing from outside.
//! - A task has a [`Level`](crate::engine::Level), or a worker that should run it ([`Op::SpawnAt`], [`Op::SpawnFor`]).
//! - An [`Oracle`] is a rule that is checked after every move. A run that breaks one ends in a [`Failure`],
//!   which [shrinks](Failure::shrink) and can be [saved](Failure::save).
//!
//! # Time
//!
//! Virtual, in ticks. A move costs what [`Costs`] says, and its worker cannot move again before that has
//! passed; a task's own work is paid at its end, when what it spawned can be seen and stolen already.
//! With [`Scheduler::RoundRobin`] whoever is due moves, as if there were a core for every worker. The
//! other schedulers may let anybody be late, as a busy machine does, and may stop a worker in the
//! middle of a move, wherever the engine tells its observer something: between a push and the look at the
//! sleepers, between a search in vain and the announcement of sleep, between picking a sleeper and
//! calling it.
//!
//! # What it cannot find
//!
//! Everything happens in one order that all workers agree on, so a missing fence goes unnoticed, and
//! between two events a move is never interrupted. The model checker looks there, at a few steps; the
//! simulator looks at whole programs.

mod case;
mod config;
mod curve;
mod error;
mod fault;
mod generate;
mod layout;
mod ledger;
mod oracle;
mod outcome;
mod program;
mod run;
mod schedule;
mod shrink;
mod simulation;
mod stage;
mod state;
mod waiting;

pub use case::Case;
pub use config::{Config, Costs, Idle, Overflow, Queues};
pub use curve::{Curve, Point};
pub use error::CaseError;
pub use fault::Fault;
pub use oracle::Oracle;
pub use outcome::{Failure, Outcome, Trace, What};
pub use program::{Act, Body, Op, Outside, Program};
pub use schedule::{Move, Preempt, Scheduler};
use simulation::Plan;
pub use simulation::Simulation;
