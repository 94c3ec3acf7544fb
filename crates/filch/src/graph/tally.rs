//! The failures of a run, collected while it runs. Most runs have none.

use super::{
    error::{Broken, Outcome, TaskPanic},
    plan::Plan,
    run::{Run, Tally},
};
use crate::base::{sync::Ordering, unwind::Payload};
use std::sync::{MutexGuard, PoisonError};

impl Run<'_> {
    /// Returns the outcome of the run, when it is over.
    pub(super) fn outcome(&self, plan: &Plan<'_>) -> Outcome {
        // Relaxed: all jobs are done, which the caller has observed.
        let ran = self.ran_here.get() + self.ran_elsewhere.load(Ordering::Relaxed);
        let tally = self.lock().take();
        let tally = *tally.unwrap_or_default();
        let named = |index| plan.parts.names.of(index);
        let mut outcome = tally.inner;
        outcome.stopped = self.stopped();
        outcome.cut |= tally.cut;
        outcome.ran += ran;
        if outcome.stopped {
            outcome.skipped += (plan.len() as u64).saturating_sub(ran);
        }
        let panics = tally.panics.into_iter().map(|(index, payload)| TaskPanic {
            task: named(index),
            payload,
        });
        outcome.panics.extend(panics);
        let broken = tally.broken.into_iter();
        outcome
            .broken
            .extend(broken.map(|(index, broken)| (named(index), broken)));
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Tally>>> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the tally, which is created on the first call.
    fn note<R>(&self, f: impl FnOnce(&mut Tally) -> R) -> R {
        f(self.lock().get_or_insert_default())
    }

    /// Returns how many tasks ran, if the run is over and nothing failed.
    pub(super) fn success(&mut self) -> Option<u64> {
        let tally = self.tally.get_mut().unwrap_or_else(PoisonError::into_inner);
        if tally.is_some() || self.stopped() {
            return None;
        }
        // Relaxed: all jobs are done, which the caller has observed.
        Some(self.ran_here.get() + self.ran_elsewhere.load(Ordering::Relaxed))
    }

    /// Records that tasks are skipped, because the run has been stopped.
    #[cold]
    pub(super) fn cut(&self) {
        self.note(|tally| tally.cut = true);
    }

    #[cold]
    fn stop_all(&self) {
        if let Some(remote) = &self.remote {
            remote.stop();
        }
        // Relaxed: as in `stopped`.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records that a task has panicked, and stops the run.
    #[cold]
    pub(super) fn panicked(&self, index: u32, payload: Payload) {
        self.note(|tally| tally.panics.push((index, payload)));
        self.stop_all();
    }

    /// Records an error of a task other than a panic, and stops the run.
    #[cold]
    pub(super) fn broke(&self, index: u32, broken: Broken) {
        self.note(|tally| tally.broken.push((index, broken)));
        self.stop_all();
    }

    /// Records that a graph which a subflow has built is invalid, and stops the run.
    #[cold]
    pub(super) fn fail(&self, what: Outcome) {
        self.note(|tally| tally.inner.broken.extend(what.broken));
        self.stop_all();
    }

    /// Adds the outcome of a run inside of a task.
    pub(super) fn absorb(&self, task: &str, inner: Outcome) {
        let failed = inner.has_failed();
        self.note(|tally| tally.inner.add(task, inner));
        if failed {
            self.stop_all();
        }
    }
}
