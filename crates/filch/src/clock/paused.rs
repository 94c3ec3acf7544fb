//! A clock that advances only by explicit calls.

use super::{Clock, paused_state::Paused};
use std::{fmt, ops::Deref, sync::Arc, time::Duration};

/// A clock for tests: it advances only by explicit calls.
///
/// No test waits in real time, every run takes the same path, and times are exact. It has an effect
/// only where it is used: in its own methods (it is a [`Clock`]), and in the free functions of
/// [`time`](crate::time) on workers of a pool that was [built with it](crate::PoolBuilder::clock).
/// Clones are the same clock.
///
/// ```
/// use filch::{Pool, time::{self, PausedClock}};
/// use std::{sync::mpsc, time::Duration};
///
/// let clock = PausedClock::new();
/// let pool = Pool::builder().workers(0).clock(&clock).build()?;
/// let (send, receive) = mpsc::channel();
/// pool.spawn_future(async move {
///     time::sleep(Duration::from_secs(3600)).await;
///     send.send("an hour later").unwrap();
/// }).detach();
/// pool.run_until_stalled();
/// assert!(receive.try_recv().is_err());
/// clock.advance(Duration::from_secs(3600)); // takes no real time
/// pool.run_until_stalled();
/// assert_eq!(receive.try_recv(), Ok("an hour later"));
/// # Ok::<(), filch::BuildError>(())
/// ```
///
/// Its times are [`Instant`](std::time::Instant)s, as those of the real clock; it starts at the
/// time of its creation. [`elapsed`](Self::elapsed) is the same in every run.
///
/// Deadlines of submitted tasks and of [`CancelToken`](crate::CancelToken)s, and calls that block,
/// use the real clock.
#[doc(alias("pause", "advance"))]
#[derive(Clone)]
pub struct PausedClock {
    clock: Clock,
    paused: Arc<Paused>,
}

impl PausedClock {
    /// Creates a clock that advances only by explicit calls.
    ///
    /// ```
    /// let clock = filch::time::PausedClock::new();
    /// let before = clock.now();
    /// std::thread::sleep(std::time::Duration::from_millis(2));
    /// assert_eq!(clock.now(), before);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_auto_advance(false)
    }

    /// Creates a clock that also advances automatically, to the next time that a future waits for.
    /// It does so when a pool [without threads](crate::PoolBuilder::workers) that was built with it
    /// would have to wait, in a `block_on` or a `join`, or has nothing to do in
    /// [`tick`](crate::Pool::tick) or [`run_until_stalled`](crate::Pool::run_until_stalled). So a
    /// program of sleeps runs to its end without waiting.
    ///
    /// It does not wait for events from outside the pool, from other threads or from the system,
    /// before it advances. In a `block_on` outside the pool it does not advance: whether the pool
    /// is idle is unknown there.
    ///
    /// ```
    /// use filch::{Pool, time::{self, PausedClock}};
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::auto();
    /// let pool = Pool::builder().workers(0).clock(&clock).build()?;
    /// let hours = pool.block_on(async {
    ///     let mut hours = 0;
    ///     while clock.elapsed() < Duration::from_secs(86_400) {
    ///         time::sleep(Duration::from_secs(3600)).await;
    ///         hours += 1;
    ///     }
    ///     hours
    /// });
    /// assert_eq!(hours, 24);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn auto() -> Self {
        Self::with_auto_advance(true)
    }

    fn with_auto_advance(auto: bool) -> Self {
        let paused = Arc::new(Paused::new(auto));
        Self {
            clock: Clock {
                paused: Some(paused.clone()),
            },
            paused,
        }
    }

    /// Returns how far it has advanced.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// clock.advance(Duration::from_millis(30));
    /// clock.advance(Duration::from_millis(12));
    /// assert_eq!(clock.elapsed(), Duration::from_millis(42));
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now() - self.paused.start()
    }

    /// Returns the number of sleeps, timeouts and intervals that wait for it.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::pin, task::{Context, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut sleep = Box::pin(clock.sleep(Duration::from_secs(1)));
    /// assert_eq!(clock.pending(), 0); // it does nothing before it is polled
    /// assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// assert_eq!(clock.pending(), 1);
    /// drop(sleep);
    /// assert_eq!(clock.pending(), 0);
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.paused.pending()
    }

    /// Returns the time to the next entry.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::pin, task::{Context, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut sleep = pin!(clock.sleep(Duration::from_secs(3)));
    /// assert_eq!(clock.next(), None);
    /// assert!(sleep.as_mut().poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.next(), Some(Duration::from_secs(2)));
    /// ```
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.paused.next()
    }

    /// Advances the clock, and wakes the futures whose time has come, in the order of their times,
    /// and for equal times in the order in which they began to wait. While a future is woken, the
    /// clock shows its time.
    ///
    /// No task runs in between, unless a waker runs it. A task that sleeps three times for a second
    /// does not finish within an `advance` by three seconds: it is woken after the first, and runs
    /// when the clock shows three. [`run_for`](Self::run_for) runs every task at its time.
    ///
    /// ```
    /// use filch::time::PausedClock;
    /// use std::{pin::pin, task::{Context, Waker}, time::Duration};
    ///
    /// let clock = PausedClock::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut sleep = pin!(clock.sleep(Duration::from_secs(3600)));
    /// assert!(sleep.as_mut().poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(3600)); // at once
    /// assert!(sleep.poll(&mut cx).is_ready());
    /// ```
    ///
    /// # Panics
    /// If `Instant` cannot represent the time.
    #[track_caller]
    pub fn advance(&self, time: Duration) {
        self.paused.advance(time, || {});
    }

    /// Advances the clock to the next time that a future waits for, and wakes all that wait for it.
    /// Returns false if there is none; then the clock does not advance.
    ///
    /// ```
    /// use filch::time::PausedClock;
    ///
    /// assert!(!PausedClock::new().advance_to_next());
    /// ```
    pub fn advance_to_next(&self) -> bool {
        self.paused.advance_to_next()
    }

    /// Advances the clock by `time`, step by step through the times that futures wait for, and
    /// calls `run` before the first step and after each, to run the woken tasks. So every task runs
    /// at its time.
    ///
    /// ```
    /// use filch::{Pool, time::{self, PausedClock}};
    /// use std::time::Duration;
    ///
    /// let clock = PausedClock::new();
    /// let pool = Pool::builder().workers(0).clock(&clock).build()?;
    /// let clock_of_task = clock.clone();
    /// let task = pool.spawn_future(async move {
    ///     for _ in 0..3 {
    ///         time::sleep(Duration::from_secs(1)).await;
    ///     }
    ///     clock_of_task.elapsed()
    /// });
    /// clock.run_for(Duration::from_secs(60), || {
    ///     pool.run_until_stalled();
    /// });
    /// assert_eq!(clock.elapsed(), Duration::from_secs(60));
    /// assert_eq!(task.join().unwrap(), Duration::from_secs(3));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If `Instant` cannot represent the time.
    #[track_caller]
    pub fn run_for(&self, time: Duration, mut run: impl FnMut()) {
        run();
        self.paused.advance(time, run);
    }
}

impl Default for PausedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for PausedClock {
    type Target = Clock;

    fn deref(&self) -> &Clock {
        &self.clock
    }
}

impl From<PausedClock> for Clock {
    fn from(paused: PausedClock) -> Self {
        paused.clock
    }
}

impl From<&PausedClock> for Clock {
    fn from(paused: &PausedClock) -> Self {
        paused.clock.clone()
    }
}

impl fmt::Debug for PausedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paused.fmt(f)
    }
}
