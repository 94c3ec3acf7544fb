//! The end of a task: tasks that are discarded, and the notification of its followers.

use super::{
    FailedTask,
    cell::{COUNTED, Cause, Claim, EndedTask, FewEdges, FollowerUpdate, SubmitRef},
    pool_context, queue,
};
use crate::{base::unwind::Payload, observe::TaskEvent, pool::Inner};
use std::sync::Arc;

/// The followers of a task that has ended, and why they cannot run, if it failed.
type FollowersToNotify = (FewEdges, Option<Arc<FailedTask>>);

/// Releases the capacity of a claimed task, and unregisters it from its token.
#[inline]
pub(super) fn release_capacity_and_token(cell: &SubmitRef, pool: Option<&Inner>) {
    if let Some(extras) = cell.meta().extras() {
        extras.unregister();
    }
    release_capacity(cell, pool);
}

#[inline]
fn release_capacity(cell: &SubmitRef, pool: Option<&Inner>) {
    if cell.meta().has_flag(COUNTED)
        && let Some(capacity) = pool.and_then(|pool| pool.tasks().capacity.as_ref())
    {
        capacity.give(1);
    }
}

/// Ends a claimed task without running it. Calls `notify_followers` if it has any.
#[cold]
pub(super) fn discard(
    claim: Claim,
    pool: Option<&Inner>,
    worker: Option<usize>,
    cause: Cause,
    notify_followers: impl FnOnce(&SubmitRef),
) {
    release_capacity_and_token(claim.cell(), pool);
    discard_released(claim, pool, worker, cause, notify_followers);
}

/// [`discard`] for a task that its token has removed from its list.
pub(super) fn discard_watched(
    claim: Claim,
    pool: Option<&Inner>,
    worker: Option<usize>,
    cause: Cause,
) {
    if let Some(predecessors) = claim.cell().meta().predecessors() {
        predecessors.forget();
    }
    release_capacity(claim.cell(), pool);
    discard_released(claim, pool, worker, cause, notify_followers);
}

#[inline(always)]
fn discard_released(
    claim: Claim,
    pool: Option<&Inner>,
    worker: Option<usize>,
    cause: Cause,
    notify_followers: impl FnOnce(&SubmitRef),
) {
    if let Some(pool) = pool {
        let event = match cause {
            Cause::Deadline => TaskEvent::Expired,
            _ => TaskEvent::Cancelled,
        };
        let level = claim.cell().snapshot().level();
        pool.tasks().counters.count(worker, level, event);
    }
    let (ended, payload) = claim.discard(cause);
    let another = ended.finish_then(notify_followers);
    if payload.is_some() || another.is_some() {
        for payload in [payload, another].into_iter().flatten() {
            pool_context::report_panic(pool, payload);
        }
    }
}

impl EndedTask {
    /// Hands the outcome over, and notifies the followers. Returns a panic that reaches no waiter,
    /// or that of a drop.
    #[inline]
    pub(super) fn finish(self) -> Option<Payload> {
        self.finish_then(notify_followers)
    }
}

/// Notifies the followers of `ended`.
///
/// A follower that fails because of that has followers too, and so on: they are kept in a list and
/// not visited recursively, since such chains can have any length.
#[cold]
pub(super) fn notify_followers(ended: &SubmitRef) {
    let mut to_notify = Vec::new();
    notify(ended.take_followers(), &mut to_notify);
    notify_all(to_notify);
}

/// Applies the effect of the end of a predecessor, or of a check for it.
pub(super) fn apply_update(update: FollowerUpdate) {
    let mut to_notify = Vec::new();
    apply_update_into(update, &mut to_notify);
    notify_all(to_notify);
}

fn notify_all(mut to_notify: Vec<FollowersToNotify>) {
    while let Some(followers) = to_notify.pop() {
        notify(followers, &mut to_notify);
    }
}

/// Notifies the followers of one task. Adds those of followers that fail to `to_notify`.
fn notify((followers, failed): FollowersToNotify, to_notify: &mut Vec<FollowersToNotify>) {
    followers.consume(|follower| {
        apply_update_into(follower.predecessor_ended(failed.as_ref()), to_notify);
    });
}

fn apply_update_into(update: FollowerUpdate, to_notify: &mut Vec<FollowersToNotify>) {
    match update {
        FollowerUpdate::Unchanged => {}
        FollowerUpdate::Ready(ticket, inboxes) => {
            // The ticket is gone when it is queued.
            let cell = (!inboxes.is_empty()).then(|| ticket.cell().clone());
            if let Some(claim) = queue::enqueue_ready(ticket) {
                discard_follower(claim, Cause::Closed, to_notify);
            }
            if let Some(cell) = cell {
                inboxes.notify(&cell);
            }
        }
        FollowerUpdate::Failed(claim) => discard_follower(claim, Cause::Dependency, to_notify),
    }
}

fn discard_follower(claim: Claim, cause: Cause, to_notify: &mut Vec<FollowersToNotify>) {
    pool_context::with_pool(claim.cell().meta().pool, |pool, context| {
        let worker = context.map(|context| context.worker());
        discard(claim, pool, worker, cause, |ended| {
            to_notify.push(ended.take_followers());
        });
    });
}
