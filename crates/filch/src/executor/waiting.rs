//! The list of the tasks of an executor that wait for units.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The tasks of an executor that wait for units.
#[derive(Default)]
pub(super) struct WaitingTasks(Mutex<WaitingList>);

#[derive(Default)]
struct WaitingList {
    next: u64,
    tasks: BTreeMap<u64, Arc<dyn CancelWaiting>>,
    /// No more tasks wait: the executor is shut down.
    stopped: bool,
}

/// A task that waits for units.
pub(super) trait CancelWaiting: Send + Sync {
    /// Takes it out of the queue of its semaphore, if it is still there, and drops it.
    fn cancel(&self);
}

impl WaitingTasks {
    fn lock(&self) -> MutexGuard<'_, WaitingList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all tasks that wait, and those that would from now on.
    pub(super) fn cancel_all(&self) {
        let tasks = {
            let mut list = self.lock();
            list.stopped = true;
            mem::take(&mut list.tasks)
        };
        tasks.into_values().for_each(|task| task.cancel());
    }

    /// Adds a task. Returns its key, or `None` if the executor is shut down.
    pub(super) fn add(&self, task: Arc<dyn CancelWaiting>) -> Option<u64> {
        let mut list = self.lock();
        if list.stopped {
            return None;
        }
        list.next += 1;
        let key = list.next;
        list.tasks.insert(key, task);
        Some(key)
    }

    pub(super) fn remove(&self, key: u64) {
        // Dropped without the lock.
        let task = self.lock().tasks.remove(&key);
        drop(task);
    }
}
