#![doc = include_str!("future.md")]

mod block_on;
mod cell;
mod error;
mod group;
mod handle;
mod local;
mod local_queue;
mod scope;
mod spawn;
mod task_local;
mod yields;

pub use block_on::block_on;
pub use error::FutureError;
pub use group::FutureGroup;
pub use handle::{AbortHandle, FutureHandle};
pub use local::{LocalHandle, LocalSet, spawn_local};
pub use scope::{FutureScope, ScopedHandle, scope};
pub use spawn::spawn_future;
pub use task_local::TaskLocal;
#[doc(hidden)]
pub use task_local::TaskLocalStack;
pub use yields::{YieldNow, checkpoint, yield_now};
