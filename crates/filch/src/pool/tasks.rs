//! The state of a pool for the tasks that are submitted to it.

use crate::{
    base::sync::{AtomicBool, Ordering},
    observe::TaskCounters,
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
    /// It is refused. The [builder](crate::Pool::task) returns the closure;
    /// [`Pool::submit`](crate::Pool::submit) drops it, and the handle reports the refusal.
    Refuse,
    /// It runs the task on the calling thread.
    RunInCaller,
}

/// The submitted tasks of a pool, which are queued as jobs `J`.
pub(crate) struct SubmittedTasks<J> {
    /// One unit for each submitted task that is queued.
    pub(crate) capacity: Option<Semaphore>,
    pub(crate) overflow: TaskOverflow,
    pub(crate) counters: TaskCounters,
    /// Tasks that have not started never will.
    cancelled: AtomicBool,
    /// A buffer for the stale jobs that are removed from the queues; kept for its memory.
    pub(super) removed: Mutex<Vec<J>>,
}

impl<J> SubmittedTasks<J> {
    pub(super) fn new(
        capacity: Option<usize>,
        overflow: TaskOverflow,
        counters: TaskCounters,
    ) -> Self {
        Self {
            capacity: capacity.map(|tasks| Semaphore::new(tasks as u64)),
            overflow,
            counters,
            cancelled: AtomicBool::new(false),
            removed: Mutex::default(),
        }
    }

    /// Whether tasks that have not started never will, and those that run should end.
    #[inline(always)]
    pub(crate) fn are_cancelled(&self) -> bool {
        // Relaxed: a hint. Nothing that was written before is concluded from it.
        self.cancelled.load(Ordering::Relaxed)
    }

    /// From now on tasks that have not started never will.
    pub(super) fn cancel_all(&self) {
        // Relaxed: as in `are_cancelled`.
        self.cancelled.store(true, Ordering::Relaxed);
    }
}
