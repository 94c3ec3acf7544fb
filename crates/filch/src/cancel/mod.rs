#![doc = include_str!("cancel.md")]

mod drops;
mod future;
mod list;
mod listener;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod nesting;
mod node;
mod registration;
mod state;
#[cfg(all(test, not(filch_loom)))]
mod tests;
mod token;

pub use future::Cancelled;
pub(crate) use listener::{OnCancel, TaskBatch};
pub use registration::Registration;
pub use state::CancelReason;
pub(crate) use token::Watch;
pub use token::{CancelToken, DropGuard};
