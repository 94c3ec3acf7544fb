//! How a worker leaves: its queued tasks go to the injector, and those of its node if it is the
//! last one there.

use super::{
    event::{Event, Observer},
    queue::{Queue, Strategy},
    worker::{RunningWorker, Worker},
};
use crate::base::{
    canary::{Canary, broken},
    sync::Ordering,
};

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    fn leave(&mut self) {
        self.leave_search();
        let core = self.core;
        let (pinned, mut own) = core.mailboxes[self.id].close(core.flags());
        if let Some(node) = core.node_mailbox(self.id)
            && !broken(Canary::NodeLeaves)
        {
            own.extend(core.mailboxes[node].close(core.flags()).1);
        }
        self.queue.drain_own(|task| own.push(task));
        let handed_on = pinned.len() + own.len();
        for task in pinned {
            core.push_orphan(task);
        }
        if !own.is_empty() && !broken(Canary::LeaveDrop) {
            core.injector.push_always(own);
        }
        // After the stop no worker sleeps, and all others leave as well: each would check the
        // queues of all.
        if !core.is_stopped() && core.has_work() {
            // Not only for the tasks that were handed on: where the queue is shared, this worker
            // may have pushed tasks for which no worker was woken, because this one was going to
            // run them.
            core.notify_moved(self.id);
            // If no worker sleeps or searches, the busy ones must serve what was handed on.
            core.request_attention_for_missed(self.id);
        }
        self.become_idle();
        core.observer.event(self.id, Event::Left { handed_on });
        let verdict = self.flush_count();
        core.stop_if_finished(verdict);
        core.sleep.cores().forget(self.id);
        // Release: pairs with the acquire in `Core::take_queued`.
        core.present.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send, Q: Strategy, O: Observer> Drop for Worker<'_, T, Q, O> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: Send, Q: Strategy, O: Observer> RunningWorker<'_, '_, T, Q, O> {
    /// Moves tasks that were taken from this worker's own queue to the injector, because the worker
    /// is about to leave.
    pub(crate) fn hand_on(&mut self, tasks: &mut Vec<T>) {
        if tasks.is_empty() {
            return;
        }
        let (core, id) = (self.worker.core, self.worker.id);
        let spilled = Event::Spilled { tasks: tasks.len() };
        core.injector.push_always(tasks.drain(..));
        core.observer.event(id, spilled);
        core.notify_shared(id);
    }

    /// Moves the affine tasks of this worker, which is about to leave, to the mailbox of `to`.
    pub(crate) fn move_affine(&mut self, to: usize) {
        let (core, id) = (self.worker.core, self.worker.id);
        if to == id {
            return; // a resize has taken back that this worker leaves
        }
        // No more than there are now, since others may add more meanwhile: what is left when the
        // worker leaves goes to the injector.
        for _ in 0..core.mailboxes[id].affine_len() {
            let Some(task) = core.mailboxes[id].take_affine(core.flags()) else {
                break;
            };
            core.push_affine(to, task);
            core.notify_mailbox(id, to);
        }
    }

    /// The task of [`Worker::become_permanent`] is finished, and the worker leaves, as when it is
    /// dropped. For a worker that is never dropped: to be called once, as the last thing that is
    /// done with it, and not after [`retire`](Self::retire).
    pub(crate) fn leave(&mut self) {
        self.worker.count -= 1;
        self.worker.leave();
    }
}
