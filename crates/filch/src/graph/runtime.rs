//! Tasks that spawn more work into the run that they belong to.
#![expect(unsafe_code, reason = "jobs that point into the frame of a task")]

use super::{
    build::{Graph, Task},
    child::{ChildHandle, ChildOutcome},
    node::TaskKind,
    run::GraphRun,
    running_task::RunningTask,
};
use crate::{
    base::unwind,
    engine::{Mark, Placement},
    pool::{
        Inner,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap,
        latch::WaitTarget,
        pending::Pending,
        pending_group::PendingGroup,
        scoped::{ScopedWaiter, scoped},
    },
};
use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

/// The access that a running task has to its run.
///
/// Made by [`Graph::runtime`].
pub struct Runtime<'env> {
    spawned: Spawned,
    began: Mark,
    env: PhantomData<fn(&'env ()) -> &'env ()>,
    /// Not `Send`: it stays on the thread that the task runs on.
    thread: PhantomData<*const ()>,
}

/// The state that a runtime shares with the closures that it has spawned.
struct Spawned {
    /// The task to which panics are attributed.
    task: RunningTask,
    /// The worker that the task runs on.
    owner: usize,
    pending: Pending,
}

// SAFETY: the owner's side of `pending` is only used by the thread that is worker `owner`: a
// `Runtime` stays on it, and `end_job` checks which worker calls it. `task` points to a run, which
// is `Sync`.
unsafe impl Sync for Spawned {}

impl PendingGroup for Spawned {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn pool(&self) -> *const Inner {
        self.task.run().pool
    }

    fn owner(&self) -> usize {
        self.owner
    }
}

impl ScopedWaiter for Spawned {
    fn begin(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.begin_job(context)
    }

    fn group(&self) -> JobGroup {
        PendingGroup::group(self)
    }

    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>, is_elsewhere: bool) {
        // SAFETY: the caller guarantees that the job is counted as pending.
        let ownerless = unsafe { Self::end_begun_job(this, context, is_elsewhere) };
        debug_assert!(!ownerless, "the task's worker waits");
    }
}

impl<'env> Graph<'env> {
    /// Adds a task that can spawn closures into the run, and wait for them while its worker runs
    /// other tasks. When `work` returns, the task waits for all closures that are left before its
    /// successors run.
    ///
    /// ```
    /// use filch::{Graph, graph::Runtime};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let seen = AtomicU32::new(0);
    /// let graph = Graph::new();
    /// graph.runtime("search", |rt| {
    ///     for _ in 0..3 {
    ///         rt.spawn(|rt| {
    ///             seen.fetch_add(1, Ordering::Relaxed);
    ///             rt.spawn(|_| { seen.fetch_add(1, Ordering::Relaxed); });
    ///         });
    ///     }
    ///     rt.wait();
    ///     assert_eq!(seen.load(Ordering::Relaxed), 6);
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runtime(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl FnMut(&Runtime<'env>) + Send + 'env,
    ) -> Task<'_, 'env> {
        let task = self.add(name.into());
        self.set_runtime(task, work);
        task
    }

    /// Makes a task a [`runtime`](Self::runtime).
    pub(super) fn set_runtime(
        &self,
        task: Task<'_, 'env>,
        mut work: impl FnMut(&Runtime<'env>) + Send + 'env,
    ) {
        self.set(task.index(), TaskKind::Runtime, move |cx| {
            // SAFETY: `enter` uses it while this closure, which is the task, runs.
            let task = unsafe { RunningTask::new(cx.run, cx.index()) };
            Runtime::enter(task, cx.context, |runtime| work(runtime));
            cx.run.after_parts(cx.index())
        });
    }
}

impl<'env> Runtime<'env> {
    /// Calls `f` with a runtime, and waits for what it has spawned.
    fn enter(task: RunningTask, context: &WorkerContext<'_, '_>, f: impl FnOnce(&Runtime<'env>)) {
        let runtime = Runtime {
            spawned: Spawned {
                task,
                owner: context.worker(),
                pending: Pending::new(),
            },
            began: context.mark(),
            env: PhantomData,
            thread: PhantomData,
        };
        let result = unwind::contain(|| f(&runtime));
        // Most of what is spawned spawns nothing itself, and a wait has a cost of its own.
        if !runtime.spawned.has_happened() {
            // Also after a panic: the spawned closures point into this frame.
            unwind::or_abort(|| context.wait(&runtime.spawned, runtime.began));
        }
        if let Err(payload) = result {
            unwind::resume(payload);
        }
    }

    /// Spawns a closure as a part of this task. It gets a runtime of its own, and waits for what it
    /// spawns in the same way. If it panics, the task has panicked. If the run has been stopped,
    /// the closure is dropped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let sum = AtomicU64::new(0);
    /// let sum = &sum;
    /// let graph = filch::Graph::new();
    /// let split = graph.runtime("split", move |rt| {
    ///     for n in 1..=10 {
    ///         rt.spawn(move |_| { sum.fetch_add(n, Ordering::Relaxed); });
    ///     }
    /// });
    /// split.precede(graph.task("after", || assert_eq!(sum.load(Ordering::Relaxed), 55)));
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn(&self, work: impl FnOnce(&Runtime<'env>) + Send + 'env) {
        self.push_child(work, |_| ());
    }

    /// Like [`spawn`](Self::spawn), with a handle for the result of the closure.
    ///
    /// ```
    /// use filch::graph::Runtime;
    ///
    /// fn fibonacci(rt: &Runtime<'_>, n: u64) -> u64 {
    ///     if n < 2 {
    ///         return n;
    ///     }
    ///     let first = rt.submit(move |rt| fibonacci(rt, n - 1));
    ///     let second = fibonacci(rt, n - 2);
    ///     first.join().map_or(0, |first| first + second)
    /// }
    ///
    /// let mut result = 0;
    /// let graph = filch::Graph::new();
    /// graph.runtime("compute", |rt| result = fibonacci(rt, 10));
    /// graph.plan()?.run()?;
    /// assert_eq!(result, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "async")]
    pub fn submit<T: Send + 'env>(
        &self,
        work: impl FnOnce(&Runtime<'env>) -> T + Send + 'env,
    ) -> ChildHandle<'_, 'env, T> {
        let outcome = Arc::new(ChildOutcome::default());
        let (result, ended) = (outcome.clone(), outcome.clone());
        self.push_child(
            move |runtime| result.set(work(runtime)),
            move |context| ended.end(context),
        );
        ChildHandle::new(self, outcome)
    }

    /// Spawns a closure. `end` is called when it is done, or was dropped, and must not panic.
    fn push_child(
        &self,
        work: impl FnOnce(&Runtime<'env>) + Send + 'env,
        end: impl FnOnce(&WorkerContext<'_, '_>) + Send + 'env,
    ) {
        let call = move |spawned: &Spawned, context: &WorkerContext<'_, '_>| {
            let (run, index) = (spawned.task.run(), spawned.task.index);
            let result = if run.stopped() {
                run.mark_incomplete();
                unwind::contain(|| drop(work))
            } else {
                let enter = || Runtime::enter(spawned.task, context, work);
                unwind::contain(|| context.isolate_if(run.isolated, enter))
            };
            if let Err(payload) = result {
                run.panicked(index, payload);
            }
            end(context);
        };
        self.enter_worker(|context| {
            self.spawned.pending.add_by_owner();
            // SAFETY: the job has just been counted. `enter` does not return before it is done, and
            // what it borrows outlives the graph; the pool runs every job.
            let job = unsafe { scoped(&raw const self.spawned, call) };
            // SAFETY: as for `scoped`: the job is counted, `enter` waits for it, and what it
            // borrows outlives the graph.
            let job = unsafe { heap::alloc_job(context, job) };
            context.push(job, Placement::Local);
        });
    }

    /// Waits until everything that this runtime has spawned is done; the worker runs other tasks
    /// meanwhile.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let done = AtomicU32::new(0);
    /// let graph = filch::Graph::new();
    /// graph.runtime("two phases", |rt| {
    ///     for phase in 1..=2 {
    ///         for _ in 0..4 {
    ///             rt.spawn(|_| { done.fetch_add(1, Ordering::Relaxed); });
    ///         }
    ///         rt.wait();
    ///         assert_eq!(done.load(Ordering::Relaxed), 4 * phase);
    ///     }
    /// });
    /// graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("corun_all", "corun"))]
    pub fn wait(&self) {
        self.wait_for(&self.spawned);
    }

    /// Waits for an event; the worker runs other tasks meanwhile.
    pub(super) fn wait_for(&self, event: &impl WaitTarget) {
        self.enter_worker(|context| {
            unwind::or_abort(|| context.wait(event, self.began));
        });
    }

    /// Whether the run has been stopped, by a panic or because it was cancelled.
    ///
    /// ```
    /// use filch::{CancelToken, Graph, graph::RunOptions};
    ///
    /// let token = CancelToken::new();
    /// let graph = Graph::new();
    /// graph.runtime("search", |rt| {
    ///     for n in 0.. {
    ///         if rt.is_stopped() {
    ///             return; // a long task ends early
    ///         }
    ///         if n == 10 {
    ///             token.cancel();
    ///         }
    ///     }
    /// });
    /// let _ = graph.plan()?.run_with(&RunOptions::new().cancel(&token));
    /// assert!(token.is_cancelled());
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.run().stopped()
    }

    /// Returns the run that the task belongs to.
    pub(super) fn run(&self) -> &GraphRun<'static> {
        self.spawned.task.run()
    }

    /// Calls `f` with the context of the task's worker.
    pub(super) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        self.spawned.task.enter_worker(|context| {
            debug_assert_eq!(context.worker(), self.spawned.owner);
            f(context)
        })
    }
}

impl fmt::Debug for Runtime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}
