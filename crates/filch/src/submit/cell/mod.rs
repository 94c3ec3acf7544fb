#![doc = include_str!("cell.md")]
#![expect(
    unsafe_code,
    reason = "takes over references that the state word has counted"
)]

mod follow;
mod hold;
mod ticket;

pub(super) use crate::task::{Body, Cause, Outcome, TaskStatus};
pub(super) use follow::{After, Arrived, Followers, Inbox, Link};
pub(super) use hold::{Fresh, Hold, make};
pub(super) use ticket::{Claim, Ticket, is_stale};

use super::info::TaskMeta;
use crate::{
    pool::task,
    task::{Call, Cancelling, CellKind, TaskRef},
};
use std::{mem::ManuallyDrop, ptr::NonNull};

/// The header of a submitted task.
pub(super) type Header = crate::task::Header<TaskMeta>;

/// A counted reference to a submitted task.
pub(super) type Ref = TaskRef<TaskMeta>;

impl CellKind for TaskMeta {
    type Run = Call<Self>;
}

/// Closures and values of seven machine words fit into a block of the second size class, which has
/// 16 words.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 9 * size_of::<usize>());

impl Header {
    pub(super) fn about(&self) -> &TaskMeta {
        &self.kind
    }

    /// Whether the task was requested to stop.
    #[inline(always)]
    pub(super) fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// See [`State::publish_token`](crate::task::State::publish_token).
    #[must_use]
    pub(super) fn publish_token(&self) -> bool {
        self.state.publish_token()
    }
}

/// The effect of a cancellation.
pub(super) enum Cancel {
    /// It has not started, and will not. If it was `held`, it has no ticket in any queue.
    Claimed {
        claim: Claim,
        held: bool,
    },
    /// It is running; its token, if it has one, must be cancelled.
    Asked,
    TooLate,
}

impl Ref {
    /// Cancels the task: claims it if it has not started, otherwise requests it to stop.
    pub(super) fn cancel(&self) -> Cancel {
        let cancelling = self.state.cancel();
        match cancelling {
            Cancelling::Claimed | Cancelling::ClaimedHeld => {
                // SAFETY: the transition has counted the claim.
                let cell = unsafe { Self::from_counted(self.pointer()) };
                Cancel::Claimed {
                    claim: Claim { cell },
                    held: cancelling == Cancelling::ClaimedHeld,
                }
            }
            Cancelling::Asked => Cancel::Asked,
            Cancelling::TooLate => Cancel::TooLate,
        }
    }

    /// Claims the task, if it is queued and not claimed.
    #[inline]
    pub(super) fn claim(&self) -> Option<Claim> {
        // Built lazily: a claim that is dropped refuses the task.
        self.state.claim().then(|| {
            // SAFETY: the transition has counted the claim.
            let cell = unsafe { Self::from_counted(self.pointer()) };
            Claim { cell }
        })
    }
}

/// Calls `f` with the task that this thread runs.
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(Option<&Header>) -> R) -> R {
    let current = task::current().cast::<Header>();
    // SAFETY: it is null, or a cell that `Claim::call` keeps as long as it is current.
    f(unsafe { current.as_ref() })
}

/// Returns the task that this thread runs.
pub(super) fn current() -> Option<Ref> {
    let cell = NonNull::new(task::current().cast_mut().cast::<Header>())?;
    // SAFETY: it is the reference of `Claim::call`, which keeps it as long as it is current; it is
    // only borrowed here.
    let current = ManuallyDrop::new(unsafe { Ref::from_counted(cell) });
    Some(Ref::clone(&current))
}
