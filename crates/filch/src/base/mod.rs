//! The lowest layer: atomics, the operating system, randomness, errors.
//!
//! Nothing in here knows of workers, tasks or queues.

pub mod canary;
pub mod error;
pub mod latch;
pub mod padded;
#[cfg(all(test, not(filch_loom)))]
pub(crate) mod properties;
pub mod rng;
pub(crate) mod sync;
pub(crate) mod sys;
pub(crate) mod thread;
pub mod unwind;
pub(crate) mod word;

pub use thread::Driver;
