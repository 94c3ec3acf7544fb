//! How a worker takes a task inside of another.

use super::{
    event::{Event, Observer, Source},
    queue::Strategy,
    worker::Worker,
};

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// The slow path of [`RunningWorker::take_pressing`], when a flag is up or a turn is due.
    #[cold]
    pub(super) fn take_inside(&mut self) -> Option<T> {
        if !self.is_active() {
            self.selector.turns.put_off();
            return None; // the next step selects, since this worker has no task
        }
        // Inside of a task, which waits for the tasks that are taken.
        self.selector.turns.limit_batch_to_one();
        let (task, source) = self.find_preferred()?;
        self.start_inside(source);
        Some(task)
    }

    /// [`RunningWorker::take_urgent`].
    pub(super) fn take_urgent_inside(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_inside`
        }
        let (task, source) = self.take_urgent(self.core.flags().read(), 1)?;
        self.start_inside(source);
        Some(task)
    }

    /// [`RunningWorker::take_injected`].
    pub(super) fn take_injected_inside(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_inside`
        }
        let task = self.take_injected_now(1)?;
        self.start_inside(Source::Injector);
        Some(task)
    }

    /// [`RunningWorker::take_affine`].
    pub(super) fn take_affine_inside(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_inside`
        }
        let (task, source) = self.take_own_affine(self.core.flags().read())?;
        self.start_inside(source);
        Some(task)
    }

    /// Records that a task from another queue starts inside of the current one.
    pub(super) fn start_inside(&mut self, source: Source) {
        if self.next_unnotified || self.has_unnotified {
            self.notify_deferred();
        }
        self.count -= 1;
        self.core.observer.event(self.id, Event::Started { source });
    }
}
