//! The outcome of a run.

use crate::{case::Case, oracle::Oracle, schedule::Move};
use filch::{
    engine::{IdleAction, Source},
    observe::Metrics,
};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// The outcome of a run that broke no rule. The same case always gives the same outcome.
///
/// ```
/// use filch_sim::{Case, Program, Simulation, What};
///
/// let outcome = Simulation::new(Case::new(2, Program::wide(6, 100)))?.run().unwrap();
/// let ran = outcome.trace.iter().filter(|step| matches!(step.what, What::Ran { .. }));
/// assert_eq!(ran.count(), 7);
/// assert_eq!(outcome.metrics.total().executed, 7);
/// println!("{outcome}");
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The tick at which the last task ended.
    pub makespan: u64,
    /// Executed tasks, including those that panicked.
    pub executed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Refused tasks: the gate was closed, or a queue full.
    pub refused: u64,
    /// Tasks that were queued at a stop and never ran.
    pub abandoned: u64,
    /// The engine's own counters; a nanosecond is a tick.
    pub metrics: Metrics,
    /// Successful steals by the distance of the victim, from 0 to the number of
    /// [`Config::groups`](crate::Config::groups).
    pub steals: Vec<u64>,
    /// Probes of queues of busy workers by thieves that took nothing, by distance.
    pub failed_probes: Vec<u64>,
    /// Every choice of the scheduler: the moves of [`Scheduler::Replay`](crate::Scheduler::Replay).
    pub schedule: Vec<Move>,
    /// Every move, in the order in which they ended.
    pub trace: Vec<Trace>,
}

impl Outcome {
    /// Returns the number of moves.
    ///
    /// ```
    /// use filch_sim::{Case, Program, Simulation};
    ///
    /// let outcome = Simulation::new(Case::new(2, Program::wide(10, 100)))?.run().unwrap();
    /// assert!(outcome.moves() > 10); // each task is a move at least
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn moves(&self) -> usize {
        self.schedule.len()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ticks, {} moves; tasks: {} run ({} panicked), {} refused, {} abandoned",
            self.makespan,
            self.moves(),
            self.executed,
            self.panicked,
            self.refused,
            self.abandoned
        )?;
        self.metrics.fmt(f)
    }
}

/// One move of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The time at which it ended, in ticks; the work of a task follows.
    pub at: u64,
    /// The worker that moved; `None` is an external event.
    pub worker: Option<usize>,
    /// The number of interrupted moves inside of which it happened.
    pub depth: usize,
    /// The result of the move.
    pub what: What,
    /// The number of tasks that were queued after it.
    pub queued: u64,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The worker entered.
    Entered,
    /// It ran a task.
    Ran {
        /// Its number, in the order of creation.
        task: u32,
        /// The queue that it was taken from.
        source: Source,
    },
    /// It found nothing.
    Idle(IdleAction),
    /// It fell asleep.
    Parked,
    /// It woke.
    Resumed,
    /// It left.
    Left,
    /// It exited at the end of the run.
    Exited,
    /// An external event, by its index in the program.
    Outside(usize),
    /// The gate was closed because no further external event follows.
    Closed,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.worker {
            Some(worker) => format!("worker {worker}"),
            None => "outside".to_owned(),
        };
        let inside = "  ".repeat(self.depth);
        write!(f, "{:>8}  {inside}{who}: ", self.at)?;
        match self.what {
            What::Entered => f.write_str("enters"),
            What::Ran { task, source } => match source {
                Source::Local => write!(f, "runs task {task} of its own"),
                Source::Injector => write!(f, "runs task {task} from the injector"),
                Source::Steal { victim, .. } => write!(f, "runs task {task} of worker {victim}"),
                Source::Lane(level) => write!(f, "runs task {task}, which is {level:?}"),
                Source::Affine { worker } => {
                    write!(f, "runs task {task} from the mailbox of worker {worker}")
                }
                Source::AffineNode { node, .. } => {
                    write!(f, "runs task {task} from the mailbox of node {node}")
                }
                source => write!(f, "runs task {task} from {source:?}"),
            },
            What::Idle(IdleAction::Spin(0)) => f.write_str("finds nothing, will search once more"),
            What::Idle(_) => f.write_str("finds nothing"),
            What::Parked => f.write_str("falls asleep"),
            What::Resumed => f.write_str("wakes"),
            What::Left => f.write_str("leaves"),
            What::Exited => f.write_str("exits"),
            What::Outside(index) => write!(f, "thing number {index} of the program"),
            What::Closed => f.write_str("closes the gate"),
        }
    }
}

/// The number of last moves of a failed run that are printed.
const SHOWN_MOVES: usize = 20;

/// A run that broke a rule, with everything that is needed to reproduce it.
///
/// Its text describes the failure and contains one command that reproduces it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The broken rule.
    pub oracle: Oracle,
    /// A description.
    pub message: String,
    /// The seed from which the whole case was generated, if it was.
    pub seed: Option<u64>,
    /// The case; its scheduler replays exactly this run.
    pub case: Case,
    /// The tick of the violation.
    pub at: u64,
    /// All moves up to the violation.
    pub trace: Vec<Trace>,
    /// The file that the case was saved to.
    pub saved: Option<PathBuf>,
}

impl Failure {
    /// Writes the case to a file, which the failure's command names from then on.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    ///
    /// ```
    /// use filch_sim::{Case, Fault, Program, Simulation};
    ///
    /// let mut case = Case::new(2, Program::wide(3, 50).inject(1_000, "leaf", 1));
    /// case.faults.push(Fault::LoseWake { wake: 1 }); // a driver with a bug
    /// let mut failure = Simulation::new(case)?.run().unwrap_err();
    /// let path = std::env::temp_dir().join("lost-wake.json");
    /// failure.save(&path)?;
    /// assert!(failure.to_string().contains("--replay"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        fs::write(path, self.case.to_json() + "\n")?;
        self.saved = Some(path.to_owned());
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.oracle, self.message)?;
        writeln!(
            f,
            "at tick {}, after {} moves of {} workers; the last of them:",
            self.at,
            self.trace.len(),
            self.case.config.workers
        )?;
        let skipped = self.trace.len().saturating_sub(SHOWN_MOVES);
        for line in &self.trace[skipped..] {
            writeln!(f, "{line}")?;
        }
        let command = "cargo run --release -p filch-sim --example simulate --";
        match (&self.saved, self.seed) {
            (Some(path), _) => write!(f, "again: {command} --replay {}", path.display()),
            (None, Some(seed)) => write!(f, "again: {command} --seed {seed}"),
            (None, None) => write!(
                f,
                "again: save it with Failure::save, then {command} --replay FILE"
            ),
        }
    }
}

/// As [`Display`](fmt::Display), so that `unwrap` prints a readable message.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
