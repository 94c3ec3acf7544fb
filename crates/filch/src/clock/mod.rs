//! Clocks, and the futures that wait for them: the implementation of [`time`](crate::time).
//!
//! A future that waits is an entry in a queue of its clock: the time and the waker, nothing else.
//! Polled with another waker it replaces the waker there; dropped, it removes its entry. It is
//! ready when the clock has reached its time, regardless of what woke it. So it shares only the key
//! of its entry with the queue, and no wake can be lost: an entry leaves the queue only after its
//! time, and a future that finds its entry gone is ready.

mod interval;
mod paused;
mod paused_state;
mod sleep;
mod timeout;

pub use interval::{Interval, MissedTicks};
pub use paused::PausedClock;
pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};

use crate::{
    base::Instant,
    threads::timer::{Alarm, Timer, TimerKey},
};
use paused_state::Paused;
use std::{fmt, future::IntoFuture, sync::Arc, task::Waker, time::Duration};

/// The source of time: the clock of the system, or a [paused](PausedClock) one.
///
/// The free functions of [`time`](crate::time) use the clock of the
/// [pool](crate::PoolBuilder::clock) whose worker calls them. The methods here do the same with a
/// given clock, on any thread. Clones are the same clock.
///
/// ```
/// use filch::time::{Clock, PausedClock};
/// use std::time::Duration;
///
/// /// Works with any clock, so a test need not wait.
/// fn is_stale(clock: &Clock, since: std::time::Instant) -> bool {
///     clock.now() - since > Duration::from_secs(3600)
/// }
/// let clock = PausedClock::new();
/// let start = clock.now();
/// assert!(!is_stale(&clock, start));
/// clock.advance(Duration::from_secs(4000));
/// assert!(is_stale(&clock, start));
/// assert!(!is_stale(&Clock::real(), std::time::Instant::now()));
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    /// `None` for the clock of the system.
    paused: Option<Arc<Paused>>,
}

impl Clock {
    /// Returns the clock of the system, [`Instant::now`].
    ///
    /// ```
    /// let clock = filch::time::Clock::real();
    /// assert!(!clock.is_paused() && clock.now() <= std::time::Instant::now());
    /// ```
    #[must_use]
    pub const fn real() -> Self {
        Self { paused: None }
    }

    /// Returns the current time.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// let start = clock.now();
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.now() - start, Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.paused {
            None => Instant::now(),
            Some(paused) => paused.now(),
        }
    }

    /// Whether it is a [`PausedClock`].
    ///
    /// ```
    /// use filch::time::{Clock, PausedClock};
    ///
    /// assert!(PausedClock::new().is_paused() && !Clock::real().is_paused());
    /// ```
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// As [`time::sleep`](crate::time::sleep), with this clock.
    ///
    /// ```
    /// use filch::{Pool, time::PausedClock};
    /// use std::{future::pending, time::Duration};
    ///
    /// let clock = PausedClock::auto();
    /// let pool = Pool::builder().workers(0).clock(&clock).build()?;
    /// pool.block_on(async {
    ///     let second = Duration::from_secs(1);
    ///     clock.sleep(second).await;
    ///     clock.sleep_until(clock.now() + second).await;
    ///     assert!(clock.timeout(second, pending::<()>()).await.is_err());
    ///     assert!(clock.timeout_at(clock.now() + second, pending::<()>()).await.is_err());
    ///     let mut interval = clock.interval_at(clock.now() + second, second);
    ///     interval.tick().await;
    ///     assert_eq!(clock.elapsed(), 5 * second);
    /// });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(self.clone(), self.after(time))
    }

    /// As [`time::sleep_until`](crate::time::sleep_until), with this clock.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::pin, task::{Context, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut sleep = pin!(clock.sleep_until(clock.now() + Duration::from_secs(1)));
    /// assert!(sleep.as_mut().poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(sleep.poll(&mut cx).is_ready());
    /// ```
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::new(self.clone(), Some(at))
    }

    /// As [`time::timeout`](crate::time::timeout), with this clock.
    ///
    /// ```
    /// use filch::time::Clock;
    /// use std::{future::{pending, ready}, time::Duration};
    ///
    /// let (clock, limit) = (Clock::real(), Duration::from_millis(1));
    /// filch::block_on(async {
    ///     assert_eq!(clock.timeout(limit, ready(7)).await, Ok(7));
    ///     assert!(clock.timeout(limit, pending::<()>()).await.is_err());
    /// });
    /// ```
    pub fn timeout<F: IntoFuture>(&self, time: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(time), future.into_future())
    }

    /// As [`time::timeout_at`](crate::time::timeout_at), with this clock.
    ///
    /// ```
    /// use filch::time::Clock;
    /// use std::{future::pending, time::Duration};
    ///
    /// let clock = Clock::real();
    /// let soon = clock.now() + Duration::from_millis(1);
    /// assert!(filch::block_on(clock.timeout_at(soon, pending::<()>())).is_err());
    /// ```
    pub fn timeout_at<F: IntoFuture>(&self, at: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep_until(at), future.into_future())
    }

    /// As [`time::interval`](crate::time::interval), with this clock.
    ///
    /// ```
    /// use filch::time::Clock;
    /// use std::time::Duration;
    ///
    /// let mut interval = Clock::real().interval(Duration::from_millis(1));
    /// let (first, second) = filch::block_on(async { (interval.tick().await, interval.tick().await) });
    /// assert_eq!(second - first, Duration::from_millis(1));
    /// ```
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self.sleep_until(self.now()), period)
    }

    /// As [`time::interval_at`](crate::time::interval_at), with this clock.
    ///
    /// ```
    /// use filch::time::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::real();
    /// let start = clock.now() + Duration::from_millis(1);
    /// let mut interval = clock.interval_at(start, Duration::from_secs(1));
    /// assert_eq!(filch::block_on(interval.tick()), start);
    /// ```
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period)
    }

    /// Returns the time that is `time` from now; `None` if `Instant` cannot represent it.
    fn after(&self, time: Duration) -> Option<Instant> {
        self.now().checked_add(time)
    }

    /// Adds an entry that wakes `waker` at `at`. Returns the waker if that has passed and it will
    /// not be called.
    ///
    /// # Panics
    /// If the timer of the process has no thread and cannot start one.
    fn wake_at(&self, at: Instant, waker: Waker) -> Result<TimerKey, Waker> {
        match &self.paused {
            None => match Timer::global().wake_at(at, waker) {
                Ok(key) => Ok(key),
                Err(error) => panic!("{error}"),
            },
            Some(paused) => paused.wake_at(at, waker),
        }
    }

    /// Makes the entry wake `waker`. Returns false if its time has come.
    fn renew(&self, key: TimerKey, waker: &Waker) -> bool {
        match &self.paused {
            None => Timer::global().renew(key, waker),
            Some(paused) => paused.renew(key, waker),
        }
    }

    /// Removes an entry, unless its time has come.
    fn remove(&self, key: TimerKey) -> Option<Alarm> {
        match &self.paused {
            None => Timer::global().remove(key),
            Some(paused) => paused.remove(key),
        }
    }

    /// Whether the entry at `at`, which the caller has added, is known to be gone.
    fn is_gone(&self, at: Instant) -> bool {
        self.paused.is_none() && Timer::global().is_gone(at)
    }

    /// Advances an automatic clock to the next entry, if `idle`: if nothing can happen before a
    /// wake. Returns false if the clock is not automatic or not idle, or has no entry.
    pub(crate) fn skip(&self, idle: impl FnOnce() -> bool) -> bool {
        let paused = self.paused.as_ref();
        paused.is_some_and(|paused| paused.is_auto() && idle() && paused.advance_to_next())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.paused {
            None => f.write_str("Clock::Real"),
            Some(paused) => paused.fmt(f),
        }
    }
}
