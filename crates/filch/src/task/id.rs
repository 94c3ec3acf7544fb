//! The ids of tasks.

use std::{
    cell::Cell,
    fmt,
    sync::{Mutex, PoisonError},
};

/// The id of a submitted task or of a future.
///
/// That of a submitted task is unique in the process. That of a future is unique among all tasks
/// and futures that exist; once the future is done and no handle or waker of it is left, another
/// future may get it.
///
/// ```
/// let (task, future) = (filch::submit(|| 1), filch::spawn_future(async { 2 }));
/// assert_ne!(task.id(), future.id());
/// println!("waiting for {} and {}", task.id(), future.id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

/// Set in the ids of futures. The numbers of submitted tasks do not reach it.
const OF_FUTURE: u64 = 1 << 63;

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
    pub(crate) fn next() -> Self {
        let (next, end) = RESERVED.get();
        if next == end {
            return Self::from_new_batch();
        }
        RESERVED.set((next + 1, end));
        Self(next)
    }

    /// Returns the id of the future whose cell has this address.
    pub(crate) fn of_future(address: usize) -> Self {
        Self(OF_FUTURE | address as u64)
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
