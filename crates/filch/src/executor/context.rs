//! The interface of a task to the worker that runs it.

use super::{ExecutorState, Handle, Listeners};
use crate::{
    base::{error::Refused, rng::Rng, sys::stack, unwind},
    engine::{NoObserver, Observer, PerWorker, Placement, RunningWorker, Strategy},
    observe::WorkerMetrics,
};
use std::{fmt, sync::Arc};

/// The nesting depth up to which tasks run inline when a queue is full, as long as less than half
/// of the stack is in use. Beyond it they go to the injector, so that this cannot overflow the
/// stack.
const MAX_INLINE_DEPTH: u32 = 64;

/// A type-erased runner.
type ErasedRunner<'r, T, S, Q, O> =
    dyn for<'w, 'c> Fn(T, &mut Context<'w, 'c, T, S, Q, O>) + Send + Sync + 'r;

/// What [`Context::spawn`] does when the worker's queue is bounded and full.
///
/// ```
/// use filch::{Executor, engine::{Capacity, PerWorker, PerWorkerSpec}, executor::QueueOverflow};
///
/// let tiny = PerWorkerSpec { capacity: Capacity::bounded(2), ..Default::default() };
/// for overflow in [QueueOverflow::Spill, QueueOverflow::Inline] {
///     let executor = Executor::builder()
///         .workers(1)
///         .strategy::<PerWorker>(tiny)
///         .overflow(overflow)
///         .build(|_| 0, |n: u32, cx| {
///             *cx.scratch() += 1;
///             (0..n).for_each(|_| cx.spawn(0));
///         })
///         .unwrap();
///     executor.spawn(100).unwrap();
///     assert_eq!(executor.finish().scratch, [101]);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueOverflow {
    /// Moves the older half of the queue to the injector, from which all workers take.
    #[default]
    Spill,
    /// Runs the task at once, nested in the task that spawns it, as Cilk would; beyond a nesting
    /// depth of 64 the task goes to the injector.
    Inline,
}

/// The worker that runs the current task.
///
/// ```
/// use filch::Executor;
/// use filch::executor::Context;
///
/// // A runner may be a closure or a function.
/// fn countdown(n: u32, cx: &mut Context<'_, '_, u32, Vec<u32>>) {
///     cx.scratch().push(n);
///     if n > 0 {
///         cx.spawn(n - 1);
///     }
/// }
///
/// let executor = Executor::builder().workers(1).build(|_| vec![], countdown).unwrap();
/// executor.spawn(3).unwrap();
/// assert_eq!(executor.finish().scratch, [[3, 2, 1, 0]]);
/// ```
pub struct Context<'w, 'c, T: Send, S, Q: Strategy = PerWorker, O: Observer = NoObserver> {
    pub(super) running: RunningWorker<'w, 'c, T, Q, Listeners<O>>,
    pub(super) scratch: &'w mut S,
    pub(super) inner: &'w Arc<ExecutorState<T, Q, O>>,
    pub(super) runner: &'w ErasedRunner<'w, T, S, Q, O>,
    pub(super) overflow: QueueOverflow,
    pub(super) depth: u32,
}

impl<T: Send, S, Q: Strategy, O: Observer> Context<'_, '_, T, S, Q, O> {
    /// The worker's number, from zero.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|worker| worker, |_: u8, cx| assert_eq!(cx.id(), *cx.scratch()))?;
    /// executor.spawn(0).unwrap();
    /// executor.finish();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> usize {
        self.running.id()
    }

    /// The worker's own scratch value.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| vec![], |n: u32, cx| cx.scratch().push(n))?;
    /// executor.spawn(7).unwrap();
    /// assert_eq!(executor.finish().scratch, [[7]]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn scratch(&mut self) -> &mut S {
        self.scratch
    }

    /// The worker's own random generator, from the [seed](super::ExecutorBuilder::seed) of the
    /// executor. Searches for work draw from it too, so the numbers differ from run to run.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| 0, |sides: usize, cx| *cx.scratch() = cx.rng().below(sides))?;
    /// executor.spawn(6).unwrap();
    /// assert!(executor.finish().scratch[0] < 6);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn rng(&mut self) -> &mut Rng {
        self.running.rng()
    }

    /// The counters of this worker.
    ///
    /// ```
    /// # use filch::Executor;
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .build(|_| (), |_: u8, cx| assert_eq!(cx.metrics().executed, 1))
    ///     .unwrap();
    /// executor.spawn(0).unwrap();
    /// executor.finish();
    /// ```
    #[must_use]
    pub fn metrics(&self) -> WorkerMetrics {
        self.running.core().observer().0.worker(self.id())
    }

    /// Spawns a task into this worker's own queue: the cheapest way, with the data in the cache. It
    /// runs next, unless an idle worker steals it first. When the queue is bounded and full, the
    /// [`QueueOverflow`] policy applies.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| vec![], |n: u32, cx| {
    ///     cx.scratch().push(n);
    ///     (0..n).for_each(|child| cx.spawn(child));
    /// })?;
    /// executor.spawn(2).unwrap();
    /// assert_eq!(executor.finish().scratch, [[2, 1, 0, 0]]); // the newest first
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn spawn(&mut self, task: T) {
        if let Err(task) = self.running.try_spawn(task, Placement::Local) {
            self.overflow(task);
        }
    }

    /// Spawns a task into this worker's own queue, or returns it when that is full.
    ///
    /// ```
    /// use filch::{Executor, engine::{Capacity, PerWorker, PerWorkerSpec}};
    ///
    /// let tiny = PerWorkerSpec { capacity: Capacity::bounded(2), ..Default::default() };
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .strategy::<PerWorker>(tiny)
    ///     .build(|_| 0, |n: u32, cx| {
    ///         *cx.scratch() += (0..n).filter(|_| cx.try_spawn(0).is_err()).count();
    ///     })?;
    /// executor.spawn(5).unwrap();
    /// assert_eq!(executor.finish().scratch, [3]); // two were queued
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The task, if the queue is bounded and full.
    #[inline]
    pub fn try_spawn(&mut self, task: T) -> Result<(), Refused<T>> {
        self.running
            .try_spawn(task, Placement::Local)
            .map_err(Refused::full)
    }

    /// Spawns a task into the injector, the queue that all workers share, behind those that this
    /// worker has spawned there before. Tasks from outside and those of other workers are
    /// interleaved with them. Never refused, also when the injector is bounded: a worker that
    /// waited for room would wait for itself.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| vec![], |n: u32, cx| {
    ///     cx.scratch().push(n);
    ///     (0..n).for_each(|child| cx.spawn_fifo(child));
    /// })?;
    /// executor.spawn(2).unwrap();
    /// assert_eq!(executor.finish().scratch, [[2, 0, 1, 0]]); // the oldest first
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spawn_fifo(&mut self, task: T) {
        self.running.spawn(task, Placement::Injector);
    }

    /// Queues `rest`, and lets an older task run first.
    ///
    /// A long task can split itself: it does a part, then yields with the rest of itself.
    /// [`spawn`](Self::spawn) would not do: the newest task runs first, so the worker
    /// would continue with it at once. This method makes the worker take the oldest task of its own
    /// queue or one from the injector, in turns. A [`YieldPolicy`](super::YieldPolicy) determines
    /// when to yield.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// // Two tasks of three parts each alternate on one worker.
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .build(|_| vec![], |(name, part): (char, u32), cx| {
    ///         cx.scratch().push((name, part));
    ///         if part == 0 && name == 'a' {
    ///             cx.spawn(('b', 0));
    ///         }
    ///         if part < 2 {
    ///             cx.yield_now((name, part + 1));
    ///         }
    ///     })
    ///     .unwrap();
    /// executor.spawn(('a', 0)).unwrap();
    /// let order: String = executor.finish().scratch[0].iter().map(|(name, _)| *name).collect();
    /// assert_eq!(order, "ababab");
    /// ```
    pub fn yield_now(&mut self, rest: T) {
        self.spawn(rest);
        self.running.yield_to_older();
    }

    /// Whether the executor is being shut down: a long task should end then. Costs a load.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| (), |_: u8, cx| while !cx.is_cancelled() {})?;
    /// executor.spawn(1).unwrap();
    /// executor.shutdown_now().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.token.is_cancelled()
    }

    /// Whether any task is waiting for a worker, here or elsewhere; for
    /// [`AdaptiveYield`](super::AdaptiveYield) policies.
    ///
    /// ```
    /// # use filch::Executor;
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .build(|_| (), |first: bool, cx| {
    ///         assert!(!cx.has_queued_tasks());
    ///         if first {
    ///             cx.spawn(false);
    ///             assert!(cx.has_queued_tasks());
    ///         }
    ///     })
    ///     .unwrap();
    /// executor.spawn(true).unwrap();
    /// executor.finish();
    /// ```
    #[must_use]
    pub fn has_queued_tasks(&self) -> bool {
        self.running.core().has_work()
    }

    /// A handle to this executor, to spawn from other threads.
    ///
    /// ```
    /// use filch::Executor;
    ///
    /// let executor = Executor::builder().workers(1).build(|_| 0, |n: u32, cx| {
    ///     *cx.scratch() += n;
    ///     if n > 0 {
    ///         let handle = cx.handle();
    ///         let sender = std::thread::spawn(move || handle.spawn(n - 1));
    ///         sender.join().unwrap().expect("still open");
    ///     }
    /// })?;
    /// executor.spawn(3).unwrap();
    /// while executor.metrics().total().executed < 4 {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(executor.finish().scratch, [6]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> Handle<T, Q, O> {
        Handle::new(self.inner.clone())
    }

    #[cold]
    fn overflow(&mut self, task: T) {
        match self.overflow {
            QueueOverflow::Inline if self.depth < MAX_INLINE_DEPTH && stack::is_ample() => {
                self.depth += 1;
                self.running.begin_inline();
                self.run(task);
                self.running.end_inline();
                self.depth -= 1;
            }
            QueueOverflow::Spill => {
                self.running.spill();
                self.running.spawn(task, Placement::Local);
            }
            QueueOverflow::Inline => self.running.spawn(task, Placement::Injector),
        }
    }
    /// Runs a task; a panic in it is recorded and contained.
    fn run(&mut self, task: T) {
        self.run_with(task, self.runner);
    }

    /// [`run`](Self::run) with a runner of known type, which can be inlined.
    #[inline(always)]
    pub(super) fn run_with<R>(&mut self, task: T, runner: &R)
    where
        R: for<'a, 'b> Fn(T, &mut Context<'a, 'b, T, S, Q, O>) + ?Sized,
    {
        if let Err(payload) = unwind::contain(|| runner(task, self)) {
            self.inner.panicked(self.running.id(), payload);
        }
    }
}

impl<T: Send, S: fmt::Debug, Q: Strategy, O: Observer> fmt::Debug for Context<'_, '_, T, S, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id())
            .field("scratch", &self.scratch)
            .finish_non_exhaustive()
    }
}
