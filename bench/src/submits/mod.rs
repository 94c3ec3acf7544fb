//! Systems that take closures from any thread, under one roof.
//!
//! Workers are threads, worker `i` on core `i`; whoever submits is none of them. How the results come back
//! is up to the system: through handles where it has them, else through channels.

mod async_executor;
mod channels;
mod filch;
mod rayon;
mod threadpool;
mod tokio;

pub(crate) use async_executor::{AsyncExecutor, Workers};
pub(crate) use filch::{Bounded, Everything, Filch, Named, Plain, Prioritised, Turns, WithToken};
pub(crate) use rayon::{RayonMpsc, RayonOneshot};
pub(crate) use threadpool::Threadpool;
pub(crate) use tokio::Tokio;

/// A system with workers.
pub(crate) trait Submits: 'static {
    type Pool: Sync + 'static;
    type Pending<'p>: Pending;

    /// Starts `workers` workers, pinned.
    fn pool(workers: usize) -> Self::Pool;

    /// For the tasks of one submitting thread.
    fn pending(pool: &Self::Pool) -> Self::Pending<'_>;

    /// Submits a task that nobody waits for.
    fn detach(pool: &Self::Pool, task: impl FnOnce() + Send + 'static);

    /// Waits until the workers have nothing left to do, if they may have when all results are there.
    fn settle(_pool: &Self::Pool) {}
}

/// Tasks whose results are wanted.
pub(crate) trait Pending {
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static);

    /// Waits for the result of the oldest task; or for any, if that is cheaper.
    fn next(&mut self) -> u64;

    /// Waits for all results that have not been taken, and adds them up.
    fn finish(self) -> u64;
}
