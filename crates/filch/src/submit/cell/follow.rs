//! Tasks that wait for the end of other tasks. `cell.md` has the protocol.

use super::{
    Cause, Claim, Link, Ref, TaskStatus, Ticket,
    meta::{Followers, Inbox, lock},
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::Ordering,
        thread, unwind,
    },
    submit::FailedTask,
    task::{drop_waker, wake},
};
use std::{
    mem,
    sync::{Arc, Weak},
    task::Waker,
};

impl Followers {
    /// Adds a follower. Returns the entries that do not wait any more, to be dropped without the
    /// lock.
    fn push(list: &mut Vec<Link>, follower: Link) -> Vec<Link> {
        let (full, mut stale) = (list.capacity(), Vec::new());
        if full > 0 && list.len() == full {
            // A long-running task may gain and lose many followers.
            stale.extend(list.extract_if(.., |link| !link.cell.snapshot().is_idle()));
            if list.len() > full / 2 {
                list.reserve(full);
            }
        }
        list.push(follower);
        stale
    }
}

/// The effect of the end of a predecessor.
#[must_use]
pub(in crate::submit) enum Arrived {
    /// The follower waits for other predecessors, or did not wait any more.
    Waits,
    /// The follower is queued from now on, with this ticket. Then the joiners that want it must be
    /// notified.
    Ready(Ticket, Wanted),
    /// It will not run.
    Failed(Claim),
}

/// The inboxes of the joiners that want a task that is ready now.
pub(in crate::submit) struct Wanted(Vec<Weak<Inbox>>);

impl Link {
    /// Notifies the follower that its predecessor has ended: successfully, or with the failure
    /// `failed`.
    pub(in crate::submit) fn arrive(self, failed: Option<&Arc<FailedTask>>) -> Arrived {
        let Self { cell, any_outcome } = self;
        let Some(after) = cell.about().after() else {
            return Arrived::Waits;
        };
        if let Some(failed) = failed
            && !any_outcome
        {
            return cell.fail(failed.clone());
        }
        let order = match broken(Canary::TaskArrive) {
            // Relaxed: the defect.
            true => Ordering::Relaxed,
            // AcqRel, with the other arrivals: what each predecessor did before its end is visible
            // to the last arrival, which publishes all of it to the claimer of the follower, in
            // `TaskState::make_ready`.
            false => Ordering::AcqRel,
        };
        match after.pending.fetch_sub(1, order) {
            1 => cell.make_ready(),
            _ => Arrived::Waits,
        }
    }
}

impl Ref {
    /// Makes a task that no other thread knows yet wait for others.
    pub(in crate::submit) fn mark_held(&self) {
        self.state.mark_held();
    }

    /// Adds the task to the follower lists of its predecessors.
    pub(in crate::submit) fn enlist(&self) -> Arrived {
        let Some(after) = self.about().after() else {
            return Arrived::Waits;
        };
        let follower = |any_outcome| Link {
            cell: self.clone(),
            any_outcome,
        };
        // Until the end of the list, or until the task has been cancelled and has dropped its
        // predecessors.
        for at in 0.. {
            let Some(link) = after.predecessor(at) else {
                break;
            };
            let follower = follower(link.any_outcome);
            if let Err(follower) = link.cell.follow(follower) {
                match follower.arrive(link.cell.failure().as_ref()) {
                    Arrived::Waits => {}
                    arrived => return arrived,
                }
            }
        }
        follower(true).arrive(None)
    }

    /// Registers `follower`, which is notified when this task ends. Returns it if the task has
    /// ended already.
    fn follow(&self, follower: Link) -> Result<(), Link> {
        if self.snapshot().is_done() && !broken(Canary::TaskFollow) {
            return Err(follower);
        }
        let followers = &self.about().extras_or_new().followers;
        thread::point();
        let mut list = lock(&followers.0);
        if !self.state.follow() {
            return Err(follower);
        }
        let stale = Followers::push(&mut list, follower);
        drop(list);
        drop(stale);
        Ok(())
    }

    /// Takes the followers to notify of the end of this task, and its failure, if it failed.
    pub(in crate::submit) fn take_followers(&self) -> (Vec<Link>, Option<Arc<FailedTask>>) {
        let followers = match self.about().extras() {
            Some(extras) => mem::take(&mut *lock(&extras.followers.0)),
            None => Vec::new(),
        };
        (followers, self.failure())
    }

    /// Returns why followers of this task cannot run, if it failed.
    fn failure(&self) -> Option<Arc<FailedTask>> {
        match self.snapshot().status()? {
            TaskStatus::Succeeded => None,
            // The original failure, which is more informative than that of the direct predecessor.
            TaskStatus::Cancelled(Cause::Dependency) => self.about().after()?.failed().cloned(),
            status => {
                let (id, name) = (self.about().id, self.about().name().cloned());
                Some(Arc::new(FailedTask::new(id, name, status)))
            }
        }
    }

    fn fail(self, failed: Arc<FailedTask>) -> Arrived {
        if let Some(after) = self.about().after() {
            // The first failure is kept. Set before the task is claimed, so that a thread that sees
            // its end finds the reason.
            let _ = after.failed.set(failed);
        }
        match self.state.claim_held() {
            true => Arrived::Failed(Claim { cell: self }),
            false => Arrived::Waits,
        }
    }

    fn make_ready(self) -> Arrived {
        let Some(level) = self.state.make_ready() else {
            return Arrived::Waits;
        };
        thread::point();
        // Joiners that register from now on see that it does not wait any more.
        let wanted_by = match self.about().after() {
            Some(after) => mem::take(&mut lock(&after.waits).wanted_by),
            None => Vec::new(),
        };
        let ticket = Ticket { cell: self, level };
        Arrived::Ready(ticket, Wanted(wanted_by))
    }

    /// Checks whether all predecessors of the task have ended. Then a joiner need not wait for the
    /// notification.
    pub(in crate::submit) fn check_predecessors(&self) -> Arrived {
        let Some(after) = self.about().after() else {
            return Arrived::Waits;
        };
        let mut failed = None;
        for link in &lock(&after.waits).predecessors {
            match link.cell.snapshot().status() {
                None => return Arrived::Waits,
                Some(TaskStatus::Succeeded) => {}
                Some(_) if link.any_outcome => {}
                Some(_) => failed = Some(link.cell.clone()),
            }
        }
        match failed.and_then(|cell| cell.failure()) {
            Some(failed) => self.clone().fail(failed),
            None => self.clone().make_ready(),
        }
    }

    /// Returns the predecessors that are not done, if the task is held, and registers `inbox`,
    /// which is notified when it becomes ready.
    pub(in crate::submit) fn want(&self, inbox: &Arc<Inbox>) -> Option<Vec<Ref>> {
        let checked = broken(Canary::TaskWant).then(|| self.snapshot().is_idle());
        thread::point();
        let mut waits = lock(&self.about().after()?.waits);
        // Checked with the lock held: the thread that makes the task ready takes the lock after it
        // has changed the word.
        if !checked.unwrap_or_else(|| self.snapshot().is_idle()) {
            return None;
        }
        waits.wanted_by.retain(|other| other.strong_count() > 0);
        waits.wanted_by.push(Arc::downgrade(inbox));
        let unfinished = waits.predecessors.iter().map(|link| &link.cell);
        let unfinished = unfinished.filter(|cell| !cell.snapshot().is_done());
        Some(unfinished.cloned().collect())
    }

    /// Creates an inbox for the waiter for this very task.
    pub(in crate::submit) fn open_inbox(&self) -> Arc<Inbox> {
        let inbox = Arc::<Inbox>::default();
        if let Some(after) = self.about().after() {
            let before = lock(&after.waits).inbox.replace(inbox.clone());
            unwind::discard(before);
        }
        inbox
    }
}

impl Wanted {
    /// Notifies the joiners that `cell` is ready.
    pub(in crate::submit) fn notify(self, cell: &Ref) {
        for inbox in self.0 {
            if let Some(inbox) = inbox.upgrade() {
                let waker = {
                    let mut state = lock(&inbox.0);
                    state.ready.push(cell.clone());
                    state.waker.take()
                };
                if let Some(waker) = waker {
                    wake(waker);
                }
                unwind::discard(inbox);
            }
        }
    }
}

impl Inbox {
    pub(in crate::submit) fn take(&self) -> Option<Ref> {
        lock(&self.0).ready.pop()
    }

    pub(in crate::submit) fn is_empty(&self) -> bool {
        lock(&self.0).ready.is_empty()
    }

    /// Registers `waker`, which is called when a task arrives. Returns false when there is one
    /// already.
    pub(in crate::submit) fn arm(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = lock(&self.0);
        if !state.ready.is_empty() {
            return false;
        }
        let before = state.waker.replace(waker);
        drop(state);
        drop_waker(before);
        true
    }
}
