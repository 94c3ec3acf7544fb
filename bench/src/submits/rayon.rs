//! rayon's `spawn`, whose results are sent through a channel.

use super::{Submits, channels};
use crate::{pin::Placement, pools};
use rayon::ThreadPool;

/// With one channel per submitting thread.
pub(crate) struct RayonMpsc;

impl Submits for RayonMpsc {
    type Pool = ThreadPool;
    type Pending<'p> = channels::Mpsc<'p, Self>;

    fn pool(workers: usize) -> ThreadPool {
        pools::build_rayon(pools::rayon(workers, Placement::Pinned))
    }

    fn pending(pool: &ThreadPool) -> Self::Pending<'_> {
        channels::Mpsc::new(pool)
    }

    #[inline(always)]
    fn detach(pool: &ThreadPool, task: impl FnOnce() + Send + 'static) {
        pool.spawn(task);
    }
}

/// With a slot per result.
pub(crate) struct RayonOneshot;

impl Submits for RayonOneshot {
    type Pool = ThreadPool;
    type Pending<'p> = channels::Oneshots<'p, Self>;

    fn pool(workers: usize) -> ThreadPool {
        RayonMpsc::pool(workers)
    }

    fn pending(pool: &ThreadPool) -> Self::Pending<'_> {
        channels::Oneshots::new(pool)
    }

    #[inline(always)]
    fn detach(pool: &ThreadPool, task: impl FnOnce() + Send + 'static) {
        pool.spawn(task);
    }
}
