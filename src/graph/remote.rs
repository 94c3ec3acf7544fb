//! The part of a run that outlives it: a way in from anywhere, and a way to stop it.
#![expect(unsafe_code, reason = "makes a job of a turn")]

use crate::{
    base::{
        sync::{AtomicBool, Ordering},
        thread,
    },
    cancel::{CancelReason, OnCancel},
    pool::{Inner, context::WorkerContext, heap, job::Job, list::List},
};
use std::{
    collections::BTreeMap,
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// No worker waits.
pub(super) const NOBODY: usize = usize::MAX;

/// Something of a run that sleeps without a worker, and has to be told when the run is stopped.
pub(super) trait Halt: Send + Sync {
    fn halt(self: Arc<Self>);
}

/// Wakers, semaphores and those who cancel have a share of this, and may have it longer than the run lives.
pub(super) struct Remote {
    pool: Arc<Inner>,
    /// The worker that waits for the run, or [`NOBODY`].
    owner: usize,
    /// Where the runs of the shared plan line up that this is one of: the address, to be compared.
    /// Zero if it is none.
    line: usize,
    /// Nothing more is released.
    pub(super) stop: AtomicBool,
    /// Jobs that come from outside. What is in the pool's queues for them is a *turn*: whoever gets it runs the oldest
    /// of these, if who waits for the run, where waits run only what was queued there, has not done so. There is one
    /// turn at a time, so that they don't pile up where nobody takes them.
    jobs: List,
    /// Whether a turn is queued.
    turn: Mutex<bool>,
    sleepers: Mutex<Sleepers>,
    /// Workers that sleep until it is over, when no worker is its owner.
    joiners: Mutex<Vec<Joiner>>,
}

/// A worker that sleeps until a run is over.
#[derive(Clone)]
pub(super) struct Joiner {
    /// Its pool, which is another one than the run's when that had no place for it.
    pub(super) pool: Arc<Inner>,
    pub(super) worker: usize,
    /// It runs nothing from elsewhere, so it has to look at the run's jobs itself.
    pub(super) alone: bool,
}

#[derive(Default)]
struct Sleepers {
    next: u64,
    /// In their order, so that a rehearsal takes the same way again.
    all: BTreeMap<u64, Arc<dyn Halt>>,
}

/// A token that the run obeys has been cancelled.
impl OnCancel for Remote {
    fn on_cancel(self: Arc<Self>, _: CancelReason) {
        self.stop();
    }
}

/// The [`Remote`] of a run that rarely needs one: made when a guest has a job for a run whose owner
/// runs only what was queued on its own worker while it waits.
#[derive(Default)]
pub(super) struct Aside(OnceLock<Arc<Remote>>);

impl Aside {
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

/// Calls `f` on `pool`: where this thread stands in it, or as a guest.
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

    /// For a run of a shared plan.
    pub(super) fn in_line(pool: &Inner, owner: usize, line: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.share(),
            owner,
            line,
            stop: AtomicBool::new(false),
            jobs: List::default(),
            turn: Mutex::new(false),
            sleepers: Mutex::default(),
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
        // Relaxed: the sooner the better, but nothing depends on it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops the run, and tells those who sleep.
    pub(super) fn stop(&self) {
        // Relaxed: as in `is_stopped`; `suspend` looks at it with the lock that is taken next.
        self.stop.store(true, Ordering::Relaxed);
        thread::point();
        let sleepers = mem::take(&mut lock(&self.sleepers).all);
        for sleeper in sleepers.into_values() {
            sleeper.halt();
        }
    }

    /// Remembers who has to be told; none when the run has been stopped already.
    pub(super) fn suspend(&self, sleeper: Arc<dyn Halt>) -> Option<u64> {
        let mut sleepers = lock(&self.sleepers);
        if self.is_stopped() {
            return None;
        }
        let key = sleepers.next;
        sleepers.next += 1;
        sleepers.all.insert(key, sleeper);
        Some(key)
    }

    /// Forgets who had to be told.
    pub(super) fn forget(&self, key: u64) {
        let sleeper = lock(&self.sleepers).all.remove(&key);
        drop(sleeper);
    }

    /// Queues a job of the run, which counts it as pending, on any thread. When it comes `last`, everything that waits
    /// here comes before it: so a future that wakes itself, or two that wake each other, keep nobody from running.
    pub(super) fn send(self: &Arc<Self>, job: Job, last: bool) {
        // Once the job is on the list the run may be over at any time.
        let this = self.clone();
        thread::point();
        let mut queued = lock(&this.turn);
        this.jobs.push(job);
        let there_is_one = mem::replace(&mut *queued, true);
        drop(queued);
        if !there_is_one {
            this.queue_turn(last);
        }
        thread::point();
        // Who waits for the run may be asleep, and isolated or alone.
        match this.owner {
            NOBODY => this.call(|joiner| joiner.alone),
            owner => this.pool.unpark(owner),
        }
    }

    fn queue_turn(self: &Arc<Self>, last: bool) {
        let remote = self.clone();
        let turn = move |context: &WorkerContext<'_, '_>| remote.take_turn(context);
        // SAFETY: a turn borrows nothing.
        self.inject(unsafe { heap::shared(turn) }, last);
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

    /// Wakes those who sleep until it is over.
    pub(super) fn call(&self, who: impl Fn(&Joiner) -> bool) {
        // Not under the lock, which a worker that wakes up takes.
        let joiners = lock(&self.joiners);
        let called: Vec<_> = joiners
            .iter()
            .filter(|joiner| who(joiner))
            .cloned()
            .collect();
        drop(joiners);
        for joiner in called {
            joiner.pool.unpark(joiner.worker);
        }
    }

    /// Somebody is about to sleep until it is over, unless `is_over`.
    pub(super) fn join(&self, joiner: Joiner, is_over: impl FnOnce() -> bool) -> bool {
        thread::point();
        let mut joiners = lock(&self.joiners);
        // Whoever ends it, or sends a job, does so before it looks for joiners: one of both is seen.
        if is_over() {
            return false;
        }
        joiners.push(joiner);
        true
    }

    /// That one does not sleep any more.
    pub(super) fn unjoin(&self, pool: &Inner, worker: usize) {
        let same =
            |joiner: &Joiner| joiner.worker == worker && ptr::eq(&raw const *joiner.pool, pool);
        lock(&self.joiners).retain(|joiner| !same(joiner));
    }

    fn inject(&self, job: Job, last: bool) {
        WorkerContext::with(|context| match context {
            // A guest may leave before it is taken; but when the pool is closed it is better off here than with a guest
            // inside of a guest.
            Some(context)
                if ptr::eq(context.pool(), &raw const *self.pool)
                    && (!context.is_guest() || !self.pool.core().is_open()) =>
            {
                match last {
                    true => context.push_last(job),
                    false => context.push_detached(job),
                }
            }
            _ => self.pool.submit(job),
        });
    }

    pub(super) fn take_job(&self) -> Option<Job> {
        self.jobs.pop()
    }

    pub(super) fn has_job(&self) -> bool {
        !self.jobs.is_empty()
    }
}
