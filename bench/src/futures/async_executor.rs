//! async-executor: `Executor`, which keeps a list of its tasks, and `StaticExecutor`, which does
//! not.

use super::Futures;
use crate::submits::Workers;
use async_executor::{Executor, StaticExecutor, Task};
use futures_lite::future;
use std::sync::Arc;

/// `Executor`, which drops its tasks when it is dropped.
pub(crate) struct AsyncExecutor;

impl Futures for AsyncExecutor {
    type Pool = Workers<Arc<Executor<'static>>>;
    type Spawner = Arc<Executor<'static>>;
    type Handle = Task<u64>;

    fn pool(workers: usize) -> Self::Pool {
        Workers::owned(workers)
    }

    fn spawner(workers: &Self::Pool) -> Self::Spawner {
        workers.executor.clone()
    }

    #[inline(always)]
    fn spawn(
        workers: &Self::Pool,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Task<u64> {
        workers.executor.spawn(future)
    }

    #[inline(always)]
    fn detach(workers: &Self::Pool, future: impl Future<Output = ()> + Send + 'static) {
        workers.executor.spawn(future).detach();
    }

    #[inline(always)]
    fn detach_inside(executor: &Self::Spawner, future: impl Future<Output = ()> + Send + 'static) {
        executor.spawn(future).detach();
    }

    #[inline(always)]
    fn spawn_inside(
        executor: &Self::Spawner,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Self::Handle {
        executor.spawn(future)
    }

    #[inline(always)]
    fn result(handle: Task<u64>) -> impl Future<Output = u64> + Send {
        handle
    }

    fn block_on<R>(_workers: &Self::Pool, future: impl Future<Output = R>) -> R {
        future::block_on(future)
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        future::yield_now()
    }
}

/// `StaticExecutor`. Neither it nor its tasks are ever dropped.
pub(crate) struct StaticAsyncExecutor;

impl Futures for StaticAsyncExecutor {
    type Pool = Workers<&'static StaticExecutor>;
    type Spawner = &'static StaticExecutor;
    type Handle = Task<u64>;

    fn pool(workers: usize) -> Self::Pool {
        Workers::leaked(workers)
    }

    fn spawner(workers: &Self::Pool) -> Self::Spawner {
        workers.executor
    }

    #[inline(always)]
    fn spawn(
        workers: &Self::Pool,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Task<u64> {
        workers.executor.spawn(future)
    }

    #[inline(always)]
    fn detach(workers: &Self::Pool, future: impl Future<Output = ()> + Send + 'static) {
        workers.executor.spawn(future).detach();
    }

    #[inline(always)]
    fn detach_inside(executor: &Self::Spawner, future: impl Future<Output = ()> + Send + 'static) {
        executor.spawn(future).detach();
    }

    #[inline(always)]
    fn spawn_inside(
        executor: &Self::Spawner,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Self::Handle {
        executor.spawn(future)
    }

    #[inline(always)]
    fn result(handle: Task<u64>) -> impl Future<Output = u64> + Send {
        handle
    }

    fn block_on<R>(_workers: &Self::Pool, future: impl Future<Output = R>) -> R {
        future::block_on(future)
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        future::yield_now()
    }
}
