//! The handle of a task.

use super::{
    CancelOnDrop, CancelTask, Priority, TaskError, TaskId,
    cell::{Cause, NO_THREADS, SubmitRef, TaskJoin, TaskMeta, TaskOutcome},
    dependency::{Dependency, VisitDependencies},
    join, pool_context, run, wait,
};
use crate::{
    base::{Instant, budget},
    task,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// The handle of a submitted task, which gives access to its result.
///
/// Dropping it *detaches* the task: it runs nevertheless, and if it panics, the pool's
/// [`on_panic`](crate::PoolBuilder::on_panic) is called. The handle may outlive the pool.
///
/// It is a future too: `handle.await` returns the same as [`join`](Self::join), on any runtime.
///
/// ```
/// let mut squares: Vec<_> = (0..4).map(|n| filch::submit(move || n * n)).collect();
/// let last = squares.pop().unwrap();
/// assert_eq!(last.join().unwrap(), 9);
/// ```
#[doc(alias = "JoinHandle")]
#[must_use = "dropping the handle detaches the task; say so with `detach`"]
pub struct TaskHandle<T> {
    join: TaskJoin<T>,
}

impl<T> TaskHandle<T> {
    pub(super) fn new(join: TaskJoin<T>) -> Self {
        Self { join }
    }

    pub(super) fn cell(&self) -> &SubmitRef {
        self.join.task()
    }

    fn meta(&self) -> &TaskMeta {
        self.cell().meta()
    }

    /// Waits for the task, and returns its result.
    ///
    /// A task that has not started is run on the calling thread, unless it has an
    /// [affinity](super::Affinity) for another worker. So this works in every pool, with one worker
    /// and with none, and a joined task does not wait behind others in a queue. A worker that waits
    /// runs other tasks meanwhile, as in [`filch::join`](crate::join()).
    ///
    /// ```
    /// fn fibonacci(n: u64) -> u64 {
    ///     if n < 2 {
    ///         return n;
    ///     }
    ///     let (a, b) = (
    ///         filch::submit(move || fibonacci(n - 1)),
    ///         filch::submit(move || fibonacci(n - 2)),
    ///     );
    ///     a.join().unwrap() + b.join().unwrap()
    /// }
    /// assert_eq!(fibonacci(15), 610);
    /// ```
    ///
    /// # Errors
    /// When the task panicked, or was cancelled before it started; and when it could never end,
    /// because it waits for the caller, directly or through others: [`TaskError::is_deadlock`].
    ///
    /// # Panics
    /// When the handle has returned the result before, as a future.
    pub fn join(mut self) -> Result<T, TaskError> {
        self.assert_not_taken();
        let stuck = join::run_here(&mut self.join);
        if let Some(result) = self.result() {
            return result;
        }
        self.join_unfinished(stuck)
    }

    /// Outlined: a task that is joined soon after it was submitted mostly runs in `run_here`.
    #[inline(never)]
    fn join_unfinished(mut self, stuck: bool) -> Result<T, TaskError> {
        if stuck || self.meta().is_on_this_thread() {
            // It runs in a lower frame of this very stack: it cannot continue before this call
            // returns.
            return Err(TaskError::deadlock(self.meta(), None));
        }
        let cycle = join::drive_until_done(&mut self.join, wait::NeverReady, None);
        match cycle {
            Some(_) => Err(TaskError::deadlock(self.meta(), cycle)),
            None => self.result().expect("it has been waited for"),
        }
    }

    /// Returns the result, if the task is done; else the handle itself.
    ///
    /// ```
    /// let mut task = filch::submit(|| 42);
    /// let result = loop {
    ///     match task.try_join() {
    ///         Ok(result) => break result,
    ///         Err(not_yet) => task = not_yet,
    ///     }
    ///     std::thread::yield_now();
    /// };
    /// assert_eq!(result.unwrap(), 42);
    /// ```
    ///
    /// # Errors
    /// The handle, when the task is not done.
    ///
    /// # Panics
    /// As [`join`](Self::join).
    pub fn try_join(mut self) -> Result<Result<T, TaskError>, Self> {
        self.assert_not_taken();
        match self.result() {
            Some(result) => Ok(result),
            None => Err(self),
        }
    }

    /// [`join`](Self::join) with a time limit. A task that has not started is not started here,
    /// since it might exceed the limit, unless the pool has no workers, or the caller is a worker
    /// with isolated waits: in an [`isolate`](crate::isolate), or deep in its stack. A worker that
    /// runs another task when the time is up finishes that one first.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let quick = filch::submit(|| 1);
    /// match quick.join_timeout(Duration::from_secs(10)) {
    ///     Ok(result) => assert_eq!(result.unwrap(), 1),
    ///     Err(handle) => handle.detach(),
    /// }
    /// ```
    ///
    /// # Errors
    /// The handle, when the time is up.
    ///
    /// # Panics
    /// As [`join`](Self::join).
    pub fn join_timeout(mut self, limit: Duration) -> Result<Result<T, TaskError>, Self> {
        self.assert_not_taken();
        // A deadline beyond the range of the clock is no limit.
        let deadline = Instant::now().checked_add(limit);
        if self.meta().has_flag(NO_THREADS) || join::has_restricted_waits(&self.join) {
            join::run_here(&mut self.join);
            join::drive_until_done(&mut self.join, wait::NeverReady, deadline);
        } else {
            wait::wait_until_done(&mut self.join, deadline);
        }
        self.try_join()
    }

    /// Whether the task is done: it has a result, has panicked, or was cancelled.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).build()?;
    /// let task = pool.submit(|| 42);
    /// assert!(!task.is_finished());
    /// pool.run_until_stalled();
    /// assert!(task.is_finished());
    /// assert_eq!(task.join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.join.task().snapshot().is_done()
    }

    /// Returns the id of the task.
    ///
    /// ```
    /// let task = filch::submit(|| filch::current_task().unwrap().id());
    /// let id = task.id();
    /// assert_eq!(task.join().unwrap(), id);
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.meta().id
    }

    /// Returns the name of the task, if it has one.
    ///
    /// ```
    /// let task = filch::task(|| 1).name("first").submit().unwrap();
    /// assert_eq!(task.name(), Some("first"));
    /// assert_eq!(filch::submit(|| 2).name(), None);
    /// # task.join().unwrap();
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.meta().name().map(|name| &**name)
    }

    /// Returns the priority of the task.
    ///
    /// ```
    /// use filch::Priority;
    ///
    /// let task = filch::task(|| 1).priority(Priority::High).submit().unwrap();
    /// assert_eq!(task.priority(), Priority::High);
    /// # task.join().unwrap();
    /// ```
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.join.task().snapshot().level()
    }

    /// Cancels the task. Returns true when it had not started: it never will, and its closure has
    /// been dropped. A running task is requested to stop: [`is_cancelled`](super::is_cancelled)
    /// returns true in it, and its token is cancelled.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (begun, has_begun) = std::sync::mpsc::channel();
    /// let endless = pool.submit(move || {
    ///     begun.send(()).unwrap();
    ///     while !filch::is_cancelled() {}
    /// });
    /// has_begun.recv().unwrap();
    /// let behind = pool.submit(|| unreachable!());
    /// assert!(behind.cancel()); // it never starts
    /// assert!(!endless.cancel()); // it is requested to stop
    /// endless.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias = "abort")]
    #[allow(clippy::must_use_candidate, reason = "most callers don't care")]
    pub fn cancel(&self) -> bool {
        run::cancel(self.join.task(), Cause::Requested)
    }

    /// Changes the priority of the task. Returns false when it does not wait any more; and when its
    /// pool accepts no more tasks, unless the caller is one of its workers.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// let task = pool.submit(|| ());
    /// assert!(task.set_priority(Priority::Critical));
    /// assert_eq!(task.priority(), Priority::Critical);
    /// task.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "most callers don't care")]
    pub fn set_priority(&self, priority: Priority) -> bool {
        run::set_priority(&self.join, priority)
    }

    /// Returns the task as a dependency for others to wait for, whatever its result type. See
    /// [`TaskBuilder::after`](super::TaskBuilder::after).
    ///
    /// ```
    /// let (numbers, words) = (filch::submit(|| vec![1, 2]), filch::submit(|| "one two"));
    /// let inputs = [numbers.dependency(), words.dependency()]; // of one type
    /// let report = filch::submit_after(&inputs, || "both are there");
    /// assert_eq!(report.join().unwrap(), "both are there");
    /// ```
    #[must_use]
    pub fn dependency(&self) -> Dependency {
        Dependency::new(self.cell())
    }

    /// Detaches the task, as dropping the handle does: it runs without a waiter.
    ///
    /// ```
    /// let (send, receive) = std::sync::mpsc::channel();
    /// filch::submit(move || send.send("logged").unwrap()).detach();
    /// assert_eq!(receive.recv(), Ok("logged"));
    /// ```
    pub fn detach(self) {}

    /// Makes a handle that [cancels](Self::cancel) the task when it is dropped.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let (begun, has_begun) = std::sync::mpsc::channel();
    /// let endless = pool
    ///     .submit(move || {
    ///         begun.send(()).unwrap();
    ///         while !filch::is_cancelled() {}
    ///     })
    ///     .cancel_on_drop();
    /// has_begun.recv().unwrap();
    /// drop(endless); // it is requested to stop
    /// pool.shutdown(); // waits for it
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias = "abort_on_drop")]
    pub fn cancel_on_drop(self) -> CancelOnDrop<Self> {
        CancelOnDrop::new(self)
    }

    /// Waits until the task is done, or `or` is ready. Returns at once where [`join`](Self::join)
    /// reports a deadlock.
    pub(super) fn wait_or(&mut self, or: impl wait::WaitCondition + Copy) {
        let stuck = join::run_here(&mut self.join);
        if !stuck && !self.is_finished() && !self.meta().is_on_this_thread() {
            let _reported_by_join = join::drive_until_done(&mut self.join, or, None);
        }
    }

    #[track_caller]
    fn assert_not_taken(&self) {
        assert!(
            !self.join.is_taken(),
            "the handle of a task was joined or polled after it had given the result; await or join it once"
        );
    }

    /// Returns the result, once, if the task is done.
    #[inline(always)]
    fn result(&mut self) -> Option<Result<T, TaskError>> {
        let outcome = self.join.take()?;
        Some(match outcome {
            TaskOutcome::Value(value) => Ok(value),
            TaskOutcome::Panic(payload) => Err(TaskError::panic(self.meta(), payload)),
            TaskOutcome::Cancelled(cause) => Err(TaskError::cancelled(self.meta(), cause)),
        })
    }
}

/// Ready when the task is done.
///
/// In a pool [without workers](crate::PoolBuilder::workers) the polling thread runs the task.
///
/// ```
/// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
///
/// let pool = filch::Pool::builder().workers(0).build()?;
/// let mut task = pin!(pool.submit(|| 42));
/// match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
///     Poll::Ready(result) => assert_eq!(result.unwrap(), 42),
///     Poll::Pending => unreachable!("no other thread can run it"),
/// }
/// # Ok::<(), filch::BuildError>(())
/// ```
impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.assert_not_taken();
        budget::poll_leaf(cx, |cx| {
            if this.meta().has_flag(NO_THREADS) && !pool_context::is_driven(this.meta().pool) {
                join::poll_without_threads(&mut this.join, cx.waker());
            }
            if this.join.register_waker(cx.waker()) {
                return Poll::Pending;
            }
            Poll::Ready(this.result().expect("it is done"))
        })
    }
}

impl<T> task::sealed::Sealed for TaskHandle<T> {}

impl<T> CancelTask for TaskHandle<T> {
    fn cancel_task(&self) {
        self.cancel();
    }
}

impl<T> VisitDependencies for &TaskHandle<T> {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        f(self.dependency());
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("state", &self.join.task().snapshot())
            .finish()
    }
}
