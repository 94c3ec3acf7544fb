//! Limits on how much may be in use at the same time.
//!
//! | to limit | use |
//! |---|---|
//! | one resource: open files, requests, bytes in buffers | [`Budget`] |
//! | several at once: a request needs a connection *and* four kilobytes | [`Budgets`] |
//!
//! Both give out *units* as permits, which give them back when they are dropped, also by a panic.
//! Both can be acquired in four ways: block, try, block with a timeout, or await.
//!
//! ```
//! use filch::Budget;
//!
//! let buffers = Budget::new(64 << 20); // bytes
//! let permit = buffers.acquire(4096)?; // blocks while fewer are free
//! assert_eq!(buffers.available(), (64 << 20) - 4096);
//! drop(permit);
//! assert_eq!(buffers.available(), 64 << 20);
//! # Ok::<(), filch::AcquireError>(())
//! ```
//!
//! # Guarantees
//!
//! - **The capacity is never exceeded**, and no unit is lost: neither by a panic, nor by a future
//!   that is dropped while it waits or after it was served, nor by a waker that panics.
//! - **First in, first out.** Small requests don't starve a large one at the head: no request
//!   overtakes a waiter, and neither does `try_acquire`. In [`Budgets`] a request waits only behind
//!   requests that want one of the same parts.
//! - **No endless wait for the impossible.** A request that exceeds the capacity gets an error at
//!   once, also if the capacity shrinks below it while it waits. Closing a budget refuses all
//!   waiters.
//! - **All or none.** A request for several parts holds none of them while it waits, so requests in
//!   opposite orders cannot deadlock. A caller that holds a permit while it waits for a second one
//!   can: ask for everything at once.
//!
//! # Cost
//!
//! While no request is queued, taking from a [`Budget`] is one compare-and-swap and giving back is
//! one addition. Only waiting and serving waiters take the lock. [`Budgets`] take their lock each
//! time.
//!
//! A blocking call blocks its thread. A worker that blocks in one runs no other tasks meanwhile.

mod budget;
mod budgets;
mod error;
mod permit;
mod permits;
mod set;
mod units;
mod wait;
mod waiters;

pub use budget::{Acquire, Budget};
pub use budgets::{AcquireAll, Budgets};
pub use error::AcquireError;
pub use permit::Permit;
pub use permits::Permits;

/// The largest number of units of a budget. Larger numbers are reduced to this one.
///
/// ```
/// use filch::{Budget, limit::MOST_UNITS};
///
/// assert_eq!(Budget::new(u64::MAX).capacity(), MOST_UNITS);
/// ```
pub const MOST_UNITS: u64 = u64::MAX >> units::SHIFT;
