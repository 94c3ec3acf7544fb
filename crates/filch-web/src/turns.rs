//! The page as the host of the pool: its turns, clock and timers.

use crate::page;
use filch::{
    BuildError, Pool, PoolBuilder,
    host::{self, Host},
};
use std::{
    panic,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Whether the page has been asked for a turn that has not begun.
static TURN_REQUESTED: AtomicBool = AtomicBool::new(false);

/// The page.
struct Page;

impl Host for Page {
    fn now(&self) -> Duration {
        Duration::try_from_secs_f64(page::now() / 1e3).unwrap_or_default()
    }

    fn wake_after(&self, time: Duration) {
        page::request_timers(time.as_secs_f64() * 1e3);
    }
}

/// Makes the page the host of the program, and starts the global pool, which the page runs.
/// Messages of panics are printed to the console from now on.
///
/// Call it before anything else of filch, for example in an exported function `start`, which
/// `filch.js` calls when the module is loaded.
///
/// ```
/// use filch::Pool;
///
/// # #[cfg(any())]
/// #[unsafe(no_mangle)]
/// extern "C" fn start() {
///     filch_web::start(Pool::builder()).unwrap();
/// }
/// // On other targets there is no page.
/// assert!(filch_web::start(Pool::builder()).is_err());
/// ```
///
/// # Errors
/// When the global pool or a host has been started before, when a setting is invalid, and on
/// targets with threads.
pub fn start(builder: PoolBuilder) -> Result<&'static Pool, BuildError> {
    host::install(&Page)?;
    panic::set_hook(Box::new(|info| page::print_text(&info.to_string())));
    builder.workers(0).on_work(request_turn).build_global()
}

fn request_turn() {
    // Relaxed: the page has one thread.
    if !TURN_REQUESTED.swap(true, Ordering::Relaxed) {
        page::request_turn();
    }
}

/// Called by the page: runs queued work for some milliseconds.
#[unsafe(no_mangle)]
extern "C" fn filch_turn(milliseconds: f64) {
    // Relaxed: as in `request_turn`. The pool calls that again if work remains.
    TURN_REQUESTED.store(false, Ordering::Relaxed);
    let budget = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default();
    Pool::global().run_for(budget);
}

/// Called by the page: calls the timers that are due.
#[unsafe(no_mangle)]
extern "C" fn filch_timers() {
    host::run_timers();
}
