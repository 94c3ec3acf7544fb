//! The builder of a task.

use super::{
    TaskHandle,
    admission::AdmissionMode,
    launch,
    options::{Options, task_options},
    pool_context,
};
use crate::{
    base::{Instant, error::Refused},
    pool::{Inner, Pool, context::WorkerContext},
    semaphore::Acquire,
};
use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A closure that is about to be submitted, with a name, a priority and so on: from [`Pool::task`].
///
/// ```
/// use filch::{CancelToken, Pool, Priority};
/// use std::time::Duration;
///
/// let pool = Pool::builder().workers(2).build()?;
/// let session = CancelToken::new();
/// let handle = pool
///     .task(|| "rendered")
///     .name("thumbnail")
///     .priority(Priority::High)
///     .timeout(Duration::from_secs(60))
///     .token(&session)
///     .submit()
///     .unwrap();
/// assert_eq!(handle.name(), Some("thumbnail"));
/// assert_eq!(handle.join().unwrap(), "rendered");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[must_use = "a task does nothing before it is submitted"]
pub struct TaskBuilder<'p, F> {
    pool: Cow<'p, Arc<Inner>>,
    func: F,
    options: Options,
}

impl Pool {
    /// Returns a builder, which sets a name, a priority and so on before the task is submitted.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let report = pool.task(|| "written").name("report").priority(Priority::Low).submit().unwrap();
    /// assert_eq!((report.name(), report.priority()), (Some("report"), Priority::Low));
    /// assert_eq!(report.join().unwrap(), "written");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn task<F, T>(&self, func: F) -> TaskBuilder<'_, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        TaskBuilder {
            pool: Cow::Borrowed(self.inner()),
            func,
            options: Options::default(),
        }
    }
}

/// [`Pool::task`] on the [current pool](crate::Pool#the-current-pool).
///
/// ```
/// use filch::Priority;
///
/// let sum = filch::submit(|| {
///     let half = filch::task(|| 1).priority(Priority::High).submit().unwrap();
///     half.join().unwrap() + 1
/// });
/// assert_eq!(sum.join().unwrap(), 2);
/// ```
pub fn task<F, T>(func: F) -> TaskBuilder<'static, F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let number = WorkerContext::with(|context| context.map(|context| context.pool().number()));
    let pool = match number.and_then(Inner::find) {
        Some(pool) => Cow::Owned(pool),
        None => match Pool::current() {
            Some(pool) => Cow::Owned(pool.inner().clone()),
            None => Cow::Borrowed(Pool::global().inner()),
        },
    };
    TaskBuilder {
        pool,
        func,
        options: Options::default(),
    }
}

impl<F, T> TaskBuilder<'_, F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    task_options!();

    /// Submits the task. When the pool has no [capacity](crate::PoolBuilder::task_capacity) left,
    /// the caller waits, the task is refused or runs here, according to the pool's
    /// [policy](crate::TaskOverflow).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let accepted = pool.task(|| 6 * 7).submit().unwrap();
    /// assert_eq!(accepted.join().unwrap(), 42);
    ///
    /// pool.clone().shutdown();
    /// let refused = pool.task(|| 6 * 7).submit().unwrap_err();
    /// assert!(refused.is_closed());
    /// assert_eq!(refused.into_inner()(), 42); // the closure comes back
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The closure, when the pool accepts no more tasks, when it is full and its policy is to
    /// refuse, and when the worker or node of the [affinity](super::Affinity) does not exist.
    pub fn submit(self) -> Result<TaskHandle<T>, Refused<F>> {
        self.launch(AdmissionMode::ByPolicy)
    }

    /// Submits the task if there is capacity, whatever the pool's policy.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = pool.task(|| 1).try_submit().unwrap();
    /// let second = pool.task(|| 2).try_submit().unwrap_err();
    /// assert!(second.is_full());
    /// assert_eq!(second.into_inner()(), 2);
    /// # first.detach();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The closure, when there is no capacity, and otherwise as [`submit`](Self::submit).
    pub fn try_submit(self) -> Result<TaskHandle<T>, Refused<F>> {
        self.launch(AdmissionMode::Now)
    }

    /// Submits the task; waits for capacity, but no longer than `limit`, whatever the pool's
    /// policy. A worker of the pool first runs other tasks to free capacity; when there is none
    /// that it may run, it sleeps.
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let pool = filch::Pool::builder().workers(1).task_capacity(1).build()?;
    /// let (begin, begun) = mpsc::channel();
    /// let (release, released) = mpsc::channel::<()>();
    /// let running = pool.submit(move || {
    ///     begin.send(()).unwrap();
    ///     released.recv().unwrap();
    /// });
    /// begun.recv().unwrap();
    /// let queued = pool.submit(|| 1); // takes the only unit
    /// let refused = pool.task(|| 2).submit_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert!(refused.is_full());
    /// release.send(()).unwrap();
    /// # running.join().unwrap();
    /// # queued.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The closure, when there is no capacity in time, and otherwise as [`submit`](Self::submit).
    pub fn submit_timeout(self, limit: Duration) -> Result<TaskHandle<T>, Refused<F>> {
        // A deadline beyond the range of the clock is no limit.
        let deadline = Instant::now().checked_add(limit);
        self.launch(AdmissionMode::Until(deadline))
    }

    /// Returns a future that submits the task as soon as there is capacity, whatever the pool's
    /// policy. It needs no runtime, enters the queue for capacity when it is first polled, and can
    /// be dropped at any time.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(1).task_capacity(10).build()?;
    /// let answer = pool.block_on(async {
    ///     let handle = pool.task(|| 42).submit_async().await.unwrap(); // waits for capacity
    ///     handle.await.unwrap()
    /// });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn submit_async(self) -> SubmitAsync<F> {
        SubmitAsync {
            pool: self.pool.into_owned(),
            task: Some((self.func, self.options)),
            request: None,
        }
    }

    fn launch(self, mode: AdmissionMode) -> Result<TaskHandle<T>, Refused<F>> {
        let Self {
            pool,
            func,
            options,
        } = self;
        pool_context::in_context_of(&pool, |context| {
            launch::launch(&pool, context, func, options, mode)
        })
    }
}

impl<F> fmt::Debug for TaskBuilder<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A submission that waits for capacity: the future of [`TaskBuilder::submit_async`].
#[must_use = "nothing is submitted before it is polled"]
pub struct SubmitAsync<F> {
    pool: Arc<Inner>,
    task: Option<(F, Options)>,
    request: Option<Acquire<'static>>,
}

/// No field is structurally pinned.
impl<F> Unpin for SubmitAsync<F> {}

impl<F, T> Future for SubmitAsync<F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = Result<TaskHandle<T>, Refused<F>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(
            this.task.is_some(),
            "a submission was polled after it was ready"
        );
        if let Some(capacity) = &this.pool.tasks().capacity {
            let request = this
                .request
                .get_or_insert_with(|| capacity.acquire_async().into_owned());
            loop {
                match Pin::new(&mut *request).poll(cx) {
                    Poll::Ready(permit) => {
                        permit
                            .expect("the capacity is at least one, and is not closed")
                            .into_units();
                        break;
                    }
                    // In a pool without workers no other thread frees capacity.
                    Poll::Pending if this.pool.live_workers() == 0 => {
                        if !this.pool.enter_worker(|context| context.help_once()) {
                            return Poll::Pending;
                        }
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        }
        let (func, options) = this.task.take().expect("checked above");
        let pool = &this.pool;
        Poll::Ready(pool_context::in_context_of(pool, |context| {
            launch::launch(pool, context, func, options, AdmissionMode::Taken)
        }))
    }
}

impl<F> fmt::Debug for SubmitAsync<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitAsync")
            .field("submitted", &self.task.is_none())
            .finish_non_exhaustive()
    }
}
