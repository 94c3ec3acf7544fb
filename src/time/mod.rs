//! Waiting for a time, in futures: sleeps, timeouts, intervals.
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
//! They are plain futures. They may be made on one pool and awaited on another, on a foreign executor, or in a
//! `block_on` without any pool.
//!
//! # What they promise
//!
//! - **Never early**, and as soon after as the system wakes a thread.
//! - **In order**: of two that are due, the earlier is taken from the queue first, and of those of the same time the one that
//!   began to wait first. If two threads happen to look at once, each of them wakes the one that it took.
//! - **Dropped is gone**: an entry that nobody waits for any more leaves the queue at once, in O(log n).
//! - **Any duration**: one of zero is over when it is polled first, and one that no clock reaches never is.
//!
//! # Who wakes
//!
//! One thread, `filch-timer`, serves these and every other deadline of the process. It does not exist before
//! something has to wait, and sleeps until the next entry is due. Waiting costs a lock and a place in a heap, and no
//! allocation. A waker that panics costs nobody else anything; one that blocks holds the others up for a moment, until
//! another thread takes over.
//!
//! When all cores are busy, that thread has to get one of them first. So the workers of all pools look at the clock
//! too, between two tasks and at [checkpoints](crate::checkpoint), and wake futures of pools that are due. Other wakers
//! are left to the thread, since they may do anything.
//!
//! # Which clock
//!
//! The functions here ask the clock of the pool whose worker calls them, or in whose
//! [`block_on`](crate::Pool::block_on) they are called. It is that of the system unless the pool was
//! [built with another](crate::PoolBuilder::clock). Outside of pools it is that of the system. What was made with a clock stays
//! with it.
//!
//! It is the call that counts, not the poll: `pool.spawn_future(time::sleep(day))` on a thread of your own asks the clock of
//! the system. Call them inside, as in `pool.spawn_future(async { time::sleep(day).await })`, or on a certain [`Clock`].
//!
//! For tests there is a [`PausedClock`], which stands still until it is moved, so that nothing waits for real
//! and every run is the same.

pub use crate::clock::{Clock, Elapsed, Interval, MissedTicks, PausedClock, Sleep, Timeout};

use crate::pool::{Pool, context::WorkerContext};
use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

/// A future that is ready after this time.
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
/// The time counts from this call, not from the first poll. One that no clock reaches never comes. To let others go
/// first take a yield: a sleep of zero is ready at once.
pub fn sleep(time: Duration) -> Sleep {
    Clock::current().sleep(time)
}

/// A future that is ready at `at`, or at once if that has passed.
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

/// Gives `future` so much time, from now: its output, or [`Elapsed`].
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

/// Gives `future` time until `at`: its output, or [`Elapsed`].
///
/// ```
/// use filch::{block_on, time};
/// use std::time::Instant;
///
/// // What is ready is not late.
/// assert_eq!(block_on(time::timeout_at(Instant::now(), async { 42 })), Ok(42));
/// ```
pub fn timeout_at<F: IntoFuture>(at: Instant, future: F) -> Timeout<F::IntoFuture> {
    Clock::current().timeout_at(at, future)
}

/// Ticks once a period, for the first time at once.
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
/// When the period is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Clock::current().interval(period)
}

/// Ticks once a period, for the first time at `start`.
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
/// When the period is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Clock::current().interval_at(start, period)
}

impl Clock {
    /// The clock of the pool whose worker calls this, or in whose [`block_on`](crate::Pool::block_on) it is called; that
    /// of the system if there is none.
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
