//! The queue for tasks from outside: first in, first out, taken in batches.
//!
//! A ring buffer behind a lock, with its length beside it. Producers hold the lock for one move into
//! the buffer, workers for one batch; a worker that only wants to know whether there is something
//! reads the length and takes no lock, and a worker that has other work to do never waits for the
//! lock ([`Injector::try_take`]). `docs/decisions/0003-injector.md` has the comparison with lock-free
//! queues.

use crate::ground::{
    padded::Padded,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering},
};
use std::{collections::VecDeque, fmt, sync::PoisonError};

/// A queue that any thread may push to.
///
/// ```
/// use filch::engine::Injector;
///
/// let injector = Injector::bounded(3);
/// injector.push(1).unwrap();
/// injector.push_batch(vec![2, 3]).unwrap();
/// assert_eq!(injector.push_batch(vec![4, 5]), Err(vec![4, 5])); // all or nothing
/// assert_eq!(injector.take(), Some(1));
/// ```
pub struct Injector<T> {
    queue: Padded<Mutex<VecDeque<T>>>,
    /// The length of `queue`, written under its lock, read by anyone.
    length: Padded<AtomicUsize>,
    capacity: usize,
}

/// What [`Injector::try_take`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Take<T> {
    /// The oldest task, and how many more went to the worker's queue.
    Taken(T, usize),
    /// There is nothing.
    Empty,
    /// Somebody holds the lock.
    Busy,
}

impl<T> Injector<T> {
    /// A queue without a limit.
    #[must_use]
    pub fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// A queue that refuses tasks from outside when it holds `capacity` of them.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        Self {
            queue: Padded::new(Mutex::new(VecDeque::new())),
            length: Padded::new(AtomicUsize::new(0)),
            capacity,
        }
    }

    /// Adds a task at the end.
    ///
    /// # Errors
    /// The task, when the queue is full.
    pub fn push(&self, task: T) -> Result<(), T> {
        self.push_then(task, self.capacity, || ())
    }

    /// Adds a task at the end if there are less than `capacity`, and calls `pushed` before anybody else gets
    /// at the queue.
    pub(super) fn push_then(
        &self,
        task: T,
        capacity: usize,
        pushed: impl FnOnce(),
    ) -> Result<(), T> {
        let mut queue = self.lock();
        if queue.len() >= capacity {
            return Err(task);
        }
        queue.push_back(task);
        self.note(&queue);
        pushed();
        Ok(())
    }

    /// Adds all tasks, in their order, or none.
    ///
    /// # Errors
    /// The tasks, when they don't all fit.
    pub fn push_batch(&self, tasks: Vec<T>) -> Result<(), Vec<T>> {
        let mut queue = self.lock();
        if tasks.len() > self.capacity.saturating_sub(queue.len()) {
            return Err(tasks);
        }
        queue.extend(tasks);
        self.note(&queue);
        Ok(())
    }

    /// Adds tasks regardless of the capacity: for workers, who must never be refused, because a
    /// worker that waited for room would wait for itself.
    pub fn push_always(&self, tasks: impl IntoIterator<Item = T>) {
        // Collected before the lock is taken: the iterator may be the user's code.
        let tasks: Vec<T> = tasks.into_iter().collect();
        let mut queue = self.lock();
        queue.extend(tasks);
        self.note(&queue);
    }

    /// How many tasks there seem to be.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        // Acquire: pairs with the release in `note`. A worker that moves tasks from here to its own queue
        // pushes them first; whoever reads here that they are gone must find them there.
        self.length.load(Ordering::Acquire)
    }

    /// Whether there seems to be nothing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the oldest task.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut queue = self.lock();
        let task = queue.pop_front();
        self.note(&queue);
        task
    }

    /// Takes the oldest task; if that was the last, calls `emptied` before anybody else gets at the queue.
    pub(super) fn take_then(&self, emptied: impl FnOnce()) -> Option<T> {
        let mut queue = self.lock();
        let task = queue.pop_front()?;
        self.note(&queue);
        if queue.is_empty() {
            emptied();
        }
        Some(task)
    }

    /// Takes up to `most` tasks: the oldest is returned, the others are offered to `push`, youngest
    /// first, so that a queue which pops the newest hands them out in their old order. A task that
    /// `push` gives back stays here, in its place. Does not wait for the lock.
    ///
    /// ```
    /// use filch::engine::{Injector, Take};
    ///
    /// let injector = Injector::unbounded();
    /// injector.push_batch(vec![1, 2, 3, 4]).unwrap();
    /// let mut got = vec![];
    /// let first = injector.try_take(3, |task| Ok(got.push(task)));
    /// assert_eq!((first, got), (Take::Taken(1, 2), vec![3, 2]));
    /// assert_eq!(injector.take(), Some(4));
    /// ```
    pub fn try_take(&self, most: usize, push: impl FnMut(T) -> Result<(), T>) -> Take<T> {
        self.try_take_then(most, push, || ())
    }

    /// [`try_take`](Self::try_take) that calls `emptied` under the lock if the queue is empty then.
    pub(super) fn try_take_then(
        &self,
        most: usize,
        mut push: impl FnMut(T) -> Result<(), T>,
        emptied: impl FnOnce(),
    ) -> Take<T> {
        if self.is_empty() {
            return Take::Empty;
        }
        let mut queue = match self.queue.try_lock() {
            Ok(queue) => queue,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Take::Busy,
        };
        let Some(first) = queue.pop_front() else {
            return Take::Empty;
        };
        let n = queue.len().min(most.saturating_sub(1));
        let mut refused = VecDeque::new();
        for task in queue.drain(..n).rev() {
            if let Err(task) = push(task) {
                refused.push_front(task);
            }
        }
        let moved = n - refused.len();
        for task in refused.into_iter().rev() {
            queue.push_front(task);
        }
        self.note(&queue);
        if queue.is_empty() {
            emptied();
        }
        Take::Taken(first, moved)
    }

    /// Moves the tasks that are `useless` to `into`; if none is left, calls `emptied` before anybody else gets at the
    /// queue.
    pub(super) fn weed(
        &self,
        useless: &impl Fn(&T) -> bool,
        into: &mut Vec<T>,
        emptied: impl FnOnce(),
    ) {
        if self.is_empty() {
            return;
        }
        let mut queue = self.lock();
        let before = queue.len();
        weed(&mut queue, useless, into);
        self.note(&queue);
        if before > 0 && queue.is_empty() {
            emptied();
        }
    }

    /// Takes everything.
    #[must_use]
    pub fn drain(&self) -> Vec<T> {
        let mut queue = self.lock();
        let tasks = queue.drain(..).collect();
        self.note(&queue);
        tasks
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // A panic while the lock is held could only come from the allocator; the buffer is whole
        // even then, so a poisoned lock is as good as any.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, queue: &VecDeque<T>) {
        // Release: pairs with the acquire in `len`.
        self.length.store(queue.len(), Ordering::Release);
    }
}

/// Moves the tasks that are `useless` to `into`; the others keep their order.
pub(super) fn weed<T>(queue: &mut VecDeque<T>, useless: &impl Fn(&T) -> bool, into: &mut Vec<T>) {
    for _ in 0..queue.len() {
        if let Some(task) = queue.pop_front() {
            if useless(&task) {
                into.push(task);
            } else {
                queue.push_back(task);
            }
        }
    }
}

impl<T> fmt::Debug for Injector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injector")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish()
    }
}
