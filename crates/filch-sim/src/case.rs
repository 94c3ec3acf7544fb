//! A case: the complete input of a run.

use crate::{
    compile::Instruction,
    config::Config,
    error::CaseError,
    fault::Fault,
    program::{Act, Program},
    schedule::Scheduler,
};
use filch::engine::Priority;
use serde::{Deserialize, Serialize};

/// The complete input of a run: settings, program, faults and schedule. Plain data, stored as JSON.
/// The same case gives the same run.
///
/// ```
/// use filch_sim::{Case, Program};
///
/// let case = Case::new(4, Program::tree(5, 2, 10));
/// let text = case.to_json();
/// assert_eq!(Case::from_json(&text)?, case);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A description for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The name of the deliberate defect (`filch::canary::Canary`) with which the case fails. A
    /// correct engine passes every case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
    /// The settings of the engine.
    pub config: Config,
    /// The program that is run.
    pub program: Program,
    /// The injected faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The order of moves.
    #[serde(default)]
    pub scheduler: Scheduler,
}

impl Case {
    /// Creates a case that runs `program` on `workers` workers with default settings and no faults.
    ///
    /// ```
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let case = Case::new(2, Program::wide(10, 100));
    /// assert_eq!(Simulation::new(case)?.run().unwrap().executed, 11);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn new(workers: usize, program: Program) -> Self {
        Self {
            note: String::new(),
            canary: None,
            config: Config::new(workers),
            program,
            faults: Vec::new(),
            scheduler: Scheduler::default(),
        }
    }

    /// Reads a case from JSON.
    ///
    /// # Errors
    /// Fails if the text is not JSON, not a case, or an invalid case; the error says where.
    ///
    /// ```
    /// use filch_sim::Case;
    ///
    /// let error = Case::from_json("{}").unwrap_err();
    /// assert!(error.to_string().contains("missing field `config`"));
    /// ```
    pub fn from_json(text: &str) -> Result<Self, CaseError> {
        let case: Self = serde_json::from_str(text).map_err(|e| CaseError::json("case", &e))?;
        case.check()?;
        Ok(case)
    }

    /// Returns the case as readable JSON.
    ///
    /// ```
    /// use filch_sim::{Case, Program};
    ///
    /// let case = Case::new(2, Program::wide(10, 100));
    /// assert_eq!(Case::from_json(&case.to_json())?, case);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::layout::to_json(self)
    }

    pub(crate) fn check(&self) -> Result<(), CaseError> {
        let workers = self.config.workers;
        self.config.check()?;
        let program = self.program.compile()?;
        let spawned_for = program.bodies.iter().flatten().filter_map(|i| match i {
            Instruction::SpawnFor(worker, _) => Some(*worker),
            _ => None,
        });
        let injected_for = self.program.outside.iter().filter_map(|o| match o.act {
            Act::Inject { worker, .. } => worker,
            _ => None,
        });
        if let Some(stranger) = spawned_for.chain(injected_for).find(|&w| w >= workers) {
            return Err(CaseError::new(format!(
                "a task is for worker {stranger}, but there are only {workers} workers, counted from 0"
            )));
        }
        for fault in &self.faults {
            fault.check(workers)?;
        }
        let mut here: Vec<bool> = (0..workers)
            .map(|worker| !self.config.absent.contains(&worker))
            .collect();
        for outside in &self.program.outside {
            let (worker, enters) = match outside.act {
                Act::Enter(worker) => (worker, true),
                Act::Leave(worker) => (worker, false),
                Act::Inject { count: 0, .. } => {
                    return Err(CaseError::new(
                        "no tasks come from outside at one point; let it be 1 or more",
                    ));
                }
                Act::Inject {
                    level: Priority::Low | Priority::High | Priority::Critical,
                    worker: Some(_),
                    ..
                } => {
                    return Err(CaseError::new(
                        "a task from outside has a level and a worker; it can have one of them",
                    ));
                }
                _ => continue,
            };
            match here.get_mut(worker) {
                Some(present) => *present = enters,
                None => {
                    return Err(CaseError::new(format!(
                        "worker {worker} comes or goes, but there are only {workers} workers, \
                         counted from 0"
                    )));
                }
            }
        }
        if !here.contains(&true) {
            return Err(CaseError::new(
                "every worker has left in the end, so the work would never be done; let one stay",
            ));
        }
        Ok(())
    }
}
