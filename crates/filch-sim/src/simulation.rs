//! A checked case, and its run.

use crate::{
    case::Case,
    compile::Compiled,
    config::{self, Queues},
    error::CaseError,
    fault::Fault,
    ledger::Task,
    oracle::{Oracle, Violation, check_counters},
    outcome::{Failure, Outcome},
    probes::{ProbeLog, Watched, WatchedSpec},
    schedule::Scheduler,
    stage::{EventForwarder, SimulationObserver, Stage},
    unwind,
};
use filch::{
    engine::{Capacity, Core, PerWorkerSpec, Shared, Strategy},
    observe::{Counters, Metrics},
};
use std::{panic, time::Duration};

/// A case with the values that a run derives from it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) case: Case,
    pub(crate) program: Compiled,
    pub(crate) has_stalls: bool,
    pub(crate) max_moves: u64,
}

/// A case that can be run any number of times, with the same result.
///
/// ```
/// use filch_sim::{Case, Program, Simulation};
///
/// let simulation = Simulation::new(Case::new(8, Program::tree(6, 2, 50)))?;
/// let outcome = simulation.run().unwrap();
/// assert_eq!(outcome.executed, 127);
/// assert_eq!(outcome, simulation.run().unwrap());
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    plan: Plan,
    seed: Option<u64>,
}

impl Simulation {
    /// Checks the case.
    ///
    /// ```
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// assert!(Simulation::new(Case::new(2, Program::wide(10, 100))).is_ok());
    /// let none = Simulation::new(Case::new(0, Program::wide(10, 100)));
    /// assert!(none.is_err()); // no workers
    /// ```
    ///
    /// # Errors
    /// Fails if the case is invalid; the error says why.
    pub fn new(case: Case) -> Result<Self, CaseError> {
        case.check()?;
        let program = case.program.compile()?;
        let some = 1_000_000 + 20 * program.tasks;
        let simulation = Self {
            plan: Plan {
                max_moves: case.config.max_moves.unwrap_or(some),
                program,
                has_stalls: case.faults.iter().any(|f| matches!(f, Fault::Stall { .. })),
                case,
            },
            seed: None,
        };
        // The engine checks its settings itself.
        simulation.dispatch(Mode::Build)?;
        Ok(simulation)
    }

    /// Generates a random case from `seed`.
    ///
    /// ```
    /// use filch_sim::Simulation;
    /// assert_eq!(Simulation::from_seed(3).case(), Simulation::from_seed(3).case());
    /// ```
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let case = crate::generate::case(seed);
        let mut simulation = Self::new(case).expect("the generator makes cases that can be run");
        simulation.seed = Some(seed);
        simulation
    }

    /// Returns the case.
    ///
    /// ```
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let simulation = Simulation::new(Case::new(2, Program::wide(10, 100)))?;
    /// assert_eq!(simulation.case().config.workers, 2);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn case(&self) -> &Case {
        &self.plan.case
    }

    /// Runs the case.
    ///
    /// ```
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let outcome = Simulation::new(Case::new(2, Program::wide(10, 100)))?.run().unwrap();
    /// assert!(outcome.makespan >= 10 * 100 / 2);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the engine broke a rule.
    pub fn run(&self) -> Result<Outcome, Box<Failure>> {
        let result = self.dispatch(Mode::Run).expect("checked when it was made");
        result.expect("a run has a result")
    }

    fn dispatch(&self, mode: Mode) -> Result<Option<Run>, CaseError> {
        let (growable, bounded) = (Capacity::growable, Capacity::bounded);
        match self.plan.case.config.queues {
            Queues::Growable {
                initial,
                steal_batch,
            } => self.go_per_worker(growable(initial), steal_batch, mode),
            Queues::Bounded {
                capacity,
                steal_batch,
            } => self.go_per_worker(bounded(capacity), steal_batch, mode),
            Queues::Shared { capacity } => {
                self.go::<Shared>(&config::shared(capacity), ProbeLog::default(), mode)
            }
        }
    }

    fn go_per_worker(
        &self,
        capacity: Capacity,
        steal_batch: usize,
        mode: Mode,
    ) -> Result<Option<Run>, CaseError> {
        let config = &self.plan.case.config;
        let log = ProbeLog::new(config.workers);
        let spec = WatchedSpec {
            queues: PerWorkerSpec {
                capacity,
                steal_batch,
                batch_from: config.batch_from,
            },
            log: log.clone(),
        };
        self.go::<Watched>(&spec, log, mode)
    }

    fn go<Q: Strategy>(
        &self,
        spec: &Q::Spec,
        log: ProbeLog,
        mode: Mode,
    ) -> Result<Option<Run>, CaseError>
    where
        for<'c> Q::Handle<'c, Task>: Send,
    {
        let plan = &self.plan;
        let stage: Stage<'_, Q> = Stage::new(plan, log);
        let moving = stage.moving.clone();
        let settings = plan.case.config.settings(
            Box::new(stage.calls.clone()),
            Box::new(move || moving.core()),
        );
        let counters = Counters::new(plan.case.config.workers);
        let core: Core<Task, Q, SimulationObserver<'_>> =
            Core::new(settings, spec, (counters, EventForwarder(&stage)))?;
        if mode == Mode::Build {
            return Ok(None);
        }
        stage
            .core
            .set(&core)
            .unwrap_or_else(|_| unreachable!("the stage is new"));
        let ended = unwind::contain(|| {
            while stage.one_move() {}
            if stage.state().violation.is_none() {
                finish(&stage);
            }
        });
        if let Err(payload) = ended {
            let message = unwind::message(&payload).to_owned();
            stage.state().fail(Violation::new(Oracle::Panic, message));
        } else {
            stage.clear();
        }
        let metrics = core.observer().0.metrics();
        Ok(Some(self.conclude(&stage, metrics)))
    }

    fn conclude<Q: Strategy>(&self, stage: &Stage<'_, Q>, mut metrics: Metrics) -> Run
    where
        for<'c> Q::Handle<'c, Task>: Send,
    {
        let mut state = stage.state();
        let schedule = std::mem::take(&mut state.recorded);
        let trace = std::mem::take(&mut state.trace);
        if let Some(violation) = state.violation.take() {
            let mut case = self.plan.case.clone();
            case.scheduler = Scheduler::Replay(schedule);
            return Err(Box::new(Failure {
                oracle: violation.oracle,
                message: violation.message,
                seed: self.seed,
                case,
                at: state.now,
                trace,
                saved: None,
            }));
        }
        // The engine's counters use the real clock, so their times are replaced by virtual ones.
        for (worker, tally) in metrics.workers.iter_mut().zip(&state.ledger.tallies) {
            worker.busy = Duration::from_nanos(tally.busy);
            worker.idle = Duration::from_nanos(state.makespan.saturating_sub(tally.busy));
        }
        Ok(Outcome {
            makespan: state.makespan,
            executed: state.ledger.executed,
            panicked: state.ledger.panicked,
            refused: state.ledger.refused,
            abandoned: state.ledger.abandoned,
            metrics,
            steals: std::mem::take(&mut state.steals),
            failed_probes: std::mem::take(&mut state.failed_probes),
            schedule,
            trace,
        })
    }
}

type Run = Result<Outcome, Box<Failure>>;

/// Whether the engine is only built, to check its settings, or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Build,
    Run,
}

/// Checks, when no move is possible any more, that the run has ended and that the counts match.
fn finish<'c, Q: Strategy>(stage: &Stage<'c, Q>)
where
    Q::Handle<'c, Task>: Send,
{
    struct UnqueuedTask;
    let core = stage.core();
    if !core.is_stopped() {
        let mut state = stage.state();
        let message = format!(
            "no worker can move, {} tasks are unfinished, and the workers were not requested to exit",
            state.ledger.live
        );
        state.fail(Violation::new(Oracle::Termination, message));
        return;
    }
    // All workers have left. `take_queued` waits for tasks that are counted and not queued yet, but
    // no thread will queue any now.
    let abandoned =
        unwind::contain(|| core.take_queued(|| panic::resume_unwind(Box::new(UnqueuedTask))))
            .map_err(|payload| {
                if !payload.is::<UnqueuedTask>() {
                    panic::resume_unwind(payload);
                }
            });
    let mut state = stage.state();
    match abandoned {
        Err(()) => {
            let message = format!(
                "tasks are counted and in no queue: {}",
                state.ledger.unfinished()
            );
            state.fail(Violation::new(Oracle::Abandoned, message));
        }
        Ok(tasks) => {
            for task in tasks {
                let result = state.ledger.abandon(task);
                state.note(result);
            }
        }
    }
    if state.ledger.live > 0 {
        let message = format!(
            "tasks have neither run nor been given back: {}",
            state.ledger.unfinished()
        );
        state.fail(Violation::new(Oracle::Abandoned, message));
    }
    if state.ledger.abandoned > 0 && !state.stop_asked {
        state.fail(Violation::new(
            Oracle::Termination,
            "the work ended with tasks in the queues",
        ));
    }
    let metrics = core.observer().0.metrics();
    let wakes = metrics.total().wakes + metrics.outside_wakes;
    if wakes != state.wakes {
        let message = format!("{wakes} wakes are counted, {} were made", state.wakes);
        state.fail(Violation::new(Oracle::Counters, message));
    }
    for (worker, reported) in metrics.workers.iter().enumerate() {
        let result = check_counters(worker, reported, &state.ledger.tallies[worker]);
        state.note(result);
    }
}
