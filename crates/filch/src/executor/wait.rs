//! Waiting for an executor for a limited time, and asking how much it has to do.

use super::{Executor, Handle, Panicked, Summary};
use crate::{
    base::{Instant, thread},
    cancel::CancelToken,
    engine::{Observer, Strategy},
};
use std::time::Duration;

/// The longest time between two checks whether the workers have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

impl<T, S, Q, O> Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    /// [`try_finish`](Self::try_finish) that waits no longer than `limit`: closes the executor, and
    /// returns it when it is not done by then. It can be waited for again, or
    /// [shut down](Self::shutdown_now).
    ///
    /// ```
    /// use filch::Executor;
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let (release, released) = mpsc::channel::<()>();
    /// let released = std::sync::Mutex::new(released);
    /// let executor = Executor::builder().workers(1).build(
    ///     |_| (),
    ///     move |_: u8, _| released.lock().unwrap().recv().unwrap(),
    /// )?;
    /// executor.spawn(1).unwrap();
    /// let executor = executor.finish_timeout(Duration::from_millis(1)).unwrap_err(); // it runs still
    /// release.send(()).unwrap();
    /// let summary = executor.finish_timeout(Duration::from_secs(60)).unwrap().unwrap();
    /// assert_eq!(summary.metrics.total().executed, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The executor, when the time is up. Inside of `Ok`, as [`try_finish`](Self::try_finish).
    ///
    /// # Panics
    /// If a worker of this executor calls it.
    #[doc(alias = "shutdown_timeout")]
    #[expect(
        clippy::type_complexity,
        reason = "as that of `TaskHandle::join_timeout`"
    )]
    pub fn finish_timeout(
        mut self,
        limit: Duration,
    ) -> Result<Result<Summary<T, S>, Panicked<T, S>>, Self> {
        self.assert_outside();
        self.inner.core.close();
        let start = Instant::now();
        // Workers that have been stopped may still be in a task.
        while !self.has_ended() {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(self);
            }
            thread::sleep(left.min(CHECK_INTERVAL));
        }
        Ok(self.wait_for_workers())
    }

    /// Whether no task is queued, waiting for [units](Self::spawn_when) or running. Another thread
    /// may spawn one right after that.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// assert!(executor.is_idle());
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// while !executor.is_idle() {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(executor.metrics().total().executed, 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.core.is_idle()
    }

    /// The number of tasks that are queued or running, at some recent moment: for progress
    /// displays, and to slow a producer down. It is zero only if the executor [is
    /// idle](Self::is_idle). A worker counts as running a task until it has found no other one, and
    /// of the tasks that wait for [units](Self::spawn_when) none is counted.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// while executor.pending() > 0 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner.core.pending()
    }

    /// The token of this executor. Cancelling it shuts the executor down, as
    /// [`shutdown_now`](Self::shutdown_now) does, without waiting; and a shutdown cancels it. For
    /// what the tasks wait for, and for deadlines.
    ///
    /// ```
    /// use filch::Executor;
    /// use std::time::Duration;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: u8, cx| while !cx.is_cancelled() {})?;
    /// executor.spawn(1).unwrap();
    /// executor.token().cancel_after(Duration::from_millis(1)).unwrap();
    /// executor.finish(); // ends at the deadline
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn token(&self) -> CancelToken {
        self.inner.token.clone()
    }
}

impl<T: Send, Q: Strategy, O: Observer> Handle<T, Q, O> {
    /// [`Executor::is_idle`].
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// assert!(executor.handle().is_idle());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.core.is_idle()
    }

    /// [`Executor::pending`].
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// assert_eq!(executor.handle().pending(), 0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner.core.pending()
    }

    /// [`Executor::token`].
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {})?;
    /// let handle = executor.handle();
    /// handle.shutdown_now();
    /// assert!(handle.token().is_cancelled());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn token(&self) -> CancelToken {
        self.inner.token.clone()
    }
}
