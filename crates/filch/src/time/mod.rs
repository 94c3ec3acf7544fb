//! Timed waits in futures: sleeps, timeouts, intervals.
//!
//! ```
//! use filch::time;
//! use std::time::Duration;
//!
//! async fn fetch() -> u32 { 42 }
//!
//! async fn in_time() -> Result<u32, time::Elapsed> {
//!     time::sleep(Duration::from_millis(1)).await;
//!     time::timeout(Duration::from_secs(5), fetch()).await
//! }
//! assert_eq!(filch::block_on(in_time()), Ok(42));
//! ```
//!
//! They are plain futures. They may be created on one pool and awaited on another, on a foreign
//! executor, or in a `block_on` without any pool.
//!
//! # Guarantees
//!
//! - **Never early**, and as soon after as the system wakes a thread.
//! - **In order**: of two entries that are due, the earlier is removed from the queue first, and of
//!   those of the same time the one that began to wait first. If two threads serve the queue at the
//!   same time, each wakes the entry that it removed.
//! - **Prompt removal**: the entry of a dropped future leaves the queue at once, in constant time
//!   if it was due in more than a millisecond.
//! - **Any duration**: a zero duration is over at the first poll, and one beyond the range of
//!   `Instant` never ends.
//!
//! # Which thread wakes
//!
//! One thread, `filch-timer`, serves these and every other deadline of the process. It is started
//! by the first wait, and sleeps until the next entry is due. A wait costs a lock and a place in a
//! list, and no allocation. A waker that panics does not affect others; one that blocks delays the
//! others for a moment, until another thread takes over.
//!
//! When all cores are busy, that thread has to be scheduled on one of them first. So the workers of
//! all pools check the clock too, between two tasks and at [checkpoints](crate::checkpoint), and
//! wake futures of pools that are due. Other wakers are left to the thread, since they may run
//! arbitrary code.
//!
//! # Which clock
//!
//! The functions here use the clock of the pool whose worker calls them, or in whose
//! [`block_on`](crate::Pool::block_on) they are called. It is that of the system unless the pool
//! was [built with another](crate::PoolBuilder::clock). Outside pools it is that of the system. A
//! future keeps the clock with which it was created.
//!
//! The clock is chosen by the call, not by the poll: `pool.spawn_future(time::sleep(day))` on a
//! thread of your own uses the clock of the system. Call the functions inside, as in
//! `pool.spawn_future(async { time::sleep(day).await })`, or on a given [`Clock`].
//!
//! For tests there is a [`PausedClock`], which advances only by explicit calls, so that no test
//! waits in real time and every run is the same.

pub use crate::{
    base::Instant,
    clock::{Clock, Elapsed, Interval, MissedTicks, PausedClock, Sleep, Timeout},
};

use crate::pool::{Pool, context::WorkerContext};
use std::{future::IntoFuture, time::Duration};

/// Returns a future that is ready after `time`.
///
/// ```
/// use filch::{block_on, time};
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// block_on(time::sleep(Duration::from_millis(2)));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
///
/// The time counts from this call, not from the first poll. A time beyond the range of `Instant` is
/// never reached. A sleep of zero is ready at once; to let other tasks run, use a yield.
pub fn sleep(time: Duration) -> Sleep {
    Clock::current().sleep(time)
}

/// Returns a future that is ready at `at`, or at once if that has passed.
///
/// ```
/// use filch::{block_on, time};
/// use std::time::{Duration, Instant};
///
/// let at = Instant::now() + Duration::from_millis(2);
/// block_on(time::sleep_until(at));
/// assert!(Instant::now() >= at);
/// ```
pub fn sleep_until(at: Instant) -> Sleep {
    Clock::current().sleep_until(at)
}

/// Limits `future` to `time` from now: its output, or [`Elapsed`].
///
/// ```
/// use filch::{block_on, time};
/// use std::{future::pending, time::Duration};
///
/// let quick = time::timeout(Duration::from_secs(5), async { 42 });
/// assert_eq!(block_on(quick), Ok(42));
///
/// let never = time::timeout(Duration::from_millis(1), pending::<()>());
/// assert!(block_on(never).is_err());
/// ```
pub fn timeout<F: IntoFuture>(time: Duration, future: F) -> Timeout<F::IntoFuture> {
    Clock::current().timeout(time, future)
}

/// Limits `future` to the time until `at`: its output, or [`Elapsed`].
///
/// ```
/// use filch::{block_on, time};
/// use std::time::Instant;
///
/// // A future that is ready in its first poll is not late.
/// assert_eq!(block_on(time::timeout_at(Instant::now(), async { 42 })), Ok(42));
/// ```
pub fn timeout_at<F: IntoFuture>(at: Instant, future: F) -> Timeout<F::IntoFuture> {
    Clock::current().timeout_at(at, future)
}

/// Returns an interval that ticks once a period, for the first time at once.
///
/// ```no_run
/// use filch::time;
/// use std::time::Duration;
///
/// async fn report() {
///     let mut interval = time::interval(Duration::from_secs(1));
///     loop {
///         interval.tick().await;
///         println!("another second");
///     }
/// }
/// ```
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Clock::current().interval(period)
}

/// Returns an interval that ticks once a period, for the first time at `start`.
///
/// ```
/// use filch::time;
/// use std::{pin::pin, task::{Context, Poll, Waker}, time::{Duration, Instant}};
///
/// let (start, period) = (Instant::now(), Duration::from_secs(3600));
/// let mut interval = time::interval_at(start, period);
/// let mut cx = Context::from_waker(Waker::noop());
/// assert_eq!(interval.poll_tick(&mut cx), Poll::Ready(start));
/// assert_eq!(interval.poll_tick(&mut cx), Poll::Pending); // for an hour
/// ```
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Clock::current().interval_at(start, period)
}

impl Clock {
    /// Returns the clock of the pool whose worker calls this, or in whose
    /// [`block_on`](crate::Pool::block_on) it is called; that of the system if there is none.
    ///
    /// ```
    /// use filch::{Pool, time::{Clock, PausedClock}};
    ///
    /// assert!(!Clock::current().is_paused());
    /// let pool = Pool::builder().workers(0).clock(PausedClock::new()).build()?;
    /// pool.install(|| assert!(Clock::current().is_paused()));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn current() -> Self {
        WorkerContext::with(|context| match context {
            Some(context) => context.pool().clock().clone(),
            None => Pool::with_entered(|pool| match pool {
                Some(pool) => pool.inner().clock().clone(),
                None => Self::real(),
            }),
        })
    }
}
