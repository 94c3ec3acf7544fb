#![doc = include_str!("future.md")]

mod block_on;
mod budget;
mod cell;
mod error;
mod group;
mod group_members;
mod handle;
mod local;
mod local_group;
mod local_handle;
mod local_queue;
mod resize_every;
mod scope;
mod spawn;
mod task_local;
mod yields;

pub use block_on::block_on;
pub use budget::{consume_budget, cooperative, poll_cooperative};
pub use error::FutureError;
pub use group::{FutureGroup, GroupHandle, HandleGroup};
pub use handle::{CancelHandle, FutureHandle};
pub use local::{LocalSet, spawn_local};
pub use local_group::LocalGroup;
pub use local_handle::LocalHandle;
pub use scope::{FutureScope, ScopedHandle, scope};
pub use spawn::{FutureBuilder, spawn_future};
pub use task_local::TaskLocal;
#[doc(hidden)]
pub use task_local::TaskLocalStack;
pub use yields::{YieldNow, checkpoint, yield_now};
