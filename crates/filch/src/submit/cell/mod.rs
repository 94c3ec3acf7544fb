#![doc = include_str!("cell.md")]

mod follow;
mod meta;
mod task_join;
mod ticket;

pub(super) use crate::task::{Body, Cause, TaskOutcome, TaskStatus};
pub(super) use follow::FollowerUpdate;
pub(super) use meta::{
    COUNTED, DependencyEdge, Extras, FewEdges, ISOLATED, JoinerInbox, NO_THREADS, Predecessors,
    SubmitHeader, SubmitRef, TaskMeta,
};
pub(super) use task_join::{NewTask, TaskJoin, make};
pub(super) use ticket::{
    CancelEffect, Claim, EndedTask, Lifecycle, TaskTicket, current, is_stale, with_current,
};
