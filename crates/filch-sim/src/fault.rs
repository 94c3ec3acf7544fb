//! Injected faults.

use crate::error::CaseError;
use serde::{Deserialize, Serialize};

/// An injected fault or delay. The engine must tolerate all of them except
/// [`LoseWake`](Self::LoseWake).
///
/// ```
/// use filch_sim::{Case, Fault, Program, Simulation};
///
/// let mut case = Case::new(3, Program::wide(20, 5));
/// case.faults.push(Fault::Panic { task: 7 });
/// let outcome = Simulation::new(case)?.run().unwrap();
/// assert_eq!((outcome.executed, outcome.panicked), (21, 1));
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// The worker makes no move for a while, unless no other candidate exists: its thread lost its
    /// core.
    Stall {
        /// The worker.
        worker: usize,
        /// The first move of the run at which it is stalled.
        from: u64,
        /// The number of moves for which it is stalled.
        moves: u64,
    },
    /// The `task`-th started task, counted from one, panics at its end.
    Panic {
        /// The ordinal number of the task.
        task: u64,
    },
    /// The `wake`-th unpark of a worker, counted from one, takes longer.
    LateWake {
        /// The ordinal number of the unpark.
        wake: u64,
        /// The additional latency, in ticks.
        ticks: u64,
    },
    /// The `push`-th spawn into a worker's own queue, counted from one, finds the queue full.
    Refuse {
        /// The ordinal number of the spawn.
        push: u64,
    },
    /// The worker wakes spuriously, the first time that it sleeps at this time or later.
    Spurious {
        /// The worker.
        worker: usize,
        /// The earliest time, in ticks.
        at: u64,
    },
    /// The `wake`-th unpark of a worker, counted from one, has no effect. No driver may do this,
    /// and the simulator must detect it: this fault tests the simulator.
    LoseWake {
        /// The ordinal number of the unpark.
        wake: u64,
    },
}

impl Fault {
    /// Returns the worker that the fault affects, if it affects a particular one.
    pub(crate) fn worker(self) -> Option<usize> {
        match self {
            Self::Stall { worker, .. } | Self::Spurious { worker, .. } => Some(worker),
            _ => None,
        }
    }

    pub(crate) fn check(self, workers: usize) -> Result<(), CaseError> {
        match self.worker() {
            Some(worker) if worker >= workers => Err(CaseError::new(format!(
                "a fault is about worker {worker}, but there are only {workers} workers, counted from 0"
            ))),
            _ => Ok(()),
        }
    }
}
