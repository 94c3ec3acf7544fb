//! Fork and join: two closures in parallel, tasks that borrow, tasks for every worker.
//!
//! # Waiting
//!
//! A worker that waits, in [`join`] for a stolen half or at the end of a [`scope`], does not idle:
//! it runs other tasks. It takes its own newest ones first, which are most likely those it waits
//! for; then any others. Two mechanisms bound this:
//!
//! - **The stack.** A task that runs inside of a wait may wait itself, and so on. When a thread has
//!   used more than half of its stack, its waits run only tasks of its own queue, and sleep when
//!   there are none. That cannot deadlock: what it waits for is running on another worker, or in a
//!   queue whose owner runs it.
//! - **Locks.** A task that is picked up while waiting may want a lock that the waiting task holds.
//!   [`isolate`] marks code that waits with a lock held: waits inside run only what was queued
//!   inside. The guard of a [`sync::Mutex`](crate::sync::Mutex) does so by itself.
//!
//! # Panics
//!
//! All work is finished before a panic propagates: [`join`] finishes both sides, [`scope`] all
//! tasks. The first panic propagates; others are passed to the pool's
//! [`on_panic`](crate::PoolBuilder::on_panic).
//!
//! # Threads from outside
//!
//! A thread that is not a worker becomes one for the duration of its call, instead of handing its
//! work over and sleeping. So a small parallel region costs about as much from outside as from
//! inside. Where that is not wanted, [`Pool::on_worker`](crate::Pool::on_worker) and
//! [`Pool::in_place_scope`](crate::Pool::in_place_scope) leave the work to the pool's own threads.

mod broadcast;
mod join;
mod outside;
mod scope;
mod spawn;

pub use broadcast::{broadcast, spawn_broadcast};
pub(crate) use join::join_on;
pub use join::{JoinContext, join, join_context};
pub use scope::{Scope, scope};
pub use spawn::{has_local_tasks, isolate, spawn, yield_local, yield_now};
