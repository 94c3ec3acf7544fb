//! How a wait of the only thread of a program serves the timers, which are in a higher layer.

use super::instant::Instant;
use std::sync::OnceLock;

/// What a call to serve the timers has done.
#[cfg_attr(
    not(all(target_family = "wasm", target_os = "unknown")),
    expect(dead_code, reason = "read where the only thread of a program blocks")
)]
pub(crate) struct TimersServed {
    /// Whether an entry was due.
    pub(crate) any: bool,
    /// When the next entry is due.
    pub(crate) next: Option<Instant>,
}

/// Serves the timers of the process; set when the first entry is made.
static SERVE: OnceLock<fn() -> TimersServed> = OnceLock::new();

/// Makes waits of the only thread serve the timers with `serve`.
pub(crate) fn serve_timers_with(serve: fn() -> TimersServed) {
    SERVE.get_or_init(|| serve);
}

/// Serves the timers.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) fn serve_timers() -> TimersServed {
    let nothing = TimersServed {
        any: false,
        next: None,
    };
    SERVE.get().map_or(nothing, |serve| serve())
}
