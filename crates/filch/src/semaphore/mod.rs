#![doc = include_str!("semaphore.md")]

mod acquire;
mod all;
mod error;
mod future;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod permit;
mod queue;
mod request;
mod state;
mod units;
mod wait;

pub use error::AcquireError;
pub use future::{Acquire, AcquireAll};
pub use permit::Permit;
pub use state::Semaphore;

pub(crate) use queue::{AcquireOutcome, Continuation, Notify};
pub(crate) use request::{EnterResult, cancel, enter, put_back, serve_all, sum_up, try_take};
pub(crate) use state::Wants;
