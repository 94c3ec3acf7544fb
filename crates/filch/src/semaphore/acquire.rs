//! Requests for one semaphore, and changes of its capacity.

use super::{
    error::AcquireError, future::Acquire, permit::Permit, request, state::Semaphore,
    units::TakeResult, wait::RequestStage,
};
use crate::base::Instant;
use std::{borrow::Cow, time::Duration};

impl Semaphore {
    /// Takes one unit, and blocks until it is this request's turn and a unit is free.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// let permit = semaphore.acquire()?;
    /// assert_eq!(semaphore.available(), 7);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If the capacity is zero, or the semaphore is or becomes closed.
    #[inline]
    pub fn acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Takes `n` units, and blocks until it is this request's turn and they are free.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// let permit = semaphore.acquire_many(5)?;
    /// assert_eq!((permit.units(), semaphore.available()), (5, 3));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If `n` exceeds the capacity, or the semaphore is or becomes closed.
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Result<Permit<'_>, AcquireError> {
        self.block(n, || None)
    }

    /// Takes one unit if it is free and no request is queued.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert!(semaphore.try_acquire().unwrap_err().is_full());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`try_acquire_many`](Self::try_acquire_many).
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` units if they are free and no request is queued.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(4);
    /// let permit = semaphore.try_acquire_many(3)?;
    /// assert!(semaphore.try_acquire_many(2).unwrap_err().is_full());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If they are not free, other requests are queued, `n` exceeds the capacity, or the semaphore
    /// is closed.
    #[inline]
    pub fn try_acquire_many(&self, n: u64) -> Result<Permit<'_>, AcquireError> {
        self.try_take(n)?;
        Ok(Permit::new(Cow::Borrowed(self), n))
    }

    /// As [`acquire`](Self::acquire), but blocks no longer than `timeout`.
    ///
    /// ```
    /// use filch::Semaphore;
    /// use std::time::Duration;
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire_timeout(Duration::from_secs(1))?;
    /// let late = semaphore.acquire_timeout(Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and when the time is up.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// As [`acquire_many`](Self::acquire_many), but blocks no longer than `timeout`.
    ///
    /// ```
    /// use filch::Semaphore;
    /// use std::time::Duration;
    ///
    /// let semaphore = Semaphore::new(4);
    /// let permit = semaphore.acquire_many_timeout(3, Duration::from_secs(1))?;
    /// let late = semaphore.acquire_many_timeout(2, Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many), and when the time is up.
    pub fn acquire_many_timeout(
        &self,
        n: u64,
        timeout: Duration,
    ) -> Result<Permit<'_>, AcquireError> {
        // A deadline that `Instant` cannot represent is no deadline.
        self.block(n, || Instant::now().checked_add(timeout))
    }

    /// Returns a future of one unit. It enters the queue at its first poll, and can be dropped at
    /// any time.
    ///
    /// It needs no runtime. A task that is to own its permit takes
    /// [`into_owned`](Acquire::into_owned).
    ///
    /// ```
    /// use filch::Semaphore;
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let permit = semaphore.acquire()?;
    /// let mut second = pin!(semaphore.acquire_async());
    /// assert!(second.as_mut().poll(&mut cx).is_pending());
    /// drop(permit);
    /// assert!(second.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn acquire_async(&self) -> Acquire<'_> {
        self.acquire_many_async(1)
    }

    /// Returns a future of `n` units, as [`acquire_async`](Self::acquire_async).
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(8);
    /// let permit = filch::block_on(semaphore.acquire_many_async(5))?;
    /// assert_eq!(permit.units(), 5);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn acquire_many_async(&self, n: u64) -> Acquire<'_> {
        Acquire::new(self, n)
    }

    /// Increases the capacity. [`Permit::forget`] decreases it.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(4);
    /// semaphore.add(4);
    /// assert_eq!((semaphore.available(), semaphore.capacity()), (8, 8));
    /// semaphore.acquire_many(6)?.forget();
    /// assert_eq!((semaphore.available(), semaphore.capacity()), (2, 2));
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn add(&self, units: u64) {
        let queue = self.lock();
        let units = units.min(Self::MAX_UNITS - self.capacity());
        self.set_capacity(self.capacity() + units);
        drop(queue);
        self.give(units);
    }

    /// Refuses all later requests and those in the queue. Permits that were given out stay valid.
    /// A run of a graph whose tasks need the semaphore fails.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let semaphore = Semaphore::new(4);
    /// let permit = semaphore.acquire()?;
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// assert!(semaphore.acquire().unwrap_err().is_closed());
    /// drop(permit);
    /// assert_eq!(semaphore.available(), 4);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn close(&self) {
        let queue = self.lock();
        self.units().close();
        request::refuse_impossible(queue);
    }

    #[inline]
    fn block(
        &self,
        n: u64,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Permit<'_>, AcquireError> {
        match self.units().take(n) {
            TakeResult::Taken => {}
            _ => RequestStage::begin(self, n)?.block(deadline)?,
        }
        Ok(Permit::new(Cow::Borrowed(self), n))
    }
}
