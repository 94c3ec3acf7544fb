//! Tasks that nobody waits for, tasks for every worker, and manners while waiting.
#![expect(unsafe_code, reason = "makes jobs of closures")]

use crate::{
    ground::unwind,
    pool::{Inner, Pool, heap, job::Job, on_current, site::Site},
};
use std::sync::{Mutex, PoisonError};

/// Runs `task` some time, on the pool that the caller works for, else on the global one. Nobody waits for
/// it; when it panics, the pool's [`on_panic`](crate::PoolBuilder::on_panic) is told.
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// filch::spawn(move || send.send(42).unwrap());
/// assert_eq!(receive.recv(), Ok(42));
/// ```
pub fn spawn(task: impl FnOnce() + Send + 'static) {
    Site::with(|site| match site {
        Some(site) => spawn_on(site, task),
        None => Pool::global().inner().spawn_from_outside(task),
    });
}

/// Lets a task run that waits longer than this one has: one from the other end of the worker's queue, or
/// one from outside. Returns false when there was none. On a thread that works for no pool it gives the core
/// to another thread.
///
/// ```
/// filch::spawn(|| while filch::yield_now() {});
/// ```
pub fn yield_now() -> bool {
    Site::with(|site| match site {
        Some(site) => {
            site.yield_to_older();
            site.help_once()
        }
        None => {
            std::thread::yield_now();
            false
        }
    })
}

/// Calls `f`; while it waits for something in a `join` or `scope`, the worker runs nothing but tasks that
/// were queued in `f` itself.
///
/// A worker that waits runs other tasks, also some that have nothing to do with what it waits for. When the
/// waiting code holds a lock and such a task wants the same lock, it waits for itself. In an `isolate` that
/// cannot happen:
///
/// ```
/// use std::sync::Mutex;
///
/// let cache = Mutex::new(vec![1, 2, 3]);
/// filch::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|_| {
///             let mut cache = cache.lock().unwrap();
///             filch::isolate(|| {
///                 let (left, right) = cache.split_at_mut(1);
///                 filch::join(|| left[0] += 1, || right[0] += 1);
///             });
///         });
///     }
/// });
/// assert_eq!(cache.into_inner().unwrap(), [9, 10, 3]);
/// ```
///
/// Tasks that are queued in `f` are isolated too, wherever they run. The price is that a worker may sleep while
/// others have work. And a task that another thread spawns into a scope of `f` from outside of the pool needs
/// another worker to run it. What [`broadcast`] sends is run all the same.
pub fn isolate<R>(f: impl FnOnce() -> R) -> R {
    Site::with(|site| match site {
        Some(site) => site.isolate(f),
        None => f(),
    })
}

/// Calls `f` once on every worker of the pool that the caller works for, else of the global one, and
/// returns what they said, in their order. `f` gets the number of the worker.
///
/// Each worker gets to it between two tasks, or in a wait, so this waits for the longest one that is running.
///
/// ```
/// let pool = filch::Pool::builder().workers(3).build().unwrap();
/// assert_eq!(pool.broadcast(|worker| worker * 10), [0, 10, 20]);
/// ```
///
/// # Panics
/// When one of the calls panics, after all of them are done.
pub fn broadcast<R: Send>(f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    on_current(|site| broadcast_on(site, f))
}

impl Pool {
    /// [`spawn`] on this pool.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let inner = &**self.inner();
        Site::with(|site| match site {
            Some(site) if std::ptr::eq(site.pool(), inner) => spawn_on(site, task),
            _ => inner.spawn_from_outside(task),
        });
    }

    /// [`broadcast`] on this pool. On a pool without threads only the caller is there:
    /// it calls `f(0)`.
    pub fn broadcast<R: Send>(&self, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
        self.on_site(|site| broadcast_on(site, f))
    }
}

#[inline(always)]
fn detached(task: impl FnOnce() + Send + 'static) -> impl FnOnce(&Site<'_, '_>) + Send + 'static {
    move |site: &Site<'_, '_>| {
        if let Err(payload) = unwind::contain(task) {
            site.pool().panicked(payload);
        }
    }
}

fn spawn_on(site: &Site<'_, '_>, task: impl FnOnce() + Send + 'static) {
    // SAFETY: the task borrows nothing, and the pool runs every job before it ends.
    site.push(unsafe { heap::job_on(site, detached(task)) });
}

impl Inner {
    fn spawn_from_outside(&self, task: impl FnOnce() + Send + 'static) {
        // SAFETY: as in `spawn_on`.
        self.submit(unsafe { heap::boxed(detached(task)) });
    }

    /// Queues a job from a thread that is no worker of this pool.
    pub(crate) fn submit(&self, job: Job) {
        if let Err(refused) = self.core().inject(job) {
            // Shut down: there is nobody else to do it.
            self.as_guest(|site| refused.into_inner().run(site));
        }
    }
}

fn broadcast_on<R: Send>(site: &Site<'_, '_>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let workers = site.pool().threads();
    if workers == 0 || site.pool().core().is_stopped() {
        // Nobody else is there.
        return (0..workers.max(1)).map(f).collect();
    }
    let own = site.worker();
    let results: Vec<Mutex<Option<R>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    let share = |worker: usize| {
        let value = f(worker);
        let mut result = results[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *result = Some(value);
    };
    let share = &share;
    super::scope::scope_on(site, |scope| {
        for worker in (0..workers).filter(|&worker| worker != own) {
            scope.send(site, worker, move |_| share(worker));
        }
        if own < workers {
            share(own);
        }
    });
    let values = results.into_iter().map(|result| {
        let value = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        value.expect("the scope has ended, so every call has")
    });
    values.collect()
}
