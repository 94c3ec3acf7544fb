//! Periodic ticks.

use super::Sleep;
use crate::base::{
    Instant, budget,
    canary::{Canary, broken},
};
use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Duration,
};

/// How late a tick may be taken without being missed. Threads and timers wake a little late, and a
/// schedule that moved each time would drift. tokio has the same number.
const TOLERANCE: Duration = Duration::from_millis(5);

/// What an [`Interval`] does when a tick was not taken in time: when it was taken more than 5 ms
/// late. After a smaller delay the next tick is on schedule in every case.
///
/// With a period of 10, the first tick at 0, and a consumer that takes the second one only at 35:
///
/// | | ticks taken at |
/// |---|---|
/// | `Burst` | 0, 35 (that of 10), 35 (of 20), 35 (of 30), 40, 50, … |
/// | `Delay` | 0, 35 (that of 10), 45, 55, … |
/// | `Skip` | 0, 35 (that of 10), 40, 50, … |
///
/// ```
/// use filch::time::{MissedTicks, PausedClock};
///
/// let clock = PausedClock::new();
/// let hourly = clock.interval(std::time::Duration::from_secs(3600));
/// let hourly = hourly.missed_ticks(MissedTicks::Delay);
/// # drop(hourly);
/// assert_eq!(MissedTicks::default(), MissedTicks::Burst);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTicks {
    /// Missed ticks are delivered at once, one after the other, until the interval has caught up:
    /// the number of ticks is right.
    #[default]
    Burst,
    /// The next tick is a period after this one was taken. It does not catch up, so delays add up.
    Delay,
    /// Missed ticks are skipped, and the next one is on schedule: at a multiple of the period from
    /// the start.
    Skip,
}

/// Ticks once a period; from [`interval`](crate::time::interval),
/// [`interval_at`](crate::time::interval_at).
///
/// ```
/// use filch::time;
/// use std::time::Duration;
///
/// let (first, third) = filch::block_on(async {
///     let mut interval = time::interval(Duration::from_millis(1));
///     let first = interval.tick().await;
///     interval.tick().await;
///     (first, interval.tick().await)
/// });
/// assert_eq!(third - first, Duration::from_millis(2)); // the scheduled times
/// ```
pub struct Interval {
    /// Waits for the next tick.
    sleep: Sleep,
    period: Duration,
    missed: MissedTicks,
}

impl Interval {
    #[track_caller]
    pub(super) fn new(first: Sleep, period: Duration) -> Self {
        assert!(
            !period.is_zero(),
            "an interval without a period would tick for ever at once; use a period above zero"
        );
        Self {
            sleep: first,
            period,
            missed: MissedTicks::default(),
        }
    }

    /// Sets what it does when a tick is not taken in time; [`MissedTicks::Burst`] by default.
    ///
    /// ```
    /// use filch::time::{self, MissedTicks};
    /// use std::time::Duration;
    ///
    /// let ticks = time::interval(Duration::from_secs(1)).missed_ticks(MissedTicks::Skip);
    /// assert_eq!(ticks.period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Returns the time from one tick to the next.
    ///
    /// ```
    /// use filch::time;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(time::interval(second).period(), second);
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Waits for the next tick, and returns its scheduled time. It is cancel safe: if the future is
    /// dropped before, the tick stays for the next call.
    ///
    /// ```
    /// use filch::time::{MissedTicks, PausedClock};
    /// use std::{pin::pin, task::{Context, Poll, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let ms = Duration::from_millis;
    /// let start = clock.now();
    /// let mut interval = clock.interval(ms(10)).missed_ticks(MissedTicks::Skip);
    /// let mut tick = || {
    ///     let mut cx = Context::from_waker(Waker::noop());
    ///     pin!(interval.tick()).poll(&mut cx).map(|at| at - start)
    /// };
    /// assert_eq!(tick(), Poll::Ready(ms(0))); // the first one at once
    /// assert_eq!(tick(), Poll::Pending);
    /// clock.advance(ms(35));
    /// assert_eq!(tick(), Poll::Ready(ms(10)));
    /// assert_eq!(tick(), Poll::Pending); // the ticks of 20 and 30 were missed
    /// clock.advance(ms(5));
    /// assert_eq!(tick(), Poll::Ready(ms(40)));
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// [`tick`](Self::tick) for manual implementations of futures.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{task::{Context, Poll, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut interval = clock.interval(Duration::from_secs(1));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert_eq!(interval.poll_tick(&mut cx), Poll::Ready(clock.now())); // the first one at once
    /// assert_eq!(interval.poll_tick(&mut cx), Poll::Pending);
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(budget::poll_leaf(cx, |cx| self.sleep.poll_elapsed(cx)));
        let due = self
            .sleep
            .deadline()
            .expect("an elapsed sleep has a deadline");
        let next = self.next(due);
        self.sleep.set_deadline(next);
        Poll::Ready(due)
    }

    /// Sets the next tick to a period from now.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{task::{Context, Poll, Waker}, time::Duration};
    ///
    /// let (clock, second) = (PausedClock::new(), Duration::from_secs(1));
    /// let mut interval = clock.interval(second);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// interval.reset();
    /// assert_eq!(interval.poll_tick(&mut cx), Poll::Pending);
    /// clock.advance(second);
    /// assert_eq!(interval.poll_tick(&mut cx), Poll::Ready(clock.now()));
    /// interval.reset_at(clock.now());
    /// assert!(interval.poll_tick(&mut cx).is_ready());
    /// ```
    pub fn reset(&mut self) {
        self.sleep.reset_after(self.period);
    }

    /// Sets the next tick to `at`; later ones follow it by the period.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{task::{Context, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut interval = clock.interval(Duration::from_secs(60));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// interval.reset_at(clock.now() + Duration::from_secs(1));
    /// assert!(interval.poll_tick(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(interval.poll_tick(&mut cx).is_ready());
    /// ```
    pub fn reset_at(&mut self, at: Instant) {
        self.sleep.reset(at);
    }

    /// Returns the time of the tick after `due`, which is taken now; `None` if `Instant` cannot
    /// represent it.
    fn next(&self, due: Instant) -> Option<Instant> {
        let now = self.sleep.clock().now();
        if now.saturating_duration_since(due) <= TOLERANCE {
            return due.checked_add(self.period);
        }
        match self.missed {
            MissedTicks::Burst => due.checked_add(self.period),
            MissedTicks::Skip if broken(Canary::TickSkip) => now.checked_add(self.period),
            MissedTicks::Delay => now.checked_add(self.period),
            MissedTicks::Skip => {
                // The first multiple of the period that is after now.
                let late = now.saturating_duration_since(due).as_nanos();
                let into = late % self.period.as_nanos();
                let into = Duration::from_nanos_u128(into);
                (now.max(due)).checked_add(self.period - into)
            }
        }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.sleep.deadline())
            .field("period", &self.period)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
