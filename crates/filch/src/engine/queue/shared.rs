//! One queue for all workers.

use super::{Acquired, Hunt, Queue, Strategy};
use crate::{base::error::BuildError, engine::locked::LockedQueue};
use std::fmt;

/// One first-in-first-out queue for all workers.
///
/// No deque for each worker, no stealing, and tasks run in the order in which they were spawned.
/// Suited for few or large tasks (tens of microseconds and more), or when the order matters more
/// than speed. With many small tasks all workers contend for the one lock, and
/// [`PerWorker`](super::PerWorker) is many times faster.
///
/// ```
/// use filch::{Executor, engine::Shared};
///
/// let executor = Executor::builder()
///     .workers(1)
///     .strategy::<Shared>(Default::default())
///     .build(|_| vec![], |n: u32, cx| {
///         cx.scratch().push(n);
///         if n == 0 {
///             (1..4).for_each(|child| cx.spawn(child));
///         }
///     })
///     .unwrap();
/// executor.spawn(0).unwrap();
/// assert_eq!(executor.finish().scratch, [[0, 1, 2, 3]]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// The settings of [`Shared`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedSpec {
    /// The most tasks in the queue; `None` means any number.
    pub capacity: Option<usize>,
}

/// The one queue.
pub struct SharedStore<T>(LockedQueue<T>);

impl<T> fmt::Debug for SharedStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Strategy for Shared {
    type Spec = SharedSpec;
    type Store<T: Send> = SharedStore<T>;
    type Handle<'a, T: Send + 'a> = SharedQueue<'a, T>;

    fn store<T: Send>(spec: &SharedSpec, _workers: usize) -> Result<SharedStore<T>, BuildError> {
        match spec.capacity {
            None => Ok(SharedStore(LockedQueue::unbounded())),
            Some(0) => Err(BuildError::config(
                "a shared queue needs room for at least one task",
            )),
            Some(capacity) => Ok(SharedStore(LockedQueue::bounded(capacity))),
        }
    }

    fn handle<T: Send>(store: &SharedStore<T>, _worker: usize) -> SharedQueue<'_, T> {
        SharedQueue(&store.0)
    }

    fn has_work<T: Send>(store: &SharedStore<T>) -> bool {
        !store.0.is_empty()
    }

    fn queued<T: Send>(store: &SharedStore<T>) -> usize {
        store.0.len()
    }

    fn reset<T: Send>(store: &SharedStore<T>, give: impl FnMut(T)) {
        store.0.drain().into_iter().for_each(give);
    }
}

/// A worker's access to the one queue.
#[derive(Debug)]
pub struct SharedQueue<'a, T>(&'a LockedQueue<T>);

impl<T: Send> Queue<T> for SharedQueue<'_, T> {
    fn push(&mut self, task: T) -> Result<(), T> {
        self.0.push(task)
    }

    fn pop(&mut self) -> Option<T> {
        self.0.take()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.pop()
    }

    fn try_acquire(&mut self, _hunt: &mut Hunt<'_>) -> Acquired<T> {
        // The queue has no owner: any worker may take what was pushed since `pop` found nothing.
        match self.pop() {
            Some(task) => Acquired::Task {
                task,
                victim: super::super::OUTSIDE,
                moved: 0,
            },
            None => Acquired::Nothing,
        }
    }

    fn drain_own(&mut self, _give: impl FnMut(T)) {}
}
