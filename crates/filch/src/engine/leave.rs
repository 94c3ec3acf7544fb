//! How a worker leaves: its queued tasks go to the injector.

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
        let mut own = Vec::new();
        own.append(&mut core.mailboxes[self.id].close(core.flags()));
        self.queue.drain_own(|task| own.push(task));
        let handed_on = own.len();
        if handed_on > 0 && !broken(Canary::LeaveDrop) {
            core.injector.push_always(own);
        }
        if core.has_work() {
            // Not only for the tasks that were handed on: where the queue is shared, this worker
            // may have pushed tasks for which no worker was woken, because this one was going to
            // run them.
            core.notify_moved(self.id);
        }
        self.become_idle();
        core.observer.event(self.id, Event::Left { handed_on });
        let verdict = self.flush_count();
        core.conclude(verdict);
        core.sleep.cores().forget(self.id);
        // Release: pairs with the acquire in `Core::abandoned`.
        core.present.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send, Q: Strategy, O: Observer> Drop for Worker<'_, T, Q, O> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: Send, Q: Strategy, O: Observer> RunningWorker<'_, '_, T, Q, O> {
    /// The task of [`Worker::stay`] is finished, and the worker leaves, as when it is dropped. For
    /// a worker that is never dropped: to be called once, as the last thing that is done with it,
    /// and not after [`retire`](Self::retire).
    pub(crate) fn leave(&mut self) {
        self.worker.count -= 1;
        self.worker.leave();
    }
}
