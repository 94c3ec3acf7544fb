//! Limits: how much may be in use at the same time.
//!
//! | you limit | take |
//! |---|---|
//! | one thing: open files, requests, bytes in buffers | [`Budget`] |
//! | several at once: a request needs a connection *and* four kilobytes | [`Budgets`] |
//!
//! Both give out *units* as permits, which give them back when they are dropped, also by a panic. Both
//! can be asked in four ways: block, try, block for a while, or await.
//!
//! ```
//! use filch::Budget;
//!
//! let buffers = Budget::new(64 << 20); // bytes
//! let permit = buffers.acquire(4096)?; // blocks while there are fewer
//! assert_eq!(buffers.available(), (64 << 20) - 4096);
//! drop(permit);
//! assert_eq!(buffers.available(), 64 << 20);
//! # Ok::<(), filch::AcquireError>(())
//! ```
//!
//! # What they promise
//!
//! - **Never more than there is**, and nothing is lost: neither by a panic, nor by a future that is dropped
//!   while it waits or after it was served, nor by a waker that panics.
//! - **First come, first served.** A large request at the head is not starved by small ones behind it: nobody
//!   overtakes a waiter, not even by trying. In [`Budgets`] only those stand in line that want the same
//!   parts.
//! - **No wait without an end by mistake.** Who asks for more than there is in all gets an error at once, also
//!   when the budget is made smaller while they wait; and a budget that is closed sends everybody home.
//! - **All or none.** Who waits for several parts holds none of them, so requests in opposite orders don't
//!   lock each other out. Somebody who holds a permit and waits for a second one is another matter: ask for
//!   all of it at once.
//!
//! # Cost
//!
//! While nobody waits, taking from a [`Budget`] is one compare-and-swap and giving back is one addition. The lock
//! is for those who wait, and for those who serve them. [`Budgets`] take their lock each time.
//!
//! A blocking call blocks its thread. A worker of a pool that does so runs nothing else meanwhile.

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

/// The most units of a budget. A larger number means this one.
///
/// ```
/// use filch::{Budget, limit::MOST_UNITS};
///
/// assert_eq!(Budget::new(u64::MAX).capacity(), MOST_UNITS);
/// ```
pub const MOST_UNITS: u64 = u64::MAX >> units::SHIFT;
