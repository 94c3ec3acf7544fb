//! The part of a run that outlives it: it takes jobs from any thread, and stops the run.
#![expect(unsafe_code, reason = "makes a job of a closure that owns its data")]

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

/// A suspended task of a run: a future, or a task that waits for a semaphore. It has to be resumed
/// when the run is stopped.
pub(super) trait OnStop: Send + Sync {
    fn on_stop(self: Arc<Self>);
}

/// Shared with wakers, semaphores and cancel tokens, which may keep it longer than the run lives.
pub(super) struct RunControl {
    pool: Arc<Inner>,
    /// The worker that waits for the run, or [`NO_OWNER`].
    owner: usize,
    /// The identity of the shared plan that the run belongs to: the address of its queue of runs,
    /// only for comparison. Zero if there is none.
    plan_id: usize,
    /// Whether the run is stopped: no more tasks are released.
    pub(super) stop: AtomicBool,
    /// Jobs that were sent from any thread. A *relay* in the pool's queues runs them: a job that
    /// takes the oldest entry of this list and runs it. It finds none if the worker that waits for
    /// the run has taken it, which it does where its wait runs only what was queued on that worker.
    /// There is at most one relay, so that relays do not accumulate where no worker takes them.
    jobs: JobList,
    /// Whether a relay is queued.
    relay_queued: Mutex<bool>,
    stop_callbacks: Mutex<StopCallbacks>,
    /// Workers that sleep until the run is over, when it has no owner.
    joiners: Mutex<Vec<Joiner>>,
}

/// A worker that sleeps until a run is over.
#[derive(Clone)]
pub(super) struct Joiner {
    /// The worker's pool. It differs from the run's pool if that had no index left for a guest.
    pub(super) pool: Arc<Inner>,
    pub(super) worker: usize,
    /// Whether the worker runs no jobs from elsewhere, so that it has to check the run's jobs
    /// itself.
    pub(super) isolated_wait: bool,
}

/// The suspended tasks of a run, by key.
#[derive(Default)]
struct StopCallbacks {
    next_key: u64,
    /// Ordered, so that a rehearsal can be replayed.
    all: BTreeMap<u64, Arc<dyn OnStop>>,
}

/// Called when the token that can cancel the run has been cancelled.
impl OnCancel for RunControl {
    fn on_cancel(self: Arc<Self>, _: CancelReason) {
        self.stop();
    }
}

/// The [`RunControl`] of a run that rarely needs one. It is created when a guest has a job for a
/// run whose owner, while it waits, runs only what was queued on its own worker.
#[derive(Default)]
pub(super) struct LazyControl(OnceLock<Arc<RunControl>>);

impl LazyControl {
    /// Queues a job of a run on `pool`, for all workers and for `owner`.
    pub(super) fn send(&self, pool: &Inner, owner: usize, job: Job) {
        let control = self.0.get_or_init(|| RunControl::new(pool, owner));
        control.send(job, false);
    }

    pub(super) fn get(&self) -> Option<&RunControl> {
        self.0.get().map(|control| &**control)
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

impl RunControl {
    pub(super) fn new(pool: &Inner, owner: usize) -> Arc<Self> {
        Self::for_plan(pool, owner, 0)
    }

    /// Creates the control of a run of a shared plan.
    pub(super) fn for_plan(pool: &Inner, owner: usize, plan_id: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.share(),
            owner,
            plan_id,
            stop: AtomicBool::new(false),
            jobs: JobList::default(),
            relay_queued: Mutex::new(false),
            stop_callbacks: Mutex::default(),
            joiners: Mutex::default(),
        })
    }

    pub(super) fn pool(&self) -> &Inner {
        &self.pool
    }

    pub(super) fn owner(&self) -> usize {
        self.owner
    }

    pub(super) fn plan_id(&self) -> usize {
        self.plan_id
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops the run, and resumes its suspended tasks.
    pub(super) fn stop(&self) {
        // Relaxed: as in `is_stopped`; `register_on_stop` checks it under the lock that is taken
        // next.
        self.stop.store(true, Ordering::Relaxed);
        thread::point();
        let callbacks = mem::take(&mut lock(&self.stop_callbacks).all);
        for callback in callbacks.into_values() {
            callback.on_stop();
        }
    }

    /// Registers a suspended task, and returns its key; `None` if the run has been stopped already.
    pub(super) fn register_on_stop(&self, callback: Arc<dyn OnStop>) -> Option<u64> {
        let mut callbacks = lock(&self.stop_callbacks);
        if self.is_stopped() {
            return None;
        }
        let key = callbacks.next_key;
        callbacks.next_key += 1;
        callbacks.all.insert(key, callback);
        Some(key)
    }

    /// Removes a suspended task.
    pub(super) fn unregister_on_stop(&self, key: u64) {
        let callback = lock(&self.stop_callbacks).all.remove(&key);
        drop(callback);
    }

    /// Queues a job of the run, which counts it as pending, on any thread. With `last`, all other
    /// work that is queued on this worker runs before it: so a future that wakes itself, or two
    /// that wake each other, do not starve other work.
    pub(super) fn send(self: &Arc<Self>, job: Job, last: bool) {
        // Once the job is on the list the run may be over at any time.
        let this = self.clone();
        thread::point();
        let mut queued = lock(&this.relay_queued);
        this.jobs.push(job);
        let is_queued = mem::replace(&mut *queued, true);
        drop(queued);
        if !is_queued {
            this.queue_relay(last);
        }
        thread::point();
        // The worker that waits for the run may be asleep, and its wait may be isolated.
        match this.owner {
            NO_OWNER => this.wake_joiners(|joiner| joiner.isolated_wait),
            owner => this.pool.unpark(owner),
        }
    }

    fn queue_relay(self: &Arc<Self>, last: bool) {
        let control = self.clone();
        let relay = move |context: &WorkerContext<'_, '_>| control.run_relay(context);
        // SAFETY: the closure owns its share of the control and borrows nothing.
        self.inject(unsafe { heap::shared(relay) }, last);
    }

    /// Runs the oldest job, after it has queued another relay if there are more.
    fn run_relay(self: &Arc<Self>, context: &WorkerContext<'_, '_>) {
        thread::point();
        let mut queued = lock(&self.relay_queued);
        let job = self.take_job();
        let more = self.has_job();
        *queued = more;
        drop(queued);
        if more {
            self.queue_relay(false);
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
    pub(super) fn add_joiner(&self, joiner: Joiner, is_over: impl FnOnce() -> bool) -> bool {
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
    pub(super) fn remove_joiner(&self, pool: &Inner, worker: usize) {
        let same =
            |joiner: &Joiner| joiner.worker == worker && ptr::eq(&raw const *joiner.pool, pool);
        lock(&self.joiners).retain(|joiner| !same(joiner));
    }

    fn inject(&self, job: Job, last: bool) {
        WorkerContext::with(|context| match context {
            // A guest may leave before the job is taken. But when the pool is closed, the queue of
            // this guest is better than a guest inside a guest.
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
