//! A time that is waited for.

use super::Clock;
use crate::{
    base::{
        canary::{Canary, broken},
        unwind,
    },
    threads::timer::{Alarm, Ticket},
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Is ready when its time has come; from [`sleep`](crate::time::sleep), [`sleep_until`](crate::time::sleep_until).
///
/// It costs nothing before it is polled the first time, and may be polled again after it was ready. Dropped early it
/// leaves nothing behind.
///
/// ```
/// use filch::time;
/// use std::time::Duration;
///
/// filch::block_on(async {
///     let mut sleep = time::sleep(Duration::from_millis(1));
///     (&mut sleep).await;
///     assert!(sleep.is_elapsed());
///     sleep.reset_after(Duration::from_millis(1)); // and once more
///     sleep.await;
/// });
/// ```
///
/// # Panics
/// When it is polled, has to wait for the real clock, and the [thread of the timer](crate::TimerError) cannot be
/// started.
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    clock: Clock,
    /// `None` for a time that no clock reaches.
    at: Option<Instant>,
    /// The entry at the clock, if there is one.
    ticket: Option<Ticket>,
}

impl Sleep {
    pub(super) fn new(clock: Clock, at: Option<Instant>) -> Self {
        Self {
            clock,
            at,
            ticket: None,
        }
    }

    /// When it is ready; `None` for a time so far ahead that no clock reaches it.
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
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.at.is_some_and(|at| at <= self.clock.now())
    }

    /// Waits for another time, by the same clock. Whoever waits for it is woken at that time and no other; it need not
    /// be polled for that.
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
        self.move_to(Some(at));
    }

    /// [`reset`](Self::reset) to so much time from now.
    pub fn reset_after(&mut self, time: Duration) {
        self.move_to(self.clock.after(time));
    }

    pub(super) fn move_to(&mut self, at: Option<Instant>) {
        self.at = at;
        let Some(Alarm::Wake(waker)) = self.take_out() else {
            return; // nobody has waited, or they have been woken already and will look
        };
        let Some(at) = at else {
            return unwind::discard(waker);
        };
        match self.clock.wake_at(at, waker) {
            Ok(ticket) => self.ticket = Some(ticket),
            Err(waker) => waker.wake(),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// [`Future::poll`] without the pin, which it does not need.
    pub(super) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending; // and nobody will ever wake it
        };
        if at <= self.clock.now() {
            unwind::discard(self.take_out());
            return Poll::Ready(());
        }
        let waits = match self.ticket {
            Some(ticket) => self.clock.renew(ticket, cx.waker()),
            None => match self.clock.wake_at(at, cx.waker().clone()) {
                Ok(ticket) => {
                    self.ticket = Some(ticket);
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
        // An entry goes when its time has come.
        self.ticket = None;
        Poll::Ready(())
    }

    fn take_out(&mut self) -> Option<Alarm> {
        self.clock.remove(self.ticket.take()?)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().poll_elapsed(cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if broken(Canary::SleepLeaves) {
            return;
        }
        // What a waker does when it is dropped is the user's.
        unwind::discard(self.take_out());
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
