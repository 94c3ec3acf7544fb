//! Spawning from any thread.

use super::{ExecutorState, Metrics};
use crate::{
    base::error::Refused,
    engine::{NoObserver, Observer, PerWorker, Placement, Strategy},
};
use std::{fmt, sync::Arc};

/// Spawns tasks into an [`Executor`](super::Executor) from any thread. Cheap to clone; does not
/// keep the executor running.
///
/// ```
/// use filch::Executor;
///
/// let executor = Executor::builder().workers(2).build(|_| 0, |n: u32, cx| *cx.scratch() += n).unwrap();
/// let handle = executor.handle();
/// let producer = std::thread::spawn(move || {
///     for n in 0..10 {
///         handle.spawn(n).expect("still open");
///     }
/// });
/// producer.join().unwrap();
/// assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 45);
/// ```
pub struct Handle<T: Send, Q: Strategy = PerWorker, O: Observer = NoObserver> {
    pub(super) inner: Arc<ExecutorState<T, Q, O>>,
}

impl<T: Send, Q: Strategy, O: Observer> Handle<T, Q, O> {
    pub(super) fn new(inner: Arc<ExecutorState<T, Q, O>>) -> Self {
        Self { inner }
    }

    /// Spawns a task.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// let handle = executor.handle();
    /// handle.spawn(1).unwrap();
    /// executor.finish();
    /// assert!(handle.spawn(2).is_err());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, if the executor is closed or its injector is bounded and full.
    pub fn spawn(&self, task: T) -> Result<(), Refused<T>> {
        self.inner.core.inject(task, Placement::Injector)
    }

    /// Spawns all tasks, in order, or none. Much cheaper than one by one.
    ///
    /// ```
    /// # let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {}).unwrap();
    /// let handle = executor.handle();
    /// handle.spawn_batch([1, 2, 3]).unwrap();
    /// executor.finish();
    /// assert_eq!(handle.spawn_batch([4, 5]).unwrap_err().into_inner(), [4, 5]);
    /// ```
    ///
    /// # Errors
    /// All the tasks, if the executor is closed or they don't all fit.
    pub fn spawn_batch(&self, tasks: impl Into<Vec<T>>) -> Result<(), Refused<Vec<T>>> {
        self.inner.core.inject_batch(tasks.into())
    }

    /// Whether the executor still accepts tasks. The answer may be outdated when it is used: only
    /// the result of [`spawn`](Self::spawn) is definite.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// let handle = executor.handle();
    /// assert!(handle.is_accepting());
    /// executor.finish();
    /// assert!(!handle.is_accepting());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_accepting(&self) -> bool {
        self.inner.core.is_open()
    }

    /// Closes the executor and makes the workers exit after their current task. Does not wait: the
    /// caller of [`finish`](super::Executor::finish) gets the tasks that were not run, in
    /// [`Summary::not_run`](super::Summary::not_run).
    ///
    /// ```
    /// # let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {}).unwrap();
    /// let handle = executor.handle();
    /// handle.shutdown_now();
    /// assert!(!handle.is_accepting() && handle.spawn(1).is_err());
    /// assert!(executor.finish().not_run.is_empty());
    /// ```
    pub fn shutdown_now(&self) {
        self.inner.stop();
    }

    /// The counters of the workers.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// let handle = executor.handle();
    /// handle.spawn(1).unwrap();
    /// executor.finish();
    /// assert_eq!(handle.metrics().total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}

impl<T: Send, Q: Strategy, O: Observer> Clone for Handle<T, Q, O> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for Handle<T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("accepting", &self.is_accepting())
            .finish_non_exhaustive()
    }
}
