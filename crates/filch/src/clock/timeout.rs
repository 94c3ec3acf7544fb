//! A future with a time limit.
#![expect(
    unsafe_code,
    reason = "the pin of a timeout is that of the future in it"
)]

use super::Sleep;
use crate::base::{Instant, budget};
use std::{
    error::Error,
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// A future with a time limit; from [`timeout`](crate::time::timeout),
/// [`timeout_at`](crate::time::timeout_at).
///
/// A future that is ready when it is polled is never late, whatever the clock shows: its output is
/// not discarded. A late future is dropped with the timeout; [`into_inner`](Self::into_inner) takes
/// it back.
///
/// ```
/// use filch::time;
/// use std::{future::ready, time::{Duration, Instant}};
///
/// let mut timeout = time::timeout(Duration::from_secs(1), ready(7));
/// assert!(timeout.deadline() > Some(Instant::now()));
/// *timeout.get_mut() = ready(8);
/// assert_eq!(timeout.get_ref().clone().into_inner(), 8);
/// assert_eq!(filch::block_on(timeout), Ok(8));
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Timeout<F> {
    /// Pinned with the timeout: nothing here moves it, and there is no `Drop` that could.
    future: F,
    sleep: Sleep,
}

impl<F> Timeout<F> {
    pub(super) fn new(sleep: Sleep, future: F) -> Self {
        Self { future, sleep }
    }

    /// Returns a reference to the future.
    ///
    /// ```
    /// use std::{future::ready, time::Duration};
    ///
    /// let timeout = filch::time::timeout(Duration::from_secs(1), ready(7));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the future; only before the timeout is pinned.
    ///
    /// ```
    /// use std::{future::ready, time::Duration};
    ///
    /// let mut timeout = filch::time::timeout(Duration::from_secs(1), ready(7));
    /// *timeout.get_mut() = ready(8);
    /// assert_eq!(filch::block_on(timeout), Ok(8));
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future without the timeout.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::Pin, task::{Context, Poll, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let slow = clock.sleep(Duration::from_secs(2));
    /// let mut timeout = clock.timeout(Duration::from_secs(1), slow);
    /// assert!(Pin::new(&mut timeout).poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(matches!(Pin::new(&mut timeout).poll(&mut cx), Poll::Ready(Err(_))));
    /// let slow = timeout.into_inner(); // it has not been dropped, and may continue
    /// assert!(!slow.is_elapsed());
    /// ```
    #[must_use]
    pub fn into_inner(self) -> F {
        self.future
    }

    /// Returns the time of the limit; `None` for a time that `Instant` cannot represent.
    ///
    /// ```
    /// use std::{future::ready, time::{Duration, Instant}};
    ///
    /// let at = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(filch::time::timeout_at(at, ready(7)).deadline(), Some(at));
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.sleep.deadline()
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of it below; `future` stays where it is.
        let Self { future, sleep } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the timeout was pinned, and `future` with it: see the field.
        let future = unsafe { Pin::new_unchecked(future) };
        let had_budget = budget::is_left();
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // A future that has used up the budget must not keep the limit from being seen.
        let elapsed = match had_budget && !budget::is_left() {
            true => sleep.poll_elapsed(cx),
            false => budget::poll_leaf(cx, |cx| sleep.poll_elapsed(cx)),
        };
        elapsed.map(|()| Err(Elapsed(())))
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout")
            .field("sleep", &self.sleep)
            .finish_non_exhaustive()
    }
}

/// The limit of a [`Timeout`] passed before its future was ready.
///
/// ```
/// use filch::time::PausedClock;
/// use std::{future::pending, io, pin::pin, task::{Context, Poll, Waker}, time::Duration};
///
/// let clock = PausedClock::new();
/// let mut never = pin!(clock.timeout(Duration::ZERO, pending::<()>()));
/// let Poll::Ready(Err(elapsed)) = never.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
///     panic!("a timeout of zero has elapsed at the first poll");
/// };
/// assert!(elapsed.to_string().contains("not ready in time"));
/// assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the future was not ready in time; give it more time, or start it earlier")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}
