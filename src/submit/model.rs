//! The cell of a task as it is, for the model checker.

use super::{
    about::About,
    cell::{self, Cancel, Cause, Outcome},
};
use crate::engine::Level;
use std::{fmt, task::Waker};

/// A task: its handle, one who may cancel it, and its ticket.
pub fn make<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
) -> (Hold<T>, Canceller, Ticket) {
    let (fresh, ticket) = cell::make(func, Level::Normal, About::new(u32::MAX, 0));
    let canceller = Canceller(ticket.cell().clone());
    (Hold(fresh.hold), canceller, Ticket(ticket))
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
}

impl<T> Hold<T> {
    pub fn claim(&self) -> Option<Claim> {
        self.0.claim().map(Claim)
    }

    pub fn watch(&mut self, waker: &Waker) -> bool {
        self.0.watch(waker)
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
            Cancel::Claimed(claim) => {
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

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}
