//! The end of a task: its refusal, and the notification of its followers.

use super::{
    FailedTask,
    cell::{Arrived, COUNTED, Cause, Claim, Ended, Link, Ref},
    place, queue,
};
use crate::{base::unwind::Payload, observe::TaskEvent, pool::Inner};
use std::sync::Arc;

/// The followers of a task that has ended, and why they cannot run, if it failed.
type Followers = (Vec<Link>, Option<Arc<FailedTask>>);

/// Releases the capacity of a claimed task, and unregisters it from its token.
#[inline]
pub(super) fn leave_queue(cell: &Ref, pool: Option<&Inner>) {
    let about = cell.about();
    if let Some(extras) = about.extras() {
        extras.unwatch();
    }
    if about.is(COUNTED)
        && let Some(capacity) = pool.and_then(|pool| pool.tasks().capacity.as_ref())
    {
        capacity.give(1);
    }
}

/// Refuses a claimed task. If it has followers, `settle` has to notify them.
#[cold]
pub(super) fn refuse(
    claim: Claim,
    pool: Option<&Inner>,
    place: Option<usize>,
    cause: Cause,
    settle: impl FnOnce(&Ref),
) {
    leave_queue(claim.cell(), pool);
    if let Some(pool) = pool {
        let event = match cause {
            Cause::Deadline => TaskEvent::Expired,
            _ => TaskEvent::Cancelled,
        };
        let level = claim.cell().snapshot().level();
        pool.tasks().counters.count(place, level, event);
    }
    let (ended, payload) = claim.refuse(cause);
    for payload in [payload, ended.finish_then(settle)].into_iter().flatten() {
        place::report_panic(pool, payload);
    }
}

impl Ended {
    /// Hands the outcome over, and notifies the followers. Returns a panic that reaches no waiter,
    /// or that of a drop.
    #[inline]
    pub(super) fn finish(self) -> Option<Payload> {
        self.finish_then(settle)
    }
}

/// Notifies the followers of `ended`.
///
/// A follower that fails because of that has followers too, and so on: they are kept in a list and
/// not visited recursively, since such chains can have any length.
#[cold]
pub(super) fn settle(ended: &Ref) {
    settle_all(vec![ended.take_followers()]);
}

/// Applies the effect of the end of a predecessor, or of a check for it.
pub(super) fn advance(arrived: Arrived) {
    let mut work = Vec::new();
    advance_into(arrived, &mut work);
    settle_all(work);
}

fn settle_all(mut work: Vec<Followers>) {
    while let Some((followers, failed)) = work.pop() {
        for follower in followers {
            advance_into(follower.arrive(failed.as_ref()), &mut work);
        }
    }
}

fn advance_into(arrived: Arrived, work: &mut Vec<Followers>) {
    match arrived {
        Arrived::Waits => {}
        Arrived::Ready(ticket, wanted) => {
            let cell = ticket.cell().clone();
            if let Some(claim) = queue::queue_ready(ticket) {
                refuse_follower(claim, Cause::Closed, work);
            }
            wanted.notify(&cell);
        }
        Arrived::Failed(claim) => refuse_follower(claim, Cause::Dependency, work),
    }
}

fn refuse_follower(claim: Claim, cause: Cause, work: &mut Vec<Followers>) {
    place::with_pool(claim.cell().about().pool, |pool, context| {
        let place = context.map(|context| context.worker());
        refuse(claim, pool, place, cause, |ended| {
            work.push(ended.take_followers());
        });
    });
}
