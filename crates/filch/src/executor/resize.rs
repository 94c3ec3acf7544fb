//! How an executor gets more or fewer workers while it works.
//!
//! `threads/resize.rs` has the protocol, which is that of a pool. A worker that is asked to leave
//! does so between two tasks. Its queued tasks go to the injector, since any worker may run them,
//! and its scratch value is dropped on its thread.

use super::{Executor, ExecutorState, Handle, SharedThreads};
use crate::{
    base::error::BuildError,
    engine::{Observer, Strategy, Unpark},
    threads::{Departure, ResizeError, ResizeThreads, ThreadGroup, current_worker, is_thread_of},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl<T, S, Q, O> Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    /// Changes the number of workers, from 1 to [`max_workers`](Self::max_workers), while the
    /// executor works. Tasks call [`Handle::resize`].
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder()
    ///     .workers(2)
    ///     .max_workers(4)
    ///     .build(|_worker| 0, |n: u32, cx| *cx.scratch() += n)?;
    /// executor.resize(4)?; // for a burst
    /// executor.spawn_batch([1; 100]).unwrap();
    /// executor.resize(1)?;
    /// assert_eq!(executor.workers(), 1);
    ///
    /// let error = executor.resize(0).unwrap_err();
    /// assert!(error.is_out_of_range());
    /// assert_eq!(error.to_string(), "an executor cannot have 0 workers; ask for 1 to 4");
    ///
    /// let summary = executor.finish();
    /// assert_eq!(summary.metrics.total().executed, 100);
    /// assert!(summary.scratch.iter().sum::<u32>() <= 100); // without those of workers that left
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A larger executor has all its workers when this returns; start hooks have run, and each new
    /// worker has a new scratch value. A smaller one loses those with the highest numbers: each
    /// leaves after the task that it runs, and this does not wait for that. Its queued tasks run on
    /// other workers. Its scratch value is dropped on its thread: results that must not be lost
    /// belong elsewhere, or into the destructor of the value. [`Summary::scratch`] has the values
    /// of the workers that have not left when the executor ends. [Metrics](Self::metrics) keep what
    /// a worker that left has counted.
    ///
    /// [`Summary::scratch`]: super::Summary::scratch
    ///
    /// # Errors
    /// When the number is not allowed; when the executor has been closed; in a start or exit hook;
    /// when a thread cannot be started, or its start hook or the function that makes the scratch
    /// value panics. In all cases the executor has as many workers as before.
    #[doc(alias("set_num_threads", "set_max_threads"))]
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        self.inner.resize(workers)
    }

    /// The most workers that [`resize`](Self::resize) allows: for arrays with an entry for each
    /// worker that there may be.
    ///
    /// ```
    /// let builder = filch::Executor::builder().workers(1).max_workers(2);
    /// assert_eq!(builder.build(|_| (), |_: u8, _| {})?.max_workers(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn max_workers(&self) -> usize {
        self.inner.members.capacity()
    }

    /// Takes the threads, after every resize that has begun. The executor has been closed.
    pub(super) fn take_thread_group(&self) -> Option<ThreadGroup<S>> {
        let inner = &self.inner;
        let (thread_group, start) = inner.members.after_resizes(|| {
            let start = inner.starts.get().and_then(|start| lock(start).take());
            (lock(&self.thread_group).take(), start)
        });
        // Destructors of the user's hooks, outside of the locks.
        drop(start);
        thread_group
    }

    /// Whether every thread has ended. The executor has been closed.
    pub(super) fn has_ended(&self) -> bool {
        let thread_group = lock(&self.thread_group);
        thread_group.as_ref().is_none_or(ThreadGroup::has_ended)
    }
}

impl<T: Send, Q: Strategy, O: Observer> Handle<T, Q, O> {
    /// [`Executor::resize`], from any thread, tasks of the executor included.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).max_workers(2).build(|_| (), |_: u8, _| {})?;
    /// executor.handle().resize(2)?;
    /// assert_eq!(executor.workers(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Executor::resize`]; and for an executor of
    /// [`ExecutorBuilder::scope`](super::ExecutorBuilder::scope).
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        self.inner.resize(workers)
    }
}

fn lock<V>(mutex: &Mutex<Option<V>>) -> MutexGuard<'_, Option<V>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a thread that a resize has started.
pub(super) fn add_thread<S: Send + 'static>(threads: &SharedThreads<S>, thread: ThreadGroup<S>) {
    // There is a group: it is taken when no resize is under way, and none begins after that.
    if let Some(threads) = &mut *lock(threads) {
        threads.add(thread);
    }
}

impl<T: Send, Q: Strategy, O: Observer> ExecutorState<T, Q, O> {
    fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        if self.starts.get().is_none() {
            return Err(ResizeError::unsupported::<Self>(
                "an executor of a scope cannot be resized; build it with `build`",
            ));
        }
        if self.is_in_hook() {
            return Err(ResizeError::unsupported::<Self>(
                "an executor cannot be resized by its own hooks; resize it from a task or another \
                 thread",
            ));
        }
        let max = self.members.capacity();
        if !(1..=max).contains(&workers) {
            return Err(ResizeError::out_of_range::<Self>(workers, max));
        }
        self.members.resize(workers, self)
    }

    /// Whether this thread is one of the executor that has not begun to work, or has left.
    fn is_in_hook(&self) -> bool {
        let is_own = is_thread_of(Arc::as_ptr(&self.core) as usize);
        let worker = current_worker().filter(|_| is_own);
        worker.is_some_and(|worker| !self.members.state(worker).takes_part())
    }

    /// Called by a worker that is asked to leave, between two tasks. Returns whether it leaves now.
    #[cold]
    pub(super) fn try_leave(&self, worker: usize) -> bool {
        // After the stop the next step exits.
        !self.core.is_stopped() && self.members.state(worker).depart() == Departure::Leaves
    }
}

impl<T: Send, Q: Strategy, O: Observer> ResizeThreads for ExecutorState<T, Q, O> {
    const NAME: &'static str = "executor";

    fn is_open(&self) -> bool {
        self.core.is_open()
    }

    fn start(&self, worker: usize) -> Result<(), BuildError> {
        // No other thread locks it: resizes are serialised, and the end comes after them.
        match self.starts.get().map(lock).as_deref() {
            Some(Some(start)) => start(worker),
            _ => unreachable!("it was open, and has threads of its own"),
        }
    }

    fn unpark(&self, worker: usize) {
        self.parkers.unpark(worker);
    }
}
