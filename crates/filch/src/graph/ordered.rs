//! Runs of plans with an order, by priorities or critical paths: of all ready tasks of the run the
//! best one is next.
//!
//! A task that becomes ready is put into the run's heap, and a job is queued that runs the best
//! task of the heap, whichever that is then. A strand that continues exchanges its next task for
//! the best one. So there are always as many jobs as tasks in the heap, and it does not matter
//! which worker takes which job.

use super::{
    ready::ReadyTasks,
    run::{GraphRun, PreparedRun},
};
use crate::pool::{context::WorkerContext, job::Job};

impl GraphRun<'_> {
    /// Returns a job for a task that has become ready. It runs that task, or in a run with an order
    /// the best one.
    pub(super) fn ready_job(&self, index: u32) -> Job {
        match &self.ready {
            Some(ready) => {
                ready.push(index);
                self.best_job()
            }
            None => self.strand_job(index),
        }
    }

    /// Returns a job for a source of a run without a feeder. The heap has the sources from the
    /// beginning.
    pub(super) fn source_job(&self, index: u32) -> Job {
        match self.ready {
            Some(_) => self.best_job(),
            None => self.strand_job(index),
        }
    }

    /// Returns the best of this task, which is ready, and all others, to continue with it.
    #[inline(always)]
    pub(super) fn exchange_for_best(&self, index: u32) -> u32 {
        match &self.ready {
            Some(ready) => ready.exchange(index),
            None => index,
        }
    }

    /// Runs the best task, in place of one of the sources.
    pub(super) fn run_best_for_source(&self, context: &WorkerContext<'_, '_>, ready: &ReadyTasks) {
        let Some(has_more_sources) = ready.take_source() else {
            return;
        };
        if has_more_sources {
            self.push_to(context, self.feeder_job(), self.placement());
        }
        let inner_run = self.run_best(context, false);
        debug_assert!(inner_run.is_none(), "the strand has started it");
    }

    /// Runs the best task and the tasks that it releases. `is_job` and the result are those of
    /// `strand_special`.
    pub(super) fn run_best(
        &self,
        context: &WorkerContext<'_, '_>,
        is_job: bool,
    ) -> Option<PreparedRun> {
        let run = || {
            let ready = self.ready.as_ref().expect("the plan has an order");
            self.run_special(context, ready.pop(), false, is_job)
        };
        self.limited(context, || self.best_job(), run, || ())
    }
}
