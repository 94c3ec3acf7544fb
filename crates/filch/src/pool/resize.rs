//! How a pool gets more or fewer workers while it works.
//!
//! `worker_state.rs` has the state of each worker, and who changes it. The workers of a pool always
//! have the lowest numbers, so a smaller pool loses those with the highest.
//!
//! **Leaving.** A worker that is asked to leave does so at the bottom of its stack, between two
//! tasks; one that sleeps is woken for that. First it empties its queues ([`Inner::try_leave`]):
//!
//! - submitted tasks and detached closures go to the injector, because any worker may run them;
//! - other jobs it runs itself. A wait may depend on one of them, and if that wait is isolated it
//!   takes nothing from the injector. What such a job spawns without waiting for it, and a future
//!   that is woken, goes to the shared queues, as at a checkpoint (`help.rs`);
//! - affine tasks go to the mailbox of another worker ([`Inner::home_of`]), and so do later ones;
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
    worker_state::{Departure, Revoked},
};
use crate::{
    base::{
        canary::{Canary, broken},
        error::BuildError,
        thread,
    },
    engine::Unpark,
    threads::ThreadGroup,
};
use std::{
    error::Error,
    fmt,
    ops::Range,
    sync::{Arc, PoisonError},
};

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
        let members = &inner.members;
        // A shutdown that begins later joins the new threads too.
        let lock = members.begin_resize(|| inner.core.is_open());
        if lock.is_none() {
            return Err(ResizeError::closed(workers));
        }
        let live = members.live();
        if workers < live {
            members.set_live(workers);
            inner.ask_to_leave(workers..live);
        } else {
            self.owned.add_workers(live..workers)?;
            members.set_live(workers);
        }
        Ok(())
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

impl PoolOwner {
    /// Makes the workers of these numbers take part: those from the present number on.
    fn add_workers(&self, numbers: Range<usize>) -> Result<(), ResizeError> {
        for worker in numbers.clone() {
            if let Err(error) = self.add_worker(worker) {
                self.inner.ask_to_leave(numbers.start..worker);
                return Err(ResizeError::start(error, numbers.start));
            }
        }
        Ok(())
    }

    fn add_worker(&self, worker: usize) -> Result<(), BuildError> {
        let state = self.inner.members.state(worker);
        loop {
            match state.revoke() {
                Revoked::Stays => return Ok(()),
                Revoked::Going => thread::yield_now(),
                Revoked::Gone => break,
            }
        }
        state.start();
        let started = self.inner.start_worker(worker);
        let thread = started.inspect_err(|_| state.fail_start())?;
        while state.is_starting() {
            thread::yield_now();
        }
        let mut threads = self
            .thread_group
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // There is none after a `shutdown_timeout` that has timed out. The last handle then joins
        // this one.
        let threads = threads.get_or_insert_with(ThreadGroup::without_threads);
        threads.remove_ended();
        threads.add(thread);
        Ok(())
    }
}

impl Inner {
    /// Checks everything but whether the pool is open.
    fn check_resize(&self, workers: usize) -> Result<(), ResizeError> {
        if self.substitutes.is_none() {
            return Err(ResizeError::unsupported(
                "only a pool that starts its own threads can be resized; build it with `build`, \
                 with a worker and without the current thread",
            ));
        }
        if self.is_own_thread() && WorkerContext::with(|context| context.is_none()) {
            return Err(ResizeError::unsupported(
                "a pool cannot be resized by its own hooks; resize it from a task or another thread",
            ));
        }
        if !(1..=self.max_threads()).contains(&workers) {
            return Err(ResizeError::out_of_range(workers, self.max_threads()));
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

    /// Asks running workers to leave.
    fn ask_to_leave(&self, workers: Range<usize>) {
        for worker in workers {
            self.members.state(worker).ask_to_leave();
            // Correct whether the worker sleeps or is about to: it checks its state after it has
            // been unparked.
            self.parkers.unpark(worker);
        }
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
        let home = self.pool().home_of(self.worker());
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

/// Why a pool has not been resized. It has as many workers as before.
///
/// ```
/// let pool = filch::Pool::builder().workers(2).build()?;
/// let error = pool.resize(3).unwrap_err();
/// assert!(error.is_out_of_range());
/// assert!(error.to_string().contains("3 workers") && error.to_string().contains("1 to 2"));
/// assert_eq!(pool.workers(), 2);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug)]
pub struct ResizeError {
    kind: ResizeErrorKind,
}

#[derive(Debug)]
enum ResizeErrorKind {
    OutOfRange { asked: usize, max: usize },
    Closed { asked: usize },
    Unsupported(&'static str),
    Start { source: BuildError, workers: usize },
}

impl ResizeError {
    fn out_of_range(asked: usize, max: usize) -> Self {
        let kind = ResizeErrorKind::OutOfRange { asked, max };
        Self { kind }
    }

    fn closed(asked: usize) -> Self {
        let kind = ResizeErrorKind::Closed { asked };
        Self { kind }
    }

    fn unsupported(why: &'static str) -> Self {
        let kind = ResizeErrorKind::Unsupported(why);
        Self { kind }
    }

    fn start(source: BuildError, workers: usize) -> Self {
        let kind = ResizeErrorKind::Start { source, workers };
        Self { kind }
    }

    /// Whether the number of workers is zero, or more than
    /// [`max_workers`](Pool::max_workers).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// assert!(pool.resize(0).unwrap_err().is_out_of_range());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::OutOfRange { .. })
    }

    /// Whether the pool has been shut down.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// pool.clone().shutdown();
    /// assert!(pool.resize(1).unwrap_err().is_closed());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Closed { .. })
    }

    /// Whether the pool does not start its own threads, or the caller is one of its hooks.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).build()?;
    /// assert!(pool.resize(1).unwrap_err().is_unsupported());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Unsupported(_))
    }

    /// Whether a thread could not be started, or its start hook or name function panicked. The
    /// [source](Error::source) is the [`BuildError`].
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).max_workers(2);
    /// let pool = pool.on_start(|worker| assert!(worker == 0, "no licence")).build()?;
    /// let error = pool.resize(2).unwrap_err();
    /// assert!(error.is_start() && error.to_string().contains("no licence"));
    /// assert_eq!(pool.workers(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_start(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Start { .. })
    }
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ResizeErrorKind::OutOfRange { asked, max } => {
                write!(f, "a pool cannot have {asked} workers; ask for 1 to {max}")?;
                match asked {
                    0 => Ok(()),
                    _ => write!(f, ", or build it with a larger `max_workers`"),
                }
            }
            ResizeErrorKind::Closed { asked } => write!(
                f,
                "the pool has been shut down, and cannot be resized to {asked} workers; \
                 build another one"
            ),
            ResizeErrorKind::Unsupported(why) => f.write_str(why),
            ResizeErrorKind::Start { source, workers } => {
                write!(f, "{source}; the pool has {workers} workers as before")
            }
        }
    }
}

impl Error for ResizeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ResizeErrorKind::Start { source, .. } => Some(source),
            _ => None,
        }
    }
}
