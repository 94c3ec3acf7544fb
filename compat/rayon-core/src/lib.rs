//! The interface of rayon-core 1.13, on the workers of [filch](filch).
//!
//! A program that patches its `rayon-core` with this package keeps its source and its other crates,
//! including rayon's iterators, and runs on filch's scheduler:
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { path = "filch/compat/rayon-core" }
//! ```
//!
//! Closures run where they do with the original: everything passed to a pool runs on the pool's own
//! threads, where [`current_thread_index`] is below [`current_num_threads`]. A calling thread from
//! outside sleeps meanwhile. The `README.md` in the parent directory lists the differences.

mod broadcast;
mod builder;
mod configuration;
mod error;
mod here;
mod join;
mod pool;
mod registry;
mod scope;
mod spawn;
mod threads;
mod yields;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::ThreadPoolBuilder;
#[expect(deprecated, reason = "part of the interface")]
pub use configuration::{Configuration, initialize};
pub use error::ThreadPoolBuildError;
pub use join::{FnContext, join, join_context};
pub use pool::ThreadPool;
pub use registry::{
    current_num_threads, current_thread_has_pending_tasks, current_thread_index, max_num_threads,
};
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use spawn::{spawn, spawn_fifo};
pub use threads::ThreadBuilder;
pub use yields::{Yield, yield_local, yield_now};
