//! Calls on every worker of a pool.
#![expect(
    unsafe_code,
    reason = "makes jobs of closures that point into the caller's frame"
)]

use super::{
    outside::OutsideSignal,
    scope::scope_on,
    spawn::{detached, require_worker},
};
use crate::{
    base::unwind::{self, Payload},
    pool::{
        Inner, Pool,
        context::WorkerContext,
        heap,
        scoped::{ScopedWaiter, scoped},
    },
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        for worker in 0..expected_answers(self) {
            let (task, pool) = (task.clone(), self.number());
            let task = move || {
                require_worker(pool, worker);
                task(worker);
            };
            // SAFETY: the task borrows nothing, and the pool runs every job before it ends.
            let job = unsafe { heap::shared(detached(task)) };
            self.send_from(context, worker, job);
        }
    }
}

/// The results of a broadcast: one for each worker.
struct Answers<R> {
    slots: Vec<Mutex<Option<Result<R, Payload>>>>,
}

impl<R> Answers<R> {
    fn new(pool: &Inner) -> Self {
        Self {
            slots: (0..expected_answers(pool))
                .map(|_| Mutex::new(None))
                .collect(),
        }
    }

    fn slot(&self, worker: usize) -> MutexGuard<'_, Option<Result<R, Payload>>> {
        self.slots[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` for `worker` and stores the result.
    fn ask(&self, worker: usize, f: &impl Fn(usize) -> R) {
        let answer = unwind::contain(|| f(worker));
        *self.slot(worker) = Some(answer);
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
        for slot in self.slots {
            let answer = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            match answer.expect("every worker has been asked") {
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

/// The number of results of a broadcast of `pool`; one, of the caller, in a pool without threads.
fn expected_answers(pool: &Inner) -> usize {
    pool.threads().max(1)
}

/// [`broadcast`] for a caller that is a worker of the pool at present.
fn broadcast_on<R: Send>(context: &WorkerContext<'_, '_>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let pool = context.pool();
    let answers = Answers::new(pool);
    let (workers, own) = (answers.slots.len(), context.worker());
    // In a pool without threads, or after a shutdown, there are no other workers.
    let no_others = pool.threads() == 0 || pool.core().is_stopped();
    let (f, answers_ref) = (&f, &answers);
    scope_on(context, |scope| {
        for worker in (0..workers).filter(|&worker| worker != own && !no_others) {
            scope.send(context, worker, move |_| {
                answers_ref.ask_there(pool, worker, f);
            });
        }
        for worker in (0..workers).filter(|&worker| worker == own || no_others) {
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

impl<R: Send> ScopedWaiter for OutsideBroadcast<R> {
    unsafe fn done(this: *const Self, _context: &WorkerContext<'_, '_>) {
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
