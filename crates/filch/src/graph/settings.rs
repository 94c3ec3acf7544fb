//! What the options of a run change in how its tasks are run.

use super::progress::ProgressReporter;
use crate::engine::{Placement, Priority};
use crate::pool::job_limit::JobLimit;

/// The settings of a run, which hold for the runs inside its tasks too. Plans whose runs have
/// settings are run as special plans.
#[derive(Default)]
pub(super) struct RunSettings {
    /// Whether a task that fails stops only the tasks behind it.
    pub(super) keep_going: bool,
    /// The priority of the run among other work of the pool.
    pub(super) level: Priority,
    pub(super) job_limit: Option<JobLimit>,
    /// For the tasks of the outermost run.
    pub(super) progress: Option<ProgressReporter>,
}

impl RunSettings {
    /// Whether the loop of special plans is needed.
    pub(super) fn are_special(&self) -> bool {
        self.keep_going
            || self.level != Priority::Normal
            || self.job_limit.is_some()
            || self.progress.is_some()
    }

    /// Returns the settings of a run that a task waits for while it runs. With a limit of jobs its
    /// tasks run one at a time, in the place of the task that waits: so the limit is kept, and no
    /// task waits for the place of another one that waits.
    pub(super) fn inside_call(&self) -> Self {
        Self {
            keep_going: self.keep_going,
            level: self.level,
            job_limit: self.job_limit.as_ref().map(|_| JobLimit::new(1)),
            progress: None,
        }
    }

    /// Returns where the jobs of the run are queued.
    pub(super) fn placement(&self) -> Placement {
        Placement::Lane(self.level)
    }
}
