//! Several budgets that are acquired together.

use super::{
    AcquireError, Permits,
    set::{Ask, Set},
    wait::{Entry, Limit, Turn},
    waiters::{Calls, Left, Outcome, release},
};
use crate::base::sync::{Mutex, MutexGuard};
use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// Units of several things, by name, given out together as [`Permits`].
///
/// A request gets everything it wants in one step, or nothing: while it waits it holds no units. So
/// two requests for the same parts in opposite orders cannot deadlock. A clone is a second handle
/// to the same budgets.
///
/// ```
/// use filch::Budgets;
///
/// let cache = Budgets::new().with("objects", 1024).with("bytes", 64 << 20);
/// let permits = cache.acquire(&[("objects", 1), ("bytes", 4096)])?;
/// assert_eq!(cache.available("objects"), Some(1023));
/// drop(permits);
/// assert_eq!(cache.available("objects"), Some(1024));
/// # Ok::<(), filch::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Budgets {
    shared: Arc<Mutex<Set>>,
}

impl Budgets {
    /// Creates budgets without any part.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Set::new())),
        }
    }

    /// Adds `units` of `name`; see [`add`](Self::add).
    #[must_use]
    pub fn with(self, name: &str, units: u64) -> Self {
        self.add(name, units);
        self
    }

    /// Increases the part `name` by `units`, all of them free, and creates the part if it does not
    /// exist. A part has at most [`MOST_UNITS`](super::MOST_UNITS). [`Permits::forget`] decreases
    /// it.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new();
    /// budgets.add("bytes", 100);
    /// budgets.add("bytes", 50);
    /// assert_eq!(budgets.capacity("bytes"), Some(150));
    /// ```
    pub fn add(&self, name: &str, units: u64) {
        let calls = self.lock().add(name, units);
        calls.make();
    }

    /// Takes all that is `wanted`. Blocks until the request is served.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("gpu", 1).with("bytes", 100);
    /// let permits = budgets.acquire(&[("gpu", 1), ("bytes", 10)])?;
    /// assert_eq!((permits.n("gpu"), permits.n("bytes")), (1, 10));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If a part of that name does not exist or has fewer units in total, or if the budgets are or
    /// become closed.
    pub fn acquire(&self, wanted: &[(&str, u64)]) -> Result<Permits<'_>, AcquireError> {
        self.block(wanted, || None)
    }

    /// Takes all that is `wanted` if it is free and no queued request wants any of the same parts.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("gpu", 1).with("bytes", 100);
    /// let first = budgets.try_acquire(&[("gpu", 1)])?;
    /// let second = budgets.try_acquire(&[("bytes", 10), ("gpu", 1)]);
    /// assert!(second.unwrap_err().is_full());
    /// assert_eq!(budgets.available("bytes"), Some(100)); // all or none
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and if the request would have to wait.
    pub fn try_acquire(&self, wanted: &[(&str, u64)]) -> Result<Permits<'_>, AcquireError> {
        let mut set = self.lock();
        let ask = set.resolve(wanted)?;
        set.take(&ask)?;
        drop(set);
        Ok(Permits::new(Cow::Borrowed(self), ask))
    }

    /// As [`acquire`](Self::acquire), but blocks no longer than `timeout`.
    ///
    /// ```
    /// use filch::Budgets;
    /// use std::time::Duration;
    ///
    /// let budgets = Budgets::new().with("gpu", 1);
    /// let permits = budgets.acquire_timeout(&[("gpu", 1)], Duration::from_secs(1))?;
    /// let late = budgets.acquire_timeout(&[("gpu", 1)], Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and when the time is up.
    pub fn acquire_timeout(
        &self,
        wanted: &[(&str, u64)],
        timeout: Duration,
    ) -> Result<Permits<'_>, AcquireError> {
        // A deadline that `Instant` cannot represent is no deadline.
        self.block(wanted, || Instant::now().checked_add(timeout))
    }

    /// Returns a future of all that is `wanted`. It enters the queue at its first poll, and can be
    /// dropped at any time.
    ///
    /// ```
    /// use filch::Budgets;
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let budgets = Budgets::new().with("gpu", 1).with("bytes", 100);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let permits = budgets.acquire(&[("gpu", 1)])?;
    /// let mut second = pin!(budgets.acquire_async(&[("gpu", 1), ("bytes", 10)]));
    /// assert!(second.as_mut().poll(&mut cx).is_pending());
    /// assert_eq!(budgets.available("bytes"), Some(100)); // a waiter holds nothing
    /// drop(permits);
    /// assert!(second.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn acquire_async(&self, wanted: &[(&str, u64)]) -> AcquireAll<'_> {
        let ask = self.lock().resolve(wanted);
        let this = Cow::Borrowed(self);
        AcquireAll {
            turn: match ask {
                Ok(ask) => Turn::new(this, ask),
                Err(error) => Turn::refused(this, error),
            },
        }
    }

    /// The number of free units of `name`; `None` if there is no such part.
    #[must_use]
    pub fn available(&self, name: &str) -> Option<u64> {
        let set = self.lock();
        set.find(name).map(|part| set.parts[part].free)
    }

    /// The number of units of `name` in total, free or not; `None` if there is no such part.
    #[must_use]
    pub fn capacity(&self, name: &str) -> Option<u64> {
        let set = self.lock();
        set.find(name).map(|part| set.parts[part].capacity)
    }

    /// The number of requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    /// Refuses all later requests and those in the queue. Permits that were given out stay valid.
    ///
    /// ```
    /// use filch::Budgets;
    ///
    /// let budgets = Budgets::new().with("gpu", 1);
    /// budgets.close();
    /// assert!(budgets.is_closed());
    /// assert!(budgets.acquire(&[("gpu", 1)]).unwrap_err().is_closed());
    /// ```
    pub fn close(&self) {
        let calls = self.lock().close();
        calls.make();
    }

    /// Whether they were closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Set> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the units of `ask`.
    pub(super) fn give(&self, ask: &Ask) {
        let calls = self.lock().give(ask);
        calls.make();
    }

    /// Removes the units of `ask`, which are taken, from the capacity for good.
    pub(super) fn shrink(&self, ask: &Ask) {
        let calls = self.lock().shrink(ask);
        calls.make();
    }

    /// Whether these and `other` are the same budgets.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    fn block(
        &self,
        wanted: &[(&str, u64)],
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Permits<'_>, AcquireError> {
        let mut set = self.lock();
        let ask = set.resolve(wanted)?;
        let now = set.take(&ask);
        drop(set);
        let this = Cow::Borrowed(self);
        match now {
            Ok(()) => Ok(Permits::new(this, ask)),
            Err(error) if !error.is_full() => Err(error),
            Err(_) => {
                let (budgets, ask) = Turn::new(this, ask).block(deadline())?;
                Ok(Permits::new(budgets, ask))
            }
        }
    }
}

impl Limit for Budgets {
    type Ask = Ask;

    fn enter(&self, ask: &Ask, waker: &Waker) -> Entry {
        let is_full = |outcome: &Outcome| outcome.as_ref().is_err_and(AcquireError::is_full);
        let outcome = self.lock().take(ask);
        if !is_full(&outcome) {
            return Entry::Settled(outcome);
        }
        // Cloned without the lock, since a waker is user code. So the units may have become free
        // meanwhile.
        let waker = waker.clone();
        let mut set = self.lock();
        let outcome = set.take(ask);
        if is_full(&outcome) {
            set.joined(ask);
            return Entry::Queued(set.queue.push(ask.clone(), waker));
        }
        // Dropped after the lock is released, and with panics contained, so that the units are not
        // lost.
        drop(set);
        release(waker);
        Entry::Settled(outcome)
    }

    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> Option<Outcome> {
        let mut waker = waker.clone();
        let outcome = self.lock().queue.poll_ticket(ticket, &mut waker);
        release(waker);
        outcome
    }

    fn leave(&self, ticket: u64, ask: &Ask) {
        let mut calls = Calls::default();
        let mut set = self.lock();
        let left = set.queue.leave(ticket);
        if let Some(Left::Queued(ask, _)) = &left {
            set.left(ask);
            set.serve(&mut calls);
        }
        drop(set);
        calls.make();
        match left {
            Some(Left::Queued(_, waker)) => release(waker),
            Some(Left::Settled(Ok(()))) => self.give(ask),
            _ => {}
        }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.lock();
        let parts: Vec<_> = set
            .parts
            .iter()
            .map(|part| (Arc::clone(&part.name), part.free, part.capacity))
            .collect();
        let (waiting, closed) = (set.queue.len(), set.closed);
        drop(set);
        let mut debug = f.debug_struct("Budgets");
        for (name, free, capacity) in parts {
            debug.field(&name, &format_args!("{free} of {capacity}"));
        }
        debug
            .field("waiting", &waiting)
            .field("closed", &closed)
            .finish()
    }
}

/// The future of [`Budgets::acquire_async`].
///
/// Dropped while it waits, it leaves the queue; dropped after it was served, it gives the units
/// back.
#[must_use = "nothing is asked for before it is polled"]
pub struct AcquireAll<'a> {
    turn: Turn<'a, Budgets>,
}

impl AcquireAll<'_> {
    /// Converts to the same request, at the same place in the queue, with its own handle to the
    /// budgets.
    ///
    /// ```
    /// use filch::{Budgets, limit::AcquireAll};
    ///
    /// fn one_gpu(budgets: &Budgets) -> AcquireAll<'static> {
    ///     budgets.acquire_async(&[("gpu", 1)]).into_owned()
    /// }
    /// let _future = one_gpu(&Budgets::new().with("gpu", 1));
    /// ```
    pub fn into_owned(self) -> AcquireAll<'static> {
        AcquireAll {
            turn: self.turn.into_owned(),
        }
    }
}

impl<'a> Future for AcquireAll<'a> {
    type Output = Result<Permits<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.turn.poll(cx.waker());
        result.map_ok(|(budgets, ask)| Permits::new(budgets, ask))
    }
}

impl fmt::Debug for AcquireAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll").finish_non_exhaustive()
    }
}
