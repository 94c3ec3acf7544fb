//! A worker takes a task in the middle of another.

use super::{
    event::{Event, Observer, Source},
    queue::Strategy,
    worker::{Phase, Worker},
};

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// [`RunningWorker::take_pressing`], when a flag is up.
    #[cold]
    pub(super) fn take_inside(&mut self) -> Option<T> {
        if self.phase != Phase::Active || self.idle {
            self.selector.turns.put_off();
            return None; // the next step looks, and knows that the worker has run out
        }
        // In the middle of a task, which goes on behind what comes.
        self.selector.turns.limit_batch_to_one();
        let (task, source) = self.find_other()?;
        self.start_inside(source);
        Some(task)
    }

    /// [`RunningWorker::take_urgent`].
    pub(super) fn take_urgent_inside(&mut self) -> Option<T> {
        if self.phase != Phase::Active || self.idle {
            return None; // as above
        }
        let (task, source) = self.take_urgent(self.core.flags().read(), 1)?;
        self.start_inside(source);
        Some(task)
    }

    /// [`RunningWorker::take_injected`].
    pub(super) fn take_injected_inside(&mut self) -> Option<T> {
        if self.phase != Phase::Active || self.idle {
            return None; // as above
        }
        let task = self.take_injected_now(1)?;
        self.start_inside(Source::Injector);
        Some(task)
    }

    /// [`RunningWorker::take_affine`].
    pub(super) fn take_affine_inside(&mut self) -> Option<T> {
        if self.phase != Phase::Active || self.idle {
            return None; // as above
        }
        let (task, source) = self.take_own_affine(self.core.flags().read())?;
        self.start_inside(source);
        Some(task)
    }

    /// A task from elsewhere starts in the middle of another.
    pub(super) fn start_inside(&mut self, source: Source) {
        if self.quiet || self.silent {
            self.notify_deferred();
        }
        self.count -= 1;
        self.core.observer.event(self.id, Event::Started { source });
    }
}
