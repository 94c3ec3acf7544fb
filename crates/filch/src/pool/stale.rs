//! Removal of stale tickets, whose tasks were claimed without them, from the queues of a pool.

use super::inner::{Inner, Job};

/// Fewer stale tickets than this are left in the queues: they take up about 128 KiB.
const MIN_STALE_TO_REMOVE: usize = 1024;

impl Inner {
    /// Counts a ticket in a queue of this pool as stale, because its task was claimed without it.
    /// Usually a worker will dequeue it. When all workers are busy for long, or there are none,
    /// while threads continue to submit, join and cancel, such tickets would accumulate: then those
    /// for which `useless` returns true are removed, and passed to `end`.
    ///
    /// That scans every job in the shared queues. At that point the number of stale tickets is
    /// about half that of the jobs; some of them may be in the queue of a worker, which removes
    /// them itself.
    #[inline]
    pub(crate) fn count_stale(
        &self,
        worker: Option<usize>,
        useless: impl Fn(&Job) -> bool,
        end: impl Fn(Job),
    ) {
        if self.tasks.counters.count_stale(worker) {
            self.remove_useless(worker, useless, end);
        }
    }

    #[cold]
    fn remove_useless(
        &self,
        worker: Option<usize>,
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
        self.tasks
            .counters
            .count_removed_stale(worker, own.len() as u64);
        // Not under the lock: dropping the last reference to a task may run user code.
        own.drain(..).for_each(end);
        if let Ok(mut removed) = self.tasks.removed.try_lock() {
            *removed = own;
        }
    }
}
