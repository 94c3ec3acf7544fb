//! Submitting a task without settings, or after others.

use super::{
    TaskHandle,
    dependency::Dependencies,
    launch::submit_with,
    options::Options,
    pool_context::{in_context_of, with_current_pool},
};
use crate::pool::Pool;

/// Submits `task` to the [current pool](crate::Pool#the-current-pool). See the
/// [module](mod@crate::submit).
///
/// ```
/// let sum = filch::submit(|| (1..=100).sum::<u32>());
/// assert_eq!(sum.join().unwrap(), 5050);
/// ```
#[doc(alias("spawn_blocking", "async", "silent_async"))]
pub fn submit<F, T>(task: F) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    with_current_pool(|pool, context| submit_with(pool, context, Options::default(), task))
}

/// [`Pool::submit_after`] on the [current pool](crate::Pool#the-current-pool).
///
/// ```
/// let first = filch::submit(|| println!("first"));
/// let second = filch::submit_after(&first, || println!("second"));
/// second.join().unwrap();
/// assert!(first.is_finished());
/// ```
#[doc(alias = "dependent_async")]
pub fn submit_after<F, T>(tasks: impl Dependencies, task: F) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let options = Options::after(tasks);
    with_current_pool(|pool, context| submit_with(pool, context, options, task))
}

impl Pool {
    /// Submits `task`, and returns a handle to its result. See [`submit`](mod@crate::submit).
    ///
    /// When the pool accepts no more tasks, or is full and its policy is to refuse, the closure is
    /// dropped, and the handle returns [that error](super::TaskError::is_refused). The builder that
    /// [`task`](Self::task) returns gives the closure back instead.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let task = pool.submit(|| 6 * 7);
    /// assert_eq!(task.join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias("spawn_blocking", "Executor::async"))]
    #[inline]
    pub fn submit<F, T>(&self, task: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = &**self.inner();
        in_context_of(pool, |context| {
            submit_with(pool, context, Options::default(), task)
        })
    }

    /// Submits `task`, which runs when `tasks` have ended: as [`submit`](Self::submit), and with
    /// [`after`](super::TaskBuilder::after).
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let parts: Vec<_> = (0..4).map(|n| pool.submit(move || println!("part {n}"))).collect();
    /// let whole = pool.submit_after(&parts, || "all parts are done");
    /// assert_eq!(whole.join().unwrap(), "all parts are done");
    /// assert!(parts.iter().all(|part| part.is_finished()));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[doc(alias = "dependent_async")]
    pub fn submit_after<F, T>(&self, tasks: impl Dependencies, task: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let options = Options::after(tasks);
        let pool = &**self.inner();
        in_context_of(pool, |context| submit_with(pool, context, options, task))
    }
}
