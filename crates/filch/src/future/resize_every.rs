//! Pools that follow limits which change while they work.

use super::handle::FutureHandle;
use crate::{
    clock::Clock,
    pool::{Pool, context::WorkerContext},
};
use std::time::Duration;

/// The shortest period, so that the future does not occupy a worker.
const MIN_PERIOD: Duration = Duration::from_millis(1);

impl Pool {
    /// Calls `workers` once a `period`, by the pool's clock, and [resizes](Self::resize) the pool
    /// to what it returns, within 1 and [`max_workers`](Self::max_workers). Ends with the pool, or
    /// when the handle is [cancelled](FutureHandle::cancel).
    ///
    /// This is how a pool follows a quota of CPU time or a set of CPUs that are changed while the
    /// program runs. By default it does not.
    ///
    /// ```
    /// use filch::{Pool, topology::Topology};
    /// use std::time::Duration;
    ///
    /// let machine = Topology::detect();
    /// let pool = Pool::builder().max_workers(machine.cpus().len()).build()?;
    /// let limits = || Topology::detect().parallelism();
    /// pool.resize_every(Duration::from_secs(1), limits).detach();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// It is a future of the pool: while tasks without [checkpoints](crate::checkpoint) occupy all
    /// workers, it waits. To read the limits takes a worker less than a millisecond. If a thread
    /// cannot be started, the pool stays as it is until the next time. Pools that
    /// [cannot be resized](Self::resize) are left alone.
    pub fn resize_every(
        &self,
        period: Duration,
        mut workers: impl FnMut() -> usize + Send + 'static,
    ) -> FutureHandle<()> {
        self.spawn_future(async move {
            loop {
                Clock::current().sleep(period.max(MIN_PERIOD)).await;
                let most = |context: &WorkerContext<'_, '_>| context.pool().max_threads();
                let most = WorkerContext::with(|context| context.map_or(1, most));
                let asked = workers().clamp(1, most.max(1));
                // A handle is made only if there is something to do: while it lives, the program's
                // last handle is not the last one, and does not join the threads.
                let is_there =
                    |context: &WorkerContext<'_, '_>| context.pool().live_workers() == asked;
                if WorkerContext::with(|context| context.is_some_and(is_there)) {
                    continue;
                }
                let resized = Self::current().map(|pool| pool.resize(asked));
                match resized {
                    Some(Err(error)) if !error.is_start() => return,
                    Some(_) => {}
                    None => return,
                }
            }
        })
    }
}
