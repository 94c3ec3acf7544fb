//! How an executor starts.

use super::{
    Context, Executor, ExecutorState, Listeners, QueueOverflow, StartWorker, TaskPanics,
    builder::ExecutorBuilder, waiting::WaitingTasks,
};
use crate::{
    base::error::BuildError,
    cancel::CancelToken,
    engine::{Core, MAX_WORKERS, Observer, RunningWorker, Strategy, Worker},
    observe::Counters,
    threads::{Parkers, ThreadConfig, ThreadGroup, Work, WorkerStates},
};
use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, OnceLock},
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
        let (core, workers) = (&inner.core, inner.members.live());
        let thread_group = ThreadGroup::start(0..workers, &threads, core, &parkers, &work)?;
        let thread_group = Arc::new(Mutex::new(Some(thread_group)));
        let (group, work) = (thread_group.clone(), Arc::downgrade(&work));
        let start: StartWorker = Box::new(move |worker| {
            // The running workers have references.
            let ended = || BuildError::config("the executor has ended");
            let work = work.upgrade().ok_or_else(ended)?;
            let (core, numbers) = (&work.inner.core, worker..worker + 1);
            let thread = ThreadGroup::start(numbers, &threads, core, &parkers, &work)?;
            super::resize::add_thread(&group, thread);
            Ok(())
        });
        let _ = inner.starts.set(Mutex::new(Some(start)));
        let state = Arc::downgrade(&inner);
        let stop = move || {
            if let Some(state) = state.upgrade() {
                state.stop();
            }
        };
        inner.token.on_cancel(stop).detach();
        Ok(Executor {
            inner,
            thread_group,
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
        let (workers, most) = self.common.decide(MAX_WORKERS)?;
        let threads = self.common.threads.clone();
        let parkers = Arc::new(Parkers::new(most));
        let settings = self.common.connect(most, &parkers);
        let listeners = (Counters::new(most), self.observer);
        let inner = Arc::new(ExecutorState {
            core: Arc::new(Core::new(settings, &self.spec, listeners)?),
            token: self
                .token
                .map_or_else(CancelToken::new, |parent| parent.child()),
            members: WorkerStates::new(workers, most),
            starts: OnceLock::new(),
            parkers: parkers.clone(),
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
    const MAY_LEAVE: bool = true;

    fn init(&self, worker: usize) -> S {
        (self.scratch)(worker)
    }

    fn entered(&self, worker: usize) {
        self.inner.members.state(worker).enter();
    }

    #[inline]
    fn is_asked_to_leave(&self, worker: usize) -> bool {
        self.inner.members.is_leaving(worker)
    }

    #[inline(always)]
    fn should_leave(&self, worker: &mut Worker<'_, T, Q, Listeners<O>>) -> bool {
        self.inner.members.is_leaving(worker.id()) && self.inner.try_leave(worker.id())
    }

    fn end(&self, worker: usize) -> bool {
        self.inner.members.state(worker).end()
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
