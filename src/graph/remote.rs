//! The part of a run that outlives it: a way in from anywhere, and a way to stop it.
#![expect(unsafe_code, reason = "makes a job of a turn")]

use crate::{
    ground::{
        sync::{AtomicBool, Ordering},
        thread,
    },
    pool::{Inner, heap, job::Job, list::List, site::Site},
};
use std::{
    collections::BTreeMap,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
    /// Nothing more is released.
    pub(super) stop: AtomicBool,
    /// Jobs that come from outside. What is in the pool's queues for them is a *turn*: whoever gets it runs the oldest
    /// of these, if the owner has not done so while it waited.
    jobs: List,
    sleepers: Mutex<Sleepers>,
}

#[derive(Default)]
struct Sleepers {
    next: u64,
    /// In their order, so that a rehearsal takes the same way again.
    all: BTreeMap<u64, Arc<dyn Halt>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f` on `pool`: where this thread stands in it, or as a guest.
pub(super) fn on_pool<R>(pool: &Inner, f: impl FnOnce(&Site<'_, '_>) -> R) -> R {
    Site::with(|site| match site {
        Some(site) if ptr::eq(site.pool(), pool) => f(site),
        Some(site) => site.on_outer(pool, f),
        None => pool.as_guest(f),
    })
}

impl Remote {
    pub(super) fn new(pool: &Inner, owner: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.share(),
            owner,
            stop: AtomicBool::new(false),
            jobs: List::default(),
            sleepers: Mutex::default(),
        })
    }

    pub(super) fn pool(&self) -> &Inner {
        &self.pool
    }

    pub(super) fn owner(&self) -> usize {
        self.owner
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
        let sleepers = std::mem::take(&mut lock(&self.sleepers).all);
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

    /// Queues a job of the run, which counts it as pending, on any thread.
    pub(super) fn send(self: &Arc<Self>, job: Job) {
        if self.owner == NOBODY {
            return self.inject(job);
        }
        // Once the job is on the list the run may be over at any time.
        let remote = self.clone();
        self.jobs.push(job);
        let turn = move |site: &Site<'_, '_>| {
            if let Some(job) = remote.take_job() {
                job.run(site);
            }
        };
        let this = self.clone();
        // SAFETY: a turn borrows nothing.
        this.inject(unsafe { heap::shared(turn) });
        // It may be asleep, and isolated or alone.
        this.pool.unpark(this.owner);
    }

    fn inject(&self, job: Job) {
        Site::with(|site| match site {
            // A guest may leave before it is taken; but when the pool is closed it is better off here than with a guest
            // inside of a guest.
            Some(site)
                if ptr::eq(site.pool(), &raw const *self.pool)
                    && (!site.is_guest() || !self.pool.core().is_open()) =>
            {
                site.push(job);
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
