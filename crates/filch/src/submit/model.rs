//! The cell of a task, unchanged, for the model checker.

use super::{
    cell::{self, After, Arrived, Cancel, Cause, Link, Outcome},
    info::{Extras, TaskMeta},
};
use crate::engine::Level;
use std::{fmt, sync::Arc, task::Waker};

/// Creates a task: its handle, a canceller, and its ticket.
pub fn make<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
) -> (Hold<T>, Canceller, Ticket) {
    let (fresh, ticket) = cell::make(func, Level::Normal, TaskMeta::new(u32::MAX, 0));
    let canceller = Canceller(ticket.cell().clone());
    (Hold(fresh.hold), canceller, Ticket(ticket))
}

/// Creates a task that waits for `others`, which do not have it on their lists yet.
pub fn make_held<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
    others: &[&Hold<T>],
) -> (Hold<T>, Canceller, Follower) {
    let (hold, canceller, ticket) = make(func);
    let links = others.iter().map(|other| Link {
        cell: other.0.task().clone(),
        any_outcome: false,
    });
    let after = After::new(links.collect());
    let extras = Extras::new(None, None, Some(Box::new(after)));
    ticket.0.cell().hold_back();
    ticket.0.cell().about().add(Arc::new(extras));
    (hold, canceller, Follower(ticket.0.cell().clone()))
}

/// Applies the effect of the end of a predecessor: passes the ticket to `queue`, or refuses the
/// follower.
fn advance(arrived: Arrived, queue: &mut impl FnMut(Ticket)) {
    match arrived {
        Arrived::Waits => {}
        Arrived::Ready(ticket, wanted) => {
            let cell = ticket.cell().clone();
            queue(Ticket(ticket));
            wanted.notify(&cell);
        }
        Arrived::Failed(claim) => {
            let (ended, _) = claim.refuse(Cause::Dependency);
            let _ = ended.finish();
        }
    }
}

/// A task that waits for others.
pub struct Follower(cell::Ref);

impl Follower {
    /// Adds it to the follower lists of its predecessors.
    pub fn enlist(self, mut queue: impl FnMut(Ticket)) {
        advance(self.0.enlist(), &mut queue);
    }
}

/// The inbox of a joiner of a held task.
pub struct Inbox(Arc<cell::Inbox>);

impl Inbox {
    /// Whether a task is ready.
    pub fn has_mail(&self) -> bool {
        !self.0.is_empty()
    }

    /// Registers `waker`; returns false when a task is ready already.
    pub fn arm(&self, waker: &Waker) -> bool {
        self.0.arm(waker)
    }
}

pub struct Ticket(cell::Ticket);
pub struct Claim(cell::Claim);
pub struct Hold<T>(cell::Hold<T>);
pub struct Canceller(cell::Ref);

impl Ticket {
    pub fn level(&self) -> Level {
        self.0.level()
    }

    pub fn claim(self) -> Option<Claim> {
        self.0.claim().map(Claim)
    }
}

impl Claim {
    pub fn run(self) {
        let payload = self.0.call().finish();
        assert!(payload.is_none(), "nothing panics here");
    }

    /// The same; passes the tickets of its followers to `queue`.
    pub fn run_then(self, mut queue: impl FnMut(Ticket)) {
        let payload = self.0.call().finish_then(|ended| {
            let (followers, failed) = ended.take_followers();
            for follower in followers {
                advance(follower.arrive(failed.as_ref()), &mut queue);
            }
        });
        assert!(payload.is_none(), "nothing panics here");
    }
}

impl<T> Hold<T> {
    pub fn claim(&self) -> Option<Claim> {
        self.0.task().claim().map(Claim)
    }

    pub fn watch(&mut self, waker: &Waker) -> bool {
        self.0.watch(waker)
    }

    /// Returns the inbox, if the task is held.
    pub fn want(&self) -> Option<Inbox> {
        let inbox = self.0.task().open_inbox();
        self.0.task().want(&inbox).map(|_| Inbox(inbox))
    }

    pub fn is_done(&self) -> bool {
        self.0.task().snapshot().is_done()
    }

    pub fn move_to(&self, level: Level, queue: impl FnOnce(Ticket)) -> bool {
        self.0.move_to(level, |ticket| queue(Ticket(ticket)))
    }

    /// Publishes a token of the running task.
    #[must_use]
    pub fn publish_token(&self) -> bool {
        self.0.task().publish_token()
    }

    /// Returns `Some(None)` when the task was cancelled.
    pub fn take(&mut self) -> Option<Option<T>> {
        Some(match self.0.take()? {
            Outcome::Value(value) => Some(value),
            Outcome::Panic(_) => unreachable!("nothing panics here"),
            Outcome::Cancelled(_) => None,
        })
    }
}

impl Canceller {
    /// Returns `Some(true)` when it had not started, `Some(false)` when it runs, `None` when it is
    /// too late.
    pub fn cancel(&self) -> Option<bool> {
        match self.0.cancel() {
            Cancel::Claimed { claim, .. } => {
                let (ended, _) = claim.refuse(Cause::Asked);
                let _ = ended.finish();
                Some(true)
            }
            Cancel::Asked => Some(false),
            Cancel::TooLate => None,
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

impl<T> fmt::Debug for Hold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}
