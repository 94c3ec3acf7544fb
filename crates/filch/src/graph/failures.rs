//! The failures of a run, collected while it runs. Most runs have none.

use super::{
    error::{RunOutcome, TaskFault, TaskPanic},
    node::Release,
    plan::Plan,
    run::{GraphRun, RunFailures},
    task_failure::{BoxError, TaskFailure},
    task_time::TaskEnding,
};
use crate::{
    base::{sync::Ordering, unwind::Payload},
    pool::context::WorkerContext,
};
use std::{
    mem,
    sync::{MutexGuard, PoisonError},
};

impl GraphRun<'_> {
    /// Returns the outcome of the run, when it is over.
    pub(super) fn outcome(&self, plan: &Plan<'_>) -> RunOutcome {
        let (mut ran, ran_inside) = self.ran();
        let failures = self.lock().take();
        let mut failures = *failures.unwrap_or_default();
        self.record_early_end(&failures);
        let named = |index| plan.parts.names.of(index);
        let mut outcome = RunOutcome::default();
        for (index, inner) in mem::take(&mut failures.inner) {
            outcome.add(&named(index), inner);
        }
        outcome.stopped = self.stopped();
        outcome.incomplete |= failures.incomplete || !failures.skipped.is_empty();
        if !self.is_special {
            // The loop of plain plans counts every closure that has returned.
            ran -= failures.errors.len() as u64;
        }
        outcome.ran += ran + ran_inside;
        if outcome.incomplete || failures.has_failed_task() {
            outcome.skipped.set_own(skipped_tasks(plan, &failures));
        }
        let panics = failures
            .panics
            .into_iter()
            .map(|(index, payload)| TaskPanic {
                task: named(index),
                payload,
            });
        outcome.panics.extend(panics);
        let errors = failures.errors.into_iter();
        outcome
            .failures
            .extend(errors.map(|(index, error)| TaskFailure {
                task: named(index),
                error,
            }));
        let faults = failures.faults.into_iter();
        outcome
            .faults
            .extend(faults.map(|(index, fault)| (named(index), fault)));
        outcome
    }

    /// Records, if the plan records runs, how a task has ended that did not just return.
    pub(super) fn record_ending(&self, index: u32, ending: TaskEnding) {
        if let Some(to) = &self.shape.recorder {
            to.end(index, ending);
        }
    }

    /// Records, if the plan records runs, that the run did not finish.
    fn record_early_end(&self, failures: &RunFailures) {
        let Some(to) = &self.shape.recorder else {
            return;
        };
        let unfinished = failures.incomplete || !failures.skipped.is_empty();
        let mut inner = failures.inner.iter().map(|(_, inner)| inner);
        if failures.has_failed_task() || inner.clone().any(RunOutcome::has_failed) {
            to.run_ended_early(TaskEnding::Skipped);
        } else if unfinished || inner.any(|inner| inner.incomplete) {
            to.run_ended_early(TaskEnding::Cancelled);
        }
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
        let (ran, ran_inside) = self.ran();
        Some(ran + ran_inside)
    }

    /// Records that a task which was ready, or suspended, is not finished.
    #[cold]
    pub(super) fn mark_skipped(&self, index: u32) {
        self.record(|failures| failures.skipped.push(index));
    }

    /// Records that a part of a task is skipped, because the run has been stopped.
    #[cold]
    pub(super) fn mark_incomplete(&self) {
        self.record(|failures| failures.incomplete = true);
    }

    #[cold]
    fn stop_all(&self) {
        if let Some(control) = self.control {
            control.stop();
        }
        // Relaxed: as in `stopped`.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the run because a task has failed, unless only the tasks behind it are to be stopped.
    #[cold]
    fn stop_after_failure(&self) {
        if !self.keeps_going() {
            self.stop_all();
        }
    }

    /// Whether a task that fails stops only the tasks behind it.
    fn keeps_going(&self) -> bool {
        let control = self.control.as_ref();
        control.is_some_and(|control| control.settings().keep_going)
    }

    /// Records that a task has panicked, and stops the run.
    #[cold]
    pub(super) fn panicked(&self, index: u32, payload: Payload) {
        self.record_ending(index, TaskEnding::Failed);
        self.record(|failures| failures.panics.push((index, payload)));
        self.stop_after_failure();
    }

    /// Records that a task has returned an error, and stops the run.
    #[cold]
    pub(super) fn task_failed(&self, index: u32, error: BoxError) -> Release {
        self.record_ending(index, TaskEnding::Failed);
        self.record(|failures| failures.errors.push((index, error)));
        self.stop_after_failure();
        Release::Failed
    }

    /// Returns how a task ends whose parts may have panicked on other workers.
    pub(super) fn after_parts(&self, index: u32) -> Release {
        let failed = (self.stopped() || self.keeps_going())
            && self.record(|failures| failed_tasks(failures).contains(&index));
        if failed {
            Release::Failed
        } else {
            Release::All
        }
    }

    /// Records an error of a task other than a panic, and stops the run.
    #[cold]
    pub(super) fn record_fault(&self, index: u32, fault: TaskFault) {
        self.record_ending(index, TaskEnding::Failed);
        self.record(|failures| failures.faults.push((index, fault)));
        self.stop_all();
    }

    /// Adds the result of a run inside a task: the number of tasks, or the outcome if it has not
    /// succeeded. Returns whether the run has finished.
    #[inline]
    pub(super) fn add_inner(
        &self,
        context: &WorkerContext<'_, '_>,
        index: u32,
        result: Result<u64, Box<RunOutcome>>,
    ) -> bool {
        match result {
            Ok(ran) => {
                self.count_inside(context, ran);
                true
            }
            Err(outcome) => self.add_unsuccessful(index, *outcome),
        }
    }

    #[cold]
    fn add_unsuccessful(&self, index: u32, outcome: RunOutcome) -> bool {
        let finished = !outcome.incomplete && !outcome.has_failed();
        if outcome.has_failed() {
            self.record_ending(index, TaskEnding::Failed);
        }
        self.add_outcome(index, outcome);
        finished
    }

    /// Adds the result of a run whose tasks are the parts of a task. Returns whether the run has
    /// finished.
    pub(super) fn add_parts(&self, index: u32, result: Result<u64, Box<RunOutcome>>) -> bool {
        let Err(outcome) = result else {
            return true;
        };
        let finished = !outcome.incomplete && !outcome.has_failed();
        for panic in outcome.panics {
            self.panicked(index, panic.payload);
        }
        finished
    }

    #[cold]
    fn add_outcome(&self, index: u32, inner: RunOutcome) {
        let failed = inner.has_failed();
        self.record(|failures| failures.inner.push((index, inner)));
        if failed {
            self.stop_after_failure();
        }
    }
}

impl RunFailures {
    /// Whether a task of the run itself has failed.
    fn has_failed_task(&self) -> bool {
        !(self.panics.is_empty() && self.errors.is_empty() && self.faults.is_empty())
    }
}

/// Returns the tasks of the run itself that have failed.
fn failed_tasks(failures: &RunFailures) -> Vec<u32> {
    let panics = failures.panics.iter().map(|(index, _)| *index);
    let errors = failures.errors.iter().map(|(index, _)| *index);
    let faults = failures.faults.iter().map(|(index, _)| *index);
    panics.chain(errors).chain(faults).collect()
}

/// Returns the tasks of the plan that its run did not finish, without those that have failed.
///
/// Without conditions these are the tasks that were ready and were not finished, and all tasks
/// behind them or behind one that has failed: each of them waits for all its predecessors.
fn skipped_tasks(plan: &Plan<'_>, failures: &RunFailures) -> Vec<u32> {
    let failed = failed_tasks(failures);
    let mut unfinished = vec![false; plan.nodes().len()];
    let mut open: Vec<u32> = failures.skipped.clone();
    if plan.shape.has_conditions {
        // A task that was not chosen has not run either.
        let nodes = plan.nodes().iter().skip(1);
        open.extend(
            nodes
                .filter(|node| !node.was_claimed() && !plan.parts.is_removed(node.index()))
                .map(|node| node.index()),
        );
        open.iter()
            .for_each(|&task| unfinished[task as usize] = true);
    } else {
        open.extend(failed.iter());
        while let Some(task) = open.pop() {
            if !mem::replace(&mut unfinished[task as usize], true) {
                let successors = plan.nodes()[task as usize].successors;
                let successors = successors.all(&plan.shape.successor_list);
                open.extend(successors.map(|edge| edge.to()));
            }
        }
    }
    failed
        .iter()
        .for_each(|&task| unfinished[task as usize] = false);
    let tasks = (0..).zip(unfinished).filter(|(_, unfinished)| *unfinished);
    tasks.map(|(task, _)| task).collect()
}
