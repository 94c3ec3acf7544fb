//! Systems that run futures, under one roof.
//!
//! Workers are threads, worker `i` on core `i`; the main thread is none of them.

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
    /// What a future needs to spawn others.
    type Spawner: Clone + Send + Sync + 'static;
    /// A future whose result is wanted.
    type Handle;

    /// Starts `workers` workers, pinned.
    fn pool(workers: usize) -> Self::Pool;

    fn spawner(pool: &Self::Pool) -> Self::Spawner;

    /// Spawns a future from outside.
    fn spawn(pool: &Self::Pool, future: impl Future<Output = u64> + Send + 'static)
    -> Self::Handle;

    /// Spawns a future that nobody waits for, from outside.
    fn detach(pool: &Self::Pool, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a future that nobody waits for, from a future.
    fn detach_inside(spawner: &Self::Spawner, future: impl Future<Output = ()> + Send + 'static);

    /// What came of a future.
    fn result(handle: Self::Handle) -> impl Future<Output = u64>;

    /// Waits for a future on the main thread.
    fn block_on<R>(pool: &Self::Pool, future: impl Future<Output = R>) -> R;

    /// The system's own, or else one that wakes itself.
    fn yield_now() -> impl Future<Output = ()> + Send + 'static;
}
