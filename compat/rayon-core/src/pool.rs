//! Pools.

#[expect(deprecated, reason = "part of the interface")]
use crate::Configuration;
use crate::{
    BroadcastContext, Scope, ScopeFifo, Yield, broadcast, current_thread_has_pending_tasks,
    current_thread_index, here, join,
    registry::{Registry, guard},
    scope, scope_fifo, yield_local, yield_now,
};
use std::{error::Error, fmt, sync::Arc};

/// A pool of threads, built by a [`ThreadPoolBuilder`](crate::ThreadPoolBuilder).
///
/// Dropping it makes the threads exit after every spawned task has run. The drop does not wait for
/// them.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
/// assert_eq!(pool.install(|| rayon_core::join(|| 1, || 2)), (1, 2));
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPool {
    pool: filch::Pool,
    registry: Arc<Registry>,
}

impl ThreadPool {
    pub(crate) fn on(pool: filch::Pool, registry: Arc<Registry>) -> Self {
        Self { pool, registry }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn is_here(&self) -> bool {
        here::is_of(&self.registry)
    }

    /// The deprecated way to build a pool.
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "use `ThreadPoolBuilder::build`")]
    #[expect(deprecated, reason = "part of the interface")]
    pub fn new(configuration: Configuration) -> Result<Self, Box<dyn Error>> {
        configuration.build()
    }

    /// Calls `op` on a thread of this pool, and waits for its result. Functions that it calls
    /// ([`join`](crate::join()), iterators, …) use this pool too.
    ///
    /// A worker of another pool runs tasks of its own pool while it waits.
    ///
    /// # Panics
    /// If `op` panics.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        if self.is_here() {
            op()
        } else {
            self.pool.on_worker(op)
        }
    }

    /// [`broadcast`](crate::broadcast()) on this pool.
    ///
    /// # Panics
    /// If a call panics, after all calls have ended.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        if self.is_here() {
            return broadcast(op);
        }
        let threads = self.current_num_threads();
        self.pool
            .broadcast(|index| BroadcastContext::with(index, threads, &op))
    }

    /// The number of threads of this pool.
    #[must_use]
    pub fn current_num_threads(&self) -> usize {
        self.registry.num_threads()
    }

    /// The index of the calling thread, if it belongs to this pool.
    #[must_use]
    pub fn current_thread_index(&self) -> Option<usize> {
        current_thread_index().filter(|_| self.is_here())
    }

    /// Whether the calling thread has tasks in its own queue, if it belongs to this pool.
    #[must_use]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        current_thread_has_pending_tasks().filter(|_| self.is_here())
    }

    /// [`join`](crate::join()) on this pool.
    ///
    /// # Panics
    /// As [`join`](crate::join()).
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join(oper_a, oper_b))
    }

    /// [`scope`](crate::scope()) on this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope(op))
    }

    /// [`scope_fifo`](crate::scope_fifo()) on this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope_fifo(op))
    }

    /// [`in_place_scope`](crate::in_place_scope) with this pool for the tasks.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        self.pool.in_place_scope(|scope| op(Scope::of(scope)))
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo) with this pool for the tasks.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        self.pool.in_place_scope(|scope| op(ScopeFifo::of(scope)))
    }

    /// [`spawn`](crate::spawn()) on this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.pool.spawn(|| guard(op));
    }

    /// [`spawn_fifo`](crate::spawn_fifo) on this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        let task = Box::new(|| guard(op));
        let turn = self
            .registry
            .clone()
            .line_up(self.current_thread_index(), task);
        self.pool.spawn(turn);
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast) on this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        let task = broadcast::detached(&self.registry, op);
        self.pool.spawn_broadcast(task);
    }

    /// [`yield_now`](crate::yield_now), if the calling thread belongs to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.is_here().then(yield_now).flatten()
    }

    /// [`yield_local`](crate::yield_local), if the calling thread belongs to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.is_here().then(yield_local).flatten()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}
