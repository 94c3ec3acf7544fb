//! tokio's multi-threaded runtime.

use super::Futures;
use crate::pools;
use tokio::{runtime::Runtime, task::JoinHandle};

pub(crate) struct Tokio;

impl Futures for Tokio {
    type Pool = Runtime;
    type Spawner = ();
    type Handle = JoinHandle<u64>;

    fn pool(workers: usize) -> Runtime {
        pools::tokio(workers)
    }

    fn spawner(_runtime: &Runtime) {}

    #[inline(always)]
    fn spawn(
        runtime: &Runtime,
        future: impl Future<Output = u64> + Send + 'static,
    ) -> JoinHandle<u64> {
        runtime.spawn(future)
    }

    #[inline(always)]
    fn detach(runtime: &Runtime, future: impl Future<Output = ()> + Send + 'static) {
        drop(runtime.spawn(future));
    }

    #[inline(always)]
    fn detach_inside((): &(), future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    #[inline(always)]
    fn spawn_inside((): &(), future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        tokio::spawn(future)
    }

    #[inline(always)]
    async fn result(handle: JoinHandle<u64>) -> u64 {
        handle.await.expect("no future panics or is cancelled")
    }

    fn block_on<R>(runtime: &Runtime, future: impl Future<Output = R>) -> R {
        runtime.block_on(future)
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
    }
}
