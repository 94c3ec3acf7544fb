//! The ids of tasks.

use std::{
    cell::Cell,
    fmt,
    sync::{Mutex, PoisonError},
};

/// The id of a task, unique in the process.
///
/// ```
/// let (a, b) = (filch::submit(|| 1), filch::submit(|| 2));
/// assert_ne!(a.id(), b.id());
/// println!("waiting for task {}", a.id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

/// How many ids a thread reserves at a time, so that submitting threads do not contend for a
/// counter.
const IDS_PER_BATCH: u64 = 1024;

static NEXT: Mutex<u64> = Mutex::new(1);

thread_local! {
    /// The next id of this thread, and the end of its reserved range.
    static RESERVED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

impl TaskId {
    #[inline]
    pub(super) fn next() -> Self {
        let (next, end) = RESERVED.get();
        if next == end {
            return Self::from_new_batch();
        }
        RESERVED.set((next + 1, end));
        Self(next)
    }

    #[cold]
    fn from_new_batch() -> Self {
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *next;
        *next += IDS_PER_BATCH;
        RESERVED.set((first + 1, *next));
        Self(first)
    }

    /// Returns the id as a number.
    ///
    /// ```
    /// let task = filch::submit(|| 1);
    /// let key: u64 = task.id().get(); // for a log or a table
    /// assert_eq!(task.id().to_string(), key.to_string());
    /// # task.join().unwrap();
    /// ```
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
