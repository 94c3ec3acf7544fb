//! Executors for the time of a call, whose tasks may borrow.

use super::{Context, ExecutorBuilder, Handle, Summary, build::Parts};
use crate::{
    base::{error::BuildError, unwind},
    engine::{Observer, Strategy},
    threads::run_scoped,
};

impl<T: Send, Q: Strategy, O: Observer> ExecutorBuilder<T, Q, O> {
    /// Runs an executor for the time of this call. The tasks, the runner and the scratch values may
    /// borrow what the caller owns, since no worker outlives the call: not even if `body` panics.
    ///
    /// `body` gets a handle to spawn with. When it returns, the executor is closed, and the call
    /// returns when all tasks have run, those that they spawn included.
    ///
    /// ```
    /// use filch::executor::ExecutorBuilder;
    ///
    /// let words = ["borrow".to_owned(), "checker".to_owned()]; // owned by this thread
    /// let (spawned, summary) = ExecutorBuilder::new().workers(2).scope(
    ///     |_worker| 0,
    ///     |word: &str, cx| *cx.scratch() += word.len(),
    ///     |executor| {
    ///         words.iter().for_each(|word| executor.spawn(word).unwrap());
    ///         words.len()
    ///     },
    /// )?;
    /// assert_eq!((spawned, summary.scratch.iter().sum::<usize>()), (2, 13));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// A [token](Self::token) that is cancelled does not end the call by itself: the tasks check
    /// [`Context::is_cancelled`], and [`Handle::shutdown_now`] discards those that are queued.
    ///
    /// # Errors
    /// As [`build`](Self::build); then `body` was not called.
    ///
    /// # Panics
    /// With the panic of `body`, else with the first panic of a task, after everything has run.
    pub fn scope<S, I, R, V>(
        mut self,
        scratch: I,
        runner: R,
        body: impl FnOnce(&Handle<T, Q, O>) -> V,
    ) -> Result<(V, Summary<T, S>), BuildError>
    where
        S: Send,
        O: Send + Sync,
        I: Fn(usize) -> S + Send + Sync,
        R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync,
    {
        self.common.threads.max_workers = None;
        let Parts {
            threads,
            parkers,
            work,
        } = self.assemble(scratch, runner)?;
        let handle = Handle::new(work.inner.clone());
        let core = &work.inner.core;
        let (result, scratch) = run_scoped(&threads, core, &parkers, &work, || body(&handle))?;
        match work.inner.sum_up(scratch) {
            Ok(summary) => Ok((result, summary)),
            Err(panicked) => unwind::resume(panicked.payload),
        }
    }
}
