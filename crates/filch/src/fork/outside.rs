//! Calls from threads that leave the work to a pool's workers without becoming one.
#![expect(unsafe_code, reason = "jobs that point into the caller's frame")]

use crate::{
    base::{
        latch::CountdownLatch,
        thread::{self, Parker},
        unwind,
    },
    engine::Placement,
    pool::{
        Inner, Pool,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap,
        job::Job,
        latch::WaitTarget,
        scoped::{ScopedWaiter, scoped},
        waits::{EventId, EventKind, OnCycle, WaitList, Waiting},
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

    /// Waits for one more event. The caller has one to count down itself.
    pub(super) fn add(&self) {
        self.events.add();
    }

    /// Counts one event. After the last one, the caller's frame may be gone.
    pub(super) fn count_down(&self) {
        self.events.count_down();
        if self.events.is_open() {
            self.caller.unpark();
        }
    }

    /// The last event, for the list of waits.
    pub(super) fn end(&self) -> EventId {
        EventId::end_of(self, EventKind::Call)
    }

    /// The group of the jobs that count the events.
    pub(super) fn group(&self) -> JobGroup {
        JobGroup {
            end: self.end(),
            plan_id: 0,
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
            None => {
                let waiting = Waiting::new(WaitList::global());
                waiting.list_event(self.end(), OnCycle::Stay);
                self.events.wait();
            }
        });
    }
}

impl WaitTarget for OutsideSignal {
    fn has_happened(&self) -> bool {
        self.events.is_open()
    }

    fn register_sleeper(&self, _worker: usize) -> bool {
        !self.events.is_open()
    }

    fn unregister_sleeper(&self) {}

    fn event(&self) -> Option<EventId> {
        Some(self.end())
    }
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
    /// threads the program starts, or while a worker is in a [blocking](crate::blocking) call,
    /// another thread that waits for the pool may call it, or the one that works in the place of
    /// that worker.
    ///
    /// # Panics
    /// If `f` does.
    #[doc(alias = "in_worker")]
    pub fn on_worker<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let (mut f, mut result) = (Some(f), None);
        call_on_worker(self.inner(), &mut || {
            result = Some(unwind::contain(f.take().expect("it is called once")));
        });
        match result.expect("it has been called") {
            Ok(result) => result,
            Err(payload) => unwind::resume(payload),
        }
    }
}

/// A call on a worker, in the frame of the caller.
struct WorkerCall<'f> {
    /// The function, until it is called. It does not panic. Behind a pointer, so that the rest is
    /// not compiled for every function.
    f: Mutex<Option<&'f mut (dyn FnMut() + Send)>>,
    /// Waits for all jobs of the call: it, and those of guests which have passed it on.
    done: Arc<OutsideSignal>,
}

impl WorkerCall<'_> {
    /// Calls the function, unless `context` is of a guest, which may take any job from the queues.
    ///
    /// A guest sends it to one of the workers, which is perhaps not the next one that is free; but
    /// a guest is faster than all workers only if these are busy. A guest receives it again only if
    /// that worker has left the pool meanwhile. Where workers may be without a thread, or in a
    /// blocking call, a guest calls the function itself.
    fn run(&self, context: &WorkerContext<'_, '_>) {
        let pool = context.pool();
        let has_workers = pool.has_all_threads() && !pool.has_blocking_calls();
        if context.is_guest() && has_workers {
            let worker = pool.affinity_target(context.worker());
            self.done.add();
            // SAFETY: the signal waits for one more job, which is this one.
            let job = unsafe { self.job() };
            return context.push(job, Placement::Pinned(worker));
        }
        let f = self.f.lock().unwrap_or_else(PoisonError::into_inner).take();
        f.expect("it is called once")();
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
        unsafe { heap::alloc_shared_job(task) }
    }
}

impl ScopedWaiter for WorkerCall<'_> {
    fn group(&self) -> JobGroup {
        self.done.group()
    }

    unsafe fn done(this: *const Self, _context: &WorkerContext<'_, '_>, _is_elsewhere: bool) {
        // SAFETY: the caller guarantees that the job is not counted as done yet, so the frame with
        // the call lives.
        let done = unsafe { &(*this).done };
        // A clone, because the call's own reference is gone when the caller has been notified.
        let signal = done.clone();
        signal.count_down();
    }
}

/// [`Pool::on_worker`] for a function that does not panic.
fn call_on_worker(pool: &Inner, f: &mut (dyn FnMut() + Send)) {
    let here = WorkerContext::with(|context| {
        context.is_some_and(|context| context.is_worker_inside(pool))
    });
    if here || pool.live_workers() == 0 {
        return pool.enter_worker(|_| f());
    }
    let call = WorkerCall {
        f: Mutex::new(Some(f)),
        done: OutsideSignal::new(1),
    };
    // SAFETY: the signal waits for this job. The call lives in this frame, which does not end
    // before the signal has been counted down: nothing in between unwinds, and the pool runs every
    // job.
    let job = unsafe { call.job() };
    unwind::or_abort(|| {
        pool.inject_near(job);
        call.done.wait(pool);
    });
}
