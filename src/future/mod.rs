#![doc = include_str!("future.md")]

mod block_on;
mod cell;
mod error;
mod handle;
mod spawn;
mod yields;

pub use block_on::block_on;
pub use error::FutureError;
pub use handle::{AbortHandle, FutureHandle};
pub use spawn::spawn_future;
pub use yields::{YieldNow, checkpoint, yield_now};
