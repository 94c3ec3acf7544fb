//! filch.

use super::Futures;
use crate::pools;
use filch::{FutureHandle, Pool};

pub(crate) struct Filch;

impl Futures for Filch {
    type Pool = Pool;
    type Spawner = ();
    type Handle = FutureHandle<u64>;

    fn pool(workers: usize) -> Pool {
        pools::filch(workers, 0)
    }

    fn spawner(_pool: &Pool) {}

    #[inline(always)]
    fn spawn(pool: &Pool, future: impl Future<Output = u64> + Send + 'static) -> FutureHandle<u64> {
        pool.spawn_future(future)
    }

    #[inline(always)]
    fn detach(pool: &Pool, future: impl Future<Output = ()> + Send + 'static) {
        pool.spawn_future(future).detach();
    }

    #[inline(always)]
    fn detach_inside((): &(), future: impl Future<Output = ()> + Send + 'static) {
        filch::spawn_future(future).detach();
    }

    #[inline(always)]
    fn spawn_inside((): &(), future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        filch::spawn_future(future)
    }

    #[inline(always)]
    async fn result(handle: FutureHandle<u64>) -> u64 {
        handle.await.expect("no future panics or is cancelled")
    }

    fn block_on<R>(pool: &Pool, future: impl Future<Output = R>) -> R {
        pool.block_on(future)
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        filch::future::yield_now()
    }
}
