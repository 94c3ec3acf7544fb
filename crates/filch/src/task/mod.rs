#![doc = include_str!("task.md")]

mod cancel_on_drop;
mod cell;
mod drop_in_unwind;
mod header;
mod id;
mod join;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod panic;
mod schedule;
mod state;
mod waker;

pub(crate) use cancel_on_drop::sealed;
pub use cancel_on_drop::{CancelOnDrop, CancelTask};
pub(crate) use cell::{Body, CallBody, PollBody, Polled, make_closure, make_future, take_closure};
pub(crate) use drop_in_unwind::DropInUnwind;
pub(crate) use header::{CellKind, Header, TaskRef};
pub use id::TaskId;
pub(crate) use join::{JoinRef, Joinable, TaskOutcome};
pub(crate) use panic::{StoredPanic, expect_panic, resume_panic};
pub(crate) use schedule::{Schedule, borrow_waker, waker_functions};
pub(crate) use state::{
    AfterPoll, CancelTransition, Cause, LevelChange, StartAction, TaskState, TaskStatus,
};
pub(crate) use waker::{drop_waker, wake};
