//! Jobs that are queued from outside, and the hook that notifies the host of a pool without
//! threads.

use super::inner::{Inner, Job};
use crate::{
    base::{error::Refused, unwind},
    engine::Placement,
    threads::timer::Timer,
};

impl Inner {
    /// Queues a job from a thread that is not a worker of this pool. Returns the job if the pool is
    /// closed.
    #[inline(always)]
    pub(crate) fn enqueue(&self, job: Job, placement: Placement) -> Result<(), Refused<Job>> {
        self.core.inject(job, placement)?;
        if self.on_work.is_some() {
            self.notify_host();
        }
        Ok(())
    }

    /// Whether it has a hook, so that its jobs run without a call that waits for them.
    pub(crate) fn has_work_hook(&self) -> bool {
        self.on_work.is_some()
    }

    /// Called when a thread has left the pool: calls the hook if jobs remain. Jobs that this thread
    /// has queued are visible to it; another thread calls the hook for its own.
    pub(super) fn notify_host_of_remaining(&self) {
        if self.on_work.is_some() && self.core.is_open() && self.core.has_work() {
            self.notify_host();
        }
    }

    #[cold]
    fn notify_host(&self) {
        if !Timer::is_waking_due() {
            return self.call_hook();
        }
        // A waker that is called in the middle of a task, which may hold locks, or on the thread of
        // the timer, runs no user code.
        let pool = self.share();
        if let Err(call_hook) = Timer::global().call_soon(move || pool.call_hook()) {
            call_hook();
        }
    }

    fn call_hook(&self) {
        if let Some(hook) = &self.on_work
            && let Err(payload) = unwind::contain(|| hook())
        {
            self.panicked(payload);
        }
    }
}
