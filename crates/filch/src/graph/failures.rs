//! The failures of a run, collected while it runs. Most runs have none.

use super::{
    error::{RunOutcome, TaskFault, TaskPanic},
    plan::Plan,
    run::{GraphRun, RunFailures},
};
use crate::base::{sync::Ordering, unwind::Payload};
use std::sync::{MutexGuard, PoisonError};

impl GraphRun<'_> {
    /// Returns the outcome of the run, when it is over.
    pub(super) fn outcome(&self, plan: &Plan<'_>) -> RunOutcome {
        // Relaxed: all jobs are done, which the caller has observed.
        let ran = self.ran_here.get() + self.ran_elsewhere.load(Ordering::Relaxed);
        let failures = self.lock().take();
        let failures = *failures.unwrap_or_default();
        let named = |index| plan.parts.names.of(index);
        let mut outcome = failures.inner;
        outcome.stopped = self.stopped();
        outcome.incomplete |= failures.incomplete;
        outcome.ran += ran;
        if outcome.stopped {
            outcome.skipped += (plan.len() as u64).saturating_sub(ran);
        }
        let panics = failures
            .panics
            .into_iter()
            .map(|(index, payload)| TaskPanic {
                task: named(index),
                payload,
            });
        outcome.panics.extend(panics);
        let faults = failures.faults.into_iter();
        outcome
            .faults
            .extend(faults.map(|(index, fault)| (named(index), fault)));
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<RunFailures>>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the failures, which are allocated on the first call.
    fn record<R>(&self, f: impl FnOnce(&mut RunFailures) -> R) -> R {
        f(self.lock().get_or_insert_default())
    }

    /// Returns how many tasks ran, if the run is over and nothing failed.
    pub(super) fn success(&mut self) -> Option<u64> {
        let failures = self
            .failures
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if failures.is_some() || self.stopped() {
            return None;
        }
        // Relaxed: all jobs are done, which the caller has observed.
        Some(self.ran_here.get() + self.ran_elsewhere.load(Ordering::Relaxed))
    }

    /// Records that tasks are skipped, because the run has been stopped.
    #[cold]
    pub(super) fn mark_incomplete(&self) {
        self.record(|failures| failures.incomplete = true);
    }

    #[cold]
    fn stop_all(&self) {
        if let Some(control) = &self.control {
            control.stop();
        }
        // Relaxed: as in `stopped`.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records that a task has panicked, and stops the run.
    #[cold]
    pub(super) fn panicked(&self, index: u32, payload: Payload) {
        self.record(|failures| failures.panics.push((index, payload)));
        self.stop_all();
    }

    /// Records an error of a task other than a panic, and stops the run.
    #[cold]
    pub(super) fn record_fault(&self, index: u32, fault: TaskFault) {
        self.record(|failures| failures.faults.push((index, fault)));
        self.stop_all();
    }

    /// Records that a graph which a subflow has built is invalid, and stops the run.
    #[cold]
    pub(super) fn record_invalid_graph(&self, outcome: RunOutcome) {
        self.record(|failures| failures.inner.faults.extend(outcome.faults));
        self.stop_all();
    }

    /// Adds the outcome of a run inside a task.
    pub(super) fn add_inner(&self, task: &str, inner: RunOutcome) {
        let failed = inner.has_failed();
        self.record(|failures| failures.inner.add(task, inner));
        if failed {
            self.stop_all();
        }
    }
}
