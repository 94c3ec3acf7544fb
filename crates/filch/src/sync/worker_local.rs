//! Values that workers reuse.

use crate::{
    base::{padded::Padded, unwind},
    threads::{cores, current_worker},
};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
};

/// Values of which each worker reuses its own: scratch buffers, caches, counters, random number
/// generators. For loops, scopes, graphs, submitted tasks and futures of any pool, and for threads
/// outside of pools.
///
/// A value is borrowed for as long as its guard lives. A worker that has borrowed one and runs
/// another task meanwhile, in a wait or at a checkpoint, gets a second value there, so there may be
/// a few more values than workers. [`into_values`](Self::into_values) returns all of them.
///
/// The results of a loop that uses one must not depend on which value it gets. In loops
/// [`map_init`](crate::par::Loop::map_init) is shorter.
///
/// ```
/// use filch::sync::WorkerLocal;
///
/// let counts = WorkerLocal::<u64>::new();
/// filch::scope(|s| {
///     for n in 0..100 {
///         let counts = &counts;
///         s.spawn(move |_| *counts.borrow() += n);
///     }
/// });
/// assert_eq!(counts.into_values().into_iter().sum::<u64>(), 4950);
/// ```
#[doc(alias("ThreadLocal", "PerWorker", "thread_local"))]
pub struct WorkerLocal<T> {
    /// The values that are not borrowed, by worker number. Those of one worker, and of threads
    /// outside of pools, share a slot.
    slots: Box<[Padded<Mutex<Vec<T>>>]>,
}

impl<T> WorkerLocal<T> {
    /// Creates it without values.
    ///
    /// ```
    /// use filch::sync::WorkerLocal;
    ///
    /// let buffers = WorkerLocal::<Vec<u8>>::new();
    /// assert!(buffers.into_values().is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        // One more, for threads outside of pools.
        let slots = 0..(cores() + 1).next_power_of_two();
        Self {
            slots: slots.map(|_| Padded::new(Mutex::default())).collect(),
        }
    }

    /// Borrows a value that this worker has used before, or creates one.
    ///
    /// ```
    /// use filch::sync::WorkerLocal;
    ///
    /// let buffers = WorkerLocal::new();
    /// let mut buffer = buffers.borrow_or_init(|| Vec::with_capacity(4096));
    /// buffer.push(1_u8);
    /// ```
    pub fn borrow_or_init(&self, init: impl FnOnce() -> T) -> WorkerLocalGuard<'_, T> {
        let number = current_worker().map_or(0, |worker| worker + 1);
        let slot = &*self.slots[number % self.slots.len()];
        // `init` is called without the lock: it may be slow, or borrow a value itself.
        let unused = slot.lock().unwrap_or_else(PoisonError::into_inner).pop();
        WorkerLocalGuard {
            value: Some(unused.unwrap_or_else(init)),
            slot,
        }
    }

    /// Borrows a value that this worker has used before, or the default.
    ///
    /// ```
    /// use filch::sync::WorkerLocal;
    ///
    /// let calls = WorkerLocal::<usize>::new();
    /// filch::for_each(0..1_000, |_| *calls.borrow() += 1);
    /// assert_eq!(calls.into_values().iter().sum::<usize>(), 1_000);
    /// ```
    pub fn borrow(&self) -> WorkerLocalGuard<'_, T>
    where
        T: Default,
    {
        self.borrow_or_init(T::default)
    }

    /// Returns all values, in no particular order.
    ///
    /// ```
    /// use filch::sync::WorkerLocal;
    ///
    /// let found = WorkerLocal::<Vec<u32>>::new();
    /// filch::for_each(0..100_u32, |n| if n % 10 == 0 { found.borrow().push(n) });
    /// let mut found = found.into_values().concat();
    /// found.sort();
    /// assert_eq!(found, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    /// ```
    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        let slots = self.slots.into_iter().map(Padded::into_inner);
        slots
            .flat_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect()
    }
}

impl<T> Default for WorkerLocal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for WorkerLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLocal").finish_non_exhaustive()
    }
}

/// A borrowed value of a [`WorkerLocal`]; the worker reuses it when this is dropped.
#[must_use = "the value is borrowed as long as this lives"]
pub struct WorkerLocalGuard<'l, T> {
    /// `None` only during the drop.
    value: Option<T>,
    slot: &'l Mutex<Vec<T>>,
}

impl<T> Deref for WorkerLocalGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T> DerefMut for WorkerLocalGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for WorkerLocalGuard<'_, T> {
    fn drop(&mut self) {
        // A value that was in use during a panic may be in any state.
        if unwind::is_unwinding() {
            return;
        }
        let mut unused = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        unused.extend(self.value.take());
    }
}

impl<T: fmt::Debug> fmt::Debug for WorkerLocalGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
