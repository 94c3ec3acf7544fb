//! The handle of a launched run: joins it, awaits it as a future, cancels it.

use super::{
    control::{Joiner, RunControl, on_pool},
    error::RunError,
    launched::Launched,
    options::RunOptions,
    repeat::Repeat,
    report::RunReport,
    shared_plan::SharedPlan,
};
use crate::{
    base::{budget, unwind},
    pool::{
        Inner, Pool, active_jobs,
        job::Job,
        latch::WaitTarget,
        pending_group::NO_OWNER,
        waits::{Needs, Party, Subject, WaitList, Waiting},
    },
};
use std::{
    fmt, mem,
    pin::Pin,
    ptr,
    sync::Arc,
    task::{Context, Poll},
};

/// The end of a launched run, in the list of waits.
struct AwaitedRun(Arc<Launched>);

impl Subject for AwaitedRun {
    fn needs(&self) -> Needs {
        match self.0.needs_plan() {
            true => Needs::Event(self.0.control.end()),
            false => Needs::Unknown,
        }
    }

    fn party(&self) -> Party {
        self.0.control.end().party()
    }
}

/// A worker that waits for a run.
struct Join<'a> {
    launched: &'a Arc<Launched>,
    pool: &'a Inner,
    worker: usize,
    /// Whether the worker runs only what was queued on it, so that it has to take what the run has
    /// queued elsewhere.
    isolated_wait: bool,
    waiting: Waiting<'static>,
}

impl Join<'_> {
    /// Lists the wait, which is about to sleep. Returns false when it can never end.
    fn list(&self) -> bool {
        let describe = |list: &mut Vec<Box<dyn Subject>>| {
            list.push(Box::new(AwaitedRun(self.launched.clone())));
            true
        };
        self.waiting.list(describe, || None)
    }
}

impl WaitTarget for Join<'_> {
    fn has_happened(&self) -> bool {
        self.launched.is_done() || self.waiting.is_cyclic()
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        let joiner = Joiner {
            pool: self.pool.share(),
            worker,
            isolated_wait: self.isolated_wait,
        };
        let control = &self.launched.control;
        self.list() && control.add_joiner(joiner, || self.launched.is_done())
    }

    fn unregister_sleeper(&self) {
        let control = &self.launched.control;
        control.remove_joiner(self.pool, self.worker);
    }

    fn take_job(&self) -> Option<Job> {
        // A worker whose wait is not isolated runs the relays from the queues. If it took the jobs
        // here, relays would accumulate where there is no other worker.
        self.isolated_wait
            .then(|| self.launched.control.take_job())?
    }

    fn has_job(&self) -> bool {
        self.isolated_wait && self.launched.control.has_job()
    }
}

/// A run that was [launched](Pool::launch). Dropping the handle does not stop the run. Then its
/// panics go to [`on_panic`](crate::PoolBuilder::on_panic), unless a [callback](Self::on_done) has
/// seen them.
///
/// The handle is a future of the result that [`join`](Self::join) returns.
#[must_use = "it has the result of the run; dropping it does not stop the run"]
pub struct RunHandle {
    launched: Arc<Launched>,
}

impl Pool {
    /// Starts a run of a graph that borrows nothing, and returns at once. Many runs may be active
    /// at the same time; runs of one [`SharedPlan`] wait for each other. No worker blocks for them.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let graph = Graph::new();
    /// graph.linearize([graph.task("a", || ()), graph.task("b", || ())]);
    /// let run = pool.launch(graph.plan()?);
    /// run.on_done(|result| println!("{result:?}"));
    /// assert_eq!(run.join()?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("Executor::run", "run_async"))]
    pub fn launch(&self, plan: impl Into<SharedPlan>) -> RunHandle {
        self.launch_with(plan, &RunOptions::new())
    }

    /// Like [`launch`](Self::launch), `times` times, one run after the other. Other runs of the
    /// same [`SharedPlan`] come before or after all of them.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// assert_eq!(pool.launch_n(graph.plan()?, 10).join()?.ran(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The first run that fails is the last one, and its error is the result.
    pub fn launch_n(&self, plan: impl Into<SharedPlan>, times: u64) -> RunHandle {
        self.launch_with(plan, &RunOptions::new().times(times))
    }

    /// Like [`launch`](Self::launch), until `stop` returns true. It is called before every run:
    /// before the first one by the thread that starts it, which may be the caller, and then by the
    /// worker that has ended the last run. A graph without tasks is not run, and `stop` not called.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("improve", || ());
    /// let mut rounds = 0;
    /// let run = pool.launch_until(graph.plan()?, move || {
    ///     rounds += 1;
    ///     rounds > 3
    /// });
    /// assert_eq!(run.join()?.ran(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The first run that fails is the last one, and its error is the result. A panic of `stop` is
    /// reported as that of a task with the name `run_until`.
    pub fn launch_until(
        &self,
        plan: impl Into<SharedPlan>,
        stop: impl FnMut() -> bool + Send + 'static,
    ) -> RunHandle {
        let repeat = Repeat::Until(Box::new(stop));
        self.launch_as(plan.into(), &RunOptions::new(), repeat)
    }

    /// Like [`launch`](Self::launch) with options: how often, a token that stops it, also while it
    /// is queued behind other runs, and so on. [`RunOptions::on`] has no effect: the run is on this
    /// pool.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, Pool, graph::RunOptions};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let graph = Graph::new();
    /// graph.task("never", || unreachable!());
    /// let run = pool.launch_with(graph.plan()?, &RunOptions::new().cancel(&token));
    /// assert!(run.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn launch_with(&self, plan: impl Into<SharedPlan>, options: &RunOptions) -> RunHandle {
        self.launch_as(plan.into(), options, Repeat::Times(options.count()))
    }

    fn launch_as(&self, plan: SharedPlan, options: &RunOptions, repeat: Repeat) -> RunHandle {
        let settings = options.settings();
        let control = RunControl::with_settings(self.inner(), NO_OWNER, plan.id(), settings);
        let registration = options.register_cancel(&control);
        let launched = Launched::new(control, registration, repeat);
        plan.add(&launched);
        RunHandle { launched }
    }
}

impl RunHandle {
    /// Whether the run is over.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let run = pool.launch(graph.plan()?);
    /// while !run.is_finished() {
    ///     std::thread::yield_now(); // or other work
    /// }
    /// assert_eq!(run.join()?.ran(), 1); // without a wait
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.launched.is_done()
    }

    /// Stops the run: no more tasks are released. Returns whether it came in time: if so,
    /// [`join`](Self::join) returns an error; otherwise the run was over.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// let forever = graph.future("an event that never happens", || std::future::pending());
    /// forever.precede(graph.task("after", || unreachable!()));
    /// let run = pool.launch(graph.plan()?);
    /// assert!(run.cancel()); // drops the future
    /// assert!(run.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "most callers don't care")]
    pub fn cancel(&self) -> bool {
        self.launched.cancel()
    }

    /// Waits until the run is over and returns its result. The calling thread works on it
    /// meanwhile.
    ///
    /// In an [`isolate`](crate::isolate()) it runs the tasks that the run has not begun yet. Tasks
    /// that the run has queued outside of it before are left to other workers: if this is the only
    /// worker, join the run outside.
    ///
    /// A task that joins the run that it is a part of, or a later run of the same plan, waits for
    /// itself. So does a task that a worker takes while it waits inside such a task. If all of
    /// this happens on one thread, it is [an error](RunError::is_recursive). If the task waits for
    /// a part of it on another thread (of a join, scope, fold or graph), a submitted task or a
    /// future that joins the run, that is [an error](RunError::is_deadlock) too, of that join or of
    /// the wait in the task.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.linearize([graph.task("first", || ()), graph.task("second", || ())]);
    /// let run = pool.launch(graph.plan()?);
    /// // Other work of this thread.
    /// assert_eq!(run.join()?.ran(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::run`](super::Plan::run); also when the run was cancelled before all tasks had
    /// run, and [in a task of the same plan](RunError::is_recursive), unless the run is over; and
    /// when [a task of the run waits for the caller](RunError::is_deadlock), or one of an earlier
    /// run of the same plan, directly or through others.
    ///
    /// # Panics
    /// If the handle has been awaited to its end before.
    pub fn join(self) -> Result<RunReport, RunError> {
        if !self.is_finished() {
            let plan_id = self.launched.control.plan_id();
            if self.launched.needs_plan() && active_jobs::is_plan_active(plan_id) {
                return Err(RunError::recursive());
            }
            let pool = self.launched.control.pool();
            let cycle = on_pool(pool, |context| {
                let began = context.mark();
                let join = Join {
                    launched: &self.launched,
                    pool: context.pool(),
                    worker: context.worker(),
                    // A worker of another pool, used because this pool has no index left for a
                    // guest, has no jobs of the run.
                    isolated_wait: context.has_restricted_waits() && ptr::eq(context.pool(), pool),
                    waiting: Waiting::new(WaitList::global()),
                };
                unwind::or_abort(|| context.wait(&join, began));
                join.waiting.finish()
            });
            if let Some(cycle) = cycle {
                return Err(RunError::deadlock(cycle));
            }
        }
        let result = self.launched.lock().result.take();
        result.expect("the result has been taken")
    }

    /// [`join`](Self::join) that stops the run if the wait can never end.
    pub(super) fn join_or_stop(self) -> Result<RunReport, RunError> {
        let launched = self.launched.clone();
        let result = self.join();
        if result.as_ref().is_err_and(RunError::is_deadlock) {
            launched.cancel();
        }
        result
    }

    /// Calls `f` with the result when the run is over: on the worker that ends it, or at once if it
    /// is over already. `f` is called before [`join`](Self::join) returns. It is not called if the
    /// result has been taken already.
    ///
    /// ```
    /// use filch::{Graph, Pool};
    /// use std::sync::mpsc;
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let graph = Graph::new();
    /// graph.task("work", || ());
    /// let (sender, receiver) = mpsc::channel();
    /// let run = pool.launch(graph.plan()?);
    /// run.on_done(move |result| sender.send(result.is_ok()).unwrap());
    /// assert!(receiver.recv()?); // no thread joins the run
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_done(&self, f: impl FnOnce(&Result<RunReport, RunError>) + Send + 'static) {
        let mut state = self.launched.lock();
        if !self.launched.is_done() || state.in_callbacks {
            // The thread that ends the run, or that calls the callbacks, calls this one too.
            return state.callbacks.push(Box::new(f));
        }
        if let Some(result) = state.result.take() {
            state.callbacks.push(Box::new(f));
            let mut state = self.launched.call_callbacks(state, &result);
            state.result = Some(result);
        }
    }
}

impl Future for RunHandle {
    type Output = Result<RunReport, RunError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_leaf(cx, |cx| self.poll_result(cx))
    }
}

impl RunHandle {
    fn poll_result(&self, cx: &Context<'_>) -> Poll<Result<RunReport, RunError>> {
        if !self.launched.is_done() {
            // Cloning and dropping wakers is user code, so it is not done under the lock.
            let mut waker = Some(cx.waker().clone());
            let mut state = self.launched.lock();
            let waits = !self.launched.is_done();
            if waits {
                mem::swap(&mut state.waker, &mut waker);
            }
            drop(state);
            drop(waker);
            if waits {
                return Poll::Pending;
            }
        }
        let result = self.launched.lock().result.take();
        Poll::Ready(result.expect("the result has been taken"))
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}
