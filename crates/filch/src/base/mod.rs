//! The lowest layer: atomics, the operating system, randomness, errors.
//!
//! Nothing in here knows of workers, tasks or queues.

pub(crate) mod budget;
#[cfg_attr(
    not(any(filch_loom, filch_canary)),
    expect(
        unreachable_pub,
        reason = "public only in builds that can switch a defect on"
    )
)]
pub mod canary;
pub(crate) mod error;
pub(crate) mod few_list;
pub(crate) mod host;
pub(crate) mod id_queue;
pub(crate) mod instant;
pub(crate) mod latch;
pub(crate) mod once_call;
pub(crate) mod padded;
#[cfg(all(test, not(filch_loom)))]
pub(crate) mod properties;
pub(crate) mod rng;
pub(crate) mod sync;
pub(crate) mod sys;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod unwind;
pub(crate) mod word;

pub use instant::Instant;
pub use thread::Driver;
