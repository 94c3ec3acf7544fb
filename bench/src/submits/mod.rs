//! Systems that accept closures from any thread, behind one trait.
//!
//! Worker `i` is a thread on core `i`; submitting threads are not workers. Results are returned
//! through handles where the system has them, else through channels.

mod async_executor;
mod channels;
mod filch;
mod rayon;
mod threadpool;
mod tokio;

pub(crate) use async_executor::{AsyncExecutor, Workers};
pub(crate) use filch::{
    Bounded, Everything, Filch, Named, Plain, Prioritised, Spawned, Turns, WithToken,
};
pub(crate) use rayon::{RayonMpsc, RayonOneshot};
pub(crate) use threadpool::Threadpool;
pub(crate) use tokio::Tokio;

/// A system with workers.
pub(crate) trait Submits: 'static {
    type Pool: Sync + 'static;
    type Pending<'p>: Pending;

    /// Starts `workers` workers, pinned.
    fn pool(workers: usize) -> Self::Pool;

    /// Creates the list of pending tasks of one submitting thread.
    fn pending(pool: &Self::Pool) -> Self::Pending<'_>;

    /// Submits a detached task.
    fn detach(pool: &Self::Pool, task: impl FnOnce() + Send + 'static);

    /// Waits until the queues are empty, for systems whose queues may not be when all results have
    /// arrived.
    fn settle(_pool: &Self::Pool) {}
}

/// Submitted tasks whose results are collected.
pub(crate) trait Pending {
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static);

    /// Waits for the result of the oldest task, or of any task if that is cheaper.
    fn next(&mut self) -> u64;

    /// Waits for all remaining results and returns their sum.
    fn finish(self) -> u64;
}
