//! Calls on every worker of a pool.
#![expect(
    unsafe_code,
    reason = "makes jobs of closures that point into the caller's frame"
)]

use super::{
    outside::OutsideSignal,
    scope::run_scope,
    spawn::{Arrival, arrival, detached},
};
use crate::{
    base::unwind::{self, Payload},
    engine::Placement,
    pool::{
        Inner, Pool,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap,
        job::Job,
        scoped::{ScopedWaiter, scoped},
    },
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls `task` some time, once on every worker of the pool whose worker calls this, else of the
/// global one; a worker that leaves the pool before is left out. It gets the number of the worker.
/// The calls are detached; panics go to the pool's [`on_panic`](crate::PoolBuilder::on_panic).
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

/// Calls `f` once on every worker of the [current pool](crate::Pool#the-current-pool), and returns
/// the results in the order of the workers. `f` gets the number of the worker.
///
/// Each worker runs it between two tasks, or in a wait, so the call takes as long as the longest
/// running task. A worker that leaves the pool before that, because the pool is
/// [resized](Pool::resize), is left out.
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

impl Inner {
    fn spawn_broadcast(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        task: impl Fn(usize) + Send + Sync + 'static,
    ) {
        let task = Arc::new(task);
        for worker in 0..result_count(self) {
            self.spawn_at(context, worker, task.clone());
        }
    }

    /// Spawns a task that only `worker` runs.
    fn spawn_at(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        worker: usize,
        task: Arc<impl Fn(usize) + Send + Sync + 'static>,
    ) {
        let pool = self.number();
        let task = move || match arrival(pool, worker) {
            Arrival::There => task(worker),
            Arrival::Missed => WorkerContext::with(|context| {
                let here = context.expect("a job of the pool runs on a worker of it");
                here.pool().spawn_at(context, worker, task);
            }),
            Arrival::Left => {}
        };
        // SAFETY: the task borrows nothing, and the pool runs every job before it ends.
        let job = unsafe { heap::alloc_shared_job(detached(task)) };
        self.send_from(context, worker, job);
    }
}

/// The results of a broadcast: one for each worker. A worker that leaves the pool before it has run
/// its job has none.
struct BroadcastResults<R> {
    slots: Vec<Mutex<Option<Result<R, Payload>>>>,
}

impl<R> BroadcastResults<R> {
    fn new(workers: usize) -> Self {
        Self {
            slots: (0..workers).map(|_| Mutex::new(None)).collect(),
        }
    }

    fn slot(&self, worker: usize) -> MutexGuard<'_, Option<Result<R, Payload>>> {
        self.slots[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` for `worker` and stores the result.
    fn call(&self, worker: usize, f: &impl Fn(usize) -> R) {
        let result = unwind::contain(|| f(worker));
        *self.slot(worker) = Some(result);
    }

    /// [`call`](Self::call) in a job that was sent to `worker`. Returns whether the job has missed
    /// that worker, and must be sent again.
    #[must_use]
    fn call_in_job(&self, pool: &Inner, worker: usize, f: &impl Fn(usize) -> R) -> bool {
        match unwind::contain(|| arrival(pool.number(), worker)) {
            Ok(Arrival::There) => self.call(worker, f),
            Ok(arrival) => return arrival == Arrival::Missed,
            Err(payload) => *self.slot(worker) = Some(Err(payload)),
        }
        false
    }

    /// All results; or resumes the first panic, if there is one, and passes the others to `pool`.
    fn all(self, pool: &Inner) -> Vec<R> {
        let (mut values, mut panic) = (Vec::new(), None);
        for slot in self.slots {
            match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
                None => {}
                Some(Ok(value)) => values.push(value),
                Some(Err(payload)) if panic.is_none() => panic = Some(payload),
                Some(Err(payload)) => pool.panicked(payload),
            }
        }
        match panic {
            None => values,
            Some(payload) => unwind::resume(payload),
        }
    }
}

/// The number of results of a broadcast of `pool`; one, of the caller, in a pool without threads.
fn result_count(pool: &Inner) -> usize {
    pool.live_workers().max(1)
}

/// [`broadcast`] for a caller that is a worker of the pool at present.
fn broadcast_on<R: Send>(context: &WorkerContext<'_, '_>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let pool = context.pool();
    let results = BroadcastResults::new(result_count(pool));
    let (workers, own) = (results.slots.len(), context.worker());
    // In a pool without threads, or after a shutdown, there are no other workers.
    let no_others = pool.live_workers() == 0 || pool.core().is_stopped();
    let (f, results_ref) = (&f, &results);
    run_scope(context, |scope| {
        for worker in (0..workers).filter(|&worker| worker != own && !no_others) {
            scope.send(context, worker, move || {
                results_ref.call_in_job(pool, worker, f)
            });
        }
        for worker in (0..workers).filter(|&worker| worker == own || no_others) {
            results_ref.call(worker, f);
        }
    });
    results.all(pool)
}

/// A broadcast whose caller is not a worker of the pool, in the frame of the caller.
struct OutsideBroadcast<R> {
    results: BroadcastResults<R>,
    done: Arc<OutsideSignal>,
}

impl<R: Send> OutsideBroadcast<R> {
    /// The job for `worker`.
    ///
    /// # Safety
    /// The signal waits for the job, and the frames of `self` and `f` do not end before that.
    unsafe fn job(&self, worker: usize, f: &(impl Fn(usize) -> R + Sync)) -> Job {
        let run = move |call: &Self, context: &WorkerContext<'_, '_>| {
            if call.results.call_in_job(context.pool(), worker, f) {
                call.done.add();
                // SAFETY: the signal waits for one more job, which is this one.
                let again = unsafe { call.job(worker, f) };
                context.push(again, Placement::Pinned(worker));
            }
        };
        // SAFETY: the caller guarantees that the call lives until the job is counted as done.
        let run = unsafe { scoped(&raw const *self, run) };
        // SAFETY: `run` borrows only what lives until the signal has been counted down, as the
        // caller guarantees.
        unsafe { heap::alloc_shared_job(run) }
    }
}

impl<R: Send> ScopedWaiter for OutsideBroadcast<R> {
    fn group(&self) -> JobGroup {
        self.done.group()
    }

    unsafe fn done(this: *const Self, _context: &WorkerContext<'_, '_>, _is_elsewhere: bool) {
        // SAFETY: the caller guarantees that the job is not counted as done yet, so the frame with
        // the call lives.
        let done = unsafe { &(*this).done };
        // A clone, because the reference in the frame is gone when the caller has been notified.
        let signal = done.clone();
        signal.count_down();
    }
}

/// [`broadcast`] for a caller that is not a worker of the pool, and only waits.
fn broadcast_from_outside<R: Send>(pool: &Inner, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let workers = pool.live_workers();
    let call = OutsideBroadcast {
        results: BroadcastResults::new(workers.max(1)),
        done: OutsideSignal::new(workers),
    };
    for worker in 0..workers {
        // SAFETY: the signal waits for as many jobs as there are workers. `f` and the call live in
        // this frame, which does not end before every job has counted the signal down: nothing in
        // between unwinds, and every job that is sent is run.
        let job = unsafe { call.job(worker, &f) };
        unwind::or_abort(|| pool.send_from_outside(worker, job));
    }
    if workers > 0 {
        unwind::or_abort(|| call.done.wait(pool));
    } else {
        call.results.call(0, &f);
    }
    call.results.all(pool)
}
