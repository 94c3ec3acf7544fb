//! A mutex that can be held while its owner waits for tasks.

use super::lock::{LockNumber, before_release, map_lock, map_try_lock, wait_for};
use crate::pool::{isolation::Isolation, waits::EventKind};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{LockResult, Mutex as StdMutex, MutexGuard as StdGuard, TryLockError, TryLockResult},
};

/// A mutex that may be held across a [`join`](crate::join()), a [`scope`](crate::scope()), a loop
/// or any other wait.
///
/// It is [`std::sync::Mutex`] whose guard [isolates](crate::isolate) the waits of its thread: while
/// the guard lives, a worker that waits runs only tasks that were queued since it took the lock. So
/// it never runs, on top of its own stack, a task that wants the lock that it holds.
///
/// ```
/// use filch::sync::Mutex;
///
/// let sums = Mutex::new(vec![0; 4]);
/// filch::scope(|s| {
///     for n in 0..16 {
///         let sums = &sums;
///         s.spawn(move |_| {
///             let mut sums = sums.lock().unwrap();
///             filch::for_each(&mut sums[..], |sum| *sum += n); // with the lock held
///         });
///     }
/// });
/// assert_eq!(sums.into_inner().unwrap(), [120; 4]);
/// ```
///
/// A task that panics while it holds the lock poisons it, as with `std`: the pool contains the
/// panic and the program goes on, so other tasks must learn that the data may be half changed. The
/// interface is that of `std`'s mutex: only the `use` line changes.
///
/// Each guard costs a few nanoseconds more than `std`'s. On a thread that is not a worker it is an
/// ordinary mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    number: LockNumber,
    inner: StdMutex<T>,
}

/// The guard of a [`Mutex`]; the waits of this thread are isolated as long as it lives.
///
/// Guards may be dropped in any order. They cannot be sent to other threads:
///
/// ```compile_fail
/// let mutex = Box::leak(Box::new(filch::sync::Mutex::new(0)));
/// let guard = mutex.lock().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// but shared:
///
/// ```
/// let mutex = filch::sync::Mutex::new(vec![1, 2, 3]);
/// let guard = mutex.lock().unwrap();
/// assert_eq!(filch::join(|| guard.len(), || guard[0]), (3, 1));
/// ```
#[must_use = "the mutex is unlocked when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Dropped first, by the order of the fields: the mutex is unlocked before the isolation ends.
    inner: StdGuard<'a, T>,
    isolation: Isolation,
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        before_release(&self.isolation);
    }
}

impl<T> Mutex<T> {
    /// Creates a mutex around `value`.
    ///
    /// ```
    /// use filch::sync::Mutex;
    ///
    /// static LOG: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    /// LOG.lock().unwrap().push("started");
    /// assert_eq!(LOG.lock().unwrap().len(), 1);
    /// ```
    pub const fn new(value: T) -> Self {
        Self {
            number: LockNumber::new(),
            inner: StdMutex::new(value),
        }
    }

    /// Consumes the mutex and returns the value.
    ///
    /// ```
    /// let words = filch::sync::Mutex::new(Vec::new());
    /// filch::join(|| words.lock().unwrap().push("one"), || words.lock().unwrap().push("two"));
    /// let mut words = words.into_inner().unwrap();
    /// words.sort_unstable();
    /// assert_eq!(words, ["one", "two"]);
    /// ```
    ///
    /// # Errors
    /// If it is poisoned; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex and blocks until it is free. The thread runs no tasks meanwhile: these might
    /// want a lock that it holds.
    ///
    /// ```
    /// let cells = filch::sync::Mutex::new([1, 2, 3]);
    /// let mut locked = cells.lock().unwrap();
    /// filch::for_each(&mut locked[..], |cell| *cell *= 2); // waits with the lock held
    /// drop(locked);
    /// assert_eq!(*cells.lock().unwrap(), [2, 4, 6]);
    /// ```
    ///
    /// # Errors
    /// If a thread has panicked with the mutex locked; the guard is in the error.
    ///
    /// # Panics
    /// If it would block for ever: this thread has locked it already, or the thread that has waits
    /// for this one, directly or through others, and none of these waits can return an error
    /// ([`deadlocks`](crate::deadlocks())). While the thread unwinds only a second lock by it
    /// panics, which ends the process.
    ///
    /// ```should_panic
    /// let mutex = filch::sync::Mutex::new(1);
    /// let _guard = mutex.lock().unwrap();
    /// let _again = mutex.lock(); // panics: "this thread has locked it already"
    /// ```
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let locked = match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => wait_for(
                self.number.release(EventKind::Lock),
                || self.inner.try_lock(),
                || self.inner.lock(),
            ),
        };
        map_lock(locked, |inner| self.guard(inner))
    }

    #[inline]
    fn guard<'a>(&'a self, inner: StdGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            inner,
            isolation: self.number.isolate(EventKind::Lock),
        }
    }

    /// Locks the mutex if it is free.
    ///
    /// ```
    /// let mutex = filch::sync::Mutex::new(1);
    /// let guard = mutex.lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert_eq!(*mutex.try_lock().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// If it is locked, or poisoned, as with [`lock`](Self::lock).
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        map_try_lock(self.inner.try_lock(), |inner| self.guard(inner))
    }

    /// Returns a reference to the value; no lock is needed, since the borrow is exclusive.
    ///
    /// ```
    /// let mut count = filch::sync::Mutex::new(1);
    /// *count.get_mut().unwrap() += 1;
    /// assert_eq!(count.into_inner().unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// If it is poisoned; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }

    /// Whether a thread has panicked with the mutex locked.
    ///
    /// ```
    /// let mutex = filch::sync::Mutex::new(1);
    /// let failed = std::panic::catch_unwind(|| {
    ///     let _guard = mutex.lock().unwrap();
    ///     panic!("in the middle of a change");
    /// });
    /// assert!(failed.is_err() && mutex.is_poisoned());
    /// mutex.clear_poison();
    /// assert_eq!(*mutex.lock().unwrap(), 1);
    /// ```
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Clears the poisoned state: the value is consistent again.
    ///
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let mutex = filch::sync::Mutex::new(vec![1]);
    /// let _ = catch_unwind(AssertUnwindSafe(|| {
    ///     mutex.lock().unwrap().push(2);
    ///     let _guard = mutex.lock().unwrap();
    ///     panic!("with the mutex locked");
    /// }));
    /// let mut values = mutex.lock().unwrap_err().into_inner();
    /// values.clear(); // make the value consistent
    /// mutex.clear_poison();
    /// drop(values);
    /// assert!(mutex.lock().unwrap().is_empty());
    /// ```
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
