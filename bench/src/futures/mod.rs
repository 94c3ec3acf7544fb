//! Systems that run futures, behind one trait.
//!
//! Worker `i` is a thread on core `i`; the main thread is not a worker.

mod async_executor;
mod filch;
mod futures_pool;
mod tokio;

pub(crate) use async_executor::{AsyncExecutor, StaticAsyncExecutor};
pub(crate) use filch::Filch;
pub(crate) use futures_pool::FuturesPool;
pub(crate) use tokio::Tokio;

/// A system with workers.
pub(crate) trait Futures: 'static {
    type Pool: 'static;
    /// The handle through which a future spawns others.
    type Spawner: Clone + Send + Sync + 'static;
    /// The handle of a spawned future.
    type Handle: Send;

    /// Starts `workers` workers, pinned.
    fn pool(workers: usize) -> Self::Pool;

    fn spawner(pool: &Self::Pool) -> Self::Spawner;

    /// Spawns a future from outside.
    fn spawn(pool: &Self::Pool, future: impl Future<Output = u64> + Send + 'static)
    -> Self::Handle;

    /// Spawns a detached future from outside.
    fn detach(pool: &Self::Pool, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a detached future from a future.
    fn detach_inside(spawner: &Self::Spawner, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a future from a future.
    fn spawn_inside(
        spawner: &Self::Spawner,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Self::Handle;

    /// Awaits the result of a future.
    fn result(handle: Self::Handle) -> impl Future<Output = u64> + Send;

    /// Blocks the main thread on a future.
    fn block_on<R>(pool: &Self::Pool, future: impl Future<Output = R>) -> R;

    /// The system's own yield, or else a future that wakes itself once.
    fn yield_now() -> impl Future<Output = ()> + Send + 'static;
}
