#![doc = include_str!("task.md")]

mod cell;
mod header;
mod join;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod panic;
mod schedule;
mod state;
mod waker;

pub(crate) use cell::{Body, CallBody, PollBody, Polled, make_closure, make_future, take_closure};
pub(crate) use header::{CellKind, Header, TaskRef};
pub(crate) use join::{JoinRef, Joinable, TaskOutcome};
pub(crate) use panic::{StoredPanic, expect_panic, resume_panic};
pub(crate) use schedule::{Schedule, borrow_waker, waker_functions};
pub(crate) use state::{
    AfterPoll, CancelTransition, Cause, LevelChange, StartAction, TaskState, TaskStatus,
};
pub(crate) use waker::{drop_waker, wake};
