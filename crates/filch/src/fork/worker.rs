//! The worker that runs a task, passed from call to call.
//!
//! # Why this is sound
//!
//! A [`CurrentWorker`] is a context of the pool, of which [`with`] lends a reference.
//!
//! - **It outlives the reference.** No program owns or makes one. The closures that get a reference
//!   accept any lifetime, so nothing that they return or store can hold it, and the context is in a
//!   frame below theirs, or is never freed.
//! - **It stays on its thread.** A context is not `Sync`, so no reference to it is `Send`, and the
//!   closures of a join, the tasks of a scope, and every other closure that another thread may run
//!   must be. What they get instead is the worker that runs them.
//! - **It may be used at any time.** On its own thread a reference may come back where the context
//!   is not the innermost one: in [`Pool::install`] of another pool, in a destructor, in a panic,
//!   or in an unrelated task that a wait runs on this stack and that finds the reference in a
//!   scoped thread-local variable (as the crate `scoped-tls` has them; `&mut` would not exclude
//!   that). So an exclusive borrow would prove nothing, and none is needed: the fields of a context
//!   are cells, its worker is borrowed for single calls that run no code of the program (see the
//!   field), and a part of a join is finished before its frame ends in any case. A worker's seat is
//!   not passed to another thread while the worker has a frame: a blocking call gets an additional
//!   worker.
//! - **Its pool is the right one.** Whatever a join runs beside its own closures, it runs with this
//!   context as the current one ([`WorkerContext::ensure_current`]).
#![expect(
    unsafe_code,
    reason = "a context whose lifetimes are erased, behind a reference"
)]

use super::{
    join::join_with_context,
    scope::{Scope, run_scope},
};
use crate::pool::{Pool, context::WorkerContext, on_current};
use std::{fmt, ptr};

/// The worker that runs the current task, from [`with`]: to be passed down a recursion, so that
/// its joins need not search for it.
///
/// Other threads cannot use it:
///
/// ```compile_fail
/// filch::with(|cx| {
///     std::thread::scope(|s| {
///         s.spawn(|| cx.join(|_| 1, |_| 2));
///     });
/// });
/// ```
///
/// nor can the closures of a join use that of the caller, in place of their own:
///
/// ```compile_fail
/// filch::with(|cx| cx.join(|_| cx.join(|_| 1, |_| 2), |_| 3));
/// ```
///
/// nor a task of a scope:
///
/// ```compile_fail
/// filch::with(|cx| cx.scope(|s| s.spawn(|_| drop(cx.join(|_| 1, |_| 2)))));
/// ```
///
/// nor can it be stored:
///
/// ```compile_fail
/// let mut kept = None;
/// filch::with(|cx| kept = Some(cx));
/// ```
#[doc(alias("Worker", "WorkerThread"))]
#[repr(transparent)]
pub struct CurrentWorker {
    /// The lifetimes are erased: they are longer than that of any reference to this.
    context: WorkerContext<'static, 'static>,
}

/// Calls `f` with the worker that runs the current task: [`join`](CurrentWorker::join) and
/// [`scope`](CurrentWorker::scope) of it are those of the crate, without the search for the worker
/// in a thread-local variable at every call.
///
/// It uses the [current pool](crate::Pool#the-current-pool); a thread from outside becomes a worker
/// for the duration of the call.
///
/// ```
/// use filch::CurrentWorker;
///
/// fn fibonacci(cx: &CurrentWorker, n: u32) -> u64 {
///     if n < 2 {
///         return u64::from(n);
///     }
///     let (a, b) = cx.join(
///         move |cx| fibonacci(cx, n - 1),
///         move |cx| fibonacci(cx, n - 2),
///     );
///     a + b
/// }
/// assert_eq!(filch::with(|cx| fibonacci(cx, 20)), 6765);
/// ```
#[doc(alias = "in_worker")]
pub fn with<R>(f: impl FnOnce(&CurrentWorker) -> R) -> R {
    on_current(|context| f(CurrentWorker::for_long_call(context)))
}

impl Pool {
    /// [`with`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let (a, b) = pool.with(|cx| cx.join(|_| 6 * 7, |_| "hello".len()));
    /// assert_eq!((a, b), (42, 5));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn with<R>(&self, f: impl FnOnce(&CurrentWorker) -> R) -> R {
        self.enter_worker(|context| f(CurrentWorker::for_long_call(context)))
    }
}

impl CurrentWorker {
    /// Returns the worker of `context`. If this is inside a poll, marks the poll as long-running:
    /// the joins of the call do not do so again.
    fn for_long_call<'a>(context: &'a WorkerContext<'_, '_>) -> &'a Self {
        context.mark_poll_long();
        Self::from_context(context)
    }

    #[inline(always)]
    fn from_context<'a>(context: &'a WorkerContext<'_, '_>) -> &'a Self {
        let erased = ptr::from_ref(context).cast::<Self>();
        // SAFETY: a `CurrentWorker` has the layout of the context that it consists of. It is
        // borrowed for as long as the context, and only `context` below uses the lifetimes.
        unsafe { &*erased }
    }

    #[inline(always)]
    fn context(&self) -> &WorkerContext<'_, '_> {
        let context = (&raw const self.context).cast();
        // SAFETY: it is what `from_context` got. Both lifetimes of the result are that of `self`,
        // which is shorter than those of the context.
        unsafe { &*context }
    }

    /// [`join`](crate::join()) on this worker: runs both closures, potentially in parallel, and
    /// returns both results. Each closure gets the worker that runs it.
    ///
    /// Closures that `move` what they capture are faster if that is small: a borrowed number has to
    /// be in memory, and a recursion then pays for that at its leaves too.
    ///
    /// ```
    /// use filch::CurrentWorker;
    ///
    /// fn sum(cx: &CurrentWorker, numbers: &[u64]) -> u64 {
    ///     if numbers.len() < 3 {
    ///         return numbers.iter().sum();
    ///     }
    ///     let (left, right) = numbers.split_at(numbers.len() / 2);
    ///     let (a, b) = cx.join(move |cx| sum(cx, left), move |cx| sum(cx, right));
    ///     a + b
    /// }
    /// let numbers: Vec<u64> = (1..=100).collect();
    /// assert_eq!(filch::with(|cx| sum(cx, &numbers)), 5050);
    /// ```
    ///
    /// Other functions that are called in the closures use the pool of the task that the thread
    /// runs. That is another one than this worker's only inside of a call to another pool, as in
    /// `a.with(|cx| b.install(|| cx.join(..)))`.
    ///
    /// # Panics
    /// As [`join`](crate::join()).
    #[inline]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&CurrentWorker) -> RA + Send,
        B: FnOnce(&CurrentWorker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        join_with_context(
            self.context(),
            |context| a(Self::from_context(context)),
            |context, _| b(Self::from_context(context)),
        )
    }

    /// [`scope`](crate::scope()) on this worker.
    ///
    /// ```
    /// let mut numbers = vec![1, 2, 3, 4];
    /// filch::with(|cx| cx.scope(|s| {
    ///     for n in &mut numbers {
    ///         s.spawn(move |_| *n *= 10);
    ///     }
    /// }));
    /// assert_eq!(numbers, [10, 20, 30, 40]);
    /// ```
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn scope<'scope, R>(&self, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        let context = self.context();
        context.ensure_current(|| run_scope(context, f))
    }
}

impl fmt::Debug for CurrentWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentWorker")
            .field("worker", &self.context().worker())
            .finish_non_exhaustive()
    }
}
