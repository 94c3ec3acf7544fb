//! The state of a pool for the tasks that are submitted to it.

use super::{Inner, Pool, job::Job};
use crate::{
    base::sync::{AtomicBool, Ordering},
    observe::{TaskCounters, TaskMetrics},
    semaphore::Semaphore,
};
use std::sync::Mutex;

/// What a submission does when the pool has [no room](crate::PoolBuilder::task_capacity) for one
/// more task.
///
/// ```
/// use filch::{Pool, TaskOverflow};
///
/// let pool = Pool::builder()
///     .workers(0) // no worker dequeues tasks
///     .task_capacity(1)
///     .overflow(TaskOverflow::RunInCaller)
///     .build()?;
/// let (first, second) = (pool.submit(|| 1), pool.submit(|| 2));
/// assert!(!first.is_finished() && second.is_finished());
/// assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskOverflow {
    /// It waits until there is room, in FIFO order with other waiters. A worker of the pool makes
    /// room instead, by running other tasks; when that does not help, it runs the new task itself,
    /// as with [`RunInCaller`](Self::RunInCaller).
    #[default]
    Block,
    /// It is refused, and the closure is returned.
    Refuse,
    /// It runs the task on the calling thread.
    RunInCaller,
}

/// The submitted tasks of a pool: see the module.
pub(crate) struct Tasks {
    /// One unit for each submitted task that is queued.
    pub(crate) capacity: Option<Semaphore>,
    pub(crate) overflow: TaskOverflow,
    pub(crate) counters: TaskCounters,
    /// Tasks that have not started never will.
    abandoned: AtomicBool,
    /// A buffer for the stale jobs that are removed from the queues; kept for its memory.
    removed: Mutex<Vec<Job>>,
}

/// Fewer stale tickets than this are left in the queues: they take up about 128 KiB.
const MIN_STALE_TO_REMOVE: usize = 1024;

impl Tasks {
    pub(super) fn new(
        capacity: Option<usize>,
        overflow: TaskOverflow,
        counters: TaskCounters,
    ) -> Self {
        Self {
            capacity: capacity.map(|tasks| Semaphore::new(tasks as u64)),
            overflow,
            counters,
            abandoned: AtomicBool::new(false),
            removed: Mutex::default(),
        }
    }

    /// Whether tasks that have not started never will, and those that run should end.
    #[inline(always)]
    pub(crate) fn are_abandoned(&self) -> bool {
        // Relaxed: a hint. Nothing that was written before is concluded from it.
        self.abandoned.load(Ordering::Relaxed)
    }
}

impl Pool {
    /// Returns counters of the tasks that were [submitted](Self::submit).
    #[must_use]
    pub fn task_metrics(&self) -> TaskMetrics {
        self.inner().tasks().counters.metrics()
    }

    /// [`shutdown`](Self::shutdown) that does not run the submitted tasks that are queued: they
    /// report that they were cancelled. In those that run, [`is_cancelled`](crate::is_cancelled())
    /// becomes true; they are waited for, as is everything that was spawned.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// let never = pool.submit(|| unreachable!("no worker took it before the end"));
    /// pool.shutdown_now();
    /// assert!(never.join().unwrap_err().is_cancelled());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn shutdown_now(self) {
        // Relaxed: as in `are_abandoned`.
        let tasks = self.inner().tasks();
        tasks.abandoned.store(true, Ordering::Relaxed);
        self.shutdown();
    }
}

impl Inner {
    #[inline(always)]
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Counts a ticket in a queue of this pool as stale, because its task was claimed without it.
    /// Usually a worker will dequeue it. When all workers are busy for long, or there are none,
    /// while threads continue to submit, join and cancel, such tickets would accumulate: then those
    /// for which `useless` returns true are removed, and passed to `end`.
    ///
    /// That scans every job in the shared queues. At that point the number of stale tickets is
    /// about half that of the jobs; some of them may be in the queue of a worker, which removes
    /// them itself.
    #[inline]
    pub(crate) fn staled(
        &self,
        place: Option<usize>,
        useless: impl Fn(&Job) -> bool,
        end: impl Fn(Job),
    ) {
        if self.tasks.counters.staled(place) {
            self.remove_useless(place, useless, end);
        }
    }

    #[cold]
    fn remove_useless(
        &self,
        place: Option<usize>,
        useless: impl Fn(&Job) -> bool,
        end: impl Fn(Job),
    ) {
        let stale = self.tasks.counters.stale();
        if stale < MIN_STALE_TO_REMOVE.max(self.core.shared_len() / 2) {
            return;
        }
        // If another thread is doing this, it need not be done twice.
        let Ok(mut removed) = self.tasks.removed.try_lock() else {
            return;
        };
        let mut own = std::mem::take(&mut *removed);
        drop(removed);
        self.core.remove_useless(useless, &mut own);
        self.tasks.counters.met_stale(place, own.len() as u64);
        // Not under the lock: dropping the last reference to a task may run user code.
        own.drain(..).for_each(end);
        if let Ok(mut removed) = self.tasks.removed.try_lock() {
            *removed = own;
        }
    }
}
