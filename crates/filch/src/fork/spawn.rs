//! Detached tasks, tasks for every worker, yields and isolated waits.
#![expect(unsafe_code, reason = "makes jobs of closures")]

use super::outside::OutsideSignal;
use crate::{
    base::{
        thread,
        unwind::{self, Payload},
    },
    engine::Placement,
    pool::{
        Inner, Pool,
        context::WorkerContext,
        heap,
        job::Job,
        scoped::{Waiter, scoped},
        task,
    },
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs `task` some time, on the pool whose worker calls this, else on the global one. It is
/// detached; a panic is passed to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// filch::spawn(move || send.send(42).unwrap());
/// assert_eq!(receive.recv(), Ok(42));
/// ```
pub fn spawn(task: impl FnOnce() + Send + 'static) {
    WorkerContext::with(|context| match context {
        Some(context) => spawn_on(context, task),
        None => Pool::with_default(|pool| pool.inner().spawn_from_outside(task)),
    });
}

/// Calls `task` some time, once on every worker of the pool whose worker calls this, else of the
/// global one. It gets the number of the worker. The calls are detached; panics go to the pool's
/// [`on_panic`](crate::PoolBuilder::on_panic).
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// let pool = filch::Pool::builder().workers(2).build().unwrap();
/// pool.spawn_broadcast(move |worker| send.send(worker).unwrap());
/// assert_eq!(receive.iter().sum::<usize>(), 0 + 1);
/// ```
pub fn spawn_broadcast(task: impl Fn(usize) + Send + Sync + 'static) {
    WorkerContext::with(|context| match context {
        Some(context) => context.pool().spawn_broadcast(Some(context), task),
        None => Pool::with_default(|pool| pool.inner().spawn_broadcast(None, task)),
    });
}

/// Runs the newest task of this worker's own queue, or one from its mailbox. Returns false if there
/// was none, and on a thread that is not a worker. [`yield_now`] also takes tasks of other workers,
/// and older ones first.
///
/// ```
/// let pool = filch::Pool::builder().workers(1).build().unwrap();
/// pool.on_worker(|| {
///     filch::spawn(|| println!("before the next line"));
///     assert!(filch::yield_local());
///     println!("after the last line");
///     assert!(!filch::yield_local());
/// });
/// ```
pub fn yield_local() -> bool {
    WorkerContext::with(|context| context.is_some_and(WorkerContext::help_itself))
}

/// Whether there are tasks in the queue of this worker: some that it has spawned, or halves of
/// enclosing [`join`](crate::join())s that were not stolen. False on a thread that is not a worker.
///
/// ```
/// let pool = filch::Pool::builder().workers(1).build().unwrap();
/// pool.on_worker(|| {
///     assert!(!filch::has_local_tasks());
///     filch::spawn(|| ());
///     assert!(filch::has_local_tasks());
/// });
/// ```
#[must_use]
pub fn has_local_tasks() -> bool {
    WorkerContext::with(|context| context.is_some_and(WorkerContext::has_queued))
}

/// Runs a task that has waited longer than this one: one from the other end of the worker's queue,
/// or one from outside. Returns false if there was none. On a thread that is not a worker it yields
/// the core to another thread.
///
/// ```
/// filch::spawn(|| while filch::yield_now() {});
/// ```
pub fn yield_now() -> bool {
    WorkerContext::with(|context| match context {
        Some(context) => {
            context.yield_to_older();
            context.help_once()
        }
        None => {
            thread::yield_now();
            false
        }
    })
}

/// Calls `f`; while it waits in a `join` or `scope`, the worker runs only tasks that were queued in
/// `f` itself.
///
/// A worker that waits runs other tasks, also some that are unrelated to what it waits for. If the
/// waiting code holds a lock and such a task wants the same lock, the worker deadlocks with itself.
/// In an `isolate` that cannot happen:
///
/// ```
/// use std::sync::Mutex;
///
/// let cache = Mutex::new(vec![1, 2, 3]);
/// filch::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|_| {
///             let mut cache = cache.lock().unwrap();
///             filch::isolate(|| {
///                 let (left, right) = cache.split_at_mut(1);
///                 filch::join(|| left[0] += 1, || right[0] += 1);
///             });
///         });
///     }
/// });
/// assert_eq!(cache.into_inner().unwrap(), [9, 10, 3]);
/// ```
///
/// Tasks that are queued in `f` are isolated too, on any worker. The cost is that a worker may
/// sleep while others have work. A task that another thread spawns into a scope of `f` from outside
/// of the pool needs another worker to run it. Calls of [`broadcast`] run all the same.
pub fn isolate<R>(f: impl FnOnce() -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) => context.isolate(f),
        None => f(),
    })
}

/// Calls `f` once on every worker of the pool whose worker calls this, else of the global one, and
/// returns the results in the order of the workers. `f` gets the number of the worker.
///
/// Each worker runs it between two tasks, or in a wait, so the call takes as long as the longest
/// running task.
///
/// ```
/// let pool = filch::Pool::builder().workers(3).build().unwrap();
/// assert_eq!(pool.broadcast(|worker| worker * 10), [0, 10, 20]);
/// ```
///
/// # Panics
/// If one of the calls panics, after all of them are done; also if a worker has no thread, because
/// its [`PoolThread`](crate::PoolThread) was dropped or the thread that built the pool has ended.
pub fn broadcast<R: Send>(f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    WorkerContext::with(|context| match context {
        Some(context) => broadcast_on(context, f),
        None => Pool::with_default(|pool| broadcast_from_outside(pool.inner(), f)),
    })
}

impl Pool {
    /// [`spawn`] on this pool.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// pool.spawn(move || send.send(6 * 7).unwrap());
    /// assert_eq!(receive.recv(), Ok(42));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let inner = &**self.inner();
        WorkerContext::with(|context| match context {
            Some(context) if std::ptr::eq(context.pool(), inner) => spawn_on(context, task),
            _ => inner.spawn_from_outside(task),
        });
    }

    /// [`spawn_broadcast`] on this pool. In a pool without threads `task(0)` is spawned once.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(3).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// pool.spawn_broadcast(move |worker| send.send(worker).unwrap());
    /// let mut workers: Vec<_> = receive.iter().collect();
    /// workers.sort();
    /// assert_eq!(workers, [0, 1, 2]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spawn_broadcast(&self, task: impl Fn(usize) + Send + Sync + 'static) {
        let inner = &**self.inner();
        WorkerContext::with(|context| {
            let context = context.filter(|context| std::ptr::eq(context.pool(), inner));
            inner.spawn_broadcast(context, task);
        });
    }

    /// [`broadcast`] on this pool. In a pool without threads the caller calls `f(0)`.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(3).build()?;
    /// assert_eq!(pool.broadcast(|worker| worker * 10), [0, 10, 20]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn broadcast<R: Send>(&self, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let inner = &**self.inner();
        WorkerContext::with(|context| match context {
            Some(context) if context.is_inside(inner) => {
                self.enter_worker(|context| broadcast_on(context, f))
            }
            _ => broadcast_from_outside(inner, f),
        })
    }
}

#[inline(always)]
fn detached(
    task: impl FnOnce() + Send + 'static,
) -> impl FnOnce(&WorkerContext<'_, '_>) + Send + 'static {
    move |context: &WorkerContext<'_, '_>| {
        if let Err(payload) = unwind::contain(task) {
            context.pool().panicked(payload);
        }
    }
}

fn spawn_on(context: &WorkerContext<'_, '_>, task: impl FnOnce() + Send + 'static) {
    // SAFETY: the task borrows nothing, and the pool runs every job before it ends.
    let job = unsafe { heap::job_on(context, detached(task)) };
    context.push_detached(job, Placement::Local);
}

impl Inner {
    fn spawn_from_outside(&self, task: impl FnOnce() + Send + 'static) {
        // SAFETY: the task borrows nothing, and the pool runs every job, as in `spawn_on`.
        self.submit(unsafe { heap::shared(detached(task)) });
    }

    fn spawn_broadcast(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        task: impl Fn(usize) + Send + Sync + 'static,
    ) {
        let task = Arc::new(task);
        for worker in 0..answers(self) {
            let (task, pool) = (task.clone(), self.number());
            let task = move || {
                require_worker(pool, worker);
                task(worker);
            };
            // SAFETY: the task borrows nothing, and the pool runs every job, as in `spawn_on`.
            let job = unsafe { heap::shared(detached(task)) };
            self.send_from(context, worker, job);
        }
    }

    /// Queues a job that only `worker` may run, from `context` if the caller is a worker of this
    /// pool. In a pool without threads any guest may run it.
    pub(super) fn send_from(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        worker: usize,
        job: Job,
    ) {
        match context {
            _ if self.threads() == 0 => self.submit(job),
            Some(context) => context.push(job, Placement::Pinned(worker)),
            None => self.send_from_outside(worker, job),
        }
    }

    fn send_from_outside(&self, worker: usize, job: Job) {
        self.queue_or_run(job, |job| {
            self.core().inject(job, Placement::Pinned(worker))
        });
    }

    /// Queues a job from a thread that is not a worker of this pool.
    pub(crate) fn submit(&self, job: Job) {
        if let Err(refused) = self.core().inject(job, Placement::Injector) {
            // Not part of the task that the caller runs.
            let _aside = task::set_aside();
            // The pool is shut down: only the caller is left to run it.
            self.as_guest(|context| refused.into_inner().run(context));
        }
    }

    /// [`submit`](Self::submit) for a caller that waits for the job.
    pub(super) fn submit_awaited(&self, job: Job) {
        self.queue_or_run(job, |job| self.core().inject(job, Placement::Injector));
    }

    /// [`submit_awaited`](Self::submit_awaited), but if all workers sleep, always the first one is
    /// woken for it.
    pub(super) fn submit_near(&self, job: Job) {
        self.queue_or_run(job, |job| {
            self.core().inject(job, Placement::InjectorNear(0))
        });
    }
}

/// The results of a broadcast: one for each worker.
struct Answers<R> {
    places: Vec<Mutex<Option<Result<R, Payload>>>>,
}

impl<R> Answers<R> {
    fn new(pool: &Inner) -> Self {
        Self {
            places: (0..answers(pool)).map(|_| Mutex::new(None)).collect(),
        }
    }

    fn place(&self, worker: usize) -> MutexGuard<'_, Option<Result<R, Payload>>> {
        self.places[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` for `worker` and stores the result.
    fn ask(&self, worker: usize, f: &impl Fn(usize) -> R) {
        let answer = unwind::contain(|| f(worker));
        *self.place(worker) = Some(answer);
    }

    /// [`ask`](Self::ask) in a job that was sent to `worker`.
    fn ask_there(&self, pool: &Inner, worker: usize, f: &impl Fn(usize) -> R) {
        self.ask(worker, &|worker| {
            require_worker(pool.number(), worker);
            f(worker)
        });
    }

    /// All results; or resumes the first panic, if there is one, and passes the others to `pool`.
    fn all(self, pool: &Inner) -> Vec<R> {
        let (mut values, mut panic) = (Vec::new(), None);
        for place in self.places {
            let answer = place.into_inner().unwrap_or_else(PoisonError::into_inner);
            match answer.expect("everybody has been asked") {
                Ok(value) => values.push(value),
                Err(payload) if panic.is_none() => panic = Some(payload),
                Err(payload) => pool.panicked(payload),
            }
        }
        match panic {
            None => values,
            Some(payload) => unwind::resume(payload),
        }
    }
}

/// Panics if this thread runs a job that was sent to `worker` of the pool of that number in its
/// place, because that worker has no thread. In a pool that has been shut down callers may do that.
pub(super) fn require_worker(pool: u32, worker: usize) {
    WorkerContext::with(|context| {
        let Some(context) = context.filter(|context| context.pool().number() == pool) else {
            return;
        };
        let is_closed = context.pool().threads() == 0 || !context.pool().core().is_open();
        assert!(
            context.worker() == worker || is_closed,
            "worker {worker} of the pool has no thread: its `PoolThread` was dropped before it \
             ran, or the thread that built the pool has ended"
        );
    });
}

/// The number of results of a broadcast of `pool`; one, of the caller, in a pool without threads.
fn answers(pool: &Inner) -> usize {
    pool.threads().max(1)
}

/// [`broadcast`] for a caller that is a worker of the pool at present.
fn broadcast_on<R: Send>(context: &WorkerContext<'_, '_>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let pool = context.pool();
    let answers = Answers::new(pool);
    let (workers, own) = (answers.places.len(), context.worker());
    // In a pool without threads, or after a shutdown, there are no other workers.
    let alone = pool.threads() == 0 || pool.core().is_stopped();
    let (f, answers_ref) = (&f, &answers);
    super::scope::scope_on(context, |scope| {
        for worker in (0..workers).filter(|&worker| worker != own && !alone) {
            scope.send(context, worker, move |_| {
                answers_ref.ask_there(pool, worker, f);
            });
        }
        for worker in (0..workers).filter(|&worker| worker == own || alone) {
            answers_ref.ask(worker, f);
        }
    });
    answers.all(pool)
}

/// A broadcast whose caller is not a worker of the pool, in the frame of the caller.
struct OutsideBroadcast<R> {
    answers: Answers<R>,
    done: Arc<OutsideSignal>,
}

impl<R: Send> Waiter for OutsideBroadcast<R> {
    unsafe fn done(this: *const Self, _context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller guarantees that the job is not counted yet, so the frame with the call
        // lives.
        let done = unsafe { &(*this).done };
        // A clone, because the reference in the frame is gone when the caller has been notified.
        let signal = done.clone();
        signal.count_down();
    }
}

/// [`broadcast`] for a caller that is not a worker of the pool, and only waits.
fn broadcast_from_outside<R: Send>(pool: &Inner, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let call = OutsideBroadcast {
        answers: Answers::new(pool),
        done: OutsideSignal::new(pool.threads()),
    };
    let f = &f;
    for worker in 0..pool.threads() {
        let ask = move |call: &OutsideBroadcast<R>, context: &WorkerContext<'_, '_>| {
            call.answers.ask_there(context.pool(), worker, f);
        };
        // SAFETY: the signal waits for as many jobs as there are workers. `f` and the call live in
        // this frame, which does not end before every job has counted the signal down: nothing in
        // between unwinds, and every job that is sent is run.
        let ask = unsafe { scoped(&raw const call, ask) };
        // SAFETY: `ask` borrows only what lives until the signal has been counted down, as said
        // above.
        let job = unsafe { heap::shared(ask) };
        unwind::or_abort(|| pool.send_from_outside(worker, job));
    }
    if pool.threads() > 0 {
        unwind::or_abort(|| call.done.wait(pool));
    }
    if pool.threads() == 0 {
        call.answers.ask(0, f);
    }
    call.answers.all(pool)
}
