//! The word of a node: whether it is cancelled, and why.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU8, Ordering},
};
use std::fmt;

const LIVE: u8 = 0;
const ASKED: u8 = 1;
const DEADLINE: u8 = 2;
const REASON: u8 = 3;
/// Everything below is cancelled too.
const SETTLED: u8 = 4;

/// Why a token is cancelled.
///
/// ```
/// use filch::{CancelReason, CancelToken};
/// use std::time::Duration;
///
/// let token = CancelToken::new();
/// assert_eq!(token.reason(), None);
/// token.cancel_after(Duration::ZERO)?;
/// assert_eq!(token.reason(), Some(CancelReason::Deadline));
/// assert_eq!(CancelReason::Deadline.to_string(), "the time is up");
/// # Ok::<(), filch::TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// Somebody called [`cancel`](super::CancelToken::cancel), or dropped a [`DropGuard`](super::DropGuard).
    Asked,
    /// The time is up: [`cancel_after`](super::CancelToken::cancel_after) or
    /// [`cancel_at`](super::CancelToken::cancel_at).
    Deadline,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "cancelled",
            Self::Deadline => "the time is up",
        })
    }
}

/// Live, then cancelled for a reason, then settled; never back.
pub(crate) struct State(AtomicU8);

impl State {
    pub(crate) fn live() -> Self {
        Self(AtomicU8::new(LIVE))
    }

    /// Of a node that has been cancelled from the start, and so never gets children.
    pub(crate) fn settled(reason: CancelReason) -> Self {
        Self(AtomicU8::new(encode(reason) | SETTLED))
    }

    #[inline(always)]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the release in `mark`; what the canceller did before is visible.
        self.0.load(Ordering::Acquire) != LIVE
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        // Acquire: as in `is_cancelled`.
        match self.0.load(Ordering::Acquire) & REASON {
            ASKED => Some(CancelReason::Asked),
            DEADLINE => Some(CancelReason::Deadline),
            _ => None,
        }
    }

    /// From live to cancelled. Only under the lock of the node, and only when it is live.
    pub(crate) fn mark(&self, reason: CancelReason) {
        // Release: pairs with the acquires in `is_cancelled` and `reason`. No exchange is needed, since
        // everybody who writes to a live word holds the lock.
        self.publish(encode(reason));
    }

    /// From cancelled, for this reason, to settled.
    pub(crate) fn settle(&self, reason: CancelReason) {
        // Release: pairs with the acquire in `is_settled`, so whoever sees it sees the marks below; and with those
        // in `is_cancelled` and `reason`, to which it hands on the past of the one who marked the node, which was
        // seen under its lock. No exchange is needed: everybody who settles it writes the same.
        self.publish(encode(reason) | SETTLED);
    }

    fn publish(&self, word: u8) {
        // Release: see `mark` and `settle`; Relaxed is what the model checker must not overlook.
        let order = match broken(Canary::CancelUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.0.store(word, order);
    }

    pub(crate) fn is_settled(&self) -> bool {
        // Acquire: pairs with the release in `settle`.
        self.0.load(Ordering::Acquire) & SETTLED != 0
    }
}

fn encode(reason: CancelReason) -> u8 {
    match reason {
        CancelReason::Asked => ASKED,
        CancelReason::Deadline => DEADLINE,
    }
}
