//! Tasks that wait for others: from their submission until they are queued.

use super::{
    FailedTask, TaskHandle, TaskId,
    admission::Entry,
    cell::{Arrived, Cause, Claim, Hold, Inbox, Link, Ref, Ticket},
    launch, run, wait,
};
use crate::base::thread;
use std::{collections::HashSet, sync::Arc};

/// The followers of a task that has ended, and why they cannot run, if it failed.
type Followers = (Vec<Link>, Option<Arc<FailedTask>>);

/// Adds a held task to the follower lists of its predecessors.
#[cold]
pub(super) fn launch<T>(mut hold: Hold<T>, ticket: Ticket, entry: Entry) -> TaskHandle<T> {
    advance(ticket.cell().enlist());
    // Another ticket is made when the task is ready.
    drop(ticket);
    if entry == Entry::RunHere {
        // There is no capacity. Run what can be run here; if that is not enough, the task is
        // accepted nevertheless, because tasks elsewhere may depend on a caller that waits here for
        // them.
        wait::run_here(&mut hold);
    }
    TaskHandle::new(hold)
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
fn advance(arrived: Arrived) {
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
            if let Some(claim) = launch::queue_ready(ticket) {
                refuse(claim, Cause::Closed, work);
            }
            wanted.notify(&cell);
        }
        Arrived::Failed(claim) => refuse(claim, Cause::Dependency, work),
    }
}

fn refuse(claim: Claim, cause: Cause, work: &mut Vec<Followers>) {
    run::with_pool(claim.cell().about().pool, |pool, context| {
        let place = context.map(|context| context.worker());
        run::refuse(claim, pool, place, cause, |ended| {
            work.push(ended.take_followers());
        });
    });
}

/// Runs the direct and indirect predecessors of `target` that have not started and may run here.
/// Those that become ready later are put into the inbox of `target`. Returns true when one of them
/// runs in a lower frame of this very stack, so that it cannot end before the caller returns.
pub(super) fn help(target: &Ref) -> bool {
    let inbox = target.open_inbox();
    let mut seen = HashSet::<TaskId>::new();
    let mut path = vec![target.clone()];
    while let Some(top) = path.last() {
        thread::point();
        if top.snapshot().is_idle()
            && seen.insert(top.about().id)
            && let Some(unfinished) = top.want(&inbox)
        {
            path.extend(unfinished);
            continue;
        }
        let Some(top) = path.pop() else { break };
        if top.snapshot().is_idle() {
            // The thread that has to notify it of the last end may be this one, in a lower frame,
            // which cannot do so before the caller returns.
            advance(top.check_predecessors());
        }
        let now = top.snapshot();
        if !now.is_done() && top.about().is_here() {
            return true;
        }
        if now.is_queued() && !top.is(target) {
            wait::run_other(&top);
        }
    }
    false
}

/// Runs the tasks in the inbox.
pub(super) fn run_ready(inbox: &Inbox, target: &Ref) {
    while let Some(cell) = inbox.take() {
        if !cell.is(target) {
            wait::run_other(&cell);
        }
    }
}
