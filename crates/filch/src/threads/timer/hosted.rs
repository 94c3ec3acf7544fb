//! The timer of a program with one thread, which the program's [host](crate::host) calls.
//!
//! The host is asked for a call at the time of the first entry, whenever that changes to an earlier
//! time, and after each call. A wait of the only thread serves the entries too, because the host
//! cannot call before the wait ends.

use super::{Timer, service::NextCheck};
use crate::base::{
    Instant, host,
    timers::{self, TimersServed},
};
use std::io;

impl Timer {
    /// Checks that there is a host, which replaces the thread.
    pub(super) fn start_hosted() -> io::Result<()> {
        if host::installed().is_none() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "no host is installed; call `filch_web::start`, or `filch::host::install`",
            ));
        }
        timers::serve_timers_with(|| Timer::global().serve_here());
        Ok(())
    }

    /// Asks the host for a call at `at`.
    pub(super) fn request_host_call(at: Instant) {
        if let Some(host) = host::installed() {
            host.wake_after(at.saturating_duration_since(Instant::now()));
        }
    }

    /// Calls the callbacks and wakers that are due, on this thread.
    pub(crate) fn serve_here(&self) -> TimersServed {
        let (now, mut any) = (self.next.nanos_of(Instant::now()), false);
        let mut state = self.lock();
        // Entries that are made meanwhile are seen below.
        state.next_check = NextCheck::Awake;
        while let Some(alarm) = state.queue.pop_due(now) {
            self.next.set(state.queue.next_at());
            drop(state);
            alarm.ring();
            any = true;
            state = self.lock();
        }
        let next = self.next.time_of(state.queue.next_at());
        state.next_check = NextCheck::until(next);
        drop(state);
        if let Some(next) = next {
            Self::request_host_call(next);
        }
        TimersServed { any, next }
    }
}
