//! The state word and the cell of a future, unchanged, for the model checker.
#![expect(unsafe_code, reason = "plays the part of a worker")]

use super::{
    Header, Polled, hold,
    run::{self, hand_over},
    state::{End, Finished, Start, State},
};
use std::{
    fmt,
    ptr::NonNull,
    task::{Context, Waker},
};

/// The word alone, for models in which several threads own a future in turn.
pub struct Word(State);

/// What the thread that has polled the future does.
#[expect(missing_docs, reason = "a shim for tests")]
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    Idle,
    Again,
    Drop,
}

#[expect(clippy::new_without_default, missing_docs, reason = "a shim for tests")]
impl Word {
    pub fn new() -> Self {
        Self(State::new())
    }

    /// Starts the future; returns whether to poll it.
    pub fn start(&self) -> bool {
        self.0.start() == Start::Poll
    }

    pub fn rest(&self) -> Rest {
        match self.0.rest() {
            super::state::Rest::Idle => Rest::Idle,
            super::state::Rest::Again => Rest::Again,
            super::state::Rest::Drop => Rest::Drop,
        }
    }

    #[must_use]
    pub fn wake(&self) -> bool {
        self.0.wake()
    }

    #[must_use]
    pub fn abort(&self) -> bool {
        self.0.abort()
    }

    #[must_use]
    pub fn evict(&self) -> bool {
        self.0.evict()
    }

    /// The future has been dropped.
    pub fn finish(&self) {
        assert_ne!(
            self.0.finish(End::Cancelled),
            Finished::Orphaned,
            "there is a handle"
        );
    }
}

/// Creates a future that is ready at once; returns its handle and its job.
pub fn make<F: Future>(future: F) -> (Hold<F::Output>, Ticket) {
    // SAFETY: the models use only futures and values that are `Send`.
    let (hold, ticket) = unsafe { hold::make(future) };
    (Hold(hold), Ticket(ticket))
}

/// The job of a future.
pub struct Ticket(run::Ticket);

// SAFETY: the models use only futures and values that are `Send`, as in `make`.
unsafe impl Send for Ticket {}

impl Ticket {
    /// Polls the future, and hands its value over.
    pub fn run(self) {
        let cell: NonNull<Header> = self.0.cell;
        // SAFETY: the cell is valid until the future is done, and this thread owns its job.
        let header = unsafe { &*cell.as_ptr() };
        assert_eq!(header.state.start(), Start::Poll);
        let mut cx = Context::from_waker(Waker::noop());
        // SAFETY: this thread has started the future, and it is in the cell.
        let polled = unsafe { (header.actions.poll)(cell, &mut cx) };
        let Polled::Done(end, None) = polled else {
            unreachable!("it is ready, and nothing panics here");
        };
        // SAFETY: the future has been dropped by its last poll, and was never linked.
        unsafe { hand_over(cell, |_| unreachable!("nothing panics here"), end, None) };
    }
}

/// The handle's side.
pub struct Hold<T>(super::Hold<T>);

#[expect(missing_docs, reason = "a shim for tests")]
impl<T> Hold<T> {
    pub fn watch(&mut self, waker: &Waker) -> bool {
        self.0.watch(waker)
    }

    pub fn take(&mut self) -> Option<T> {
        match self.0.take()? {
            super::Taken::Value(value) => Some(value),
            _ => unreachable!("nothing panics here"),
        }
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let _ = self.0.abandon();
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl<T> fmt::Debug for Hold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}
