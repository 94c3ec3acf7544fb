//! The state word and the cell of a future, unchanged, for the model checker.
#![expect(unsafe_code, reason = "plays the part of a worker")]

use super::{
    CellKind, Joinable, PollBody, Polled, State, TaskRef,
    cell::make_future,
    header::Header,
    join::{self, JoinRef},
    state::{self, Cause, Start, TaskStatus},
};
use crate::{base::unwind::Payload, engine::Level};
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

#[expect(missing_docs, reason = "a shim for tests")]
impl Word {
    /// A future that is queued, and has a handle.
    pub fn queued() -> Self {
        Self(State::new(Level::Normal))
    }

    /// A future that its creator polls.
    pub fn running() -> Self {
        Self(State::new_running())
    }

    /// Starts the future; returns whether to poll it.
    pub fn start(&self) -> bool {
        self.0.start() == Start::Poll
    }

    pub fn rest(&self) -> Rest {
        match self.0.rest() {
            state::Rest::Idle => Rest::Idle,
            state::Rest::Again => Rest::Again,
            state::Rest::Drop => Rest::Drop,
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
        let _ = self.0.finish(TaskStatus::Cancelled(Cause::Asked));
    }
}

/// A future that belongs to no pool.
struct Bare;

impl CellKind for Bare {
    type Run = PollBody<Self>;
}

impl Joinable for Bare {
    fn report_panic(_: u32, _: Payload) {
        unreachable!("nothing panics here");
    }
}

/// Creates a future that is ready at once; returns its handle and its job.
pub fn make<F: Future>(future: F) -> (Join<F::Output>, Job) {
    // SAFETY: the models use only futures and values that are `Send`.
    let cell = unsafe { make_future(State::new(Level::Normal), Bare, future) };
    // SAFETY: `State::new` has counted the handle, and the value is that of the future.
    let join = unsafe { JoinRef::new(cell, 0) };
    (Join(join), Job(cell))
}

/// The job of a future.
pub struct Job(NonNull<Header<Bare>>);

// SAFETY: the models use only futures and values that are `Send`, as in `make`.
unsafe impl Send for Job {}

impl Job {
    /// Polls the future, and hands its value over.
    pub fn run(self) {
        // SAFETY: the reference of the future itself, which this thread owns with its job.
        let task = unsafe { TaskRef::from_counted(self.0) };
        assert_eq!(task.state.start(), Start::Poll);
        let mut cx = Context::from_waker(Waker::noop());
        // SAFETY: this thread has started the future, and it is in the cell.
        let polled = unsafe { (task.actions.run)(self.0, &mut cx) };
        let Polled::Done(status, None) = polled else {
            unreachable!("it is ready, and nothing panics here");
        };
        // SAFETY: the future has been dropped by its last poll, and its outcome is in the slot.
        let payload = unsafe { task.finish(status, |_| ()) };
        assert!(payload.is_none(), "nothing panics here");
    }
}

/// The handle's side.
pub struct Join<T>(JoinRef<Bare, T>);

#[expect(missing_docs, reason = "a shim for tests")]
impl<T> Join<T> {
    pub fn watch(&mut self, waker: &Waker) -> bool {
        self.0.watch(waker)
    }

    pub fn take(&mut self) -> Option<T> {
        match self.0.take()? {
            join::Outcome::Value(value) => Some(value),
            _ => unreachable!("nothing panics here"),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl<T> fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Join")
    }
}
