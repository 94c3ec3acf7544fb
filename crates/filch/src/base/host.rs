//! What a program gets from its host where `std` has neither a clock nor threads: on
//! `wasm32-unknown-unknown`, where the host is a page of a browser or another JavaScript program.

use super::error::BuildError;
use std::{fmt, sync::OnceLock, time::Duration};

/// Whether the program needs a [`Host`]: `std` has no clock here and starts no threads.
pub(crate) const IS_HOSTED: bool = cfg!(all(target_family = "wasm", target_os = "unknown"));

/// What the host provides: a clock, and a call in the future.
///
/// Needed on targets without a clock and without threads, of which there is one,
/// `wasm32-unknown-unknown`. The crate `filch-web` has a host for browsers, node and similar
/// programs.
///
/// ```
/// use filch::host::Host;
/// use std::time::Duration;
///
/// /// A host that has only a clock: sleeps of futures would never end.
/// struct ClockOnly;
///
/// impl Host for ClockOnly {
///     fn now(&self) -> Duration {
///         Duration::from_secs(1)
///     }
///
///     fn wake_after(&self, _time: Duration) {}
/// }
/// assert_eq!(ClockOnly.now().as_secs(), 1);
/// ```
pub trait Host: Sync {
    /// Returns the time since some fixed moment. It must never decrease.
    fn now(&self) -> Duration;

    /// Asks for a call of [`run_timers`](crate::host::run_timers) after `time`, from outside of
    /// all tasks. It replaces an earlier request that is still pending.
    fn wake_after(&self, time: Duration);
}

/// Makes `host` the host of the program.
///
/// ```
/// use filch::host::{self, Host};
/// use std::time::Duration;
///
/// struct Page;
/// impl Host for Page {
/// #   fn now(&self) -> Duration { Duration::ZERO }
/// #   fn wake_after(&self, _time: Duration) {}
///     // ...
/// }
/// static PAGE: Page = Page;
/// // On a target with a clock and with threads, no host is needed.
/// assert!(host::install(&PAGE).unwrap_err().to_string().contains("needs no host"));
/// ```
///
/// # Errors
/// When there is one already, or on targets that need none.
pub fn install(host: &'static dyn Host) -> Result<(), BuildError> {
    if !IS_HOSTED {
        return Err(BuildError::config(
            "this target has a clock and threads and needs no host; leave out this call",
        ));
    }
    HOST.set(Installed(host)).map_err(|_| {
        BuildError::config("a host has been installed already; install one for the whole program")
    })
}

struct Installed(&'static dyn Host);

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Installed")
    }
}

static HOST: OnceLock<Installed> = OnceLock::new();

/// The installed host.
pub(crate) fn installed() -> Option<&'static dyn Host> {
    HOST.get().map(|installed| installed.0)
}

/// The time by the host's clock; zero without a host.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) fn now() -> Duration {
    installed().map_or(Duration::ZERO, Host::now)
}
