//! A future that waits for a time.

use super::Clock;
use crate::{
    base::{
        Instant, budget,
        canary::{Canary, broken},
        unwind,
    },
    threads::timer::{Alarm, TimerKey},
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A future that is ready at its time; from [`sleep`](crate::time::sleep),
/// [`sleep_until`](crate::time::sleep_until).
///
/// It costs nothing before its first poll, and may be polled again after it was ready. Dropped
/// early it removes its entry.
///
/// ```
/// use filch::time;
/// use std::time::Duration;
///
/// filch::block_on(async {
///     let mut sleep = time::sleep(Duration::from_millis(1));
///     (&mut sleep).await;
///     assert!(sleep.is_elapsed());
///     sleep.reset_after(Duration::from_millis(1)); // once more
///     sleep.await;
/// });
/// ```
///
/// # Panics
/// If it is polled, has to wait for the real clock, and the [thread of the
/// timer](crate::TimerError) cannot be started.
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    clock: Clock,
    /// `None` for a time that `Instant` cannot represent.
    at: Option<Instant>,
    /// The entry in the queue of the clock, if there is one.
    key: Option<TimerKey>,
}

impl Sleep {
    pub(super) fn new(clock: Clock, at: Option<Instant>) -> Self {
        Self {
            clock,
            at,
            key: None,
        }
    }

    /// Returns the time at which it is ready; `None` for a time that `Instant` cannot represent.
    ///
    /// ```
    /// use filch::time;
    /// use std::time::{Duration, Instant};
    ///
    /// let at = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(time::sleep_until(at).deadline(), Some(at));
    /// assert_eq!(time::sleep(Duration::MAX).deadline(), None);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Whether its time has come.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// let sleep = clock.sleep(Duration::from_secs(1));
    /// assert!(!sleep.is_elapsed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(sleep.is_elapsed());
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.at.is_some_and(|at| at <= self.clock.now())
    }

    /// Changes the time, on the same clock. A task that waits for it is woken at the new time only,
    /// without another poll.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::Pin, task::{Context, Poll, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut sleep = clock.sleep(Duration::from_secs(1));
    /// assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
    /// sleep.reset(clock.now() + Duration::from_secs(2));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(Pin::new(&mut sleep).poll(&mut cx).is_ready());
    /// ```
    pub fn reset(&mut self, at: Instant) {
        self.set_deadline(Some(at));
    }

    /// [`reset`](Self::reset) to `time` from now.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// let mut sleep = clock.sleep(Duration::from_secs(1));
    /// clock.advance(Duration::from_secs(1));
    /// sleep.reset_after(Duration::from_secs(5));
    /// assert_eq!(sleep.deadline(), Some(clock.now() + Duration::from_secs(5)));
    /// ```
    pub fn reset_after(&mut self, time: Duration) {
        self.set_deadline(self.clock.after(time));
    }

    pub(super) fn set_deadline(&mut self, at: Option<Instant>) {
        self.at = at;
        let Some(Alarm::Wake(waker)) = self.remove_entry() else {
            return; // no waker is registered, or it has been woken and will be polled
        };
        let Some(at) = at else {
            return unwind::discard(waker);
        };
        match self.clock.wake_at(at, waker) {
            Ok(key) => self.key = Some(key),
            Err(waker) => waker.wake(),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// [`Future::poll`] without the pin, which it does not need, and without the budget.
    pub(super) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending; // never woken
        };
        if at <= self.clock.now() {
            // Most likely the entry has woken the task.
            if self.key.is_some() && self.clock.is_gone(at) {
                self.key = None;
            }
            unwind::discard(self.remove_entry());
            return Poll::Ready(());
        }
        let waits = match self.key {
            Some(key) => self.clock.renew(key, cx.waker()),
            None => match self.clock.wake_at(at, cx.waker().clone()) {
                Ok(key) => {
                    self.key = Some(key);
                    true
                }
                Err(waker) => {
                    unwind::discard(waker);
                    false
                }
            },
        };
        if waits {
            return Poll::Pending;
        }
        // An entry is removed when its time has come.
        self.key = None;
        Poll::Ready(())
    }

    fn remove_entry(&mut self) -> Option<Alarm> {
        self.clock.remove(self.key.take()?)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll_leaf(cx, |cx| self.get_mut().poll_elapsed(cx))
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if broken(Canary::SleepLeaves) {
            return;
        }
        // Dropping a waker runs user code.
        unwind::discard(self.remove_entry());
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.at)
            .field("elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
