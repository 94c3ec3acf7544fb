//! How the only thread of a program blocks: it serves the timers, since no other thread does.
//!
//! The program's host can do nothing before this thread returns to it. So a wait without a limit
//! that finds no entry in the timer can never end, and panics instead.

use crate::base::{
    Instant, host,
    timers::{self, TimersServed},
};
use std::{hint, time::Duration};

/// Parks: serves the timers until one was due.
pub(crate) fn park() {
    block_until(None);
}

/// Parks for `time` at most.
pub(crate) fn park_timeout(time: Duration) {
    block_until(Instant::now().checked_add(time));
}

/// Serves the timers for `time`.
pub(crate) fn sleep(time: Duration) {
    wait_until(Instant::now().checked_add(time), || false);
}

/// The number of checks before a wait parks: 1, because no other thread could change anything.
#[inline(always)]
pub(crate) fn spin_limit(_rounds: u32) -> u32 {
    1
}

/// Waits until `ready` or until `deadline`.
pub(crate) fn wait_until(deadline: Option<Instant>, ready: impl Fn() -> bool) -> bool {
    while !ready() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        block_until(deadline);
    }
    true
}

/// Serves the timers until an entry was due, or until `limit`.
fn block_until(limit: Option<Instant>) {
    loop {
        let TimersServed { any, next } = timers::serve_timers();
        if any {
            return;
        }
        let Some(until) = next.into_iter().chain(limit).min() else {
            panic!(
                "this wait can never end: the program has one thread, and nothing that it could \
                 run is queued. Await the future or the handle in a future instead of blocking; \
                 `Pool::block_on` runs what is queued"
            );
        };
        assert!(
            host::installed().is_some(),
            "this wait needs a clock: call `filch_web::start`, or `filch::host::install`"
        );
        while Instant::now() < until {
            hint::spin_loop();
        }
        if limit.is_some_and(|limit| limit <= until) {
            return;
        }
    }
}
