//! One first-in-first-out queue behind one lock, for the lanes and for [`Shared`](super::Shared).
//!
//! A ring buffer behind a mutex, with its length beside it. All producers share one order, and a
//! caller can change a flag while it holds the lock ([`LockedQueue::push_then`]). A check for
//! emptiness reads the length and takes no lock. The [`Injector`](super::Injector) is the queue for
//! producers that push at the same time.

use crate::base::{
    padded::Padded,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering},
};
use std::{collections::VecDeque, fmt, sync::PoisonError};

/// A queue that any thread may push to and take from, in one order.
pub(super) struct LockedQueue<T> {
    queue: Padded<Mutex<VecDeque<T>>>,
    /// The length of `queue`, written under its lock, read by any thread.
    length: Padded<AtomicUsize>,
    capacity: usize,
}

impl<T> LockedQueue<T> {
    /// A queue without a limit.
    pub(super) fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// A queue that refuses tasks when it holds `capacity` of them.
    pub(super) fn bounded(capacity: usize) -> Self {
        Self {
            queue: Padded::new(Mutex::new(VecDeque::new())),
            length: Padded::new(AtomicUsize::new(0)),
            capacity,
        }
    }

    /// Adds a task at the end, or returns it when the queue is full.
    pub(super) fn push(&self, task: T) -> Result<(), T> {
        self.push_then(task, self.capacity, || ())
    }

    /// Adds a task at the end if there are fewer than `capacity`, and calls `pushed` under the
    /// lock.
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
        self.publish_len(&queue);
        pushed();
        Ok(())
    }

    /// The number of tasks at some recent moment.
    #[inline]
    pub(super) fn len(&self) -> usize {
        // Acquire: pairs with the release in `publish_len`.
        self.length.load(Ordering::Acquire)
    }

    /// Whether the queue was empty at some recent moment.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the oldest task.
    pub(super) fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.take_then(|| ())
    }

    /// Takes the oldest task; if that was the last one, calls `emptied` under the lock.
    pub(super) fn take_then(&self, emptied: impl FnOnce()) -> Option<T> {
        let mut queue = self.lock();
        let task = queue.pop_front()?;
        self.publish_len(&queue);
        if queue.is_empty() {
            emptied();
        }
        Some(task)
    }

    /// Moves the tasks that are `useless` to `into`; if none is left, calls `emptied` under the
    /// lock.
    pub(super) fn remove_useless(
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
        remove_useless(&mut queue, useless, into);
        self.publish_len(&queue);
        if before > 0 && queue.is_empty() {
            emptied();
        }
    }

    /// Takes all tasks.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut queue = self.lock();
        let tasks = queue.drain(..).collect();
        self.publish_len(&queue);
        tasks
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // A panic while the lock is held can only come from the allocator, and leaves the buffer
        // consistent. So a poisoned lock may be used.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_len(&self, queue: &VecDeque<T>) {
        // Release: pairs with the acquire in `len`.
        self.length.store(queue.len(), Ordering::Release);
    }
}

/// Moves the tasks that are `useless` to `into`; the others keep their order.
pub(super) fn remove_useless<T>(
    queue: &mut VecDeque<T>,
    useless: &impl Fn(&T) -> bool,
    into: &mut Vec<T>,
) {
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

impl<T> fmt::Debug for LockedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish()
    }
}
