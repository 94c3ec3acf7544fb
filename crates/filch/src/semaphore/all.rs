//! Units of several semaphores, acquired together.

use super::{
    error::AcquireError,
    future::AcquireAll,
    permit::Permit,
    request::{sum_up, try_take},
    state::Semaphore,
    wait::RequestStage,
};
use crate::base::Instant;
use std::{borrow::Cow, time::Duration};

/// Requests for several semaphores.
///
/// Such a request gets everything it wants in one step, or nothing: while it waits it holds no
/// units. So two requests for the same semaphores in opposite orders cannot deadlock. It waits only
/// behind requests that want one of the same semaphores. The permits come in the order of the
/// request. If a semaphore is named twice, the units are added, and it gets two permits.
impl Semaphore {
    /// Takes units of several semaphores. Blocks until the request is served.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let (objects, bytes) = (Semaphore::new(1024), Semaphore::new(64 << 20));
    /// let permits = Semaphore::acquire_all([(&objects, 1), (&bytes, 4096)])?;
    /// assert_eq!((permits[0].units(), permits[1].units()), (1, 4096));
    /// assert_eq!(objects.available(), 1023);
    /// drop(permits);
    /// assert_eq!(objects.available(), 1024);
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// If more units are wanted than a semaphore has in total, or if one is or becomes closed.
    pub fn acquire_all<'a>(
        wanted: impl IntoIterator<Item = (&'a Self, u64)>,
    ) -> Result<Vec<Permit<'a>>, AcquireError> {
        Self::block_all(wanted, || None)
    }

    /// Takes units of several semaphores if they are free and no queued request wants any of the
    /// same semaphores.
    ///
    /// ```
    /// use filch::Semaphore;
    ///
    /// let (gpus, bytes) = (Semaphore::new(1), Semaphore::new(100));
    /// let first = Semaphore::try_acquire_all([(&gpus, 1)])?;
    /// let second = Semaphore::try_acquire_all([(&bytes, 10), (&gpus, 1)]);
    /// assert!(second.unwrap_err().is_full());
    /// assert_eq!(bytes.available(), 100); // all or none
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire_all`](Self::acquire_all), and if the request would have to wait.
    pub fn try_acquire_all<'a>(
        wanted: impl IntoIterator<Item = (&'a Self, u64)>,
    ) -> Result<Vec<Permit<'a>>, AcquireError> {
        let wanted: Vec<_> = wanted.into_iter().collect();
        try_take(&sum_up(wanted.iter().copied())?)?;
        Ok(permits(wanted))
    }

    /// As [`acquire_all`](Self::acquire_all), but blocks no longer than `timeout`.
    ///
    /// ```
    /// use filch::Semaphore;
    /// use std::time::Duration;
    ///
    /// let (a, b) = (Semaphore::new(1), Semaphore::new(1));
    /// let permit = a.acquire()?;
    /// let late = Semaphore::acquire_all_timeout([(&a, 1), (&b, 1)], Duration::from_millis(1));
    /// assert!(late.unwrap_err().is_timeout());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// As [`acquire_all`](Self::acquire_all), and when the time is up.
    pub fn acquire_all_timeout<'a>(
        wanted: impl IntoIterator<Item = (&'a Self, u64)>,
        timeout: Duration,
    ) -> Result<Vec<Permit<'a>>, AcquireError> {
        // A deadline that `Instant` cannot represent is no deadline.
        Self::block_all(wanted, || Instant::now().checked_add(timeout))
    }

    /// Returns a future of units of several semaphores. It enters their queues at its first poll,
    /// and can be dropped at any time.
    ///
    /// ```
    /// use filch::Semaphore;
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    ///
    /// let (gpus, bytes) = (Semaphore::new(1), Semaphore::new(100));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let permit = gpus.acquire()?;
    /// let mut second = pin!(Semaphore::acquire_all_async([(&gpus, 1), (&bytes, 10)]));
    /// assert!(second.as_mut().poll(&mut cx).is_pending());
    /// assert_eq!(bytes.available(), 100); // a waiter holds nothing
    /// drop(permit);
    /// assert!(second.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), filch::AcquireError>(())
    /// ```
    pub fn acquire_all_async<'a>(
        wanted: impl IntoIterator<Item = (&'a Self, u64)>,
    ) -> AcquireAll<'a> {
        AcquireAll::new(wanted)
    }

    fn block_all<'a>(
        wanted: impl IntoIterator<Item = (&'a Self, u64)>,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Vec<Permit<'a>>, AcquireError> {
        let wanted: Vec<_> = wanted.into_iter().collect();
        RequestStage::begin_all(wanted.iter().copied())?.block(deadline)?;
        Ok(permits(wanted))
    }
}

fn permits(wanted: Vec<(&Semaphore, u64)>) -> Vec<Permit<'_>> {
    let permit = |(semaphore, n)| Permit::new(Cow::Borrowed(semaphore), n);
    wanted.into_iter().map(permit).collect()
}
