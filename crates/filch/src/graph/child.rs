//! The results of closures that a runtime has spawned.

use super::runtime::Runtime;
use crate::{
    base::unwind,
    pool::{
        context::WorkerContext,
        latch::{WaitTarget, WorkerLatch},
    },
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// What a child leaves to its handle.
pub(super) struct ChildOutcome<T> {
    result: Mutex<Option<T>>,
    ended: WorkerLatch,
}

impl<T> Default for ChildOutcome<T> {
    fn default() -> Self {
        Self {
            result: Mutex::new(None),
            ended: WorkerLatch::new(),
        }
    }
}

impl<T> ChildOutcome<T> {
    pub(super) fn set(&self, result: T) {
        let mut slot = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(result);
    }

    /// Notifies the handle, which waits on a worker of this pool, that the child has ended.
    pub(super) fn end(self: Arc<Self>, context: &WorkerContext<'_, '_>) {
        self.ended.set_with(|worker| context.pool().unpark(worker));
        // If the handle was dropped, so is the result: by the user's destructor.
        if let Err(payload) = unwind::contain(|| drop(self)) {
            context.pool().panicked(payload);
        }
    }
}

/// The handle of a closure that a runtime has spawned, for its result.
///
/// Made by [`Runtime::submit`]. The closure runs also if the handle is dropped.
#[must_use = "`Runtime::spawn` is for closures without a result"]
pub struct ChildHandle<'rt, 'env, T> {
    runtime: &'rt Runtime<'env>,
    outcome: Arc<ChildOutcome<T>>,
}

impl<'rt, 'env, T> ChildHandle<'rt, 'env, T> {
    pub(super) fn new(runtime: &'rt Runtime<'env>, outcome: Arc<ChildOutcome<T>>) -> Self {
        Self { runtime, outcome }
    }

    /// Waits until the closure, and everything that it has spawned, is done, and returns its
    /// result; the worker runs other tasks meanwhile. It does not wait for other children.
    ///
    /// Returns `None` if the closure has panicked, or was dropped because the run has been stopped.
    /// The error of the run contains the panic, as one of the runtime's task.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.runtime("both", |rt| {
    ///     let (six, seven) = (rt.submit(|_| 6), rt.submit(|_| 7));
    ///     assert_eq!(seven.join(), Some(7));
    ///     assert_eq!(six.join(), Some(6));
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "get")]
    pub fn join(self) -> Option<T> {
        self.runtime.wait_for(&self.outcome.ended);
        let result = self.outcome.result.lock();
        result.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether [`join`](Self::join) would return at once.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.runtime("one", |rt| {
    ///     let child = rt.submit(|_| 1);
    ///     rt.wait();
    ///     assert!(child.is_done());
    ///     assert_eq!(child.join(), Some(1));
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome.ended.has_happened()
    }
}

impl<T> fmt::Debug for ChildHandle<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildHandle")
            .field("done", &self.is_done())
            .finish()
    }
}
