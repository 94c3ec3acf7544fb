//! The only module for sleeping, waking and yielding, and for the clock where it affects
//! scheduling.
//!
//! In normal builds these are functions of `std`, and a [`point`] does nothing. With the feature
//! `rehearse` a thread may be an *actor* in a rehearsal: then a *director* decides at each of these
//! calls which actor continues, and a sleeper is one that the director does not choose. A rehearsal
//! cannot control code above this module that waits in another way.

#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown"),
    path = "blocking_alone.rs"
)]
mod blocking;
#[cfg(all(feature = "rehearse", not(filch_loom)))]
mod directed;
mod driver;
mod parker;

pub use driver::Driver;
#[cfg(all(test, filch_loom))]
pub(crate) use parker::ParkWord;
pub(crate) use parker::{Parker, park_in, parker};

use crate::base::Instant;
#[cfg(not(filch_loom))]
use std::sync::{Mutex, PoisonError};
use std::{cell::Cell, sync::OnceLock};

#[cfg(all(feature = "rehearse", not(filch_loom)))]
pub(crate) use directed::*;
#[cfg(not(all(feature = "rehearse", not(filch_loom))))]
pub(crate) use free::*;

/// Threads without a director.
#[cfg(not(all(feature = "rehearse", not(filch_loom))))]
mod free {
    pub(crate) use super::blocking::{park, park_timeout, sleep, spin_limit, wait_until};
    use std::thread::{JoinHandle, Result};
    pub(crate) use std::thread::{Thread, current, yield_now};

    /// A point at which the director may let another thread run, if there is a rehearsal.
    #[inline(always)]
    pub(crate) fn point() {}

    /// Whether this thread takes part in a rehearsal.
    #[inline(always)]
    pub(crate) fn is_directed() -> bool {
        false
    }

    /// Ends the rehearsal that this thread takes part in, if there is one: it depends on threads
    /// that no director controls.
    #[inline(always)]
    pub(crate) fn reject_undirected(_what: &str) {}

    /// Nanoseconds since some time in the past.
    #[inline]
    pub(crate) fn nanos() -> u64 {
        super::clock()
    }

    /// A small number for this thread, to choose one of several shards. Threads that call this for
    /// the first time one after the other have consecutive numbers.
    #[inline]
    pub(crate) fn number() -> usize {
        super::own_number()
    }

    /// The core that this thread runs on.
    pub(crate) fn core() -> Option<u32> {
        crate::base::sys::cores::current()
    }

    /// Whether this thread is bound to one core.
    pub(crate) fn is_pinned() -> bool {
        crate::base::sys::cores::is_pinned()
    }

    /// Waits for the end of a thread.
    pub(crate) fn join<T>(handle: JoinHandle<T>) -> Result<T> {
        handle.join()
    }
}

/// The core on which this thread called this for the first time: always the same one.
pub(crate) fn first_core() -> Option<u32> {
    thread_local! {
        static FIRST: Cell<Option<u32>> = const { Cell::new(None) };
    }

    if is_directed() {
        // The actors of a rehearsal do not move.
        return core();
    }
    if FIRST.get().is_none() {
        FIRST.set(core());
    }
    FIRST.get()
}

/// Nanoseconds since this was first called.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of this thread, which does not change.
#[cfg(not(filch_loom))]
#[inline]
fn own_number() -> usize {
    thread_local! {
        /// One more than the number; zero before the first call.
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }

    /// Gives this thread the next number. Returns one more than it.
    #[cold]
    fn assign_number() -> usize {
        static NEXT: Mutex<usize> = Mutex::new(0);
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        // Wraps after more threads than a process starts; then two threads share a shard.
        *next = next.wrapping_add(1).max(1);
        NUMBER.set(*next);
        *next
    }

    match NUMBER.get() {
        0 => assign_number() - 1,
        number => number - 1,
    }
}

#[cfg(filch_loom)]
loom::thread_local! {
    static NUMBER: Cell<usize> = Cell::new(0);
}

/// Sets the number of this thread, in a model, so that all runs are alike.
#[cfg(all(test, filch_loom))]
pub(crate) fn set_number(number: usize) {
    NUMBER.with(|own| own.set(number));
}

#[cfg(filch_loom)]
fn own_number() -> usize {
    NUMBER.with(Cell::get)
}
