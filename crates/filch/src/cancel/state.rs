//! The state word of a node: whether it is cancelled, and why.

use crate::base::{
    canary::{Canary, broken},
    sync::{AtomicU8, Ordering},
};
use std::fmt;

const LIVE: u8 = 0;
const REQUESTED: u8 = 1;
const DEADLINE: u8 = 2;
const REASON: u8 = 3;
/// All nodes below are cancelled too.
const SUBTREE_CANCELLED: u8 = 4;

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
    /// [`cancel`](super::CancelToken::cancel) was called, or a [`DropGuard`](super::DropGuard)
    /// dropped.
    Requested,
    /// A deadline passed: [`cancel_after`](super::CancelToken::cancel_after) or
    /// [`cancel_at`](super::CancelToken::cancel_at).
    Deadline,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "cancelled",
            Self::Deadline => "the time is up",
        })
    }
}

/// Live, then cancelled for a reason, then subtree-cancelled. It never goes back.
pub(crate) struct CancelState(AtomicU8);

impl CancelState {
    pub(crate) fn live() -> Self {
        Self(AtomicU8::new(LIVE))
    }

    /// Creates the state of a node that is created cancelled, and so never gets children.
    pub(crate) fn new_cancelled(reason: CancelReason) -> Self {
        Self(AtomicU8::new(encode(reason) | SUBTREE_CANCELLED))
    }

    #[inline(always)]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the release in `mark`; the canceller's earlier writes are visible.
        self.0.load(Ordering::Acquire) != LIVE
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        // Acquire: as in `is_cancelled`.
        match self.0.load(Ordering::Acquire) & REASON {
            REQUESTED => Some(CancelReason::Requested),
            DEADLINE => Some(CancelReason::Deadline),
            _ => None,
        }
    }

    /// Changes live to cancelled. Requires the lock of the node, and that it is live.
    pub(crate) fn mark(&self, reason: CancelReason) {
        // Release: pairs with the acquires in `is_cancelled` and `reason`. No exchange is needed,
        // since every writer of a live word holds the lock.
        self.publish(encode(reason));
    }

    /// Changes cancelled, for this reason, to subtree-cancelled.
    pub(crate) fn mark_subtree(&self, reason: CancelReason) {
        // Release: pairs with the acquire in `is_subtree_cancelled`, so that a reader sees the
        // marks below. It also pairs with those in `is_cancelled` and `reason`: the writes of the
        // thread that marked the node, which this thread has seen under the node's lock, become
        // visible to those readers. No exchange is needed: every thread that does this writes the
        // same value.
        self.publish(encode(reason) | SUBTREE_CANCELLED);
    }

    fn publish(&self, word: u8) {
        // Release: see `mark` and `mark_subtree`. Relaxed is the defect that the model checker must
        // find.
        let order = match broken(Canary::CancelUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.0.store(word, order);
    }

    pub(crate) fn is_subtree_cancelled(&self) -> bool {
        // Acquire: pairs with the release in `mark_subtree`.
        self.0.load(Ordering::Acquire) & SUBTREE_CANCELLED != 0
    }
}

fn encode(reason: CancelReason) -> u8 {
    match reason {
        CancelReason::Requested => REQUESTED,
        CancelReason::Deadline => DEADLINE,
    }
}
