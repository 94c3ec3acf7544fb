//! Tasks that wait for others: from their submission to their turn.

use super::{
    FailedTask, TaskHandle, TaskId,
    admission::Entry,
    cell::{Arrived, Cause, Claim, Hold, Inbox, Link, Ref, Ticket},
    launch, run, wait,
};
use crate::base::thread;
use std::{collections::HashSet, sync::Arc};

/// Those who follow a task that has ended, and why they cannot run, if it failed.
type Followers = (Vec<Link>, Option<Arc<FailedTask>>);

/// A task that is held makes itself known to those that it waits for.
#[cold]
pub(super) fn launch<T>(mut hold: Hold<T>, ticket: Ticket, entry: Entry) -> TaskHandle<T> {
    go_on_from(ticket.cell().enlist());
    // It gets another one when it is ready.
    drop(ticket);
    if entry == Entry::RunHere {
        // There is no room. What can be done here is; if that is not enough, it is let in all the same, because
        // whoever waits here for tasks elsewhere may be what they wait for.
        wait::run_here(&mut hold);
    }
    TaskHandle::new(hold)
}

/// Tells those who wait for `ended` that it has.
///
/// What fails because of that has followers too, and so on: a list, and no recursion, since such chains are as long as
/// people like.
#[cold]
pub(super) fn settle(ended: &Ref) {
    settle_all(vec![ended.take_followers()]);
}

/// Does what came of the end of a task, or of a look for it.
fn go_on_from(arrived: Arrived) {
    let mut work = Vec::new();
    go_on(arrived, &mut work);
    settle_all(work);
}

fn settle_all(mut work: Vec<Followers>) {
    while let Some((followers, failed)) = work.pop() {
        for follower in followers {
            go_on(follower.arrive(failed.as_ref()), &mut work);
        }
    }
}

fn go_on(arrived: Arrived, work: &mut Vec<Followers>) {
    match arrived {
        Arrived::Waits => {}
        Arrived::Ready(ticket, wanted) => {
            let cell = ticket.cell().clone();
            if let Some(claim) = launch::queue_ready(ticket) {
                refuse(claim, Cause::Closed, work);
            }
            wanted.tell(&cell);
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

/// Runs what `target` waits for, as far as that has not begun and may run here, and what that waits for, and so on. Whatever of
/// it becomes ready later comes to the inbox of `target`. True when some of it is below us on this very stack, so that
/// it cannot end before we return.
pub(super) fn help(target: &Ref) -> bool {
    let inbox = target.open_inbox();
    let mut seen = HashSet::<TaskId>::new();
    let mut path = vec![target.clone()];
    while let Some(top) = path.last() {
        thread::point();
        if top.snapshot().is_held()
            && seen.insert(top.about().id)
            && let Some(unfinished) = top.want(&inbox)
        {
            path.extend(unfinished);
            continue;
        }
        let Some(top) = path.pop() else { break };
        if top.snapshot().is_held() {
            // Whoever has to tell it that all of it has ended may be below us, and cannot before we return.
            go_on_from(top.look_again());
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

/// Runs what has come in.
pub(super) fn run_ready(inbox: &Inbox, target: &Ref) {
    while let Some(cell) = inbox.take() {
        if !cell.is(target) {
            wait::run_other(&cell);
        }
    }
}
