//! How an executor starts.

use super::{
    Context, Executor, ExecutorState, Listeners, Panics, QueueOverflow, builder::ExecutorBuilder,
};
use crate::{
    base::error::BuildError,
    engine::{Core, MAX_WORKERS, Observer, RunningWorker, Strategy},
    observe::Counters,
    threads::{Parkers, ThreadGroup, Work},
};
use std::{
    marker::PhantomData,
    sync::{Arc, Mutex},
};

impl<T, Q: Strategy, O: Observer> ExecutorBuilder<T, Q, O> {
    /// Starts the workers: `scratch` creates the scratch value of each, on its own thread, and
    /// `runner` runs a task. Returns when all of them are ready.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(2).build(
    ///     |_worker| 0_u64,                     // the scratch value of each worker
    ///     |n: u64, cx| *cx.scratch() += n,     // what a task does
    /// )?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// assert_eq!(executor.finish().scratch.iter().sum::<u64>(), 6);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If a setting is invalid, a thread cannot be started, or a start hook or `scratch` panics.
    pub fn build<S, I, R>(self, scratch: I, runner: R) -> Result<Executor<T, S, Q, O>, BuildError>
    where
        T: Send + 'static,
        S: Send + 'static,
        O: Send + Sync + 'static,
        I: Fn(usize) -> S + Send + Sync + 'static,
        R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'static,
    {
        let threads = self.common.threads.clone();
        let workers = threads.workers(MAX_WORKERS)?;
        let parkers = Arc::new(Parkers::new(workers));
        let settings = self.common.connect(workers, &parkers);
        let listeners = (Counters::new(workers), self.observer);
        let core = Arc::new(Core::new(settings, &self.spec, listeners)?);
        let inner = Arc::new(ExecutorState {
            core: core.clone(),
            panics: Mutex::new(Panics::default()),
            on_panic: self.on_panic,
        });
        let work = Arc::new(Runs {
            inner: inner.clone(),
            scratch,
            runner,
            overflow: self.overflow,
            tasks: PhantomData,
        });
        let thread_group = ThreadGroup::start(workers, &threads, &core, &parkers, &work)?;
        Ok(Executor {
            inner,
            thread_group: Some(thread_group),
        })
    }
}

/// Runs the tasks of an executor.
struct Runs<T: Send, Q: Strategy, O: Observer, I, R> {
    inner: Arc<ExecutorState<T, Q, O>>,
    scratch: I,
    runner: R,
    overflow: QueueOverflow,
    tasks: PhantomData<fn(T)>,
}

impl<T, S, Q, O, I, R> Work<T, S, Q, Listeners<O>> for Runs<T, Q, O, I, R>
where
    T: Send + 'static,
    S: 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    I: Fn(usize) -> S + Send + Sync + 'static,
    R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'static,
{
    fn init(&self, worker: usize) -> S {
        (self.scratch)(worker)
    }

    #[inline(always)]
    fn run(&self, task: T, running: RunningWorker<'_, '_, T, Q, Listeners<O>>, scratch: &mut S) {
        let mut context = Context {
            running,
            scratch,
            inner: &self.inner,
            runner: &self.runner,
            overflow: self.overflow,
            depth: 0,
        };
        context.run_with(task, &self.runner);
    }
}
