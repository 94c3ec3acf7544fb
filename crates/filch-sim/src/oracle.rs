//! The invariants that are checked after every move.

#[cfg(test)]
mod tests;

use crate::ledger::WorkerTally;
use filch::observe::WorkerMetrics;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rule that a run broke.
///
/// ```
/// use filch_sim::Oracle;
/// assert_eq!(Oracle::TaskLost.to_string(), "a task was lost");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Oracle {
    /// Every accepted task is in a queue until it runs.
    TaskLost,
    /// No task runs twice, runs after it was refused, or runs without having been spawned.
    TaskTwice,
    /// No worker sleeps while there is work that no other worker is about to find.
    ///
    /// With [`EveryPush`](filch::engine::WakePolicy::EveryPush): if a task is queued and a worker
    /// sleeps, then a worker counts as searching (a worker that has been woken does), stands by, or
    /// is about to make its last check before sleep. The other wake policies allow a busy worker to
    /// hold tasks without a wake; with them, not all workers may sleep while a task is queued.
    SleepsOnWork,
    /// A worker that searches for long enough finds the queued work, also while its owner is in the
    /// middle of a long task. Exempt is work in the mailbox of a sleeping worker, which is woken
    /// for it.
    Visible,
    /// No worker starts two less urgent tasks while the same Critical task waits in its lane.
    Priority,
    /// Waiting tasks get turns, by [`Ageing`](filch::engine::Ageing): a worker starts only a
    /// bounded number of more urgent tasks in a row while a High, a Normal (checked only with one
    /// worker, which can reach all of them) or a Low task waits, or one in its own mailbox.
    Starvation,
    /// A task is taken from the mailbox of another worker only while that worker does not sleep.
    Affinity,
    /// The engine's counters are correct, and `executed` is the sum of the sources: local,
    /// injected, stolen, from lanes and from mailboxes.
    Counters,
    /// The gate is open until it is closed, and while no worker is busy its count is the number of
    /// unfinished tasks.
    Gate,
    /// A worker that begins to search by itself does so only if the searchers then are at most half
    /// of the present workers, rounded up, or two, or of more than 16 workers all but eight. A
    /// worker that is woken to search is the only searcher, unless it was woken for a task in its
    /// mailbox. Since workers may leave, searchers can be more for a while, but their number does
    /// not grow then.
    Searchers,
    /// All workers are requested to exit when the gate is closed and all work is done, or by a
    /// stop: not before, and no worker stays asleep then.
    Termination,
    /// After a stop, the executed and the abandoned tasks are exactly the accepted ones.
    Abandoned,
    /// Moves make progress: towards a task, sleep or the end.
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

/// A broken rule, with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) oracle: Oracle,
    pub(crate) message: String,
}

impl Violation {
    pub(crate) fn new(oracle: Oracle, message: impl Into<String>) -> Self {
        Self {
            oracle,
            message: message.into(),
        }
    }
}

/// The state between two moves, as far as the oracles need it. Plain values, so that a test can
/// pass a broken state to each oracle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether the wake policy guarantees a wake, if needed, for every push.
    pub(crate) strict: bool,
    /// Whether the engine finds a task in some queue.
    pub(crate) has_work: bool,
    /// The number of tasks that are accepted and not done, by the ledger.
    pub(crate) live: u64,
    pub(crate) gate_open: bool,
    pub(crate) gate_busy: usize,
    pub(crate) gate_in_flight: i64,
    /// Whether the engine has requested all workers to exit.
    pub(crate) stopped: bool,
    /// Whether the program closed the gate, or stopped the engine.
    pub(crate) close_asked: bool,
    pub(crate) stop_asked: bool,
    pub(crate) searching: usize,
    /// The number of searchers after the previous move.
    pub(crate) searching_before: usize,
    /// Whether a worker stands by, on which pushes rely.
    pub(crate) standby: bool,
    /// The number of workers that were woken for a task in their mailbox since then.
    pub(crate) called: usize,
    /// The number of present workers, and its maximum since the previous move.
    pub(crate) present: usize,
    pub(crate) most_present: usize,
    /// The number of sleeping workers, and one of them that has not been unparked.
    pub(crate) asleep: usize,
    pub(crate) unwoken: Option<usize>,
    /// A worker that the engine has marked as woken without unparking it.
    pub(crate) uncalled: Option<usize>,
    /// Whether a worker has announced its sleep and is about to check once more.
    pub(crate) has_final_check: bool,
}

impl Facts {
    /// Checks all rules, and returns the first broken one as an error.
    pub(crate) fn check(&self) -> Result<(), Violation> {
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
                "worker {worker} sleeps and counts as woken, but was not unparked"
            ));
        }
        let Some(sleeper) = self.unwoken else {
            return Ok(());
        };
        let expected = self.searching > 0 || self.standby || self.has_final_check;
        if !self.has_work || self.stopped || expected {
            return Ok(());
        }
        if self.strict {
            return broken(format!(
                "worker {sleeper} sleeps, a task is queued, no worker searches and none is woken"
            ));
        }
        if self.asleep == self.present {
            return broken(format!(
                "all {} workers sleep, a task is queued, and no worker is woken",
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
                "no worker is busy, {} tasks are unfinished, but the gate counts {}",
                self.live, self.gate_in_flight
            ));
        }
        Ok(())
    }

    fn searchers(&self) -> Result<(), Violation> {
        let present = self.most_present;
        let limit = if present <= 16 {
            present.div_ceil(2).max(2)
        } else {
            present - 8
        };
        let limit = limit.max(self.searching_before) + self.called;
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
                "the workers were requested to exit with {} tasks unfinished, {} workers busy, and the gate {}",
                self.live,
                self.gate_busy,
                if self.gate_open { "open" } else { "closed" },
            ));
        }
        if done && !self.stopped {
            return broken(
                "all tasks are done, but the workers were not requested to exit".to_owned(),
            );
        }
        if let Some(worker) = self.unwoken.filter(|_| self.stopped) {
            return broken(format!(
                "the workers were requested to exit, but worker {worker} was not woken"
            ));
        }
        Ok(())
    }
}

/// Checks that a worker's counters match its actions.
pub(crate) fn check_counters(
    worker: usize,
    reported: &WorkerMetrics,
    tally: &WorkerTally,
) -> Result<(), Violation> {
    let lanes = reported.critical + reported.high + reported.low;
    let affine = reported.affine_kept + reported.affine_broken;
    let sources = reported.local + reported.injected + reported.stolen + lanes + affine;
    let pairs = [
        ("executed", reported.executed, tally.executed),
        ("the sum of the sources", sources, tally.executed),
        ("spawned_local", reported.spawned_local, tally.spawned_local),
        (
            "spawned_global",
            reported.spawned_global,
            tally.spawned_global,
        ),
        ("spawned_lane", reported.spawned_lane, tally.spawned_lane),
        (
            "spawned_affine",
            reported.spawned_affine,
            tally.spawned_affine,
        ),
        ("critical", reported.critical, tally.critical),
        ("high", reported.high, tally.high),
        ("low", reported.low, tally.low),
        ("parks", reported.parks, tally.parks),
    ];
    for (name, counted, true_value) in pairs {
        if counted != true_value {
            return Err(Violation::new(
                Oracle::Counters,
                format!("worker {worker}: {name} is {counted} and should be {true_value}"),
            ));
        }
    }
    if reported.stolen < reported.stolen_far {
        let message = format!(
            "worker {worker}: {} tasks stolen, {} of them from far",
            reported.stolen, reported.stolen_far
        );
        return Err(Violation::new(Oracle::Counters, message));
    }
    if reported.steal_attempts < reported.stolen {
        return Err(Violation::new(
            Oracle::Counters,
            format!(
                "worker {worker}: {} tasks stolen in {} attempts",
                reported.stolen, reported.steal_attempts
            ),
        ));
    }
    Ok(())
}
