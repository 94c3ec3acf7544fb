//! Schedulers: the choice of the next move.

#[cfg(test)]
mod tests;

use filch::Rng;
use serde::{Deserialize, Serialize};

/// The maximum nesting of interrupted moves: a move, one inside of it, and one inside of that. Most
/// known races need two parties, a few three.
const MAX_DEPTH: usize = 3;

/// Chooses the next move.
///
/// The choices of every scheduler are recorded, and [`Replay`](Self::Replay) repeats them.
///
/// ```
/// use filch_sim::{Case, Program, Scheduler, Simulation};
///
/// let mut case = Case::new(3, Program::wide(30, 5));
/// case.scheduler = Scheduler::Random { seed: 1, jump: 8, preempt: 4 };
/// let outcome = Simulation::new(case.clone())?.run().unwrap();
/// case.scheduler = Scheduler::Replay(outcome.schedule.clone());
/// assert_eq!(Simulation::new(case)?.run().unwrap(), outcome);
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scheduler {
    /// The workers that are due, in turns, as on a machine with a core for every worker and without
    /// preemption. For makespans and scaling curves.
    #[default]
    RoundRobin,
    /// A random worker that is due, and sometimes one that is not, which delays the others.
    Random {
        /// The seed of its choices.
        seed: u64,
        /// One in `jump` choices is made among all workers, due or not; zero: none.
        jump: usize,
        /// One in `preempt` moves is interrupted; zero: none.
        preempt: usize,
    },
    /// Every worker has a random priority, and the due worker of the highest priority moves. At a
    /// few moves of the run the worker that would move gets the lowest priority.
    ///
    /// This is PCT (Burckhardt, Kothari, Musuvathi and Nagarakatte, *A Randomized Scheduler with
    /// Probabilistic Guarantees of Finding Bugs*, ASPLOS 2010): it finds a bug that needs `d`
    /// ordering constraints among `n` workers and `k` moves with a probability of at least
    /// 1/(n·k^(d-1)).
    Pct {
        /// The seed of its choices.
        seed: u64,
        /// The number of moves at which a priority is lowered: `d - 1`.
        changes: usize,
        /// The number of moves among which these are chosen: `k`.
        length: u64,
        /// One in `preempt` moves is interrupted; zero: none.
        preempt: usize,
    },
    /// The given choices. A choice that is not possible is skipped, and after the last one the run
    /// continues as with [`RoundRobin`](Self::RoundRobin).
    Replay(Vec<Move>),
}

/// One choice of a scheduler.
///
/// In JSON a worker is its number and an external event is -1; an interrupted move is a list of
/// three numbers.
///
/// ```
/// use filch_sim::Move;
///
/// let moves: Vec<Move> = serde_json::from_str("[2, -1, [0, 3, 5]]").unwrap();
/// assert_eq!(moves[0].worker, Some(2));
/// assert_eq!(moves[1].worker, None);
/// assert_eq!(moves[2].preempt.unwrap().moves, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawMove", into = "RawMove")]
pub struct Move {
    /// The worker that moves; `None` is an external event.
    pub worker: Option<usize>,
    /// The interruption of the move, if any.
    pub preempt: Option<Preempt>,
}

/// An interruption in the middle of a move. The engine notifies its observer of events, and at each
/// event a thread could lose its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempt {
    /// The number of events of the move before the interruption.
    pub after: u32,
    /// The number of other moves meanwhile, which follow in the schedule.
    pub moves: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RawMove {
    Plain(i64),
    Preempted(i64, u32, u32),
}

impl TryFrom<RawMove> for Move {
    type Error = String;

    fn try_from(raw: RawMove) -> Result<Self, String> {
        let (who, preempt) = match raw {
            RawMove::Plain(who) => (who, None),
            RawMove::Preempted(who, after, moves) => (who, Some(Preempt { after, moves })),
        };
        let worker = match who {
            -1 => None,
            who => Some(usize::try_from(who).map_err(|_| {
                format!(
                    "{who} is no worker; give the number of a worker, or -1 for an external event"
                )
            })?),
        };
        Ok(Self { worker, preempt })
    }
}

impl From<Move> for RawMove {
    fn from(step: Move) -> Self {
        let who = step.worker.map_or(-1, |worker| worker as i64);
        match step.preempt {
            None => Self::Plain(who),
            Some(Preempt { after, moves }) => Self::Preempted(who, after, moves),
        }
    }
}

/// A possible next move, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// `None` is an external event.
    pub(crate) worker: Option<usize>,
    pub(crate) at: u64,
}

/// The running state of a [`Scheduler`].
#[derive(Debug)]
pub(crate) enum Picker {
    RoundRobin {
        last: usize,
    },
    Random {
        rng: Rng,
        jump: usize,
        preempt: usize,
    },
    Pct {
        rng: Rng,
        /// The priority of each worker, and of external events in the last entry.
        priorities: Vec<u64>,
        /// The moves at which a priority is lowered, in descending order.
        changes: Vec<u64>,
        /// One more than the next lowered priority; counts down.
        lowest: u64,
        preempt: usize,
    },
    Replay {
        moves: std::vec::IntoIter<Move>,
        last: usize,
    },
}

impl Picker {
    pub(crate) fn new(scheduler: &Scheduler, workers: usize) -> Self {
        match *scheduler {
            Scheduler::RoundRobin => Self::RoundRobin { last: workers },
            Scheduler::Random {
                seed,
                jump,
                preempt,
            } => Self::Random {
                rng: Rng::new(seed),
                jump,
                preempt,
            },
            Scheduler::Pct {
                seed,
                changes,
                length,
                preempt,
            } => {
                let mut rng = Rng::new(seed);
                // Above all lowered priorities.
                let priorities = (0..=workers).map(|_| rng.next_u64() | 1 << 63).collect();
                let mut changes: Vec<u64> = (0..changes)
                    .map(|_| rng.below(usize::try_from(length).unwrap_or(usize::MAX)) as u64)
                    .collect();
                changes.sort_unstable_by(|a, b| b.cmp(a));
                Self::Pct {
                    rng,
                    priorities,
                    changes,
                    lowest: 1 << 62,
                    preempt,
                }
            }
            Scheduler::Replay(ref moves) => Self::Replay {
                moves: moves.clone().into_iter(),
                last: workers,
            },
        }
    }

    /// Chooses the index of the candidate that makes the `number`-th move while `depth` moves are
    /// in progress, and its interruption. There is at least one candidate.
    pub(crate) fn pick(
        &mut self,
        candidates: &[Candidate],
        now: u64,
        number: u64,
        depth: usize,
    ) -> (usize, Option<Preempt>) {
        match self {
            Self::RoundRobin { last } => (in_turns(candidates, now, last), None),
            Self::Random { rng, jump, preempt } => {
                let index = if rng.one_in(*jump) {
                    rng.below(candidates.len())
                } else {
                    let due = due(candidates, now);
                    let among = candidates.iter().filter(|c| c.at <= due).count();
                    nth_due(candidates, due, rng.below(among))
                };
                (index, interruption(rng, *preempt, depth))
            }
            Self::Pct {
                rng,
                priorities,
                changes,
                lowest,
                preempt,
            } => {
                let due = due(candidates, now);
                let mut index = highest(candidates, due, priorities);
                while changes.last().is_some_and(|&at| at <= number) {
                    changes.pop();
                    *lowest -= 1;
                    let outside = priorities.len() - 1;
                    priorities[candidates[index].worker.unwrap_or(outside)] = *lowest;
                    index = highest(candidates, due, priorities);
                }
                (index, interruption(rng, *preempt, depth))
            }
            Self::Replay { moves, last } => {
                for step in moves.by_ref() {
                    let found = candidates.iter().position(|c| c.worker == step.worker);
                    if let Some(index) = found {
                        return (index, step.preempt);
                    }
                }
                (in_turns(candidates, now, last), None)
            }
        }
    }
}

/// Returns the time up to which candidates count as due: now, or the time of the earliest one.
fn due(candidates: &[Candidate], now: u64) -> u64 {
    let first = candidates.iter().map(|c| c.at).min().unwrap_or(now);
    first.max(now)
}

fn nth_due(candidates: &[Candidate], due: u64, n: usize) -> usize {
    let mut indices = (0..candidates.len()).filter(|&i| candidates[i].at <= due);
    indices.nth(n).unwrap_or(0)
}

/// Returns the next due candidate, in cyclic order after the last one.
fn in_turns(candidates: &[Candidate], now: u64, last: &mut usize) -> usize {
    let due = due(candidates, now);
    let number = |c: &Candidate| c.worker.unwrap_or(usize::MAX);
    let is_due = |i: &usize| candidates[*i].at <= due;
    let index = (0..candidates.len())
        .filter(is_due)
        .find(|&i| number(&candidates[i]) > *last)
        .or_else(|| (0..candidates.len()).find(is_due))
        .unwrap_or(0);
    *last = number(&candidates[index]);
    index
}

fn highest(candidates: &[Candidate], due: u64, priorities: &[u64]) -> usize {
    let priority = |i: &usize| priorities[candidates[*i].worker.unwrap_or(priorities.len() - 1)];
    (0..candidates.len())
        .filter(|&i| candidates[i].at <= due)
        .max_by_key(priority)
        .unwrap_or(0)
}

/// Chooses an interruption. Most steps have two to six events, so later events are chosen seldom.
/// Half a dozen moves are enough for a worker to search and fall asleep.
fn interruption(rng: &mut Rng, one_in: usize, depth: usize) -> Option<Preempt> {
    if depth >= MAX_DEPTH || !rng.one_in(one_in) {
        return None;
    }
    let latest = if rng.one_in(4) { 8 } else { 3 };
    Some(Preempt {
        after: rng.below(latest) as u32,
        moves: 1 + rng.below(8) as u32,
    })
}
