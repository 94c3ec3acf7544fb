//! The typed executor: a task type, a runner, and a scratch value for every worker.
//!
//! Tasks are values of one type `T`, usually a small enum or struct; a runner is called for each.
//! No task is boxed: a `T` is stored in the queues directly. Each worker has a scratch value `S` of
//! its own (buffers, partial results) that the runner uses without locks.
//!
//! ```
//! use filch::Executor;
//!
//! // Count the nodes of a tree that is generated while it is walked.
//! struct Node {
//!     depth: u32,
//! }
//!
//! let executor = Executor::builder()
//!     .workers(2)
//!     .build(
//!         |_worker| 0_u64, // the scratch of each worker: the number of nodes it has visited
//!         |node: Node, cx| {
//!             *cx.scratch() += 1;
//!             if node.depth < 10 {
//!                 cx.spawn(Node { depth: node.depth + 1 });
//!                 cx.spawn(Node { depth: node.depth + 1 });
//!             }
//!         },
//!     )?;
//! executor.spawn(Node { depth: 0 }).unwrap();
//! let summary = executor.finish();
//! assert_eq!(summary.scratch.iter().sum::<u64>(), (1 << 11) - 1);
//! println!("{}", summary.metrics);
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! The workers are threads of the executor, not those of a [`Pool`](crate::Pool). Inside of its
//! tasks [`join`](crate::join()), loops and [`submit`](crate::submit()) use the global pool, as on
//! any thread from outside; [`Pool::install`](crate::Pool::install) chooses another one.
//!
//! # Long tasks
//!
//! A runner is not interrupted. A task that takes long should stop at intervals and queue the rest
//! of itself behind the other tasks, with [`Context::yield_now`]. A [`YieldPolicy`] decides when,
//! by the units of work that the task counts:
//!
//! | policy | yields |
//! |---|---|
//! | [`EveryN`] | after every `n` units |
//! | [`AdaptiveYield`] | less often while no other task waits, more often while one does |
//! | [`PerPhase`] | by a policy for each phase of a task |
//! | [`Always`], [`Never`] | at every call, or at none |
//!
//! ```
//! use filch::{Executor, executor::{EveryN, YieldPolicy}};
//!
//! let executor = Executor::builder().workers(1).build(
//!     |_worker| 0_u32,
//!     |rest: u32, cx| {
//!         let mut policy = EveryN::new(100);
//!         for done in 1..=rest {
//!             *cx.scratch() += 1; // one unit of work
//!             if policy.record_work(1) {
//!                 return cx.yield_now(rest - done);
//!             }
//!         }
//!     },
//! )?;
//! executor.spawn(1000).unwrap();
//! assert_eq!(executor.finish().scratch, [1000]);
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! # Full queues
//!
//! The queue of a worker grows without a limit by default. If the queue strategy gives it a
//! [bound](crate::engine::Capacity::bounded), [`QueueOverflow`] decides what [`Context::spawn`]
//! does when it is full: move the older half of the queue to the injector, or run the task at once.
//!
//! # Budgets
//!
//! A task may need units of a [`Semaphore`](crate::Semaphore): bytes of memory, connections.
//! [`spawn_when`](Executor::spawn_when) queues it when the units are free, so that no worker waits
//! for them. The task owns its [`Permit`](crate::Permit), and gives it back when it is done with
//! what it stands for.
//!
//! # Tasks that borrow
//!
//! [`ExecutorBuilder::scope`] runs an executor for the time of a call, so that its tasks, its
//! runner and its scratch values can have references to what the caller owns.
//!
//! # Life cycle
//!
//! An executor accepts tasks until [`finish`](Executor::finish),
//! [`shutdown_now`](Executor::shutdown_now) or its drop. `finish` and drop run all accepted tasks,
//! and those that they spawn; `shutdown_now` makes the workers exit after their current task and
//! returns the rest. After that a [`Handle`] refuses tasks and returns them.
//! [`finish_timeout`](Executor::finish_timeout) waits for a limited time. The
//! [token](Executor::token) of an executor shuts it down when it is cancelled, for example with a
//! [parent](ExecutorBuilder::token) or at a deadline; long tasks check
//! [`Context::is_cancelled`].
//!
//! # More and fewer workers
//!
//! [`resize`](Executor::resize) changes the number of workers while the executor works, up to
//! [`max_workers`](ExecutorBuilder::max_workers). A worker that leaves drops its scratch value.
//!
//! # Panics
//!
//! A panic in the runner costs that one task. The worker, its scratch and all other tasks continue;
//! `finish` resumes the first panic when all tasks have run.

mod build;
mod builder;
mod context;
mod handle;
mod resize;
mod scope;
mod wait;
mod waiting;
mod when;
mod yields;

pub use builder::ExecutorBuilder;
pub use context::{Context, QueueOverflow};
pub use handle::Handle;
pub use yields::{AdaptiveYield, Always, EveryN, Never, PerPhase, YieldPolicy};

use crate::{
    base::{
        error::{BuildError, Refused},
        thread,
        unwind::{self, Payload},
    },
    cancel::CancelToken,
    engine::{Core, NoObserver, Observer, PerWorker, Placement, Strategy},
    observe::{Counters, Metrics},
    threads::{Parkers, ThreadGroup, WorkerStates, is_thread_of},
};
use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// The state that the executor, its handles and its workers share.
struct ExecutorState<T: Send, Q: Strategy, O: Observer> {
    core: Arc<Core<T, Q, Listeners<O>>>,
    /// Cancelled when the executor is shut down, and shuts it down when it is cancelled.
    token: CancelToken,
    /// Which workers take part.
    members: WorkerStates,
    /// Starts the thread of a worker, if the executor starts its own threads. It has the hooks of
    /// the threads, which may have a handle, so it is dropped when the executor ends.
    starts: OnceLock<Mutex<Option<StartWorker>>>,
    parkers: Arc<Parkers>,
    waiting: waiting::WaitingTasks,
    panics: Mutex<TaskPanics>,
    on_panic: Option<TaskPanicHandler>,
}

/// Starts the thread of a worker, and adds it to those of the executor.
type StartWorker = Box<dyn Fn(usize) -> Result<(), BuildError> + Send + Sync>;

/// Called with the worker and the payload of the panic.
type TaskPanicHandler = Box<dyn Fn(usize, &Payload) + Send + Sync>;

/// The counters, and the user's observer.
type Listeners<O> = (Counters, O);

#[derive(Default)]
struct TaskPanics {
    first: Option<Payload>,
    count: usize,
}

/// A typed executor. See the [module documentation](self).
pub struct Executor<T, S = (), Q = PerWorker, O = NoObserver>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    inner: Arc<ExecutorState<T, Q, O>>,
    /// `None` after they have been joined.
    thread_group: SharedThreads<S>,
}

/// The threads of an executor, which a resize changes.
type SharedThreads<S> = Arc<Mutex<Option<ThreadGroup<S>>>>;

/// What an executor returns when it ends: from [`finish`](Executor::finish) and
/// [`shutdown_now`](Executor::shutdown_now).
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary<T, S> {
    /// The counters of the workers.
    pub metrics: Metrics,
    /// Their scratch values, in the order of the workers. Those of workers that have left before,
    /// because the executor was [resized](Executor::resize), are not among them.
    pub scratch: Vec<S>,
    /// Tasks that were accepted and not run: empty, unless the executor was shut down.
    pub not_run: Vec<T>,
}

/// A task panicked. Contains the first panic and the summary of the executor.
///
/// ```
/// use filch::Executor;
///
/// let executor = Executor::builder()
///     .workers(1)
///     .build(|_| 0, |n: u32, cx| {
///         assert_ne!(n, 3, "three is not allowed");
///         *cx.scratch() += n;
///     })
///     .unwrap();
/// executor.spawn_batch(vec![1, 2, 3, 4]).unwrap();
/// let error = executor.try_finish().unwrap_err();
/// assert_eq!(error.panics(), 1);
/// assert!(error.to_string().contains("three is not allowed"));
/// assert_eq!(error.into_summary().scratch, [1 + 2 + 4]);
/// ```
pub struct Panicked<T, S> {
    payload: Payload,
    panics: usize,
    summary: Summary<T, S>,
}

impl<T, S> Panicked<T, S> {
    /// The number of tasks that panicked.
    ///
    /// ```
    /// let executor = filch::Executor::builder().build(|_| (), |n: u32, _| assert_ne!(n, 3, "not {n}"))?;
    /// executor.spawn_batch([2, 3]).unwrap();
    /// let error = executor.try_finish().unwrap_err();
    /// assert_eq!(error.panics(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn panics(&self) -> usize {
        self.panics
    }

    /// The payload of the first panic.
    ///
    /// ```
    /// let executor = filch::Executor::builder().build(|_| (), |n: u32, _| assert_ne!(n, 3, "not {n}"))?;
    /// executor.spawn_batch([2, 3]).unwrap();
    /// let error = executor.try_finish().unwrap_err();
    /// assert!(error.into_payload().downcast_ref::<String>().unwrap().contains("not 3"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }

    /// The summary of the executor.
    ///
    /// ```
    /// let executor = filch::Executor::builder().build(|_| (), |n: u32, _| assert_ne!(n, 3, "not {n}"))?;
    /// executor.spawn_batch([2, 3]).unwrap();
    /// let error = executor.try_finish().unwrap_err();
    /// assert_eq!(error.into_summary().metrics.total().executed, 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn into_summary(self) -> Summary<T, S> {
        self.summary
    }
}

impl<T, S> fmt::Display for Panicked<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = unwind::message(&self.payload);
        match self.panics {
            1 => write!(f, "a task panicked: {message}"),
            n => write!(f, "{n} tasks panicked, the first with: {message}"),
        }
    }
}

impl<T, S> fmt::Debug for Panicked<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panicked({self})")
    }
}

impl<T, S> std::error::Error for Panicked<T, S> {}

impl<T: Send + 'static> Executor<T> {
    /// Returns a builder for the settings of an executor.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(2).build(|_| (), |_: u8, _| {})?;
    /// assert_eq!(executor.workers(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn builder() -> ExecutorBuilder<T> {
        ExecutorBuilder::new()
    }
}

impl<T, S, Q, O> Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    /// A handle to spawn tasks with, from any thread.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(2).build(|_| 0, |n: u32, cx| *cx.scratch() += n)?;
    /// let handle = executor.handle();
    /// std::thread::spawn(move || handle.spawn(7).unwrap()).join().unwrap();
    /// assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 7);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> Handle<T, Q, O> {
        Handle::new(self.inner.clone())
    }

    /// Spawns a task from outside.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(2).build(|_| 0, |n: u32, cx| *cx.scratch() += n)?;
    /// executor.spawn(7).unwrap();
    /// assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 7);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, if the executor is closed or its injector is bounded and full.
    pub fn spawn(&self, task: T) -> Result<(), Refused<T>> {
        self.inner.core.inject(task, Placement::Injector)
    }

    /// Spawns all tasks, or none.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(2).build(|_| 0, |n: u32, cx| *cx.scratch() += n)?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// assert_eq!(executor.finish().scratch.iter().sum::<u32>(), 6);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// All the tasks, if the executor is closed or they don't all fit.
    pub fn spawn_batch(&self, tasks: impl Into<Vec<T>>) -> Result<(), Refused<Vec<T>>> {
        self.inner.core.inject_batch(tasks.into())
    }

    /// The number of workers. [`resize`](Self::resize) changes it.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(3).build(|_| (), |_: u8, _| {})?;
    /// assert_eq!(executor.workers(), 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.members.live()
    }

    /// The counters of the workers.
    ///
    /// ```
    /// # let executor = filch::Executor::builder().workers(1).build(|_| (), |_: u8, _| {}).unwrap();
    /// println!("{} tasks so far", executor.metrics().total().executed);
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// Closes the executor, runs all accepted tasks, and returns when all are done.
    ///
    /// ```
    /// let executor = filch::Executor::builder().workers(2).build(|_| 0, |n: u32, cx| *cx.scratch() += n)?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// let summary = executor.finish();
    /// assert_eq!(summary.scratch.iter().sum::<u32>(), 6);
    /// assert_eq!(summary.metrics.total().executed, 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// With the first panic of a task, after everything else has run.
    /// [`try_finish`](Self::try_finish) returns it instead. Also if a worker of this executor calls
    /// it, which would wait for itself.
    pub fn finish(self) -> Summary<T, S> {
        match self.try_finish() {
            Ok(summary) => summary,
            Err(panicked) => unwind::resume(panicked.payload),
        }
    }

    /// [`finish`](Self::finish), with a panic as an error.
    ///
    /// ```
    /// let executor = filch::Executor::builder().build(|_| (), |n: u32, _| assert_ne!(n, 3))?;
    /// executor.spawn_batch([1, 2, 3]).unwrap();
    /// let error = executor.try_finish().unwrap_err();
    /// assert_eq!((error.panics(), error.into_summary().metrics.total().executed), (1, 3));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If a task panicked. The error contains the summary too.
    ///
    /// # Panics
    /// If a worker of this executor calls it.
    pub fn try_finish(mut self) -> Result<Summary<T, S>, Panicked<T, S>> {
        self.inner.core.close();
        self.wait_for_workers()
    }

    /// Closes the executor and makes the workers exit after their current task. Tasks that are
    /// still queued are returned in [`Summary::not_run`].
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| 0, |_: u32, cx| *cx.scratch() += 1).unwrap();
    /// executor.spawn_batch((0..1000).collect::<Vec<_>>()).unwrap();
    /// let summary = executor.shutdown_now().unwrap();
    /// assert_eq!(summary.scratch[0] + summary.not_run.len(), 1000);
    /// ```
    ///
    /// # Errors
    /// If a task panicked. The error contains the summary too.
    ///
    /// # Panics
    /// If a worker of this executor calls it.
    pub fn shutdown_now(mut self) -> Result<Summary<T, S>, Panicked<T, S>> {
        self.inner.stop();
        self.wait_for_workers()
    }

    fn wait_for_workers(&mut self) -> Result<Summary<T, S>, Panicked<T, S>> {
        self.assert_outside();
        let thread_group = self.take_thread_group().expect("only joined once");
        self.inner.sum_up(thread_group.join())
    }

    #[track_caller]
    fn assert_outside(&self) {
        assert!(
            !self.is_own_worker(),
            "a worker cannot wait for its own executor; do it from another thread"
        );
    }

    fn is_own_worker(&self) -> bool {
        is_thread_of(Arc::as_ptr(&self.inner.core) as usize)
    }
}

/// Runs all accepted tasks, as [`finish`](Executor::finish) does. Panics of tasks are not resumed:
/// the panic hook has reported them.
///
/// Dropped by one of its own workers, the executor is only closed: the other workers run the rest,
/// and the drop does not wait.
impl<T, S, Q, O> Drop for Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.inner.core.close();
        if !self.is_own_worker()
            && let Some(thread_group) = self.take_thread_group()
        {
            drop(thread_group.join());
        }
    }
}

impl<T, S, Q, O> fmt::Debug for Executor<T, S, Q, O>
where
    T: Send + 'static,
    S: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("core", &self.inner.core)
            .finish_non_exhaustive()
    }
}

impl<T: Send, Q: Strategy, O: Observer> ExecutorState<T, Q, O> {
    /// Makes the workers exit after their current task. Tasks that wait for units are dropped.
    fn stop(&self) {
        // First, so that tasks that run see it. It may call this function again, which is harmless.
        self.token.cancel();
        self.core.stop();
        self.waiting.cancel_all();
    }

    /// Returns the summary of an executor whose workers have ended with these scratch values.
    fn sum_up<S>(&self, scratch: Vec<S>) -> Result<Summary<T, S>, Panicked<T, S>> {
        let summary = Summary {
            not_run: self.core.take_queued(thread::yield_now),
            metrics: self.metrics(),
            scratch,
        };
        let mut panics = self.panics();
        match panics.first.take() {
            None => Ok(summary),
            Some(payload) => Err(Panicked {
                payload,
                panics: panics.count,
                summary,
            }),
        }
    }

    fn metrics(&self) -> Metrics {
        self.core.observer().0.metrics()
    }

    fn panics(&self) -> std::sync::MutexGuard<'_, TaskPanics> {
        self.panics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a panic of a task on `worker`.
    #[cold]
    fn panicked(&self, worker: usize, payload: Payload) {
        if let Some(handler) = &self.on_panic {
            // The handler is user code too; its panic is discarded, but reported by the panic hook.
            let _ = unwind::contain(|| handler(worker, &payload));
        }
        let mut panics = self.panics();
        panics.count += 1;
        if panics.first.is_none() {
            panics.first = Some(payload);
        } else {
            // Its destructor is user code and may panic itself.
            drop(panics);
            let _ = unwind::contain(|| drop(payload));
        }
    }
}
