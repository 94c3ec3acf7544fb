//! Launched runs: joined later, awaited as futures, or reported to callbacks.

use super::{
    error::{Outcome, RunError},
    options::CancelRegistration,
    plan::Plan,
    remote::{Joiner, Remote, on_pool},
    report::RunReport,
    start::start,
    within,
};
use crate::{
    base::{
        sync::{AtomicBool, Ordering},
        unwind,
    },
    cancel::CancelToken,
    pool::{
        Inner, Pool, context::WorkerContext, job::Job, latch::WaitTarget, pending_group::NO_OWNER,
    },
};
use std::{
    collections::VecDeque,
    fmt, mem,
    pin::Pin,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

type Result<T = RunReport, E = RunError> = std::result::Result<T, E>;
type Callback = Box<dyn FnOnce(&Result) + Send>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A plan that several callers can launch. Its runs queue up: one at a time, in the order in which
/// they were launched.
///
/// ```
/// use filch::{Graph, Pool, graph::SharedPlan};
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// let count = Arc::new(AtomicU32::new(0));
/// let graph = Graph::new();
/// let inside = count.clone();
/// graph.task("count", move || { inside.fetch_add(1, Ordering::Relaxed); });
/// let plan = SharedPlan::from(graph.plan()?);
///
/// let pool = Pool::builder().workers(2).build()?;
/// let runs: Vec<_> = (0..5).map(|_| pool.launch(&plan)).collect();
/// for run in runs {
///     run.join()?;
/// }
/// assert_eq!(count.load(Ordering::Relaxed), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedPlan {
    shared: Arc<Mutex<Line>>,
}

/// The queue of the runs of a shared plan, its *line*.
struct Line {
    /// `None` while the plan runs.
    plan: Option<Plan<'static>>,
    waiting: VecDeque<Arc<Launched>>,
}

impl From<Plan<'static>> for SharedPlan {
    fn from(plan: Plan<'static>) -> Self {
        let line = Line {
            plan: Some(plan),
            waiting: VecDeque::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(line)),
        }
    }
}

impl From<&Self> for SharedPlan {
    fn from(plan: &Self) -> Self {
        plan.clone()
    }
}

impl SharedPlan {
    /// Returns the plan, if there is no other clone of this handle and the plan is not running.
    #[must_use]
    pub fn into_plan(self) -> Option<Plan<'static>> {
        let line = Arc::into_inner(self.shared)?;
        line.into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .plan
    }

    /// Launches a run on the pool whose worker the caller is, otherwise on the global one, and
    /// waits for it. The calling thread works on it too.
    ///
    /// # Errors
    /// As [`Plan::run`]. In a task of the plan itself the run would wait for its own end, so
    /// nothing is launched: [`RunError::is_recursive`].
    pub fn run(&self) -> Result {
        if within::is_inside(self.line()) {
            return Err(RunError::recursive());
        }
        let pool = Pool::current();
        pool.as_ref()
            .unwrap_or_else(|| Pool::global())
            .launch(self)
            .join()
    }

    /// Returns the address of the line. It is unique as long as a share of this plan exists.
    fn line(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn add(&self, launched: Arc<Launched>) {
        let mut line = lock(&self.shared);
        match line.plan.take() {
            Some(plan) => {
                drop(line);
                self.begin(plan, launched);
            }
            None => line.waiting.push_back(launched),
        }
    }

    fn begin(&self, plan: Plan<'static>, launched: Arc<Launched>) {
        let (this, remote) = (self.clone(), launched.remote.clone());
        let then = move |plan: Plan<'static>, outcome: Outcome| {
            this.next(plan);
            // If this was the last share of the plan, it is dropped before the result is published.
            // That runs the user's destructors.
            launched.contain(move || drop(this));
            launched.finish(outcome);
        };
        if plan.is_empty() {
            return then(plan, Outcome::default());
        }
        let then = move |plan, outcome, _: &WorkerContext<'_, '_>| {
            then(plan, outcome);
            None
        };
        start(plan, &remote, None, false, then);
    }

    /// Stores the plan of a finished run, or starts the next run with it.
    fn next(&self, plan: Plan<'static>) {
        let mut line = lock(&self.shared);
        match line.waiting.pop_front() {
            Some(launched) => {
                drop(line);
                self.begin(plan, launched);
            }
            None => line.plan = Some(plan),
        }
    }
}

impl fmt::Debug for SharedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = lock(&self.shared);
        f.debug_struct("SharedPlan")
            .field("plan", &line.plan)
            .field("waiting", &line.waiting.len())
            .finish()
    }
}

/// A run that was launched.
struct Launched {
    remote: Arc<Remote>,
    /// Unregisters from the token when it is dropped.
    _registration: Option<CancelRegistration>,
    done: AtomicBool,
    state: Mutex<LaunchState>,
}

#[derive(Default)]
struct LaunchState {
    result: Option<Result>,
    /// Whether a callback has seen the result.
    seen_by_callback: bool,
    /// Whether callbacks are being called; the thread that calls them has the result.
    in_callbacks: bool,
    callbacks: Vec<Callback>,
    waker: Option<Waker>,
}

impl Launched {
    fn is_done(&self) -> bool {
        // Acquire: pairs with the release in `finish`.
        self.done.load(Ordering::Acquire)
    }

    fn finish(self: &Arc<Self>, outcome: Outcome) {
        let result = outcome.into_result();
        let mut state = self.call_callbacks(lock(&self.state), &result);
        state.result = Some(result);
        // Release: pairs with the acquire in `is_done`.
        self.done.store(true, Ordering::Release);
        let waker = state.waker.take();
        drop(state);
        self.remote.wake_joiners(|_| true);
        if let Some(waker) = waker {
            self.contain(|| waker.wake());
        }
    }

    /// Calls the callbacks, without the lock. More may be added while they run.
    fn call_callbacks<'a>(
        &'a self,
        mut state: MutexGuard<'a, LaunchState>,
        result: &Result,
    ) -> MutexGuard<'a, LaunchState> {
        while !state.callbacks.is_empty() {
            let callbacks = mem::take(&mut state.callbacks);
            (state.seen_by_callback, state.in_callbacks) = (true, true);
            drop(state);
            for callback in callbacks {
                self.contain(|| callback(result));
            }
            state = lock(&self.state);
        }
        state.in_callbacks = false;
        state
    }

    /// Calls user code, and reports its panic.
    fn contain(&self, f: impl FnOnce()) {
        if let Err(payload) = unwind::contain(f) {
            self.remote.pool().panicked(payload);
        }
    }
}

/// Panics that no caller has received are reported like those of spawned tasks. Each payload is
/// handled on its own, since its destructor is user code.
impl Drop for Launched {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Err(error)) = state.result.take() else {
            return;
        };
        for panic in error.into_panics() {
            match state.seen_by_callback {
                true => unwind::discard(panic.into_payload()),
                false => self.remote.pool().panicked(panic.into_payload()),
            }
        }
    }
}

/// A worker that waits for a run.
struct Join<'a> {
    launched: &'a Launched,
    pool: &'a Inner,
    worker: usize,
    /// Whether the worker runs only what was queued on it, so that it has to take what the run has
    /// queued elsewhere.
    alone: bool,
}

impl WaitTarget for Join<'_> {
    fn happened(&self) -> bool {
        self.launched.is_done()
    }

    fn register_sleeper(&self, worker: usize) -> bool {
        let joiner = Joiner {
            pool: self.pool.share(),
            worker,
            alone: self.alone,
        };
        let remote = &self.launched.remote;
        remote.join(joiner, || self.launched.is_done())
    }

    fn unregister_sleeper(&self) {
        let remote = &self.launched.remote;
        remote.unjoin(self.pool, self.worker);
    }

    fn take_job(&self) -> Option<Job> {
        // A worker that is not alone runs the turns from the queues. If it took the jobs here,
        // turns would accumulate where there is no other worker.
        self.alone.then(|| self.launched.remote.take_job())?
    }

    fn has_job(&self) -> bool {
        self.alone && self.launched.remote.has_job()
    }
}

/// A run that was [launched](Pool::launch). Dropping the handle does not stop the run. Then its
/// panics go to [`on_panic`](crate::PoolBuilder::on_panic), unless a [callback](Self::on_done) has
/// seen them.
///
/// The handle is a future of the result that [`join`](Self::join) returns.
#[must_use = "it tells what the run comes to"]
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
    pub fn launch(&self, plan: impl Into<SharedPlan>) -> RunHandle {
        self.launch_as(plan.into(), None)
    }

    /// Like [`launch`](Self::launch), with a token that stops the run when it is cancelled, also
    /// while the run is queued behind others.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, Pool};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let graph = Graph::new();
    /// graph.task("never", || unreachable!());
    /// let run = pool.launch_with(graph.plan()?, &token);
    /// assert!(run.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn launch_with(&self, plan: impl Into<SharedPlan>, token: &CancelToken) -> RunHandle {
        self.launch_as(plan.into(), Some(token))
    }

    fn launch_as(&self, plan: SharedPlan, token: Option<&CancelToken>) -> RunHandle {
        let remote = Remote::in_line(self.inner(), NO_OWNER, plan.line());
        let launched = Arc::new(Launched {
            _registration: token.map(|token| CancelRegistration::new(token, &remote)),
            remote,
            done: AtomicBool::new(false),
            state: Mutex::default(),
        });
        plan.add(launched.clone());
        RunHandle { launched }
    }
}

impl RunHandle {
    /// Whether the run is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.launched.is_done()
    }

    /// Stops the run: no more tasks are released.
    pub fn cancel(&self) {
        self.launched.remote.stop();
    }

    /// Waits until the run is over and returns its result. The calling thread works on it
    /// meanwhile.
    ///
    /// In an [`isolate`](crate::isolate()) it runs the tasks that the run has not begun yet. Tasks
    /// that the run has queued outside of it before are left to other workers: if this is the only
    /// worker, join the run outside.
    ///
    /// A task that joins the run that it is a part of, or a later run of the same plan, waits for
    /// itself. So does a task that a worker takes while it waits inside of such a task. If all of
    /// this happens on one thread, it is an error. If the task has another thread join for it, the
    /// wait never ends.
    ///
    /// # Errors
    /// As [`Plan::run`]; also when the run was cancelled before all tasks had run, and [in a task
    /// of the same plan](RunError::is_recursive), unless the run is over.
    ///
    /// # Panics
    /// If the handle has been awaited to its end before.
    pub fn join(self) -> Result {
        if !self.is_finished() {
            if within::is_inside(self.launched.remote.line()) {
                return Err(RunError::recursive());
            }
            let pool = self.launched.remote.pool();
            on_pool(pool, |context| {
                let began = context.mark();
                let join = Join {
                    launched: &self.launched,
                    pool: context.pool(),
                    worker: context.worker(),
                    // A worker of another pool, used because this pool has no place left, has no
                    // jobs of the run.
                    alone: context.has_isolated_waits() && ptr::eq(context.pool(), pool),
                };
                unwind::or_abort(|| context.wait(&join, began));
            });
        }
        let result = lock(&self.launched.state).result.take();
        result.expect("the result has been taken")
    }

    /// Calls `f` with the result when the run is over: on the worker that ends it, or at once if it
    /// is over already. `f` is called before [`join`](Self::join) returns. It is not called if the
    /// result has been taken already.
    pub fn on_done(&self, f: impl FnOnce(&Result<RunReport, RunError>) + Send + 'static) {
        let mut state = lock(&self.launched.state);
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
        if !self.launched.is_done() {
            // Cloning and dropping wakers is user code, so it is not done under the lock.
            let mut waker = Some(cx.waker().clone());
            let mut state = lock(&self.launched.state);
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
        let result = lock(&self.launched.state).result.take();
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
