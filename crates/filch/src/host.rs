//! The host of a program that has one thread and no clock of its own: a page of a browser.
//!
//! On `wasm32-unknown-unknown` threads cannot be started, and [`std::time::Instant::now`] panics.
//! There [`Pool::global`](crate::Pool::global) has no threads, the page runs queued work for a few
//! milliseconds at a time ([`Pool::run_for`](crate::Pool::run_for)) when it is
//! [notified](crate::PoolBuilder::on_work) of some, and the clock and the timers come from a
//! [`Host`]. The crate `filch-web` does all of this; the page *In the browser* of the guide shows
//! it. On other targets nothing of this module is needed.

pub use crate::base::host::{Host, install};

use crate::{base::host::IS_HOSTED, threads::timer::Timer};

/// Calls the timers and deadlines that are due, on this thread, and asks the host for the next
/// call. For a [`Host`], when the time of its [`wake_after`](Host::wake_after) has come.
///
/// ```
/// // Elsewhere a thread does this, and an additional call is harmless.
/// filch::host::run_timers();
/// ```
pub fn run_timers() {
    if IS_HOSTED {
        Timer::global().serve_here();
    }
}
