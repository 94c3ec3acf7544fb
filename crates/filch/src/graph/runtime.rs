//! Tasks that spawn more work into the run that they belong to.
#![expect(unsafe_code, reason = "jobs that point into the frame of a task")]

use super::{
    build::{Graph, Task},
    control::on_pool,
    node::{Release, TaskKind},
    run::GraphRun,
};
use crate::{
    base::unwind,
    engine::{Mark, Placement},
    pool::{
        Inner,
        context::WorkerContext,
        heap,
        pending::Pending,
        pending_group::PendingGroup,
        scoped::{ScopedWaiter, scoped},
    },
};
use std::{borrow::Cow, fmt, marker::PhantomData, ptr};

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
    run: *const GraphRun<'static>,
    /// The task to which panics are attributed.
    index: u32,
    /// The worker that the task runs on.
    owner: usize,
    pending: Pending,
}

// SAFETY: the owner's side of `pending` is only used by the thread that is worker `owner`: a
// `Runtime` stays on it, and `end_job` checks which worker calls it. `run` points to a run, which
// is `Sync`.
unsafe impl Sync for Spawned {}

impl Spawned {
    fn run(&self) -> &GraphRun<'static> {
        // SAFETY: the task is running, so its run is not over.
        unsafe { &*self.run }
    }
}

impl PendingGroup for Spawned {
    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn pool(&self) -> *const Inner {
        self.run().pool
    }

    fn owner(&self) -> usize {
        self.owner
    }
}

impl ScopedWaiter for Spawned {
    fn begin(&self, context: &WorkerContext<'_, '_>) {
        self.begin_job(context);
    }

    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller guarantees that the job is counted as pending.
        let ownerless = unsafe { Self::end_job(this, context) };
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
        mut work: impl FnMut(&Runtime<'env>) + Send + 'env,
    ) -> Task<'_, 'env> {
        let task = self.add(name.into());
        self.set(task.index(), TaskKind::Runtime, move |cx| {
            let run = ptr::from_ref(cx.run).cast();
            Runtime::enter(run, cx.index(), cx.context, |runtime| work(runtime));
            Release::All
        });
        task
    }
}

impl<'env> Runtime<'env> {
    /// Calls `f` with a runtime, and waits for what it has spawned.
    fn enter(
        run: *const GraphRun<'static>,
        index: u32,
        context: &WorkerContext<'_, '_>,
        f: impl FnOnce(&Runtime<'env>),
    ) {
        let runtime = Runtime {
            spawned: Spawned {
                run,
                index,
                owner: context.worker(),
                pending: Pending::new(),
            },
            began: context.mark(),
            env: PhantomData,
            thread: PhantomData,
        };
        let result = unwind::contain(|| f(&runtime));
        // Also after a panic: the spawned closures point into this frame.
        unwind::or_abort(|| context.wait(&runtime.spawned, runtime.began));
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
        let call = move |spawned: &Spawned, context: &WorkerContext<'_, '_>| {
            let (run, index) = (spawned.run(), spawned.index);
            let result = if run.stopped() {
                run.mark_incomplete();
                unwind::contain(|| drop(work))
            } else {
                let enter = || Runtime::enter(spawned.run, index, context, work);
                unwind::contain(|| context.isolate_if(run.isolated, enter))
            };
            if let Err(payload) = result {
                run.panicked(index, payload);
            }
        };
        self.enter_worker(|context| {
            self.spawned.pending.add_here();
            // SAFETY: the job has just been counted. `enter` does not return before it is done, and
            // what it borrows outlives the graph; the pool runs every job.
            let job = unsafe { scoped(&raw const self.spawned, call) };
            // SAFETY: as for `scoped`: the job is counted, `enter` waits for it, and what it
            // borrows outlives the graph.
            let job = unsafe { heap::job_on(context, job) };
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
    pub fn wait(&self) {
        self.enter_worker(|context| {
            unwind::or_abort(|| context.wait(&self.spawned, self.began));
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
        self.spawned.run().stopped()
    }

    /// Calls `f` with the context of the task's worker.
    fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        // SAFETY: the task is running, so its pool is alive.
        let pool = unsafe { &*self.spawned.run().pool };
        on_pool(pool, |context| {
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
