//! Tasks that borrow from the stack of the thread that waits for them.
#![expect(unsafe_code, reason = "tasks that point into the frame of `scope`")]

use super::{
    outside::OutsideSignal,
    scope_state::ScopeState,
    spawn::{Arrival, arrival},
};
use crate::{
    base::unwind,
    engine::{Mark, Placement},
    pool::{
        Inner, Pool,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap::{self, JobBlock},
        job::Job,
        latch::WaitTarget,
        on_current,
        pending_group::{NO_OWNER, PendingGroup},
        scoped::{ScopedWaiter, scoped},
    },
};
use std::{fmt, marker::PhantomData, mem, sync::Arc};

/// Spawns tasks that may borrow everything that outlives the scope.
///
/// Made by [`scope`].
pub struct Scope<'scope> {
    pub(super) state: ScopeState,
    /// Invariant: a scope must not be used as one with a longer or shorter lifetime.
    lifetime: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// Calls `f` with a scope, and returns when all tasks that were spawned in it are done.
///
/// The calling thread takes part; a thread from outside becomes a worker for the duration of the
/// call.
///
/// ```
/// let mut numbers = vec![1, 2, 3, 4];
/// filch::scope(|s| {
///     for n in &mut numbers {
///         s.spawn(move |_| *n *= 10);
///     }
/// });
/// assert_eq!(numbers, [10, 20, 30, 40]);
/// ```
///
/// Tasks can spawn more into the same scope:
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// fn walk<'s>(depth: u32, seen: &'s AtomicU32, s: &filch::Scope<'s>) {
///     seen.fetch_add(1, Ordering::Relaxed);
///     if depth > 0 {
///         s.spawn(move |s| walk(depth - 1, seen, s));
///         s.spawn(move |s| walk(depth - 1, seen, s));
///     }
/// }
///
/// let seen = AtomicU32::new(0);
/// filch::scope(|s| walk(4, &seen, s));
/// assert_eq!(seen.into_inner(), 31);
/// ```
///
/// A task cannot borrow what is created inside the scope:
///
/// ```compile_fail
/// filch::scope(|s| {
///     let inside = 1;
///     s.spawn(|_| println!("{}", &inside));
/// });
/// ```
///
/// nor anything that is not `Send`:
///
/// ```compile_fail
/// let shared = std::rc::Rc::new(1);
/// filch::scope(|s| s.spawn(|_| println!("{shared}")));
/// ```
///
/// nor can the scope be stored:
///
/// ```compile_fail
/// let mut kept = None;
/// filch::scope(|s| kept = Some(s));
/// ```
///
/// # Panics
/// If `f` or a task panics, after all tasks are done: with the panic of `f`, or else the first of a
/// task. Others go to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
pub fn scope<'scope, R>(f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    on_current(|context| run_scope(context, f))
}

impl Pool {
    /// [`scope`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build().unwrap();
    /// let (mut a, mut b) = (0, 0);
    /// pool.scope(|s| {
    ///     s.spawn(|_| a = 1);
    ///     s.spawn(|_| b = 2);
    /// });
    /// assert_eq!((a, b), (1, 2));
    /// ```
    pub fn scope<'scope, R>(&self, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        self.enter_worker(|context| run_scope(context, f))
    }
}

impl Pool {
    /// [`scope`] whose tasks all run on the pool's own threads. `f` runs here, and then the caller
    /// waits: it sleeps, or runs tasks of another pool if it is a worker there.
    ///
    /// On a worker of this pool, and in a pool without threads, it is the same as
    /// [`scope`](Self::scope).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let here = std::thread::current().id();
    /// let mut there = None;
    /// pool.in_place_scope(|s| {
    ///     assert_eq!(std::thread::current().id(), here);
    ///     s.spawn(|_| there = Some(std::thread::current().id()));
    /// });
    /// assert!(there.is_some_and(|there| there != here));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`scope`].
    pub fn in_place_scope<'scope, R>(&self, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        let inner = &**self.inner();
        let inside = WorkerContext::with(|context| {
            context.is_some_and(|context| context.is_worker_inside(inner))
        });
        if inside || inner.live_workers() == 0 {
            return self.scope(f);
        }
        run_scope_outside(inner, f)
    }
}

/// Runs `f` and waits for the scope's tasks on a thread that is not a worker of `pool`, and does
/// not become one.
fn run_scope_outside<'scope, R>(pool: &Inner, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    let done = OutsideSignal::new(1);
    let scope = Scope {
        state: ScopeState::with_outside_caller(pool, done.clone()),
        lifetime: PhantomData,
    };
    let result = unwind::contain(|| f(&scope));
    unwind::or_abort(|| {
        let state = &raw const scope.state;
        // SAFETY: `f` was counted as pending, and the scope lives until the signal has been counted
        // down.
        if unsafe { ScopeState::end_job_by_other(state, pool) } {
            // SAFETY: the scope lives until the signal has been counted down.
            unsafe { ScopeState::notify_caller(state) };
        }
        done.wait(pool);
    });
    scope.state.end(pool, result)
}

/// Runs `f` with a new scope on the worker of `context`, and waits for the scope's tasks: the
/// worker runs other tasks meanwhile.
pub(super) fn run_scope<'scope, R>(
    context: &WorkerContext<'_, '_>,
    f: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    // It may have been about to sleep when it called this.
    context.stop_search();
    let scope = Scope {
        state: ScopeState::new(context.pool(), context.worker(), context.is_isolated()),
        lifetime: PhantomData,
    };
    let began = context.mark();
    let result = unwind::contain(|| f(&scope));
    if !scope.state.has_happened() {
        wait_for_tasks(context, &scope.state, began);
    }
    let result = scope.state.end(context.pool(), result);
    if !scope.state.needs_drop() {
        // Without the checks of each of its fields.
        mem::forget(scope);
    }
    result
}

/// Waits for the tasks of a scope, which were queued since the mark. Not generic, so that it is
/// compiled once.
#[inline(never)]
fn wait_for_tasks(context: &WorkerContext<'_, '_>, state: &ScopeState, began: Mark) {
    // In every case the tasks point into the frame of the caller.
    unwind::or_abort(|| context.wait_for_queued(state, began));
}

// SAFETY: the owner's side of `pending` is only used by the thread that is worker `owner` of the
// pool, which `is_owner` checks; `pool` points to a pool that lives as long as its worker is in
// `scope`; the rest may be shared.
unsafe impl Sync for Scope<'_> {}
// SAFETY: a scope is never moved out of the frame of `scope`; only references to it are, and it is
// `Sync`.
unsafe impl Send for Scope<'_> {}

impl<'scope> Scope<'scope> {
    /// Spawns a task into the scope: it runs before [`scope`] returns. The newest runs first,
    /// unless idle workers steal the oldest.
    ///
    /// ```
    /// let mut words = ["steal", "small", "things"].map(String::from);
    /// filch::scope(|s| {
    ///     for word in &mut words {
    ///         s.spawn(move |_| word.push('!'));
    ///     }
    /// });
    /// assert_eq!(words, ["steal!", "small!", "things!"]);
    /// ```
    #[inline]
    pub fn spawn(&self, task: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        WorkerContext::with(|context| {
            let Some(context) = context else {
                return self.spawn_specially(task);
            };
            let is_owner = context.worker() == self.state.owner;
            if !std::ptr::eq(context.pool(), self.state.pool)
                || !self.state.is_plain()
                || !is_owner && context.is_temporary()
            {
                return self.spawn_specially(task);
            }
            // SAFETY: the job is counted below, and the pool runs every job.
            let task = unsafe { self.wrap_plain(task) };
            match context.part_mark() {
                Some(mark) => match JobBlock::take(context) {
                    Some(block) => self.push_at(context, is_owner, (mark, block), task),
                    None => self.push_plain(context, task),
                },
                None => self.push_plain(context, task),
            }
        });
    }

    /// Counts and queues a wrapped task. Nothing but the last statement is a call, so that no
    /// register has to be saved.
    #[inline(always)]
    fn push_at<F>(
        &self,
        context: &WorkerContext<'_, '_>,
        is_owner: bool,
        (mark, block): (Mark, JobBlock<F>),
        task: F,
    ) where
        F: FnOnce(&WorkerContext<'_, '_>) + Send,
    {
        match is_owner {
            true => self.state.pending.add_by_owner(),
            false => self.state.pending.add_by_other(),
        }
        // SAFETY: the pool runs every job, and what it borrows lives until it has run, as `wrap`
        // says.
        let job = unsafe { block.into_job(task) };
        if context.push_at(mark, job) {
            context.notify_pushed();
        }
    }

    /// Counts and queues a wrapped task that needs a new block, or a larger queue.
    #[cold]
    #[inline(never)]
    fn push_plain<F>(&self, context: &WorkerContext<'_, '_>, task: F)
    where
        F: FnOnce(&WorkerContext<'_, '_>) + Send,
    {
        self.state.add_job(context);
        // SAFETY: the pool runs every job, and what it borrows lives until it has run, as `wrap`
        // says.
        let job = unsafe { heap::alloc_job(context, task) };
        context.push(job, Placement::Local);
    }

    /// [`spawn`](Self::spawn) on a thread that is not a worker of the pool, or not for long, and of
    /// tasks that are isolated or limited.
    #[cold]
    #[inline(never)]
    fn spawn_specially(&self, task: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.with_context(|context| {
            self.state.add(context);
            if self.state.limit().is_some() {
                return self.spawn_limited(context, task);
            }
            let must_enlist = match context {
                // A guest may leave before its queue is empty; the tasks that it spawns must not
                // depend on a worker finding them in the queue that they are moved to then.
                Some(context) => !self.state.is_owner(context) && context.is_temporary(),
                None => self.state.owner != NO_OWNER,
            };
            if must_enlist {
                return self.enlist(context, task);
            }
            // SAFETY: the task has been counted, and the pool runs every job.
            let task = unsafe { self.wrap(task) };
            // SAFETY: what the task borrows lives until it has run, as `wrap` says.
            let job = unsafe { heap::alloc_shared_job(task) };
            match context {
                Some(context) => context.push(job, Placement::Local),
                None => self.pool().inject_awaited(job),
            }
        });
    }

    pub(super) fn pool(&self) -> &Inner {
        // SAFETY: the pool lives while its worker is in `scope`, or the caller in `in_place_scope`;
        // and that is until this call, which has borrowed the scope, is over.
        unsafe { &*self.state.pool }
    }

    /// The number of workers of the scope's pool, as [`Pool::workers`].
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(3).build()?;
    /// assert_eq!(pool.scope(|s| s.pool_workers()), 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn pool_workers(&self) -> usize {
        self.pool().live_workers()
    }

    /// Calls `f` with this thread's context in the scope's pool, if it is a worker there.
    #[inline(always)]
    pub(super) fn with_context<R>(&self, f: impl FnOnce(Option<&WorkerContext<'_, '_>>) -> R) -> R {
        WorkerContext::with(|context| {
            f(context.filter(|context| std::ptr::eq(context.pool(), self.state.pool)))
        })
    }

    /// Adds a task to the list, and a placeholder for it to a queue of the pool.
    fn enlist(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        task: impl FnOnce(&Scope<'scope>) + Send + 'scope,
    ) {
        // SAFETY: as in `spawn`. Every job of the list is run: by a placeholder, or by the owner
        // before.
        let task = unsafe { self.wrap(task) };
        // SAFETY: what the task borrows lives until it has run, as in `spawn`.
        self.enlist_job(context, unsafe { heap::alloc_shared_job(task) });
    }

    /// Adds the job of a task to the list.
    pub(super) fn enlist_job(&self, context: Option<&WorkerContext<'_, '_>>, job: Job) {
        let shared = self.state.list();
        let list = shared.clone();
        let placeholder = move |context: &WorkerContext<'_, '_>| {
            if let Some(oldest) = list.pop() {
                oldest.run(context);
            }
        };
        shared.push(job);
        match context {
            Some(context) => {
                // SAFETY: a placeholder borrows nothing: it shares the list.
                let job = unsafe { heap::alloc_job(context, placeholder) };
                context.push(job, Placement::Local);
                if context.is_temporary() && self.state.owner != NO_OWNER {
                    // If this thread leaves, the placeholder goes to the injector, and the wait of
                    // the owner may be one that takes nothing from there; it checks the list.
                    self.pool().unpark(self.state.owner);
                }
            }
            None => {
                // SAFETY: a placeholder borrows nothing: it shares the list.
                self.pool()
                    .inject(unsafe { heap::alloc_shared_job(placeholder) });
                if self.state.owner != NO_OWNER {
                    // The owner may be asleep, and the only worker.
                    self.pool().unpark(self.state.owner);
                }
            }
        }
    }

    /// Spawns a task that runs after those that were spawned with this method before it, in as far
    /// as one worker runs them.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// let order = Mutex::new(vec![]);
    /// let alone = filch::Pool::builder().workers(0).build().unwrap();
    /// alone.scope(|s| {
    ///     for n in 0..3 {
    ///         let order = &order;
    ///         s.spawn_fifo(move |_| order.lock().unwrap().push(n));
    ///     }
    /// });
    /// assert_eq!(order.into_inner().unwrap(), [0, 1, 2]);
    /// ```
    pub fn spawn_fifo(&self, task: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.with_context(|context| {
            self.state.add(context);
            match self.state.limit() {
                Some(_) => self.spawn_limited(context, task),
                None => self.enlist(context, task),
            }
        });
    }

    /// Spawns `task` once on every worker of the pool; it gets the number of the worker. In a pool
    /// without threads it runs once, with number 0.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let pool = filch::Pool::builder().workers(3).build()?;
    /// let sum = AtomicUsize::new(0);
    /// pool.scope(|s| s.spawn_broadcast(|_, worker| {
    ///     sum.fetch_add(worker, Ordering::Relaxed);
    /// }));
    /// assert_eq!(sum.into_inner(), 0 + 1 + 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spawn_broadcast(&self, task: impl Fn(&Scope<'scope>, usize) + Send + Sync + 'scope) {
        let task = Arc::new(task);
        let pool = self.pool();
        if pool.live_workers() == 0 {
            return self.spawn(move |scope| task(scope, 0));
        }
        self.with_context(|context| {
            for worker in 0..pool.live_workers() {
                let task = task.clone();
                self.send_from(context, worker, move |scope| {
                    let arrival = arrival(scope.pool().number(), worker);
                    if arrival == Arrival::There {
                        task(scope, worker);
                    }
                    arrival == Arrival::Missed
                });
            }
        });
    }

    /// [`send_from`](Self::send_from) for a call that needs no scope.
    pub(super) fn send(
        &self,
        context: &WorkerContext<'_, '_>,
        worker: usize,
        call: impl Fn() -> bool + Send + 'scope,
    ) {
        self.send_from(Some(context), worker, move |_| call());
    }

    /// Spawns a task that is sent to `worker`, and sent again as long as it returns true.
    fn send_from(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        worker: usize,
        task: impl Fn(&Scope<'scope>) -> bool + Send + 'scope,
    ) {
        self.state.add(context);
        // SAFETY: the task has been counted, and every job that is sent is run, as in `spawn`.
        let task = unsafe {
            self.wrap(move |scope| {
                if task(scope) {
                    scope.with_context(|context| scope.send_from(context, worker, task));
                }
            })
        };
        // SAFETY: what the task borrows lives until it has run, as in `spawn`.
        let job = unsafe { heap::alloc_shared_job(task) };
        self.pool().send_from(context, worker, job);
    }

    /// [`wrap`](Self::wrap) in a scope whose tasks are not isolated.
    ///
    /// # Safety
    /// As [`wrap`](Self::wrap).
    #[inline(always)]
    unsafe fn wrap_plain<F>(
        &self,
        task: F,
    ) -> impl FnOnce(&WorkerContext<'_, '_>) + Send + use<'scope, F>
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let call = move |scope: &Self, context: &WorkerContext<'_, '_>| {
            if let Err(payload) = unwind::contain(|| task(scope)) {
                scope.state.panic.keep(context.pool(), payload);
            }
        };
        // SAFETY: the caller guarantees what `scoped` requires, as in `wrap`.
        unsafe { scoped(self, call) }
    }

    /// Wraps the task so that it is counted as done afterwards.
    ///
    /// # Safety
    /// The task has been counted, and the closure is made a job that is run.
    #[inline(always)]
    pub(super) unsafe fn wrap<F>(
        &self,
        task: F,
    ) -> impl FnOnce(&WorkerContext<'_, '_>) + Send + use<'scope, F>
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let call = move |scope: &Self, context: &WorkerContext<'_, '_>| {
            let run = || context.isolate_if(scope.state.isolated, || task(scope));
            if let Err(payload) = unwind::contain(run) {
                scope.state.panic.keep(context.pool(), payload);
            }
        };
        // SAFETY: the caller guarantees that the task is counted. `scope` does not return before
        // the task has counted itself as done, so it and what the task borrows live until then.
        unsafe { scoped(self, call) }
    }
}

impl ScopedWaiter for Scope<'_> {
    #[inline]
    fn begin(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.state.begin_job(context)
    }

    #[inline(always)]
    fn group(&self) -> JobGroup {
        self.state.group()
    }

    #[inline]
    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>, is_elsewhere: bool) {
        // SAFETY: the caller guarantees that the task is counted, so the scope lives.
        let state = unsafe { &raw const (*this).state };
        // SAFETY: the caller guarantees that the task is counted, and does not use the scope
        // afterwards.
        if unsafe { ScopeState::end_begun_job(state, context, is_elsewhere) } {
            // SAFETY: it was the last task, and the scope's caller waits for the signal.
            unsafe { ScopeState::notify_caller(state) };
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}
