//! Tasks that wait for the end of other tasks. `cell.md` has the protocol.

use super::{
    Cause, Claim, DependencyEdge, SubmitRef, TaskStatus, TaskTicket,
    meta::{FewEdges, Followers, JoinerInbox, lock},
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
    fn push(list: &mut FewEdges, follower: DependencyEdge) -> Vec<DependencyEdge> {
        let mut stale = Vec::new();
        if list.is_full() {
            let full = list.capacity();
            // A long-running task may gain and lose many followers.
            stale = list.remove_if(|edge| !edge.cell.snapshot().is_held());
            if list.len() > full / 2 {
                list.reserve(full);
            }
        }
        list.push(follower);
        stale
    }
}

/// The effect of the end of a predecessor on a follower.
#[must_use]
pub(in crate::submit) enum FollowerUpdate {
    /// The follower waits for other predecessors, or did not wait any more.
    Unchanged,
    /// The caller must queue this ticket of the follower, and then notify the joiners that wait for
    /// the follower to become ready.
    Ready(TaskTicket, JoinerInboxes),
    /// The follower is claimed, and must be discarded.
    Failed(Claim),
}

/// The inboxes of the joiners that wait for a task to become ready.
pub(in crate::submit) struct JoinerInboxes(Vec<Weak<JoinerInbox>>);

impl DependencyEdge {
    /// Notifies the follower that its predecessor has ended: successfully, or with the failure
    /// `failed`.
    pub(in crate::submit) fn predecessor_ended(
        self,
        failed: Option<&Arc<FailedTask>>,
    ) -> FollowerUpdate {
        let Self { cell, any_outcome } = self;
        let Some(predecessors) = cell.meta().predecessors() else {
            return FollowerUpdate::Unchanged;
        };
        if let Some(failed) = failed
            && !any_outcome
        {
            return cell.fail(failed.clone());
        }
        let order = match broken(Canary::TaskArrive) {
            // Relaxed: the defect.
            true => Ordering::Relaxed,
            // AcqRel, with the other decrements: what each predecessor did before its end is
            // visible to the last one, which publishes all of it to the claimer of the follower, in
            // `TaskState::make_ready`.
            false => Ordering::AcqRel,
        };
        match predecessors.pending.fetch_sub(1, order) {
            1 => cell.make_ready(),
            _ => FollowerUpdate::Unchanged,
        }
    }
}

impl SubmitRef {
    /// Makes a task that no other thread can access yet wait for others.
    pub(in crate::submit) fn mark_held(&self) {
        self.state.mark_held();
    }

    /// Adds the task to the follower lists of its predecessors. This reference becomes that of the
    /// ticket if they have all ended.
    pub(in crate::submit) fn register_as_follower(self) -> FollowerUpdate {
        let Some(predecessors) = self.meta().predecessors() else {
            return FollowerUpdate::Unchanged;
        };
        let follower = |any_outcome| DependencyEdge {
            cell: self.clone(),
            any_outcome,
        };
        for edge in predecessors.edge_list().iter() {
            let follower = follower(edge.any_outcome);
            if let Err(follower) = edge.cell.follow(follower) {
                match follower.predecessor_ended(edge.cell.failure().as_ref()) {
                    FollowerUpdate::Unchanged => {}
                    update => return update,
                }
            }
        }
        let itself = DependencyEdge {
            cell: self,
            any_outcome: true,
        };
        itself.predecessor_ended(None)
    }

    /// Registers `follower`, which is notified when this task ends. Returns it if the task has
    /// ended already.
    fn follow(&self, follower: DependencyEdge) -> Result<(), DependencyEdge> {
        if self.snapshot().is_done() && !broken(Canary::TaskFollow) {
            return Err(follower);
        }
        let followers = &self.meta().extras_or_new().followers;
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
    pub(in crate::submit) fn take_followers(&self) -> (FewEdges, Option<Arc<FailedTask>>) {
        let followers = match self.meta().extras() {
            Some(extras) => mem::take(&mut *lock(&extras.followers.0)),
            None => FewEdges::default(),
        };
        (followers, self.failure())
    }

    /// Returns why followers of this task cannot run, if it failed.
    fn failure(&self) -> Option<Arc<FailedTask>> {
        match self.snapshot().status()? {
            TaskStatus::Succeeded => None,
            // The original failure, which is more informative than that of the direct predecessor.
            TaskStatus::Cancelled(Cause::Dependency) => {
                self.meta().predecessors()?.failed().cloned()
            }
            status => {
                let (id, name) = (self.meta().id, self.meta().name().cloned());
                Some(Arc::new(FailedTask::new(id, name, status)))
            }
        }
    }

    fn fail(self, failed: Arc<FailedTask>) -> FollowerUpdate {
        if let Some(predecessors) = self.meta().predecessors() {
            // The first failure is kept. Set before the task is claimed, so that a thread that sees
            // its end finds the reason.
            let _ = predecessors.failed.set(failed);
        }
        match self.state.claim_held() {
            true => FollowerUpdate::Failed(Claim { cell: self }),
            false => FollowerUpdate::Unchanged,
        }
    }

    fn make_ready(self) -> FollowerUpdate {
        let Some(level) = self.state.make_ready() else {
            return FollowerUpdate::Unchanged;
        };
        thread::point();
        // Joiners that register from now on see that it does not wait any more.
        let joiner_inboxes = match self.meta().predecessors() {
            Some(predecessors) => mem::take(&mut lock(&predecessors.held).joiner_inboxes),
            None => Vec::new(),
        };
        let ticket = TaskTicket { cell: self, level };
        FollowerUpdate::Ready(ticket, JoinerInboxes(joiner_inboxes))
    }

    /// Checks whether all predecessors of the task have ended. Then a joiner need not wait for the
    /// notification.
    pub(in crate::submit) fn check_predecessors(&self) -> FollowerUpdate {
        let Some(predecessors) = self.meta().predecessors() else {
            return FollowerUpdate::Unchanged;
        };
        let mut failed = None;
        for edge in lock(&predecessors.held).edges.iter() {
            match edge.cell.snapshot().status() {
                None => return FollowerUpdate::Unchanged,
                Some(TaskStatus::Succeeded) => {}
                Some(_) if edge.any_outcome => {}
                Some(_) => failed = Some(edge.cell.clone()),
            }
        }
        match failed.and_then(|cell| cell.failure()) {
            Some(failed) => self.clone().fail(failed),
            None => self.clone().make_ready(),
        }
    }

    /// If the task is held, registers `inbox`, into which it is put when it becomes ready, and
    /// returns the predecessors that are not done.
    pub(in crate::submit) fn register_inbox(
        &self,
        inbox: &Arc<JoinerInbox>,
    ) -> Option<Vec<SubmitRef>> {
        let checked = broken(Canary::TaskInboxLock).then(|| self.snapshot().is_held());
        thread::point();
        let mut held = lock(&self.meta().predecessors()?.held);
        // Checked with the lock held: the thread that makes the task ready takes the lock after it
        // has changed the word.
        if !checked.unwrap_or_else(|| self.snapshot().is_held()) {
            return None;
        }
        held.joiner_inboxes.retain(|other| other.strong_count() > 0);
        held.joiner_inboxes.push(Arc::downgrade(inbox));
        let unfinished = held.edges.iter().map(|edge| &edge.cell);
        let unfinished = unfinished.filter(|cell| !cell.snapshot().is_done());
        Some(unfinished.cloned().collect())
    }

    /// Creates the inbox of the joiner of this very task.
    pub(in crate::submit) fn open_inbox(&self) -> Arc<JoinerInbox> {
        let inbox = Arc::<JoinerInbox>::default();
        if let Some(predecessors) = self.meta().predecessors() {
            let before = lock(&predecessors.held).own_inbox.replace(inbox.clone());
            unwind::discard(before);
        }
        inbox
    }
}

impl JoinerInboxes {
    pub(in crate::submit) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notifies the joiners that `cell` is ready.
    pub(in crate::submit) fn notify(self, cell: &SubmitRef) {
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

impl JoinerInbox {
    pub(in crate::submit) fn take(&self) -> Option<SubmitRef> {
        lock(&self.0).ready.pop()
    }

    pub(in crate::submit) fn is_empty(&self) -> bool {
        lock(&self.0).ready.is_empty()
    }

    /// Registers `waker`, which is called when a task is put into the inbox. Returns false when
    /// there is one already.
    pub(in crate::submit) fn register_waker(&self, waker: &Waker) -> bool {
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
