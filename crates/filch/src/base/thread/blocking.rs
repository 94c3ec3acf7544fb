//! How a thread blocks: as in `std`.

use crate::base::Instant;

pub(crate) use std::thread::{park, park_timeout, sleep};

/// The number of checks before a wait parks: `rounds`. (1 where spinning is useless: in a
/// rehearsal, and where there is only one thread.)
#[inline(always)]
pub(crate) fn spin_limit(rounds: u32) -> u32 {
    rounds
}

/// Waits until `ready` or until `deadline`, in a rehearsal or if there is only one thread.
/// Otherwise returns false, and the caller has to wait itself.
#[inline(always)]
pub(crate) fn wait_until(_deadline: Option<Instant>, _ready: impl Fn() -> bool) -> bool {
    false
}
