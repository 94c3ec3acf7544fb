//! Locks that may be held across a wait, and semaphores.
//!
//! [`Semaphore`] limits how much is in use at the same time, for threads, futures and tasks of
//! graphs.
//!
//! # Locks
//!
//! A worker that waits in a `join`, a `scope`, a loop or for a task runs other tasks meanwhile. If
//! one of these wants a lock that the waiting task holds, the worker waits for itself, for ever.
//! While a guard of [`Mutex`] or [`RwLock`] lives, waits are *isolated*: the worker runs only tasks
//! that were queued since it got the lock. [`isolated`] does the same for the locks of other
//! libraries.
//!
//! ```
//! use filch::sync::Mutex;
//!
//! let cache = Mutex::new(vec![0_u64; 1000]);
//! filch::scope(|s| {
//!     for round in 0..8 {
//!         let cache = &cache;
//!         s.spawn(move |_| {
//!             let mut cache = cache.lock().unwrap();
//!             filch::for_each(&mut cache[..], |entry| *entry += round);
//!         });
//!     }
//! });
//! assert_eq!(cache.into_inner().unwrap(), vec![28; 1000]);
//! ```
//!
//! The page *Locks, joins and deadlocks* of the guide says what isolation costs and what it does
//! not do.

mod lock;
mod mutex;
mod rwlock;
mod worker_local;

pub use crate::semaphore::{Acquire, AcquireAll, AcquireError, Permit, Semaphore};
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use worker_local::{WorkerLocal, WorkerLocalGuard};

use crate::pool::isolation::Isolation;

/// Isolates the waits of its thread as long as it lives; from [`isolated`].
#[must_use = "waits are isolated as long as this lives"]
#[derive(Debug)]
pub struct Isolated {
    _isolation: Isolation,
}

/// Isolates the waits of this thread, as [`isolate`](crate::isolate) does for a call, until the
/// value is dropped. It is for locks of other libraries.
///
/// Create it *before* the guard of the lock, so that it is dropped after the guard, or behind the
/// guard in one struct, whose fields are dropped in their order. Queue no task that wants the lock
/// between the two.
///
/// ```
/// use std::sync::RwLock;
///
/// let table = RwLock::new(vec![1, 2, 3]);
/// let _isolated = filch::sync::isolated();
/// let mut entries = table.write().unwrap();
/// filch::for_each(&mut entries[..], |entry| *entry += 1); // runs nothing that takes the lock
/// assert_eq!(*entries, [2, 3, 4]);
/// ```
///
/// Values may be dropped in any order. On a thread that is not a worker they have no effect, until
/// it becomes one.
///
/// It is not `Send`:
///
/// ```compile_fail
/// let isolated = filch::sync::isolated();
/// std::thread::spawn(move || drop(isolated));
/// ```
pub fn isolated() -> Isolated {
    Isolated {
        _isolation: Isolation::begin(None),
    }
}
