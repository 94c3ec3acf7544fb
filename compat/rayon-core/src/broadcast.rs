//! One call on each thread of a pool.

use crate::{
    here,
    registry::{Registry, global, guard},
};
use std::{fmt, marker::PhantomData, sync::Arc};

/// The index of the current call of a broadcast, passed to its closure.
pub struct BroadcastContext<'a> {
    index: usize,
    num_threads: usize,
    /// The context describes this thread, so it is not `Send`.
    stays: PhantomData<(&'a (), *const ())>,
}

impl BroadcastContext<'_> {
    /// Calls `f` for the thread `index` of `num_threads` threads.
    pub(crate) fn with<R>(
        index: usize,
        num_threads: usize,
        f: impl FnOnce(BroadcastContext<'_>) -> R,
    ) -> R {
        f(BroadcastContext {
            index,
            num_threads,
            stays: PhantomData,
        })
    }

    /// The index of this thread, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of threads that receive the call.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.num_threads)
            .finish_non_exhaustive()
    }
}

/// Calls `op` once on every thread of the current pool, or of the global one outside of any pool,
/// and returns the results in the order of the threads.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build()?;
/// let squares = pool.install(|| rayon_core::broadcast(|cx| cx.index() * cx.index()));
/// assert_eq!(squares, [0, 1, 4]);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
///
/// # Panics
/// If a call panics, after all calls have ended.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    match here::get() {
        Some(here) => {
            filch::broadcast(|index| BroadcastContext::with(index, here.num_threads, &op))
        }
        None => global().broadcast(op),
    }
}

/// Calls `op` asynchronously, once on every thread of the current pool, or of the global one
/// outside of any pool. Panics are handled as by [`spawn`](crate::spawn()).
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
/// pool.spawn_broadcast(move |cx| send.send(cx.index()).unwrap());
/// assert_eq!(receive.iter().sum::<usize>(), 0 + 1);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    match here::registry() {
        Some(registry) => filch::spawn_broadcast(detached(&registry, op)),
        None => global().spawn_broadcast(op),
    }
}

/// The calls of a detached broadcast.
pub(crate) fn detached<OP>(
    registry: &Arc<Registry>,
    op: OP,
) -> impl Fn(usize) + Send + Sync + use<OP> + 'static
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let num_threads = registry.num_threads();
    move |index| guard(|| BroadcastContext::with(index, num_threads, &op))
}
