//! The budget of a poll, for leaf futures and loops of users.

use crate::base::budget;
use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

/// Takes one unit of the [budget](crate::future#the-budget-of-a-poll) of this poll; if there is
/// none left, lets other tasks run first, as [`yield_now`](super::yield_now) does.
///
/// For loops that await nothing, or only futures that don't take part in the budget. It is cheap
/// enough for every round of a loop.
///
/// ```
/// use filch::{future::consume_budget, time};
/// use std::{future::ready, time::Duration};
///
/// let endless = async {
///     loop {
///         ready(()).await; // never pending
///         consume_budget().await;
///     }
/// };
/// let ended = filch::block_on(time::timeout(Duration::from_millis(1), endless));
/// assert!(ended.is_err());
/// ```
#[doc(alias = "coop")]
pub async fn consume_budget() {
    poll_fn(|cx| budget::poll_leaf(cx, |_| Poll::Ready(()))).await;
}

/// Makes a future take part in the [budget](crate::future#the-budget-of-a-poll) of its poll: for
/// leaf futures of other crates that may be ready again and again.
///
/// ```
/// use filch::{future::cooperative, time};
/// use std::{future::ready, time::Duration};
///
/// let endless = async {
///     loop {
///         cooperative(ready(())).await;
///     }
/// };
/// let ended = filch::block_on(time::timeout(Duration::from_millis(1), endless));
/// assert!(ended.is_err());
/// ```
#[doc(alias = "coop")]
pub async fn cooperative<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| budget::poll_leaf(cx, |cx| future.as_mut().poll(cx))).await
}

/// [`cooperative`] for manual implementations of leaf futures: calls `poll` if the budget allows
/// it, and takes one unit if it returns `Ready`. Otherwise the task is woken, and the result is
/// `Pending`.
///
/// ```
/// use filch::future::poll_cooperative;
/// use std::{future::poll_fn, task::Poll};
///
/// /// The next byte of a buffer, 128 in one poll at most.
/// async fn next(buffer: &mut impl Iterator<Item = u8>) -> Option<u8> {
///     poll_fn(|cx| poll_cooperative(cx, |_| Poll::Ready(buffer.next()))).await
/// }
/// assert_eq!(filch::block_on(next(&mut [7].into_iter())), Some(7));
/// ```
#[doc(alias = "poll_proceed")]
pub fn poll_cooperative<T>(
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    budget::poll_leaf(cx, poll)
}
