//! The part of a run that outlives it: it takes jobs from any thread, and stops the run.
#![expect(unsafe_code, reason = "makes a job of a turn")]

use crate::{
    base::{
        sync::{AtomicBool, Ordering},
        thread,
    },
    cancel::{CancelReason, OnCancel},
    engine::Placement,
    pool::{Inner, context::WorkerContext, heap, job::Job, list::JobList, pending_group::NO_OWNER},
};
use std::{
    collections::BTreeMap,
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// A part of a run that is suspended without a worker, and has to be resumed when the run is
/// stopped.
pub(super) trait Halt: Send + Sync {
    fn halt(self: Arc<Self>);
}

/// Shared with wakers, semaphores and cancel tokens, which may keep it longer than the run lives.
pub(super) struct Remote {
    pool: Arc<Inner>,
    /// The worker that waits for the run, or [`NO_OWNER`].
    owner: usize,
    /// The address of the line of runs of the shared plan whose run this is; only for comparison.
    /// Zero if there is none.
    line: usize,
    /// Whether the run is stopped: no more tasks are released.
    pub(super) stop: AtomicBool,
    /// Jobs that were sent from any thread. The pool's queues hold a *turn* for them: a job that
    /// takes the oldest entry of this list and runs it. It finds none if the worker that waits for
    /// the run has taken it, which it does where its wait runs only what was queued on that worker.
    /// There is at most one turn, so that turns do not accumulate where no worker takes them.
    jobs: JobList,
    /// Whether a turn is queued.
    turn: Mutex<bool>,
    suspended: Mutex<Suspended>,
    /// Workers that sleep until the run is over, when it has no owner.
    joiners: Mutex<Vec<Joiner>>,
}

/// A worker that sleeps until a run is over.
#[derive(Clone)]
pub(super) struct Joiner {
    /// The worker's pool. It differs from the run's pool if that had no place for the worker.
    pub(super) pool: Arc<Inner>,
    pub(super) worker: usize,
    /// Whether the worker runs no jobs from elsewhere, so that it has to check the run's jobs
    /// itself.
    pub(super) alone: bool,
}

#[derive(Default)]
struct Suspended {
    next: u64,
    /// Ordered, so that a rehearsal can be replayed.
    all: BTreeMap<u64, Arc<dyn Halt>>,
}

/// Called when the token that can cancel the run has been cancelled.
impl OnCancel for Remote {
    fn on_cancel(self: Arc<Self>, _: CancelReason) {
        self.stop();
    }
}

/// The [`Remote`] of a run that rarely needs one. It is created when a guest has a job for a run
/// whose owner, while it waits, runs only what was queued on its own worker.
#[derive(Default)]
pub(super) struct LazyRemote(OnceLock<Arc<Remote>>);

impl LazyRemote {
    /// Queues a job of a run on `pool`, for all workers and for `owner`.
    pub(super) fn send(&self, pool: &Inner, owner: usize, job: Job) {
        let remote = self.0.get_or_init(|| Remote::new(pool, owner));
        remote.send(job, false);
    }

    pub(super) fn get(&self) -> Option<&Remote> {
        self.0.get().map(|remote| &**remote)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f` on `pool`: with the context that this thread has in it, or as a guest.
pub(super) fn on_pool<R>(pool: &Inner, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) if ptr::eq(context.pool(), pool) => f(context),
        Some(context) => context.on_outer(pool, f),
        None => pool.as_guest(f),
    })
}

impl Remote {
    pub(super) fn new(pool: &Inner, owner: usize) -> Arc<Self> {
        Self::in_line(pool, owner, 0)
    }

    /// Creates the remote of a run of a shared plan.
    pub(super) fn in_line(pool: &Inner, owner: usize, line: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.share(),
            owner,
            line,
            stop: AtomicBool::new(false),
            jobs: JobList::default(),
            turn: Mutex::new(false),
            suspended: Mutex::default(),
            joiners: Mutex::default(),
        })
    }

    pub(super) fn pool(&self) -> &Inner {
        &self.pool
    }

    pub(super) fn owner(&self) -> usize {
        self.owner
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops the run, and resumes its suspended parts.
    pub(super) fn stop(&self) {
        // Relaxed: as in `is_stopped`; `suspend` checks it under the lock that is taken next.
        self.stop.store(true, Ordering::Relaxed);
        thread::point();
        let suspended = mem::take(&mut lock(&self.suspended).all);
        for part in suspended.into_values() {
            part.halt();
        }
    }

    /// Registers a suspended part; returns `None` if the run has been stopped already.
    pub(super) fn suspend(&self, part: Arc<dyn Halt>) -> Option<u64> {
        let mut suspended = lock(&self.suspended);
        if self.is_stopped() {
            return None;
        }
        let key = suspended.next;
        suspended.next += 1;
        suspended.all.insert(key, part);
        Some(key)
    }

    /// Removes a suspended part.
    pub(super) fn forget(&self, key: u64) {
        let part = lock(&self.suspended).all.remove(&key);
        drop(part);
    }

    /// Queues a job of the run, which counts it as pending, on any thread. With `last`, all other
    /// work that is queued on this worker runs before it: so a future that wakes itself, or two
    /// that wake each other, do not starve other work.
    pub(super) fn send(self: &Arc<Self>, job: Job, last: bool) {
        // Once the job is on the list the run may be over at any time.
        let this = self.clone();
        thread::point();
        let mut queued = lock(&this.turn);
        this.jobs.push(job);
        let turn_is_queued = mem::replace(&mut *queued, true);
        drop(queued);
        if !turn_is_queued {
            this.queue_turn(last);
        }
        thread::point();
        // The worker that waits for the run may be asleep, and its wait may be isolated.
        match this.owner {
            NO_OWNER => this.wake_joiners(|joiner| joiner.alone),
            owner => this.pool.unpark(owner),
        }
    }

    fn queue_turn(self: &Arc<Self>, last: bool) {
        let remote = self.clone();
        let turn = move |context: &WorkerContext<'_, '_>| remote.take_turn(context);
        // SAFETY: the closure owns its share of the remote and borrows nothing.
        self.inject(unsafe { heap::job(turn) }, last);
    }

    fn take_turn(self: &Arc<Self>, context: &WorkerContext<'_, '_>) {
        thread::point();
        let mut queued = lock(&self.turn);
        let job = self.take_job();
        let more = self.has_job();
        *queued = more;
        drop(queued);
        if more {
            self.queue_turn(false);
        }
        if let Some(job) = job {
            job.run(context);
        }
    }

    /// Wakes the selected workers of those that sleep until the run is over.
    pub(super) fn wake_joiners(&self, select: impl Fn(&Joiner) -> bool) {
        // Not under the lock, which a worker that wakes up takes.
        let joiners = lock(&self.joiners);
        let selected: Vec<_> = joiners
            .iter()
            .filter(|joiner| select(joiner))
            .cloned()
            .collect();
        drop(joiners);
        for joiner in selected {
            joiner.pool.unpark(joiner.worker);
        }
    }

    /// Registers a worker that is about to sleep until the run is over. Returns false if `is_over`.
    pub(super) fn join(&self, joiner: Joiner, is_over: impl FnOnce() -> bool) -> bool {
        thread::point();
        let mut joiners = lock(&self.joiners);
        // A worker that ends the run, or sends a job, does so before it reads the list of joiners.
        // So either it finds this joiner, or this joiner sees the end or the job.
        if is_over() {
            return false;
        }
        joiners.push(joiner);
        true
    }

    /// Removes a worker that does not sleep any more.
    pub(super) fn unjoin(&self, pool: &Inner, worker: usize) {
        let same =
            |joiner: &Joiner| joiner.worker == worker && ptr::eq(&raw const *joiner.pool, pool);
        lock(&self.joiners).retain(|joiner| !same(joiner));
    }

    fn inject(&self, job: Job, last: bool) {
        WorkerContext::with(|context| match context {
            // A guest may leave before the job is taken. But when the pool is closed, the queue of
            // this guest is better than a guest inside of a guest.
            Some(context)
                if ptr::eq(context.pool(), &raw const *self.pool)
                    && (!context.is_guest() || !self.pool.core().is_open()) =>
            {
                match last {
                    true => context.push(job, Placement::Injector),
                    false => context.push_detached(job, Placement::Local),
                }
            }
            _ => self.pool.inject(job),
        });
    }

    pub(super) fn take_job(&self) -> Option<Job> {
        self.jobs.pop()
    }

    pub(super) fn has_job(&self) -> bool {
        !self.jobs.is_empty()
    }
}
