//! Threads that let the workers of a pool work for them, and stay what they are.
#![expect(unsafe_code, reason = "jobs that point into the caller's frame")]

use crate::{
    base::{
        latch::Latch,
        thread::{self, Parker},
        unwind::{self, Payload},
    },
    pool::{
        Inner, Pool,
        context::WorkerContext,
        heap,
        latch::Awaited,
        scoped::{Waiter, scoped},
    },
};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that happens in one pool and is waited for outside of it: by a thread that is no worker, and sleeps, or
/// by a worker of another pool, which works there meanwhile.
pub(super) struct Signal {
    events: Latch,
    /// Who waits. As a worker of another pool it may have parked itself in a wait.
    caller: Arc<Parker>,
}

impl Signal {
    /// For the calling thread to wait until `events` have happened.
    pub(super) fn new(events: usize) -> Arc<Self> {
        Arc::new(Self {
            events: Latch::new(events),
            caller: thread::parker(),
        })
    }

    /// One event has happened. If it is the last one, the caller's frame may be gone.
    pub(super) fn count_down(&self) {
        self.events.count_down();
        if self.events.is_open() {
            self.caller.unpark();
        }
    }

    /// Waits for what happens in `pool`.
    pub(super) fn wait(&self, pool: &Inner) {
        WorkerContext::with(|context| match context {
            // A guest, which must leave alone what is to be done by others.
            Some(context) if std::ptr::eq(context.pool(), pool) => {
                context.isolate(|| context.wait(self, context.mark()));
            }
            Some(context) => context.wait(self, context.mark()),
            None => self.events.wait(),
        });
    }
}

impl Awaited for Signal {
    fn happened(&self) -> bool {
        self.events.is_open()
    }

    fn sleep(&self, _worker: usize) -> bool {
        !self.events.is_open()
    }

    fn awake(&self) {}
}

impl Pool {
    /// Calls `f` on one of the pool's own threads, and waits for it. On such a thread that is right here.
    ///
    /// [`install`](Self::install) is faster, because the caller works along; this is for code that must not run on
    /// the caller's thread: it needs the large stack of the pool's threads, what a start hook has set up
    /// there, or a [`current_worker`](crate::current_worker()) that is below [`workers`](Self::workers). Everything that `f` spawns is kept away from
    /// the caller too, which sleeps, or works for another pool if it is a worker there.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let worker = pool.on_worker(|| filch::current_worker());
    /// assert!(worker.is_some_and(|worker| worker < 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// In a pool without threads, or one that has been shut down, or whose threads were all
    /// [dropped](crate::PoolThread) or have ended, the caller is all there is, and calls `f`.
    ///
    /// # Panics
    /// When `f` does.
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
struct Call<R> {
    answer: Mutex<Option<Result<R, Payload>>>,
    done: Arc<Signal>,
}

impl<R: Send> Waiter for Call<R> {
    unsafe fn done(this: *const Self, _site: &WorkerContext<'_, '_>) {
        // SAFETY: the caller's duty.
        let done = unsafe { &(*this).done };
        // A share of it, because the call's own is gone when the caller has been notified.
        let signal = done.clone();
        signal.count_down();
    }
}

fn on_worker_from_outside<R: Send>(pool: &Inner, f: impl FnOnce() -> R + Send) -> R {
    let call = Call {
        answer: Mutex::new(None),
        done: Signal::new(1),
    };
    let task = move |call: &Call<R>, _: &WorkerContext<'_, '_>| {
        let result = unwind::contain(f);
        *call.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    };
    // SAFETY: the signal waits for one job, this one. The call and what `f` borrows outlive this
    // frame, which does not end before the signal has been counted down: nothing in between
    // unwinds, and the pool runs every job.
    let task = unsafe { scoped(&raw const call, task) };
    // SAFETY: as above.
    let job = unsafe { heap::shared(task) };
    unwind::or_abort(|| {
        pool.submit_near(job);
        call.done.wait(pool);
    });
    let answer = call.answer.into_inner();
    let answer = answer.unwrap_or_else(PoisonError::into_inner);
    match answer.expect("the signal comes after the answer") {
        Ok(result) => result,
        Err(payload) => unwind::resume(payload),
    }
}
