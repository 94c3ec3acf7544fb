//! What must hold after every move.

#[cfg(test)]
mod tests;

use super::ledger::Deeds;
use crate::observe::WorkerMetrics;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rule that a run broke.
///
/// ```
/// use filch::simulate::Oracle;
/// assert_eq!(Oracle::TaskLost.to_string(), "a task was lost");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Oracle {
    /// Every accepted task is in a queue until it runs.
    TaskLost,
    /// No task runs twice, runs after it was refused, or comes from nowhere.
    TaskTwice,
    /// Nobody sleeps while there is work that nobody is on the way to.
    ///
    /// With [`EveryPush`](crate::engine::WakePolicy::EveryPush): if a task is queued and somebody
    /// sleeps, then somebody counts as searching (a worker that has been woken does), stands by, or is about to
    /// look once more. The other wake policies let a busy worker keep tasks to itself; with them,
    /// not everybody may sleep while a task is queued.
    SleepsOnWork,
    /// A worker that searches for long enough finds the work that is there, also while its owner is in
    /// the middle of a long task; but for what is in the box of a worker that sleeps, which that one comes for.
    Visible,
    /// No worker starts two less urgent tasks while one and the same Critical task waits in its lane.
    Priority,
    /// Whoever waits gets a turn, by [`Ageing`](crate::engine::Ageing): a worker starts only so many more urgent
    /// tasks in a row while a High, a normal (checked with one worker, whose they all are) or a Low one waits, or
    /// one in its own box.
    Starvation,
    /// A task is taken from the box of another worker only while that one does not sleep.
    Affinity,
    /// What the engine's counters say is what happened, and executed is the sum of where tasks came from: local,
    /// injected, stolen, from the lanes and from boxes.
    Counters,
    /// The gate is open until it is closed, and while nobody is busy its count is the number of
    /// unfinished tasks.
    Gate,
    /// A worker that begins to search by itself makes them at most half of those present, rounded
    /// up, or two; one that is woken to search is the only one, unless it was called for a task in its box. Since
    /// workers may leave, there can be more than half for a while, but their number does not grow then.
    Searchers,
    /// Everybody is sent home when the gate is closed and all work is done, or by a stop: not before,
    /// and never left asleep then.
    Termination,
    /// After a stop, what has run and what was abandoned is what was accepted.
    Abandoned,
    /// Moves lead somewhere: to a task, to sleep, to the end.
    Livelock,
    /// The engine does not panic.
    Panic,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TaskLost => "a task was lost",
            Self::TaskTwice => "a task was run that should not",
            Self::SleepsOnWork => "a worker sleeps on work",
            Self::Visible => "a worker does not find work",
            Self::Priority => "a less urgent task went first",
            Self::Starvation => "a task was passed over too often",
            Self::Affinity => "a task was taken from a worker that was free",
            Self::Counters => "the counters are wrong",
            Self::Gate => "the gate's count is wrong",
            Self::Searchers => "too many workers search",
            Self::Termination => "the end came at the wrong time",
            Self::Abandoned => "abandoned tasks don't add up",
            Self::Livelock => "the run goes round in circles",
            Self::Panic => "the engine panicked",
        })
    }
}

/// A broken rule, and how it was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) oracle: Oracle,
    pub(super) message: String,
}

impl Violation {
    pub(super) fn new(oracle: Oracle, message: impl Into<String>) -> Self {
        Self {
            oracle,
            message: message.into(),
        }
    }
}

/// What is true between two moves, as far as the oracles want to know. Plain values, so that each
/// oracle can be shown a broken world in a test.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The wake policy promises that a push is never left alone.
    pub(super) strict: bool,
    /// The engine finds a task in some queue.
    pub(super) has_work: bool,
    /// Tasks accepted and not done, by the ledger.
    pub(super) live: u64,
    pub(super) gate_open: bool,
    pub(super) gate_busy: usize,
    pub(super) gate_in_flight: i64,
    /// Everybody has been told to go home, by the engine.
    pub(super) stopped: bool,
    /// The program closed the gate, or stopped the engine.
    pub(super) close_asked: bool,
    pub(super) stop_asked: bool,
    pub(super) searching: usize,
    /// The same after the move before.
    pub(super) searching_before: usize,
    /// A worker stands by, and pushes count on it.
    pub(super) standby: bool,
    /// Workers called for a task in their box since then.
    pub(super) called: usize,
    /// Workers that take part, and the most of them since the move before.
    pub(super) present: usize,
    pub(super) most_present: usize,
    /// Workers asleep, and one of them that no wake is on the way to.
    pub(super) asleep: usize,
    pub(super) unwoken: Option<usize>,
    /// A worker that the engine has marked as woken without calling it.
    pub(super) uncalled: Option<usize>,
    /// Somebody has announced its sleep and is about to look once more.
    pub(super) about_to_look: bool,
}

impl Facts {
    /// The first rule that is broken.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.tasks()?;
        self.sleep()?;
        self.gate()?;
        self.searchers()?;
        self.termination()
    }

    fn tasks(&self) -> Result<(), Violation> {
        match (self.has_work, self.live) {
            (false, 1..) => Err(Violation::new(
                Oracle::TaskLost,
                format!("every queue is empty, but {} tasks have not run", self.live),
            )),
            (true, 0) => Err(Violation::new(
                Oracle::TaskTwice,
                "a queue is not empty, but every task has run",
            )),
            _ => Ok(()),
        }
    }

    fn sleep(&self) -> Result<(), Violation> {
        let broken = |message| Err(Violation::new(Oracle::SleepsOnWork, message));
        if let Some(worker) = self.uncalled {
            return broken(format!(
                "worker {worker} sleeps and counts as woken, but nobody called it"
            ));
        }
        let Some(sleeper) = self.unwoken else {
            return Ok(());
        };
        let expected = self.searching > 0 || self.standby || self.about_to_look;
        if !self.has_work || self.stopped || expected {
            return Ok(());
        }
        if self.strict {
            return broken(format!(
                "worker {sleeper} sleeps, there is work, nobody searches and nobody is on the way"
            ));
        }
        if self.asleep == self.present {
            return broken(format!(
                "all {} workers sleep, there is work, and nobody is on the way",
                self.asleep
            ));
        }
        Ok(())
    }

    fn gate(&self) -> Result<(), Violation> {
        let broken = |message| Err(Violation::new(Oracle::Gate, message));
        if self.gate_open == (self.close_asked || self.stop_asked) {
            return broken(format!(
                "the gate is {}, but the program has {} it",
                if self.gate_open { "open" } else { "closed" },
                if self.gate_open {
                    "closed"
                } else {
                    "not closed"
                },
            ));
        }
        if self.gate_busy > self.present {
            return broken(format!(
                "{} workers are busy, but only {} take part",
                self.gate_busy, self.present
            ));
        }
        if self.gate_busy == 0 && self.gate_in_flight != self.live as i64 {
            return broken(format!(
                "nobody is busy, {} tasks are unfinished, but the gate counts {}",
                self.live, self.gate_in_flight
            ));
        }
        Ok(())
    }

    fn searchers(&self) -> Result<(), Violation> {
        let half = self.most_present.div_ceil(2).max(2);
        let limit = half.max(self.searching_before) + self.called;
        if !self.stopped && self.searching > limit {
            return Err(Violation::new(
                Oracle::Searchers,
                format!(
                    "{} search, up from {}, with {} present",
                    self.searching, self.searching_before, self.most_present
                ),
            ));
        }
        Ok(())
    }

    fn termination(&self) -> Result<(), Violation> {
        let broken = |message| Err(Violation::new(Oracle::Termination, message));
        let done = self.close_asked && self.live == 0 && self.gate_busy == 0;
        if self.stopped && !self.stop_asked && !done {
            return broken(format!(
                "everybody was sent home with {} tasks to do, {} workers busy, and the gate {}",
                self.live,
                self.gate_busy,
                if self.gate_open { "open" } else { "closed" },
            ));
        }
        if done && !self.stopped {
            return broken("all is done, but nobody was sent home".to_owned());
        }
        if let Some(worker) = self.unwoken.filter(|_| self.stopped) {
            return broken(format!(
                "everybody was sent home, but worker {worker} sleeps on"
            ));
        }
        Ok(())
    }
}

/// Whether a worker's counters tell what it did.
pub(super) fn check_counters(
    worker: usize,
    told: &WorkerMetrics,
    deeds: &Deeds,
) -> Result<(), Violation> {
    let lanes = told.critical + told.high + told.low;
    let affine = told.affine_kept + told.affine_broken;
    let sources = told.local + told.injected + told.stolen + lanes + affine;
    let pairs = [
        ("executed", told.executed, deeds.executed),
        ("the sum of the sources", sources, deeds.executed),
        ("spawned_local", told.spawned_local, deeds.spawned_local),
        ("spawned_global", told.spawned_global, deeds.spawned_global),
        ("spawned_lane", told.spawned_lane, deeds.spawned_lane),
        ("spawned_affine", told.spawned_affine, deeds.spawned_affine),
        ("critical", told.critical, deeds.critical),
        ("high", told.high, deeds.high),
        ("low", told.low, deeds.low),
        ("parks", told.parks, deeds.parks),
    ];
    for (name, counted, true_value) in pairs {
        if counted != true_value {
            return Err(Violation::new(
                Oracle::Counters,
                format!("worker {worker}: {name} is {counted} and should be {true_value}"),
            ));
        }
    }
    if told.steal_attempts < told.stolen {
        return Err(Violation::new(
            Oracle::Counters,
            format!(
                "worker {worker}: {} tasks stolen in {} attempts",
                told.stolen, told.steal_attempts
            ),
        ));
    }
    Ok(())
}
