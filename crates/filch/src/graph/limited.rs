//! Strands that a limit of jobs admits or parks; see `pool/job_limit.rs`.

use super::{
    control::SendOrder,
    run::{GraphRun, PreparedRun},
};
use crate::pool::{context::WorkerContext, job::Job, job_limit::JobLimit};

impl GraphRun<'_> {
    pub(super) fn job_limit(&self) -> Option<&JobLimit> {
        self.control?.settings().job_limit.as_ref()
    }

    /// Runs `strand`, unless too many strands of the run are active: then parks `job`, which runs
    /// it later, and calls `parked`. The strand does not unwind. Returns what the strand returns.
    #[inline(always)]
    pub(super) fn limited(
        &self,
        context: &WorkerContext<'_, '_>,
        job: impl FnOnce() -> Job,
        strand: impl FnOnce() -> Option<PreparedRun>,
        parked: impl FnOnce(),
    ) -> Option<PreparedRun> {
        match self.job_limit() {
            None => strand(),
            Some(limit) => self.limited_by(limit, context, job(), strand, parked),
        }
    }

    #[inline(never)]
    fn limited_by(
        &self,
        limit: &JobLimit,
        context: &WorkerContext<'_, '_>,
        job: Job,
        strand: impl FnOnce() -> Option<PreparedRun>,
        parked: impl FnOnce(),
    ) -> Option<PreparedRun> {
        // Before the job is parked, because another worker may run it at once.
        self.add_pending(context);
        if limit.enter(job).is_none() {
            parked();
            return None;
        }
        self.remove_pending(context);
        let inner = strand();
        if let Some(parked) = limit.leave() {
            // The parked job is counted as pending, by its own run.
            if self.keeps_jobs(context) {
                context.push(parked, self.control().settings().placement());
            } else {
                self.control().send(parked, SendOrder::Released);
            }
        }
        inner
    }
}
