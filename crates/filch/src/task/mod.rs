#![doc = include_str!("task.md")]

mod cell;
mod header;
mod join;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod schedule;
mod state;
mod waker;

pub(crate) use cell::{Body, Call, PollBody, Polled, make_closure, make_future, take_closure};
pub(crate) use header::{CellKind, Header, TaskRef};
pub(crate) use join::{JoinRef, Joinable, Outcome};
pub(crate) use schedule::{Schedule, borrow_waker, waker_functions};
pub(crate) use state::{Cancelling, Cause, Moved, Rest, Start, State, TaskStatus};
pub(crate) use waker::{drop_waker, wake};
