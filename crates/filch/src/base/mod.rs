//! The lowest layer: atomics, the operating system, randomness, errors.
//!
//! Nothing in here knows of workers, tasks or queues.

pub mod canary;
pub mod error;
pub mod latch;
pub mod padded;
pub mod rng;
pub(crate) mod sync;
#[cfg(filch_loom)]
pub mod sys;
#[cfg(not(filch_loom))]
pub(crate) mod sys;
#[cfg(filch_loom)]
pub mod thread;
#[cfg(not(filch_loom))]
pub(crate) mod thread;
pub mod unwind;
pub(crate) mod word;

pub use thread::Driver;
/// The types that the model checker tests.
#[cfg(filch_loom)]
#[doc(hidden)]
pub mod model {
    pub use super::thread::model::ParkWord;
}
