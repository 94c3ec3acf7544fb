//! Calls from threads that leave the work to a pool's workers without becoming one.
#![expect(unsafe_code, reason = "jobs that point into the caller's frame")]

use crate::{
    base::{
        latch::CountdownLatch,
        sync::{AtomicBool, Ordering},
        thread::{self, Parker},
        unwind::{self, Payload},
    },
    engine::Placement,
    pool::{
        Inner, Pool,
        context::WorkerContext,
        heap,
        job::Job,
        latch::WaitTarget,
        scoped::{ScopedWaiter, scoped},
    },
};
use std::sync::{Arc, Mutex, PoisonError};

/// A number of events in one pool that a thread outside of it waits for: a thread that is not a
/// worker, and sleeps, or a worker of another pool, which runs tasks there meanwhile.
pub(super) struct OutsideSignal {
    events: CountdownLatch,
    /// The waiting thread. As a worker of another pool it may have parked itself in a wait.
    caller: Arc<Parker>,
}

impl OutsideSignal {
    /// Creates it for the calling thread, to wait for this number of `events`.
    pub(super) fn new(events: usize) -> Arc<Self> {
        Arc::new(Self {
            events: CountdownLatch::new(events),
            caller: thread::parker(),
        })
    }

    /// Counts one event. After the last one, the caller's frame may be gone.
    pub(super) fn count_down(&self) {
        self.events.count_down();
        if self.events.is_open() {
            self.caller.unpark();
        }
    }

    /// Waits for the events in `pool`.
    pub(super) fn wait(&self, pool: &Inner) {
        WorkerContext::with(|context| match context {
            // A guest, which must not run the jobs that are meant for other workers.
            Some(context) if std::ptr::eq(context.pool(), pool) => {
                context.isolate(|| context.wait(self, context.mark()));
            }
            Some(context) => context.wait(self, context.mark()),
            None => self.events.wait(),
        });
    }
}

impl WaitTarget for OutsideSignal {
    fn happened(&self) -> bool {
        self.events.is_open()
    }

    fn register_sleeper(&self, _worker: usize) -> bool {
        !self.events.is_open()
    }

    fn unregister_sleeper(&self) {}
}

impl Pool {
    /// Calls `f` on one of the pool's own threads, and waits for it. On such a thread it calls `f`
    /// directly.
    ///
    /// [`install`](Self::install) is faster, because the caller takes part. This is for code that
    /// must not run on the caller's thread: it needs the large stack of the pool's threads, state
    /// that a start hook has set up there, or a [`current_worker`](crate::current_worker()) that is
    /// below [`workers`](Self::workers). Tasks that `f` spawns don't run on the caller either,
    /// which sleeps, or runs tasks of another pool if it is a worker there.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let worker = pool.on_worker(|| filch::current_worker());
    /// assert!(worker.is_some_and(|worker| worker < 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// In a pool without threads, or one that has been shut down, or whose threads were all
    /// [dropped](crate::PoolThread) or have ended, the caller itself calls `f`. In a pool whose
    /// threads the program starts, another thread that waits for the pool may call it.
    ///
    /// # Panics
    /// If `f` does.
    pub fn on_worker<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let inner = &**self.inner();
        let here = WorkerContext::with(|context| {
            context.is_some_and(|context| context.is_worker_inside(inner))
        });
        if here || inner.threads() == 0 {
            return self.install(f);
        }
        on_worker_from_outside(inner, f)
    }
}

/// A call on a worker, in the frame of the caller.
struct WorkerCall<F, R> {
    /// The function, until it is called.
    f: Mutex<Option<F>>,
    answer: Mutex<Option<Result<R, Payload>>>,
    /// A guest has received the call, and passed it on to a worker.
    passed_on: AtomicBool,
    /// Waits for two jobs: the call, and that of a guest which has passed it on. Without such a
    /// guest, the call counts as both.
    done: Arc<OutsideSignal>,
}

impl<F: FnOnce() -> R + Send, R: Send> WorkerCall<F, R> {
    /// Calls the function, unless `context` is of a guest, which may take any job from the queues.
    ///
    /// A guest sends it to one of the workers, which is perhaps not the next one that is free; but
    /// a guest is faster than all workers only if these are busy. If the guest receives it again,
    /// the pool has no workers any more. Where workers may be without a thread, a guest calls the
    /// function itself.
    fn run(&self, context: &WorkerContext<'_, '_>) {
        // Relaxed: the queues order the two jobs; there is no other.
        let was_passed_on = self.passed_on.load(Ordering::Relaxed);
        if context.is_guest() && !was_passed_on && context.pool().has_all_threads() {
            // Relaxed: as above.
            self.passed_on.store(true, Ordering::Relaxed);
            let worker = context.worker() % context.pool().threads();
            // SAFETY: the signal waits for a second job, which is this one.
            let job = unsafe { self.job() };
            return context.push(job, Placement::Pinned(worker));
        }
        let f = self.f.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = unwind::contain(f.expect("it is called once"));
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        if !was_passed_on {
            self.done.count_down();
        }
    }

    /// A job for the call.
    ///
    /// # Safety
    /// The signal waits for the job, and the frame of the call does not end before that.
    unsafe fn job(&self) -> Job {
        let run = |call: &Self, context: &WorkerContext<'_, '_>| call.run(context);
        // SAFETY: the caller guarantees that the call lives until the job is counted as done.
        let task = unsafe { scoped(&raw const *self, run) };
        // SAFETY: `task` borrows only the call, which lives until the job is counted as done.
        unsafe { heap::shared(task) }
    }
}

impl<F: Send, R: Send> ScopedWaiter for WorkerCall<F, R> {
    unsafe fn done(this: *const Self, _context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller guarantees that the job is not counted as done yet, so the frame with
        // the call lives.
        let done = unsafe { &(*this).done };
        // A clone, because the call's own reference is gone when the caller has been notified.
        let signal = done.clone();
        signal.count_down();
    }
}

fn on_worker_from_outside<R: Send>(pool: &Inner, f: impl FnOnce() -> R + Send) -> R {
    let call = WorkerCall {
        f: Mutex::new(Some(f)),
        answer: Mutex::new(None),
        passed_on: AtomicBool::new(false),
        done: OutsideSignal::new(2),
    };
    // SAFETY: the signal waits for this job. The call lives in this frame, which does not end
    // before the signal has been counted down: nothing in between unwinds, and the pool runs every
    // job.
    let job = unsafe { call.job() };
    unwind::or_abort(|| {
        pool.inject_near(job);
        call.done.wait(pool);
    });
    let answer = call.answer.into_inner();
    let answer = answer.unwrap_or_else(PoisonError::into_inner);
    match answer.expect("the signal comes after the answer") {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}
