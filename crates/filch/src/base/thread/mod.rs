//! The only module for sleeping, waking and yielding, and for the clock where it affects
//! scheduling.
//!
//! In normal builds these are functions of `std`, and a [`point`] does nothing. With the feature
//! `rehearse` a thread may be an *actor* in a rehearsal: then a *director* decides at each of these
//! calls which actor continues, and a sleeper is one that the director does not choose. A rehearsal
//! cannot control code above this module that waits in another way.

#[cfg(all(feature = "rehearse", not(filch_loom)))]
mod directed;
mod driver;
mod parker;

pub use driver::Driver;
#[cfg(all(test, filch_loom))]
pub(crate) use parker::ParkWord;
pub(crate) use parker::{Parker, park_in, parker};

#[cfg(not(filch_loom))]
use std::sync::{Mutex, PoisonError};
use std::{cell::Cell, sync::OnceLock, time::Instant};

#[cfg(all(feature = "rehearse", not(filch_loom)))]
pub(crate) use directed::*;
#[cfg(not(all(feature = "rehearse", not(filch_loom))))]
pub(crate) use free::*;

/// Threads without a director.
#[cfg(not(all(feature = "rehearse", not(filch_loom))))]
mod free {
    pub(crate) use std::thread::{Thread, current, park, park_timeout, sleep, yield_now};
    use std::{
        thread::{JoinHandle, Result},
        time::Instant,
    };

    /// A point at which the director may let another thread run, if there is a rehearsal.
    #[inline(always)]
    pub(crate) fn point() {}

    /// The number of checks before a wait parks: `rounds`. (1 in a rehearsal, where spinning is
    /// useless.)
    #[inline(always)]
    pub(crate) fn spin_limit(rounds: u32) -> u32 {
        rounds
    }

    /// Waits until `ready` or until `deadline`, if there is a rehearsal. Returns false when there
    /// is none, and the caller has to wait itself.
    #[inline(always)]
    pub(crate) fn wait_until(_deadline: Option<Instant>, _ready: impl Fn() -> bool) -> bool {
        false
    }

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

    #[cold]
    fn next() -> usize {
        static NEXT: Mutex<usize> = Mutex::new(0);
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        // Wraps after more threads than a process starts; then two threads share a shard.
        *next = next.wrapping_add(1).max(1);
        NUMBER.set(*next);
        *next
    }

    match NUMBER.get() {
        0 => next() - 1,
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
