//! How a worker takes a task inside another.

use super::{
    event::{Event, Observer, Source},
    queue::Strategy,
    worker::Worker,
};

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// The slow path of [`RunningWorker::take_preferred`](super::RunningWorker::take_preferred),
    /// when a flag is up or a turn is due.
    #[cold]
    pub(super) fn take_preferred_slowly(&mut self) -> Option<T> {
        if !self.is_active() {
            self.selection.turns.postpone();
            return None; // the next step selects, since this worker has no task
        }
        // Inside of a task, which waits for the tasks that are taken.
        self.selection.turns.limit_batch_to_one();
        let (task, source) = self.find_preferred()?;
        self.start_nested(source);
        Some(task)
    }

    /// [`RunningWorker::take_urgent`](super::RunningWorker::take_urgent).
    pub(super) fn take_urgent_nested(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_preferred_slowly`
        }
        let (task, source) = self.take_urgent(self.core.flags().read(), 1)?;
        self.start_nested(source);
        Some(task)
    }

    /// [`RunningWorker::take_injected`](super::RunningWorker::take_injected).
    pub(super) fn take_injected_nested(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_preferred_slowly`
        }
        let task = self.take_injected_now(1)?;
        self.start_nested(Source::Injector);
        Some(task)
    }

    /// [`RunningWorker::take_affine`](super::RunningWorker::take_affine).
    pub(super) fn take_affine_nested(&mut self) -> Option<T> {
        if !self.is_active() {
            return None; // as in `take_preferred_slowly`
        }
        let (task, source) = self.take_own_affine(self.core.flags().read())?;
        self.start_nested(source);
        Some(task)
    }

    /// Records that a task from another queue starts inside the current one.
    pub(super) fn start_nested(&mut self, source: Source) {
        if self.next_unnotified || self.has_unnotified {
            self.notify_deferred();
        }
        self.count -= 1;
        self.core.observer.event(self.id, Event::Started { source });
    }
}
