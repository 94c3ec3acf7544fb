//! How an executor starts.

use super::{
    Context, Executor, ExecutorState, Listeners, QueueOverflow, TaskPanics,
    builder::ExecutorBuilder, waiting::WaitingTasks,
};
use crate::{
    base::error::BuildError,
    cancel::CancelToken,
    engine::{Core, MAX_WORKERS, Observer, RunningWorker, Strategy},
    observe::Counters,
    threads::{Parkers, ThreadConfig, ThreadGroup, Work},
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
    /// If a setting or the variable `FILCH_WORKERS` is invalid, a thread cannot be started or
    /// [pinned](Self::pin), or a start hook or `scratch` panics.
    pub fn build<S, I, R>(self, scratch: I, runner: R) -> Result<Executor<T, S, Q, O>, BuildError>
    where
        T: Send + 'static,
        S: Send + 'static,
        O: Send + Sync + 'static,
        I: Fn(usize) -> S + Send + Sync + 'static,
        R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'static,
    {
        let Parts {
            threads,
            parkers,
            work,
        } = self.assemble(scratch, runner)?;
        let inner = work.inner.clone();
        let core = &inner.core;
        let thread_group = ThreadGroup::start(0..core.workers(), &threads, core, &parkers, &work)?;
        let state = Arc::downgrade(&inner);
        let stop = move || {
            if let Some(state) = state.upgrade() {
                state.stop();
            }
        };
        inner.token.on_cancel(stop).detach();
        Ok(Executor {
            inner,
            thread_group: Some(thread_group),
        })
    }

    /// Builds everything but the threads.
    pub(super) fn assemble<I, R>(
        mut self,
        scratch: I,
        runner: R,
    ) -> Result<Parts<T, Q, O, I, R>, BuildError>
    where
        T: Send,
    {
        let (workers, _) = self.common.decide(MAX_WORKERS)?;
        let threads = self.common.threads.clone();
        let parkers = Arc::new(Parkers::new(workers));
        let settings = self.common.connect(workers, &parkers);
        let listeners = (Counters::new(workers), self.observer);
        let inner = Arc::new(ExecutorState {
            core: Arc::new(Core::new(settings, &self.spec, listeners)?),
            token: self
                .token
                .map_or_else(CancelToken::new, |parent| parent.child()),
            waiting: WaitingTasks::default(),
            panics: Mutex::new(TaskPanics::default()),
            on_panic: self.on_panic,
        });
        let work = Arc::new(Runs {
            inner,
            scratch,
            runner,
            overflow: self.overflow,
            tasks: PhantomData,
        });
        Ok(Parts {
            threads,
            parkers,
            work,
        })
    }
}

/// An executor without its threads.
pub(super) struct Parts<T: Send, Q: Strategy, O: Observer, I, R> {
    pub(super) threads: ThreadConfig,
    pub(super) parkers: Arc<Parkers>,
    pub(super) work: Arc<Runs<T, Q, O, I, R>>,
}

/// Runs the tasks of an executor.
pub(super) struct Runs<T: Send, Q: Strategy, O: Observer, I, R> {
    pub(super) inner: Arc<ExecutorState<T, Q, O>>,
    scratch: I,
    runner: R,
    overflow: QueueOverflow,
    tasks: PhantomData<fn(T)>,
}

impl<T, S, Q, O, I, R> Work<T, S, Q, Listeners<O>> for Runs<T, Q, O, I, R>
where
    T: Send,
    Q: Strategy,
    O: Observer + Send + Sync,
    I: Fn(usize) -> S + Send + Sync,
    R: for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync,
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
