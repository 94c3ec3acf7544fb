//! The state of a semaphore.

use super::{
    error::AcquireError,
    queue::{AcquireOutcome, RequestQueue},
    units::{self, Units},
};
use crate::base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::{
    fmt,
    sync::{Arc, Mutex as StaticMutex, PoisonError},
};

/// A number of interchangeable units, given out as [`Permit`](crate::Permit)s: open files,
/// requests, bytes in buffers.
///
/// A clone is a second handle to the same semaphore. Units are acquired in four ways, which can be
/// mixed: block, try, block with a timeout, or await. A task of a graph acquires them by
/// [`Task::acquire`](crate::graph::Task::acquire), and occupies no worker while it waits.
///
/// ```
/// use filch::Semaphore;
/// use std::thread;
///
/// let connections = Semaphore::new(2);
/// thread::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|| {
///             let _permit = connections.acquire().unwrap();
///             // at most two threads are here at the same time
///         });
///     }
/// });
/// assert_eq!(connections.available(), 2);
///
/// let buffers = Semaphore::new(64 << 20); // bytes
/// let permit = buffers.acquire_many(4096)?; // blocks while fewer are free
/// assert_eq!(buffers.available(), (64 << 20) - 4096);
/// drop(permit);
/// # Ok::<(), filch::AcquireError>(())
/// ```
///
/// # Guarantees
///
/// - **The capacity is never exceeded**, and no unit is lost: neither by a panic, nor by a future
///   that is dropped while it waits or after it was served, nor by a waker that panics.
/// - **First in, first out**, for threads, futures and tasks of graphs alike. Small requests don't
///   starve a large one at the head: no request overtakes a waiter, and neither does
///   [`try_acquire`](Self::try_acquire).
/// - **No endless wait for the impossible.** A request that exceeds the capacity gets an error at
///   once, also if the capacity shrinks below it while it waits. Closing a semaphore refuses all
///   waiters.
/// - **All or none.** A request [for several semaphores](Self::acquire_all) holds no units while it
///   waits, so requests in opposite orders cannot deadlock. A caller that holds a permit while it
///   waits for a second one can: ask for everything at once.
///
/// # Cost
///
/// While no request is queued, acquiring is one compare-and-swap and giving back is one addition.
/// Only waiting and serving waiters take a lock. A request for several semaphores takes their locks
/// each time.
///
/// A blocking call blocks its thread. A worker that blocks in one runs no other tasks meanwhile.
#[derive(Clone)]
pub struct Semaphore {
    shared: Arc<SemaphoreShared>,
}

struct SemaphoreShared {
    units: Units,
    /// The creation order of the semaphores, in which their locks are taken. It is not the order of
    /// addresses, so that a rehearsal can be replayed.
    number: u64,
    /// Changes only under the lock of the queue.
    capacity: AtomicU64,
    queue: Mutex<RequestQueue<Wants>>,
}

/// The units of each semaphore that a request wants: in the order of the semaphores' numbers, none
/// of them twice and none with zero units.
pub(crate) type Wants = Arc<[(Semaphore, u64)]>;

/// The number of the newest semaphore.
static LAST_NUMBER: StaticMutex<u64> = StaticMutex::new(0);

impl Semaphore {
    /// The largest number of units. Larger numbers are reduced to this one.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// assert_eq!(Semaphore::new(u64::MAX).capacity(), Semaphore::MAX_UNITS);
    /// ```
    pub const MAX_UNITS: u64 = u64::MAX >> units::SHIFT;

    /// Creates a semaphore of `units`, all of them free; at most [`MAX_UNITS`](Self::MAX_UNITS).
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// assert_eq!((semaphore.capacity(), semaphore.available(), semaphore.waiting()), (8, 8, 0));
    /// assert!(!semaphore.is_closed());
    /// ```
    #[must_use]
    pub fn new(units: u64) -> Self {
        let units = units.min(Self::MAX_UNITS);
        let mut last = LAST_NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        Self {
            shared: Arc::new(SemaphoreShared {
                units: Units::new(units),
                number: *last,
                capacity: AtomicU64::new(units),
                queue: Mutex::new(RequestQueue::new()),
            }),
        }
    }

    /// Returns the number of free units. It may change before the caller acts on it.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(8);
    /// let permit = semaphore.acquire_many(3)?;
    /// assert_eq!(semaphore.available(), 5);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn available(&self) -> u64 {
        self.shared.units.state().free()
    }

    /// Returns the number of units in total, free or not.
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(8);
    /// let permit = semaphore.acquire()?;
    /// assert_eq!(semaphore.capacity(), 8);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> u64 {
        // Relaxed: for display and for errors. Waiters compare with it under the lock.
        self.shared.capacity.load(Ordering::Relaxed)
    }

    /// Returns the number of requests in the queue.
    ///
    /// ```
    /// use std::{future::Future, pin::pin, task::{Context, Waker}};
    ///
    /// let semaphore = filch::Semaphore::new(1);
    /// let permit = semaphore.acquire()?;
    /// let mut second = pin!(semaphore.acquire_async());
    /// assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// assert_eq!(semaphore.waiting(), 1);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Whether it was [closed](Self::close).
    ///
    /// ```
    /// let semaphore = filch::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.units.state().is_closed()
    }

    /// Returns its number among all semaphores, in the order of their creation.
    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// Whether this and `other` are the same semaphore.
    pub(super) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether a request for `n` units can ever be granted.
    pub(super) fn check(&self, n: u64) -> AcquireOutcome {
        match self.capacity() {
            _ if self.is_closed() => Err(AcquireError::CLOSED),
            capacity if n > capacity => Err(AcquireError::too_large(n, capacity)),
            _ => Ok(()),
        }
    }

    pub(super) fn units(&self) -> &Units {
        &self.shared.units
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RequestQueue<Wants>> {
        let queue = self.shared.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    /// Requires the lock of the queue.
    pub(super) fn set_capacity(&self, capacity: u64) {
        // Relaxed: as in `capacity`.
        self.shared.capacity.store(capacity, Ordering::Relaxed);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.units.state();
        f.debug_struct("Semaphore")
            .field("available", &state.free())
            .field("capacity", &self.capacity())
            .field("waiting", &state.is_waiting())
            .field("closed", &state.is_closed())
            .finish()
    }
}
