//! The interface of a task to the worker that runs it.

use super::{Handle, Inner, Listeners, Overflow, builder::Runner};
use crate::{
    base::{error::Refused, rng::Rng, unwind},
    engine::{Observer, PerWorker, Placement, RunningWorker, Silent, Strategy},
    observe::WorkerMetrics,
};
use std::{fmt, sync::Arc};

/// The nesting depth up to which tasks run inline when a queue is full. Beyond it they go to the
/// injector, so that this cannot overflow the stack.
const MAX_INLINE_DEPTH: u32 = 64;

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
///         cx.spawn_local(n - 1);
///     }
/// }
///
/// let executor = Executor::builder().workers(1).build(|_| vec![], countdown).unwrap();
/// executor.spawn(3).unwrap();
/// assert_eq!(executor.join().scratch, [[3, 2, 1, 0]]);
/// ```
pub struct Context<'w, 'c, T: Send, S, Q: Strategy = PerWorker, O: Observer = Silent> {
    pub(super) running: RunningWorker<'w, 'c, T, Q, Listeners<O>>,
    pub(super) scratch: &'w mut S,
    pub(super) inner: &'w Arc<Inner<T, Q, O>>,
    pub(super) runner: &'w Runner<T, S, Q, O>,
    pub(super) overflow: Overflow,
    pub(super) depth: u32,
}

impl<T: Send, S, Q: Strategy, O: Observer> Context<'_, '_, T, S, Q, O> {
    /// The worker's number, from zero.
    #[must_use]
    pub fn id(&self) -> usize {
        self.running.id()
    }

    /// The worker's own scratch value.
    pub fn scratch(&mut self) -> &mut S {
        self.scratch
    }

    /// The worker's own random generator; deterministic for a given seed.
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
    /// executor.join();
    /// ```
    #[must_use]
    pub fn metrics(&self) -> WorkerMetrics {
        self.running.core().observer().0.worker(self.id())
    }

    /// Spawns a task into this worker's own queue: the cheapest way, with the data in the cache. It
    /// runs next, unless an idle worker steals it first. When the queue is bounded and full, the
    /// [`Overflow`] policy applies.
    #[inline(always)]
    pub fn spawn_local(&mut self, task: T) {
        if let Err(task) = self.running.try_spawn(task, Placement::Local) {
            self.overflow(task);
        }
    }

    /// Spawns a task into this worker's own queue, or returns it when that is full.
    ///
    /// # Errors
    /// The task, if the queue is bounded and full.
    #[inline]
    pub fn try_spawn_local(&mut self, task: T) -> Result<(), Refused<T>> {
        self.running
            .try_spawn(task, Placement::Local)
            .map_err(Refused::full)
    }

    /// Spawns a task into the injector, behind those that this worker has spawned there before.
    /// Tasks from outside and those of other workers are interleaved with them. Never refused, also
    /// when the injector is bounded: a worker that waited for room would wait for itself.
    pub fn spawn_global(&mut self, task: T) {
        self.running.spawn(task, Placement::Injector);
    }

    /// Queues `rest`, and lets an older task run first.
    ///
    /// A long task can split itself: it does a part, then yields with the rest of itself.
    /// [`spawn_local`](Self::spawn_local) would not do: the newest task runs first, so the worker
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
    ///             cx.spawn_local(('b', 0));
    ///         }
    ///         if part < 2 {
    ///             cx.yield_now((name, part + 1));
    ///         }
    ///     })
    ///     .unwrap();
    /// executor.spawn(('a', 0)).unwrap();
    /// let order: String = executor.join().scratch[0].iter().map(|(name, _)| *name).collect();
    /// assert_eq!(order, "ababab");
    /// ```
    pub fn yield_now(&mut self, rest: T) {
        self.spawn_local(rest);
        self.running.yield_to_older();
    }

    /// Whether any task is waiting for a worker, here or elsewhere; for
    /// [`Adaptive`](super::Adaptive) policies.
    ///
    /// ```
    /// # use filch::Executor;
    /// let executor = Executor::builder()
    ///     .workers(1)
    ///     .build(|_| (), |first: bool, cx| {
    ///         assert!(!cx.work_waiting());
    ///         if first {
    ///             cx.spawn_local(false);
    ///             assert!(cx.work_waiting());
    ///         }
    ///     })
    ///     .unwrap();
    /// executor.spawn(true).unwrap();
    /// executor.join();
    /// ```
    #[must_use]
    pub fn work_waiting(&self) -> bool {
        self.running.core().has_work()
    }

    /// A handle to this executor, to spawn from other threads.
    #[must_use]
    pub fn handle(&self) -> Handle<T, Q, O> {
        Handle::new(self.inner.clone())
    }

    #[cold]
    fn overflow(&mut self, task: T) {
        match self.overflow {
            Overflow::Inline if self.depth < MAX_INLINE_DEPTH => {
                self.depth += 1;
                self.running.begin_inline();
                self.run(task);
                self.running.end_inline();
                self.depth -= 1;
            }
            Overflow::Spill => {
                self.running.spill();
                self.running.spawn(task, Placement::Local);
            }
            Overflow::Inline => self.running.spawn(task, Placement::Injector),
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
