//! How a pool gets more or fewer workers while it works.
//!
//! `threads/resize.rs` has what it has in common with an executor, and `threads/worker_state.rs`
//! the state of each worker, and who changes it. The workers of a pool always have the lowest
//! numbers, so a smaller pool loses those with the highest.
//!
//! **Leaving.** A worker that is asked to leave does so at the bottom of its stack, between two
//! tasks; one that sleeps is woken for that. First it empties its queues ([`Inner::try_leave`]):
//!
//! - submitted tasks and detached closures go to the injector, because any worker may run them;
//! - other jobs it runs itself. A wait may depend on one of them, and if that wait is isolated it
//!   takes nothing from the injector. What such a job spawns without waiting for it, and a future
//!   that is woken, goes to the shared queues, as at a checkpoint (`help.rs`);
//! - affine tasks go to the mailbox of another worker ([`Inner::affinity_target`]), and so do later
//!   ones;
//! - affine tasks of its node, if it is the last worker there, go to the injector, and so do later
//!   ones ([`Inner::has_worker_in`]);
//! - pinned tasks are run. One that arrives too late goes to worker 0, which never leaves and takes
//!   it in isolated waits too; a broadcast does not call its function there (`fork/broadcast.rs`).
//!
//! **Joining.** A worker that has not left yet stays. For others a thread is started, and the pool
//! counts them when all have entered the engine. If one does not start, those that this resize has
//! added are asked to leave again.

use super::{
    Pool,
    build::Jobs,
    inner::{Inner, Job, PoolOwner, PoolWorker, Serving, WorkerContext},
};
use crate::{
    base::{
        canary::{Canary, broken},
        error::BuildError,
        thread,
    },
    engine::Unpark,
    threads::{Departure, ResizeError, ResizeThreads, ThreadGroup},
};
use std::sync::{Arc, PoisonError};

/// The most jobs that a leaving worker runs in a row before it makes a usual step, in which it
/// notices the end of the pool, timers and the driver.
const MAX_JOBS_IN_A_ROW: usize = 64;

impl Pool {
    /// Changes the number of workers, from 1 to [`max_workers`](Self::max_workers), while the pool
    /// works. It may be called by any thread, tasks of the pool included.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(2).max_workers(4).build()?;
    /// pool.resize(4)?; // for a burst
    /// assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2, 3]);
    /// pool.resize(1)?;
    /// assert_eq!(pool.workers(), 1);
    ///
    /// let error = pool.resize(0).unwrap_err();
    /// assert!(error.is_out_of_range());
    /// assert_eq!(error.to_string(), "a pool cannot have 0 workers; ask for 1 to 4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A larger pool has all its workers when this returns; start hooks have run. A smaller one
    /// loses those with the highest numbers: each leaves after the task that it runs, and this does
    /// not wait for that. What is queued on it runs there or on another worker. A worker that is
    /// leaving still has its [number](crate::current_worker()), which is not below
    /// [`workers`](Self::workers) any more. Tasks with an [affinity](crate::Affinity) to it prefer
    /// another worker from now on. [Metrics](Self::metrics) keep what it has counted.
    ///
    /// # Errors
    /// When the number is not allowed; when the pool does not start its own threads
    /// ([`workers(0)`](crate::PoolBuilder::workers), [`build_on`](crate::PoolBuilder::build_on),
    /// [`with_current_thread`](crate::PoolBuilder::with_current_thread)) or has been shut down; in
    /// a start or exit hook of the pool; when a thread cannot be started, or its start hook panics.
    /// In all cases the pool has as many workers as before.
    #[doc(alias("set_num_threads", "set_max_threads"))]
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        let inner = self.inner();
        inner.check_resize(workers)?;
        inner.members.resize(workers, &*self.owned)
    }

    /// The most workers that [`resize`](Self::resize) allows: for arrays with an entry for each
    /// worker that there may be.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).max_workers(2).build()?;
    /// assert_eq!(pool.max_workers(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn max_workers(&self) -> usize {
        self.inner().max_threads()
    }
}

impl ResizeThreads for PoolOwner {
    const NAME: &'static str = "pool";

    fn is_open(&self) -> bool {
        self.inner.core.is_open()
    }

    fn start(&self, worker: usize) -> Result<(), BuildError> {
        let thread = self.inner.start_worker(worker)?;
        let mut threads = self
            .thread_group
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // There is none after a `shutdown_timeout` that has timed out. The last handle then joins
        // this one.
        let threads = threads.get_or_insert_with(ThreadGroup::without_threads);
        threads.add(thread);
        Ok(())
    }

    fn unpark(&self, worker: usize) {
        self.inner.parkers.unpark(worker);
    }
}

impl Inner {
    /// Checks everything but whether the pool is open.
    fn check_resize(&self, workers: usize) -> Result<(), ResizeError> {
        if self.substitutes.is_none() {
            return Err(ResizeError::unsupported::<PoolOwner>(
                "only a pool that starts its own threads can be resized; build it with `build`, \
                 with a worker and without the current thread",
            ));
        }
        if self.is_own_thread() && WorkerContext::with(|context| context.is_none()) {
            return Err(ResizeError::unsupported::<PoolOwner>(
                "a pool cannot be resized by its own hooks; resize it from a task or another thread",
            ));
        }
        if !(1..=self.max_threads()).contains(&workers) {
            let max = self.max_threads();
            return Err(ResizeError::out_of_range::<PoolOwner>(workers, max));
        }
        Ok(())
    }

    /// Starts the thread of a worker.
    fn start_worker(&self, worker: usize) -> Result<ThreadGroup<()>, BuildError> {
        let substitutes = self.substitutes.as_ref();
        let config = &substitutes.expect("checked before").config;
        let work = Arc::new(Jobs(self.share()));
        ThreadGroup::start(worker..worker + 1, config, &self.core, &self.parkers, &work)
    }

    /// Called by a worker that is asked to leave, between two tasks. Returns whether it leaves now.
    #[cold]
    pub(super) fn try_leave(&self, worker: &mut PoolWorker<'_>) -> bool {
        if self.core.is_stopped() {
            return false; // the next step exits
        }
        worker.interrupt(thread::yield_now, |running| {
            WorkerContext::enter(running, self, |context| context.vacate());
        });
        thread::point();
        let is_empty = !worker.has_own() && !worker.has_pinned();
        is_empty && self.members.state(worker.id()).depart() == Departure::Leaves
    }

    /// Called by a thread that has left the engine. Returns false if the pool ends.
    pub(super) fn end_leave(&self, worker: usize) -> bool {
        // A thread that drives a pool without threads has no such number.
        let left = worker < self.max_threads() && self.members.state(worker).end();
        if left {
            // It may have held the driver last, while others wait for it.
            self.parkers.hand_over();
        }
        left
    }
}

impl WorkerContext<'_, '_> {
    /// Empties the queues of this worker, which is about to leave: see the module.
    fn vacate(&self) {
        let home = self.pool().affinity_target(self.worker());
        self.running().move_affine(home);
        let serving = self.serving.replace(Serving::Urgent);
        // No wait target of another task, as in `serve`.
        self.with_wait_target(self, || {
            let mut moved = Vec::new();
            for _ in 0..MAX_JOBS_IN_A_ROW {
                let Some(job) = self.next_to_run(&mut moved) else {
                    break;
                };
                self.run_popped(job);
                thread::point();
            }
        });
        self.serving.set(serving);
    }

    /// Returns the next job that a leaving worker runs itself, and hands those before it on.
    fn next_to_run(&self, moved: &mut Vec<Job>) -> Option<Job> {
        let mut next = None;
        while next.is_none()
            && let Some(job) = self.running().take_own()
        {
            if job.may_wait() || broken(Canary::LeaveHandsOn) {
                moved.push(job);
            } else {
                next = Some(job);
            }
        }
        // In the order in which this worker would have run them: for the rest of a batch from
        // outside that is the order of its producer.
        self.running().hand_on(moved);
        next.or_else(|| self.running().take_pinned())
    }
}
