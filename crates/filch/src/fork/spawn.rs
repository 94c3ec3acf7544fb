//! Detached tasks, jobs for one worker, yields and isolated waits.
#![expect(unsafe_code, reason = "makes jobs of closures")]

use crate::{
    base::{thread, unwind},
    engine::Placement,
    pool::{Inner, Pool, context::WorkerContext, current_task, heap, job::Job},
};

/// Runs `task` some time, on the [current pool](crate::Pool#the-current-pool). It is detached; a
/// panic is passed to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
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

/// Runs the newest task of this worker's own queue, or one that only it may run. Returns false if
/// there was none, and on a thread that is not a worker. [`yield_now`] also takes tasks of other
/// workers, and older ones first.
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
    WorkerContext::with(|context| context.is_some_and(WorkerContext::help_own))
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
/// // A background task that lets everything that was queued before it run first.
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
/// `f` itself. ([`sync::isolated`](crate::sync::isolated) does the same for the life of a value.)
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
/// The lock may be taken before the call, as here, or inside it: what counts is that every wait
/// with the lock held is isolated, and that `f` queues no task that wants the lock before it takes
/// it.
///
/// Tasks that are queued in `f` are isolated too, on any worker. The cost is that a worker may
/// sleep while others have work. A task that another thread spawns into a scope of `f` from outside
/// of the pool needs another worker to run it. Calls of [`broadcast`](crate::broadcast()) run all
/// the same.
pub fn isolate<R>(f: impl FnOnce() -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) => context.isolate(f),
        None => f(),
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
}

/// Makes a task that passes its panic to the pool.
#[inline(always)]
pub(super) fn detached(
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
    let job = unsafe { heap::alloc_detached_job(context, detached(task)) };
    push_detached(context, job);
}

/// Not inlined, so that it is compiled once, and not for every closure that is spawned.
#[inline(never)]
fn push_detached(context: &WorkerContext<'_, '_>, job: Job) {
    context.push_detached(job, Placement::Local);
}

impl Inner {
    fn spawn_from_outside(&self, task: impl FnOnce() + Send + 'static) {
        // SAFETY: the task borrows nothing, and the pool runs every job, as in `spawn_on`.
        self.inject(unsafe { heap::alloc_shared_detached_job(detached(task)) });
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
            _ if self.live_workers() == 0 => self.inject(job),
            Some(context) => context.push(job, Placement::Pinned(worker)),
            None => self.send_from_outside(worker, job),
        }
    }

    pub(super) fn send_from_outside(&self, worker: usize, job: Job) {
        self.queue_or_run(job, |job| self.enqueue(job, Placement::Pinned(worker)));
    }

    /// Queues a job from a thread that is not a worker of this pool.
    pub(crate) fn inject(&self, job: Job) {
        self.inject_to(job, Placement::Injector);
    }

    /// [`inject`](Self::inject) for any shared queue.
    #[inline]
    pub(crate) fn inject_to(&self, job: Job, placement: Placement) {
        if let Err(refused) = self.enqueue(job, placement) {
            self.run_refused(refused.into_inner());
        }
    }

    /// Runs a job on the calling thread, because the pool is shut down.
    #[cold]
    fn run_refused(&self, job: Job) {
        // Not part of the task that the caller runs.
        let _aside = current_task::set_aside();
        self.as_guest(|context| job.run(context));
    }

    /// [`inject`](Self::inject) for a caller that waits for the job.
    pub(super) fn inject_awaited(&self, job: Job) {
        self.queue_or_run(job, |job| self.enqueue(job, Placement::Injector));
    }

    /// [`inject_awaited`](Self::inject_awaited), but if all workers sleep, always the first one is
    /// woken for it.
    pub(super) fn inject_near(&self, job: Job) {
        self.queue_or_run(job, |job| self.enqueue(job, Placement::InjectorNear(0)));
    }
}

/// Where a job runs that was sent to a worker.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// On that worker, or in its place, because the pool has been shut down or has no threads.
    There,
    /// On another one: the worker had left the pool, and is back. The job must be sent again.
    Missed,
    /// On another one, because the worker has left the pool.
    Left,
}

/// Returns where this thread runs a job that was sent to `worker` of the pool of that number.
///
/// # Panics
/// If the worker has no thread, in a pool whose threads the program provides.
pub(super) fn arrival(pool: u32, worker: usize) -> Arrival {
    WorkerContext::with(|context| {
        let Some(context) = context.filter(|context| context.pool().number() == pool) else {
            return Arrival::There;
        };
        let pool = context.pool();
        let is_closed = pool.live_workers() == 0 || !pool.core().is_open();
        if context.worker() == worker || is_closed {
            return Arrival::There;
        }
        assert!(
            !pool.uses_external_threads(),
            "worker {worker} of the pool has no thread: its `PoolThread` was dropped before it \
             ran, or the thread that built the pool has ended"
        );
        match worker < pool.live_workers() {
            true => Arrival::Missed,
            false => Arrival::Left,
        }
    })
}
