//! A lock for readers and writers that can be held while its owner waits for tasks.

use super::lock::{LockNumber, before_release, map_lock, map_try_lock, wait_for};
use crate::pool::{isolation::Isolation, waits::EventKind};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        LockResult, RwLock as StdRwLock, RwLockReadGuard as StdReadGuard,
        RwLockWriteGuard as StdWriteGuard, TryLockError, TryLockResult,
    },
};

/// A lock for any number of readers or one writer that may be held across a
/// [`join`](crate::join()), a [`scope`](crate::scope()), a loop or any other wait.
///
/// It is [`std::sync::RwLock`] whose guards [isolate](crate::isolate) the waits of their thread, as
/// those of [`Mutex`](super::Mutex) do.
///
/// ```
/// use filch::sync::RwLock;
///
/// let table = RwLock::new(vec![1, 2, 3]);
/// filch::for_each(&mut table.write().unwrap()[..], |entry| *entry *= 2); // with the lock held
/// let sum = |entries: &[i32]| entries.iter().sum::<i32>();
/// let (left, right) = filch::join(|| sum(&table.read().unwrap()), || sum(&table.read().unwrap()));
/// assert_eq!((left, right), (12, 12));
/// ```
///
/// A panic of a writer poisons it, as with `std`.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    number: LockNumber,
    inner: StdRwLock<T>,
}

/// The guard of a reader; from [`RwLock::read`]. The waits of this thread are isolated as long as
/// it lives.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Dropped first, by the order of the fields: the lock is released before the isolation ends.
    inner: StdReadGuard<'a, T>,
    isolation: Isolation,
}

/// The guard of a writer; from [`RwLock::write`]. The waits of this thread are isolated as long as
/// it lives.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Dropped first, as in `RwLockReadGuard`.
    inner: StdWriteGuard<'a, T>,
    isolation: Isolation,
}

impl<T> RwLock<T> {
    /// Creates a lock around `value`.
    ///
    /// ```
    /// use filch::sync::RwLock;
    ///
    /// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
    /// NAMES.write().unwrap().push("first");
    /// assert_eq!(NAMES.read().unwrap()[0], "first");
    /// ```
    pub const fn new(value: T) -> Self {
        Self {
            number: LockNumber::new(),
            inner: StdRwLock::new(value),
        }
    }

    /// Consumes the lock and returns the value.
    ///
    /// ```
    /// let count = filch::sync::RwLock::new(1);
    /// *count.write().unwrap() += 1;
    /// assert_eq!(count.into_inner().unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// If it is poisoned; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it for reading and blocks while a writer has it. The thread runs no tasks meanwhile:
    /// these might want a lock that it holds.
    ///
    /// ```
    /// let numbers = filch::sync::RwLock::new(vec![1, 2, 3]);
    /// let (first, second) = (numbers.read().unwrap(), numbers.read().unwrap());
    /// assert_eq!(first.len(), second.len());
    /// ```
    ///
    /// # Errors
    /// If a writer has panicked with the lock held; the guard is in the error.
    ///
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock): if this thread has locked it for writing, or the
    /// writer waits for this thread. Also if this thread has locked it for reading, and a writer
    /// waits for that: readers come after such a writer.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let locked = match self.inner.try_read() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => wait_for(
                self.number.release(EventKind::Lock),
                || self.inner.try_read(),
                || self.inner.read(),
            ),
        };
        map_lock(locked, |inner| self.read_guard(inner))
    }

    /// Locks it for reading if no writer has it.
    ///
    /// ```
    /// let number = filch::sync::RwLock::new(1);
    /// let writer = number.write().unwrap();
    /// assert!(number.try_read().is_err());
    /// drop(writer);
    /// assert_eq!(*number.try_read().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// If a writer has it, or it is poisoned, as with [`read`](Self::read).
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        map_try_lock(self.inner.try_read(), |inner| self.read_guard(inner))
    }

    fn read_guard<'a>(&'a self, inner: StdReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            inner,
            isolation: self.number.isolate(EventKind::SharedLock),
        }
    }

    /// Locks it for writing and blocks while others have it. The thread runs no tasks meanwhile.
    ///
    /// ```
    /// let numbers = filch::sync::RwLock::new(vec![3, 1, 2]);
    /// filch::sort(&mut numbers.write().unwrap()[..]); // waits with the lock held
    /// assert_eq!(*numbers.read().unwrap(), [1, 2, 3]);
    /// ```
    ///
    /// # Errors
    /// If a writer has panicked with the lock held; the guard is in the error.
    ///
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock): if this thread has locked it, or a thread that has
    /// waits for this one.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let locked = match self.inner.try_write() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => wait_for(
                self.number.release(EventKind::AnyLock),
                || self.inner.try_write(),
                || self.inner.write(),
            ),
        };
        map_lock(locked, |inner| self.write_guard(inner))
    }

    /// Locks it for writing if it is free.
    ///
    /// ```
    /// let number = filch::sync::RwLock::new(1);
    /// let reader = number.read().unwrap();
    /// assert!(number.try_write().is_err());
    /// drop(reader);
    /// *number.try_write().unwrap() += 1;
    /// assert_eq!(*number.read().unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// If it is locked, or poisoned, as with [`write`](Self::write).
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        map_try_lock(self.inner.try_write(), |inner| self.write_guard(inner))
    }

    fn write_guard<'a>(&'a self, inner: StdWriteGuard<'a, T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            inner,
            isolation: self.number.isolate(EventKind::Lock),
        }
    }

    /// Returns a reference to the value; no lock is needed, since the borrow is exclusive.
    ///
    /// ```
    /// let mut count = filch::sync::RwLock::new(1);
    /// *count.get_mut().unwrap() += 1;
    /// assert_eq!(count.into_inner().unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// If it is poisoned; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }

    /// Whether a writer has panicked with the lock held.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// let failed = std::panic::catch_unwind(|| {
    ///     let _guard = lock.write().unwrap();
    ///     panic!("in the middle of a change");
    /// });
    /// assert!(failed.is_err() && lock.is_poisoned());
    /// ```
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Clears the poisoned state: the value is consistent again.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// let _ = std::panic::catch_unwind(|| {
    ///     let _guard = lock.write().unwrap();
    ///     panic!("in the middle of a change");
    /// });
    /// *lock.write().unwrap_err().into_inner() = 0; // make the value consistent
    /// lock.clear_poison();
    /// assert_eq!(*lock.read().unwrap(), 0);
    /// ```
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        before_release(&self.isolation);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        before_release(&self.isolation);
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
