//! The end of a task: its refusal, and the notification of its followers.

use super::{
    FailedTask,
    cell::{COUNTED, Cause, Claim, DependencyEdge, EndedTask, FollowerUpdate, SubmitRef},
    pool_context, queue,
};
use crate::{base::unwind::Payload, observe::TaskEvent, pool::Inner};
use std::sync::Arc;

/// The followers of a task that has ended, and why they cannot run, if it failed.
type FollowersToNotify = (Vec<DependencyEdge>, Option<Arc<FailedTask>>);

/// Releases the capacity of a claimed task, and unregisters it from its token.
#[inline]
pub(super) fn release_capacity_and_token(cell: &SubmitRef, pool: Option<&Inner>) {
    let meta = cell.meta();
    if let Some(extras) = meta.extras() {
        extras.unregister();
    }
    if meta.has_flag(COUNTED)
        && let Some(capacity) = pool.and_then(|pool| pool.tasks().capacity.as_ref())
    {
        capacity.give(1);
    }
}

/// Refuses a claimed task. Calls `notify_followers` if it has any.
#[cold]
pub(super) fn refuse(
    claim: Claim,
    pool: Option<&Inner>,
    worker: Option<usize>,
    cause: Cause,
    notify_followers: impl FnOnce(&SubmitRef),
) {
    release_capacity_and_token(claim.cell(), pool);
    if let Some(pool) = pool {
        let event = match cause {
            Cause::Deadline => TaskEvent::Expired,
            _ => TaskEvent::Cancelled,
        };
        let level = claim.cell().snapshot().level();
        pool.tasks().counters.count(worker, level, event);
    }
    let (ended, payload) = claim.refuse(cause);
    for payload in [payload, ended.finish_then(notify_followers)]
        .into_iter()
        .flatten()
    {
        pool_context::report_panic(pool, payload);
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
    notify_all(vec![ended.take_followers()]);
}

/// Applies the effect of the end of a predecessor, or of a check for it.
pub(super) fn apply_update(update: FollowerUpdate) {
    let mut to_notify = Vec::new();
    apply_update_into(update, &mut to_notify);
    notify_all(to_notify);
}

fn notify_all(mut to_notify: Vec<FollowersToNotify>) {
    while let Some((followers, failed)) = to_notify.pop() {
        for follower in followers {
            apply_update_into(follower.predecessor_ended(failed.as_ref()), &mut to_notify);
        }
    }
}

fn apply_update_into(update: FollowerUpdate, to_notify: &mut Vec<FollowersToNotify>) {
    match update {
        FollowerUpdate::Unchanged => {}
        FollowerUpdate::Ready(ticket, inboxes) => {
            let cell = ticket.cell().clone();
            if let Some(claim) = queue::enqueue_ready(ticket) {
                refuse_follower(claim, Cause::Closed, to_notify);
            }
            inboxes.notify(&cell);
        }
        FollowerUpdate::Failed(claim) => refuse_follower(claim, Cause::Dependency, to_notify),
    }
}

fn refuse_follower(claim: Claim, cause: Cause, to_notify: &mut Vec<FollowersToNotify>) {
    pool_context::with_pool(claim.cell().meta().pool, |pool, context| {
        let worker = context.map(|context| context.worker());
        refuse(claim, pool, worker, cause, |ended| {
            to_notify.push(ended.take_followers());
        });
    });
}
