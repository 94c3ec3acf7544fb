//! The cell of a task as it is, for the model checker.

use super::{
    cell::{self, After, Arrived, Cancel, Cause, Link, Outcome},
    info::{Extras, TaskInfo},
};
use crate::engine::Level;
use std::{fmt, sync::Arc, task::Waker};

/// A task: its handle, one who may cancel it, and its ticket.
pub fn make<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
) -> (Hold<T>, Canceller, Ticket) {
    let (fresh, ticket) = cell::make(func, Level::Normal, TaskInfo::new(u32::MAX, 0));
    let canceller = Canceller(ticket.cell().clone());
    (Hold(fresh.hold), canceller, Ticket(ticket))
}

/// A task that waits for `others`, which do not know of it yet.
pub fn make_held<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
    others: &[&Hold<T>],
) -> (Hold<T>, Canceller, Follower) {
    let (hold, canceller, ticket) = make(func);
    let links = others.iter().map(|other| Link {
        cell: other.0.cell().clone(),
        any_outcome: false,
    });
    let after = After::new(links.collect());
    let extras = Extras::new(None, None, Some(Box::new(after)));
    ticket.0.cell().hold_back();
    ticket.0.cell().about().add(Arc::new(extras));
    (hold, canceller, Follower(ticket.0.cell().clone()))
}

/// What comes of the end of a task: a ticket to `queue`, or nobody waits any more.
fn go_on(arrived: Arrived, queue: &mut impl FnMut(Ticket)) {
    match arrived {
        Arrived::Waits => {}
        Arrived::Ready(ticket, wanted) => {
            let cell = ticket.cell().clone();
            queue(Ticket(ticket));
            wanted.tell(&cell);
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
    /// Makes it known to those that it waits for.
    pub fn enlist(self, mut queue: impl FnMut(Ticket)) {
        go_on(self.0.enlist(), &mut queue);
    }
}

/// Whoever joins a task that waits for others.
pub struct Inbox(Arc<cell::Inbox>);

impl Inbox {
    /// Whether something is ready.
    pub fn has_mail(&self) -> bool {
        !self.0.is_empty()
    }

    /// False when something is ready.
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

    /// The same, with the tickets of those who have waited for it.
    pub fn run_then(self, mut queue: impl FnMut(Ticket)) {
        let payload = self.0.call().finish_then(|ended| {
            let (followers, failed) = ended.take_followers();
            for follower in followers {
                go_on(follower.arrive(failed.as_ref()), &mut queue);
            }
        });
        assert!(payload.is_none(), "nothing panics here");
    }
}

impl<T> Hold<T> {
    pub fn claim(&self) -> Option<Claim> {
        self.0.claim().map(Claim)
    }

    pub fn watch(&mut self, waker: &Waker) -> bool {
        self.0.watch(waker)
    }

    /// The inbox, if the task waits for others.
    pub fn want(&self) -> Option<Inbox> {
        let inbox = self.0.cell().open_inbox();
        self.0.cell().want(&inbox).map(|_| Inbox(inbox))
    }

    pub fn is_done(&self) -> bool {
        self.0.cell().snapshot().is_done()
    }

    pub fn move_to(&self, level: Level, queue: impl FnOnce(Ticket)) -> bool {
        self.0.move_to(level, |ticket| queue(Ticket(ticket)))
    }

    /// The running task has a token now.
    #[must_use]
    pub fn publish_token(&self) -> bool {
        self.0.cell().publish_token()
    }

    /// `Some(None)` when it was cancelled.
    pub fn take(&mut self) -> Option<Option<T>> {
        Some(match self.0.take()? {
            Outcome::Value(value) => Some(value),
            Outcome::Panic(_) => unreachable!("nothing panics here"),
            Outcome::Cancelled(_) => None,
        })
    }
}

impl Canceller {
    /// `Some(true)` when it had not started, `Some(false)` when it runs, `None` when it is too late.
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
