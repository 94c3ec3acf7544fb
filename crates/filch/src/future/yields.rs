//! Cooperation of long futures and tasks.

use crate::pool::context::WorkerContext;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A future that is pending once, so that every task that is ready now can run: [`yield_now`].
#[derive(Debug)]
#[must_use = "nothing is yielded before it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

/// Yields to other tasks: the future that awaits this is requeued behind every task that its worker
/// has queued.
///
/// ```
/// let handle = filch::spawn_future(async {
///     for _ in 0..10 {
///         filch::future::yield_now().await;
///     }
/// });
/// handle.join().unwrap();
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A place in a long task where urgent work may preempt it: futures that were woken while every
/// worker was busy, or whose [timer](crate::time) has expired, and tasks of
/// [`Priority::High`](crate::Priority::High) and above, a few at a time. Futures are polled here,
/// on this stack. Submitted tasks run on another thread, while this one pauses for up to a
/// millisecond. Normal tasks are not served.
///
/// Costs about a nanosecond when nothing is urgent, so a loop may call it every few microseconds.
/// While a future waits for a timer, it reads the clock now and then, which adds about a
/// nanosecond. On a thread that is not a worker, and in an [`isolate`](crate::isolate), it does
/// nothing.
///
/// ```
/// let sum = filch::submit(|| {
///     let mut sum = 0_u64;
///     for n in 0..1_000_000_u64 {
///         if n % 1024 == 0 {
///             filch::checkpoint();
///         }
///         sum += n;
///     }
///     sum
/// });
/// assert_eq!(sum.join().unwrap(), 499_999_500_000);
/// ```
///
/// The futures must not need a lock that this task holds: as with all functions that wait, don't
/// call it with a lock held.
#[doc(alias("consume_budget", "block_in_place"))]
#[inline]
pub fn checkpoint() {
    WorkerContext::with(|context| {
        if let Some(context) = context {
            context.checkpoint();
        }
    });
}
