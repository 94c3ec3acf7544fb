#![doc = include_str!("budget.md")]

use super::{
    AcquireError, MOST_UNITS, Permit,
    units::{Take, Units},
    wait::{Entry, Limit, Turn},
    waiters::{Calls, Left, Outcome, Waiters, release},
};
use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU64, Mutex, MutexGuard, Ordering},
};
use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// A number of interchangeable units, given out as [`Permit`]s.
///
/// A clone is a second handle to the same budget. Requests are served first in, first out.
///
/// ```
/// use filch::Budget;
/// use std::thread;
///
/// let connections = Budget::new(2);
/// thread::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|| {
///             let _permit = connections.acquire(1).unwrap();
///     // at most two threads are here at the same time
///         });
///     }
/// });
/// assert_eq!(connections.available(), 2);
/// ```
#[derive(Clone)]
pub struct Budget {
    shared: Arc<BudgetState>,
}

struct BudgetState {
    units: Units,
    /// Changes only under the lock of the queue.
    capacity: AtomicU64,
    queue: Mutex<Waiters<u64>>,
}

impl Budget {
    /// Creates a budget of `units`, all of them free; at most [`MOST_UNITS`].
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(8);
    /// assert_eq!((budget.capacity(), budget.available(), budget.waiting()), (8, 8, 0));
    /// assert!(!budget.is_closed());
    /// ```
    #[must_use]
    pub fn new(units: u64) -> Self {
        let units = units.min(MOST_UNITS);
        Self {
            shared: Arc::new(BudgetState {
                units: Units::new(units),
                capacity: AtomicU64::new(units),
                queue: Mutex::new(Waiters::new()),
            }),
        }
    }

    /// Takes `n` units, and blocks until it is this request's turn and they are free.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(8);
    /// let permit = budget.acquire(5)?;
    /// assert_eq!((permit.n(), budget.available()), (5, 3));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If `n` exceeds the capacity, or the budget is or becomes closed.
    #[inline]
    pub fn acquire(&self, n: u64) -> Result<Permit<'_>, AcquireError> {
        match self.shared.units.take(n) {
            Take::Taken => Ok(Permit::new(Cow::Borrowed(self), n)),
            _ => self.block(n, None),
        }
    }

    /// Takes `n` units if they are free and no request is queued.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(1);
    /// let permit = budget.try_acquire(1)?;
    /// assert!(budget.try_acquire(1).unwrap_err().is_full());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If they are not free, other requests are queued, `n` exceeds the capacity, or the budget is
    /// closed.
    #[inline]
    pub fn try_acquire(&self, n: u64) -> Result<Permit<'_>, AcquireError> {
        self.try_take(n)?;
        Ok(Permit::new(Cow::Borrowed(self), n))
    }

    /// As [`acquire`](Self::acquire), but blocks no longer than `timeout`.
    ///
    /// ```
    /// use filch::Budget;
    /// use std::time::Duration;
    ///
    /// let budget = Budget::new(1);
    /// let permit = budget.acquire_timeout(1, Duration::from_secs(1))?;
    /// let late = budget.acquire_timeout(1, Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and when the time is up.
    pub fn acquire_timeout(&self, n: u64, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        match self.shared.units.take(n) {
            Take::Taken => Ok(Permit::new(Cow::Borrowed(self), n)),
            // A deadline that `Instant` cannot represent is no deadline.
            _ => self.block(n, Instant::now().checked_add(timeout)),
        }
    }

    /// Returns a future of `n` units. It enters the queue at its first poll, and can be dropped at
    /// any time.
    ///
    /// It needs no runtime. A task that is to own its permit takes
    /// [`into_owned`](Acquire::into_owned).
    ///
    /// ```
    /// use filch::Budget;
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let budget = Budget::new(1);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let permit = budget.acquire(1)?;
    /// let mut second = pin!(budget.acquire_async(1));
    /// assert!(second.as_mut().poll(&mut cx).is_pending());
    /// drop(permit);
    /// assert!(second.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn acquire_async(&self, n: u64) -> Acquire<'_> {
        Acquire {
            turn: Turn::new(Cow::Borrowed(self), n),
        }
    }

    /// The number of free units. It may change before the caller acts on it.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.shared.units.state().free()
    }

    /// The number of units in total, free or not.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        // Relaxed: for display and for errors. Waiters compare with it under the lock.
        self.shared.capacity.load(Ordering::Relaxed)
    }

    /// The number of requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Increases the capacity. [`Permit::forget`] decreases it.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(4);
    /// budget.add(4);
    /// assert_eq!((budget.available(), budget.capacity()), (8, 8));
    /// budget.acquire(6)?.forget();
    /// assert_eq!((budget.available(), budget.capacity()), (2, 2));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn add(&self, units: u64) {
        let mut queue = self.lock();
        let units = units.min(MOST_UNITS - self.capacity());
        self.set_capacity(self.capacity() + units);
        let mut calls = Calls::default();
        if self.shared.units.give(units) {
            self.serve(&mut queue, &mut calls);
        }
        drop(queue);
        calls.make();
    }

    /// Refuses all later requests and those in the queue. Permits that were given out stay valid.
    ///
    /// ```
    /// use filch::Budget;
    ///
    /// let budget = Budget::new(4);
    /// let permit = budget.acquire(1)?;
    /// budget.close();
    /// assert!(budget.is_closed());
    /// assert!(budget.acquire(1).unwrap_err().is_closed());
    /// drop(permit);
    /// assert_eq!(budget.available(), 4);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn close(&self) {
        let mut calls = Calls::default();
        let mut queue = self.lock();
        self.shared.units.close();
        queue.refuse(&mut calls, |_| Err(AcquireError::CLOSED));
        self.shared.units.clear_waiting();
        drop(queue);
        calls.make();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.units.state().is_closed()
    }

    /// [`try_acquire`](Self::try_acquire) for callers that account for the units themselves.
    #[inline]
    pub(crate) fn try_take(&self, n: u64) -> Result<(), AcquireError> {
        match self.shared.units.take(n) {
            Take::Taken => Ok(()),
            Take::Closed => Err(AcquireError::CLOSED),
            Take::Wait => Err(self.fits(n).err().unwrap_or(AcquireError::FULL)),
        }
    }

    /// Gives back `n` units that were taken.
    #[inline]
    pub(crate) fn give(&self, n: u64) {
        if self.shared.units.give(n) {
            self.serve_all();
        }
    }

    /// Removes `n` taken units from the capacity for good. Queued requests that exceed the new
    /// capacity are refused.
    pub(super) fn shrink(&self, n: u64) {
        let mut calls = Calls::default();
        let mut queue = self.lock();
        self.set_capacity(self.capacity() - n);
        queue.refuse(&mut calls, |&n| self.fits(n));
        self.move_up(&mut queue, &mut calls);
        drop(queue);
        calls.make();
    }

    /// Whether this and `other` are the same budget.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    #[cold]
    fn block(&self, n: u64, deadline: Option<Instant>) -> Result<Permit<'_>, AcquireError> {
        let (budget, n) = Turn::new(Cow::Borrowed(self), n).block(deadline)?;
        Ok(Permit::new(budget, n))
    }

    fn fits(&self, n: u64) -> Outcome {
        match self.capacity() {
            capacity if n > capacity => Err(AcquireError::too_large(None, n, capacity)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters<u64>> {
        let queue = self.shared.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    /// Requires the lock of the queue.
    fn set_capacity(&self, capacity: u64) {
        // Relaxed: as in `capacity`.
        self.shared.capacity.store(capacity, Ordering::Relaxed);
    }

    #[cold]
    fn serve_all(&self) {
        let mut calls = Calls::default();
        self.serve(&mut self.lock(), &mut calls);
        calls.make();
    }

    /// Hands free units to the head of the queue as long as there are enough.
    fn serve(&self, queue: &mut Waiters<u64>, calls: &mut Calls) {
        loop {
            let last = queue.len() == 1;
            let Some((ticket, &n)) = queue.iter().next() else {
                return;
            };
            if !self.shared.units.take_for_first(n, last) {
                return;
            }
            queue.settle(ticket, Ok(()), calls);
        }
    }

    /// Restores the invariants after a request has left the queue without having been served.
    fn move_up(&self, queue: &mut Waiters<u64>, calls: &mut Calls) {
        if queue.is_empty() {
            self.shared.units.clear_waiting();
        } else {
            self.serve(queue, calls);
        }
    }
}

impl Limit for Budget {
    type Ask = u64;

    fn enter(&self, &n: &u64, waker: &Waker) -> Entry {
        match self.shared.units.take(n) {
            Take::Taken => return Entry::Settled(Ok(())),
            Take::Closed => return Entry::Settled(Err(AcquireError::CLOSED)),
            Take::Wait => {}
        }
        // Cloned before the lock is taken, since a waker is user code.
        let waker = waker.clone();
        let mut queue = self.lock();
        // Under the lock, so that a request in the queue either fits or is refused by `shrink`.
        let outcome = match self.fits(n) {
            Err(_) if self.is_closed() => Err(AcquireError::CLOSED),
            Err(error) => Err(error),
            Ok(()) => match self.shared.units.take_or_wait(n) {
                Take::Taken => Ok(()),
                Take::Closed => Err(AcquireError::CLOSED),
                Take::Wait => return Entry::Queued(queue.push(n, waker)),
            },
        };
        // Dropped after the lock is released, and with panics contained, so that the units are not
        // lost.
        drop(queue);
        release(waker);
        Entry::Settled(outcome)
    }

    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> Option<Outcome> {
        let mut waker = waker.clone();
        let outcome = self.lock().poll_ticket(ticket, &mut waker);
        release(waker);
        outcome
    }

    fn leave(&self, ticket: u64, &n: &u64) {
        let mut calls = Calls::default();
        let mut queue = self.lock();
        let left = queue.leave(ticket);
        if let Some(Left::Queued(..)) = left
            && !broken(Canary::BudgetMoveUp)
        {
            self.move_up(&mut queue, &mut calls);
        }
        drop(queue);
        calls.make();
        match left {
            Some(Left::Queued(_, waker)) => release(waker),
            Some(Left::Settled(Ok(()))) if !broken(Canary::BudgetCancel) => self.give(n),
            _ => {}
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.units.state();
        f.debug_struct("Budget")
            .field("available", &state.free())
            .field("capacity", &self.capacity())
            .field("waiting", &state.is_waiting())
            .field("closed", &state.is_closed())
            .finish()
    }
}

/// The future of [`Budget::acquire_async`].
///
/// Dropped while it waits, it leaves the queue; dropped after it was served, it gives the units
/// back.
#[must_use = "nothing is asked for before it is polled"]
pub struct Acquire<'a> {
    turn: Turn<'a, Budget>,
}

impl Acquire<'_> {
    /// Converts to the same request, at the same place in the queue, with its own handle to the
    /// budget.
    ///
    /// ```
    /// use filch::{Budget, limit::Acquire};
    ///
    /// fn one_of(budget: &Budget) -> Acquire<'static> {
    ///     budget.acquire_async(1).into_owned()
    /// }
    /// let _future = one_of(&Budget::new(1));
    /// ```
    pub fn into_owned(self) -> Acquire<'static> {
        Acquire {
            turn: self.turn.into_owned(),
        }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.turn.poll(cx.waker());
        result.map_ok(|(budget, n)| Permit::new(budget, n))
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
