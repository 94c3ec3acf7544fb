//! What goes wrong on purpose.

use super::error::CaseError;
use serde::{Deserialize, Serialize};

/// Something that goes wrong, or late. The engine must cope with all of them but
/// [`LoseWake`](Self::LoseWake).
///
/// ```
/// use filch::simulate::{Case, Fault, Program, Simulation};
///
/// let mut case = Case::new(3, Program::wide(20, 5));
/// case.faults.push(Fault::Panic { task: 7 });
/// let outcome = Simulation::new(case)?.run().unwrap();
/// assert_eq!((outcome.executed, outcome.panicked), (21, 1));
/// # Ok::<(), filch::simulate::CaseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The worker makes no move for a while, unless nobody else can: its thread lost its core.
    Stall {
        /// Who.
        worker: usize,
        /// From this move of the run on.
        from: u64,
        /// For as many moves of others.
        moves: u64,
    },
    /// The task that is started as the `task`-th, counted from one, panics at its end.
    Panic {
        /// Which.
        task: u64,
    },
    /// The `wake`-th call that wakes a worker, counted from one, takes longer.
    LateWake {
        /// Which.
        wake: u64,
        /// How much longer.
        ticks: u64,
    },
    /// The `push`-th spawn into an own queue, counted from one, finds the queue full.
    Refuse {
        /// Which.
        push: u64,
    },
    /// The worker wakes by itself, the first time that it sleeps at this time or later.
    Spurious {
        /// Who.
        worker: usize,
        /// When.
        at: u64,
    },
    /// The `wake`-th call that wakes a worker, counted from one, has no effect. No driver may do
    /// this, and the simulator must find it: this one is here to test the simulator.
    LoseWake {
        /// Which.
        wake: u64,
    },
}

impl Fault {
    /// The worker that it is about, if it is about one.
    pub(super) fn worker(self) -> Option<usize> {
        match self {
            Self::Stall { worker, .. } | Self::Spurious { worker, .. } => Some(worker),
            _ => None,
        }
    }

    pub(super) fn check(self, workers: usize) -> Result<(), CaseError> {
        match self.worker() {
            Some(worker) if worker >= workers => Err(CaseError::new(format!(
                "a fault is about worker {worker}, but there are only {workers} workers, counted from 0"
            ))),
            _ => Ok(()),
        }
    }
}
