//! The threadpool crate, with a channel for the results.

use super::{Submits, channels};
use crate::{pin::Placement, pools};
use threadpool::ThreadPool;

/// With one channel per submitting thread.
pub(crate) struct Threadpool;

impl Submits for Threadpool {
    type Pool = ThreadPool;
    type Pending<'p> = channels::Mpsc<'p, Self>;

    fn pool(workers: usize) -> ThreadPool {
        pools::threadpool(workers, Placement::Pinned)
    }

    fn pending(pool: &ThreadPool) -> Self::Pending<'_> {
        channels::Mpsc::new(pool)
    }

    #[inline(always)]
    fn detach(pool: &ThreadPool, task: impl FnOnce() + Send + 'static) {
        pool.execute(task);
    }
}
