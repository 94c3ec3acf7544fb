#![doc = include_str!("cell.md")]

mod follow;
mod hold;
mod meta;
mod ticket;

pub(super) use crate::task::{Body, Cause, TaskOutcome, TaskStatus};
pub(super) use follow::Arrived;
pub(super) use hold::{Fresh, Hold, make};
pub(super) use meta::{
    After, COUNTED, Extras, Header, ISOLATED, Inbox, Link, NO_THREADS, Ref, TaskMeta,
};
pub(super) use ticket::{Cancel, Claim, Ended, Lifecycle, Ticket, current, is_stale, with_current};
