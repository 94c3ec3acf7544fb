//! Fork and join: two closures in parallel, tasks that borrow, tasks for every worker.
//!
//! # Waiting
//!
//! A worker that waits, in [`join`] for a stolen half or at the end of a [`scope`], does not idle:
//! it runs other tasks. Urgent ones (High, Critical) come first, then related ones: what the
//! current task has queued, newest first, and what the worker that runs the stolen half has queued.
//! When it has found none for 10 to 50 µs, it runs any other task, once it has waited for as long
//! as such tasks recently took on this thread (at most 10 ms). If unrelated tasks recently took
//! less than 50 µs, it does not hold them back, except while it knows which worker runs what it
//! waits for. Two mechanisms bound what a wait runs:
//!
//! - **The stack.** A task that runs inside a wait may wait itself, and so on. When a thread has
//!   used more than half of its stack, a wait runs only what this worker has queued since the
//!   `join` or `scope` began, and tasks that are pinned to this worker ([`broadcast`]); it sleeps
//!   when there are none. (A wait for a submitted task runs what was queued since that wait began,
//!   a wait for a future what the current task has queued.) A stolen half is running on another
//!   worker, so a `join` ends. A wait for work in a shared queue (a task that a thread from outside
//!   spawns into the scope, a future that is woken from outside) needs another worker that is not
//!   in this state.
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
mod scope_limit;
mod scope_state;
mod spawn;
mod worker;

pub use broadcast::{broadcast, spawn_broadcast};
pub(crate) use join::join_on;
pub use join::{JoinContext, join, join_context};
pub use scope::{Scope, scope};
pub use spawn::{has_local_tasks, isolate, spawn, yield_local, yield_now};
pub use worker::{CurrentWorker, with};
