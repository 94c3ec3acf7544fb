//! The thread pool of the futures crate.

use super::Futures;
use crate::pin::Placement;
use futures::{
    executor::{self, ThreadPool, ThreadPoolBuilder},
    future::RemoteHandle,
    task::SpawnExt,
};

pub(crate) struct FuturesPool;

impl Futures for FuturesPool {
    type Pool = ThreadPool;
    type Spawner = ThreadPool;
    type Handle = RemoteHandle<u64>;

    fn pool(workers: usize) -> ThreadPool {
        ThreadPoolBuilder::new()
            .pool_size(workers)
            .after_start(|worker| Placement::Pinned.place_worker(worker))
            .create()
            .expect("the settings are fine")
    }

    fn spawner(pool: &ThreadPool) -> ThreadPool {
        pool.clone()
    }

    #[inline(always)]
    fn spawn(
        pool: &ThreadPool,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> RemoteHandle<u64> {
        pool.spawn_with_handle(future).expect("it is open")
    }

    #[inline(always)]
    fn detach(pool: &ThreadPool, future: impl Future<Output = ()> + Send + 'static) {
        pool.spawn_ok(future);
    }

    #[inline(always)]
    fn detach_inside(pool: &ThreadPool, future: impl Future<Output = ()> + Send + 'static) {
        pool.spawn_ok(future);
    }

    #[inline(always)]
    fn spawn_inside(
        pool: &ThreadPool,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> Self::Handle {
        pool.spawn_with_handle(future).expect("it is open")
    }

    #[inline(always)]
    fn result(handle: RemoteHandle<u64>) -> impl Future<Output = u64> + Send {
        handle
    }

    fn block_on<R>(_pool: &ThreadPool, future: impl Future<Output = R>) -> R {
        executor::block_on(future)
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        futures_lite::future::yield_now()
    }
}
