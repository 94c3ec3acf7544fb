//! Shrinks failing cases by delta debugging.
//!
//! A case is reduced in one place at a time, and the smaller case is kept if it breaks the same
//! rule. The structure comes first (workers, faults, bodies, settings), then the schedule, in ever
//! smaller pieces (Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*,
//! 2002). This repeats until no reduction succeeds. A smaller program seldom fails under the
//! schedule of the larger one, so it is also run with a few random schedules.

use crate::{
    case::Case,
    config::{Costs, Idle, Overflow, Queues},
    fault::Fault,
    outcome::Failure,
    program::{Act, Op},
    schedule::{Move, Preempt, Scheduler},
    simulation::Simulation,
};
use filch::engine::{Ageing, Priority, WakePolicy};

/// The number of random schedules that are tried on a smaller case that passes under the old
/// schedule.
const SCHEDULES: u64 = 6;

/// The number of moves that count as one more run against the limit of runs. So a livelock, whose
/// runs are long, is not shrunk for ever.
const LONG_RUN: u64 = 1_000;

impl Failure {
    /// Returns a smaller failure of the same rule, found in at most `runs` runs, or a copy of this
    /// one.
    ///
    /// ```
    /// use filch_sim::{Case, Fault, Program, Simulation};
    ///
    /// // A driver that loses a wake, in a large case that is mostly irrelevant to it.
    /// let mut case = Case::new(6, Program::tree(4, 3, 20));
    /// case.faults = vec![Fault::Panic { task: 9 }, Fault::LoseWake { wake: 2 }];
    /// let failure = Simulation::new(case)?.run().unwrap_err();
    /// let small = failure.shrink(1_000);
    /// assert_eq!(small.oracle, failure.oracle);
    /// assert_eq!(small.case.faults, [Fault::LoseWake { wake: 1 }]);
    /// assert!(small.case.config.workers < 3);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    #[must_use]
    pub fn shrink(&self, runs: u64) -> Self {
        let mut shrinker = Shrinker {
            best: self.clone(),
            left: runs,
        };
        loop {
            let before = size(&shrinker.best.case);
            shrinker.structure();
            shrinker.schedule();
            if shrinker.left == 0 || size(&shrinker.best.case) == before {
                return shrinker.best;
            }
        }
    }
}

struct Shrinker {
    best: Failure,
    left: u64,
}

impl Shrinker {
    /// Runs `case`; keeps it if it breaks the same rule and is smaller. Returns whether it was
    /// kept.
    fn attempt(&mut self, case: Case) -> bool {
        if self.left == 0 {
            return false;
        }
        let Ok(simulation) = Simulation::new(case) else {
            return false;
        };
        let result = simulation.run();
        let moves = result
            .as_ref()
            .map_or_else(|f| f.trace.len(), |o| o.moves());
        self.left = self.left.saturating_sub(1 + moves as u64 / LONG_RUN);
        match result {
            Err(failure)
                if failure.oracle == self.best.oracle
                    && size(&failure.case) < size(&self.best.case) =>
            {
                let seed = self.best.seed;
                self.best = Failure { seed, ..*failure };
                true
            }
            _ => false,
        }
    }

    /// [`attempt`](Self::attempt) with the current schedule, then with random ones.
    fn attempt_schedules(&mut self, case: Case) -> bool {
        if self.attempt(case.clone()) {
            return true;
        }
        (0..SCHEDULES).any(|seed| {
            let scheduler = Scheduler::Random {
                seed,
                jump: [0, 8][seed as usize % 2],
                preempt: [0, 0, 4][seed as usize % 3],
            };
            let case = case.clone();
            self.attempt(Case { scheduler, ..case })
        })
    }

    fn structure(&mut self) {
        let mut index = 0;
        // Each edit is tried on the best case so far; after a success the edits are computed again.
        while self.left > 0 {
            let Some(case) = edits(&self.best.case).into_iter().nth(index) else {
                return;
            };
            if !self.attempt_schedules(case) {
                index += 1;
            }
        }
    }

    fn schedule(&mut self) {
        let mut piece = moves(&self.best.case).len().div_ceil(2);
        while piece > 0 && self.left > 0 {
            let mut begin = 0;
            while begin < moves(&self.best.case).len() && self.left > 0 {
                let mut rest = moves(&self.best.case).to_vec();
                let end = (begin + piece).min(rest.len());
                rest.drain(begin..end);
                if !self.attempt(with_moves(&self.best.case, rest)) {
                    begin += piece;
                }
            }
            piece /= 2;
        }
        for index in (0..moves(&self.best.case).len()).rev() {
            let mut calmer = moves(&self.best.case).to_vec();
            let Some(Preempt { after, moves }) = calmer.get(index).and_then(|m| m.preempt) else {
                continue;
            };
            calmer[index].preempt = None;
            if !self.attempt(with_moves(&self.best.case, calmer.clone())) && moves > 1 {
                let moves = moves - 1;
                calmer[index].preempt = Some(Preempt { after, moves });
                self.attempt(with_moves(&self.best.case, calmer));
            }
        }
    }
}

fn moves(case: &Case) -> &[Move] {
    match &case.scheduler {
        Scheduler::Replay(moves) => moves,
        _ => &[],
    }
}

fn with_moves(case: &Case, moves: Vec<Move>) -> Case {
    Case {
        scheduler: Scheduler::Replay(moves),
        ..case.clone()
    }
}

/// Returns the size of a case: first the structure, then the schedule.
fn size(case: &Case) -> (u64, u64) {
    fn ops(list: &[Op]) -> u64 {
        let one = |op: &Op| match op {
            Op::Work(ticks) => 4 + u64::from(ticks.checked_ilog2().map_or(0, |log| log + 1)),
            Op::Repeat { times, ops: list } => 4 + u64::from(*times) + ops(list),
            Op::SpawnAt { .. } | Op::SpawnFor { .. } | Op::Arrive(_) => 5,
            _ => 4,
        };
        list.iter().map(one).sum()
    }
    let config = &case.config;
    let bodies: u64 = case.program.bodies.iter().map(|b| 2 + ops(&b.ops)).sum();
    let log = |ticks: u64| u64::from(ticks.checked_ilog2().map_or(0, |log| log + 1));
    let outside: u64 = case
        .program
        .outside
        .iter()
        .map(|o| {
            let more = match o.act {
                Act::Inject {
                    count,
                    level,
                    worker,
                    ..
                } => count as u64 + u64::from(level != Priority::Normal || worker.is_some()),
                _ => 0,
            };
            4 + log(o.at) + more
        })
        .sum();
    let settings = [
        config.costs != Costs::free(),
        config.idle != SIMPLEST_IDLE,
        config.idle.park_timeout.is_some(),
        config.queues != SIMPLEST_QUEUES,
        config.overflow != Overflow::Spill,
        config.wake != WakePolicy::EveryPush,
        config.wake_fanout != 0,
        config.batch_from != 0,
        config.node_affinity,
        config.steal_tries != 32,
        config.inject_batch != 64,
        config.inject_interval != 0,
        config.inject_capacity.is_some(),
        config.ageing != Ageing::default(),
        !config.groups.is_empty(),
        config.cores != 0,
    ];
    let settings = settings.into_iter().filter(|&set| set).count() as u64;
    let structure = 16 * config.workers as u64
        + 2 * config.absent.len() as u64
        + 4 * case.faults.len() as u64
        + case.faults.iter().map(|&f| weight(f)).sum::<u64>()
        + bodies
        + outside
        + settings;
    let schedule = moves(case).len() as u64 * 16
        + moves(case)
            .iter()
            .filter_map(|m| m.preempt)
            .map(|p| u64::from(p.moves))
            .sum::<u64>();
    (structure, schedule)
}

/// The simplest idle policy: a worker sleeps after its first failed search.
const SIMPLEST_IDLE: Idle = Idle {
    spin_rounds: 0,
    yield_every: 0,
    longest_pause: 1,
    park_timeout: None,
};

/// The simplest queues.
const SIMPLEST_QUEUES: Queues = Queues::Growable {
    initial: 4,
    steal_batch: 1,
};

/// Returns the sum of those numbers of a fault that can shrink.
fn weight(fault: Fault) -> u64 {
    match fault {
        Fault::Stall { from, moves, .. } => from + moves,
        Fault::Panic { task } => task,
        Fault::LateWake { wake, ticks } => wake + ticks,
        Fault::Refuse { push } => push,
        Fault::Spurious { at, .. } => at,
        Fault::LoseWake { wake } => wake,
    }
}

/// Returns all cases that are smaller in one place, the largest reductions first.
fn edits(case: &Case) -> Vec<Case> {
    let mut edits = Vec::new();
    let mut edit = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        if smaller != *case {
            edits.push(smaller);
        }
    };
    for worker in (0..case.config.workers).rev() {
        edit(&|c| remove_worker(c, worker));
    }
    for index in (0..case.faults.len()).rev() {
        edit(&|c| c.faults.retain(|fault| *fault != case.faults[index]));
        for by in [2, 1] {
            edit(&|c| c.faults[index] = milder(c.faults[index], by));
        }
    }
    for index in (0..case.program.outside.len()).rev() {
        edit(&|c| drop(c.program.outside.remove(index)));
        edit(&|c| c.program.outside[index].at /= 2);
        edit(&|c| {
            if let Act::Inject { count, .. } = &mut c.program.outside[index].act {
                *count = (*count - 1).max(1);
            }
        });
        edit(&|c| {
            if let Act::Inject { level, worker, .. } = &mut c.program.outside[index].act {
                (*level, *worker) = (Priority::Normal, None);
            }
        });
    }
    for index in (0..case.program.bodies.len()).rev() {
        edit(&|c| drop(c.program.bodies.remove(index)));
        edit(&|c| c.program.bodies[index].ops.clear());
        for at in (0..case.program.bodies[index].ops.len()).rev() {
            edit(&|c| drop(c.program.bodies[index].ops.remove(at)));
            edit(&|c| simpler(&mut c.program.bodies[index].ops[at]));
            edit(&|c| unroll(&mut c.program.bodies[index].ops, at));
        }
    }
    edit(&|c| c.config.absent.clear());
    edit(&|c| c.config.costs = Costs::free());
    edit(&|c| c.config.idle = SIMPLEST_IDLE);
    edit(&|c| c.config.idle.park_timeout = None);
    edit(&|c| c.config.queues = SIMPLEST_QUEUES);
    edit(&|c| c.config.overflow = Overflow::Spill);
    edit(&|c| c.config.wake = WakePolicy::EveryPush);
    edit(&|c| c.config.wake_fanout = 0);
    edit(&|c| c.config.batch_from = 0);
    edit(&|c| c.config.node_affinity = false);
    edit(&|c| c.config.steal_tries = 32);
    edit(&|c| c.config.inject_batch = 64);
    edit(&|c| c.config.inject_interval = 0);
    edit(&|c| c.config.inject_capacity = None);
    edit(&|c| c.config.ageing = Ageing::default());
    edit(&|c| c.config.groups.clear());
    edit(&|c| c.config.cores = 0);
    edits
}

/// Reduces the time or the amount of a fault to half, or by one.
fn milder(fault: Fault, by: u64) -> Fault {
    let less = |n: u64| if by == 2 { n / 2 } else { n.saturating_sub(1) };
    match fault {
        Fault::Stall {
            worker,
            from,
            moves,
        } => Fault::Stall {
            worker,
            from: less(from),
            moves: less(moves),
        },
        Fault::Panic { task } => Fault::Panic { task: less(task) },
        Fault::LateWake { wake, ticks } => Fault::LateWake {
            wake: less(wake),
            ticks: less(ticks),
        },
        Fault::Refuse { push } => Fault::Refuse { push: less(push) },
        Fault::Spurious { worker, at } => Fault::Spurious {
            worker,
            at: less(at),
        },
        Fault::LoseWake { wake } => Fault::LoseWake { wake: less(wake) },
    }
}

fn simpler(op: &mut Op) {
    match op {
        Op::Work(ticks) => *ticks /= 2,
        Op::Repeat { times, .. } if *times > 1 => *times -= 1,
        Op::SpawnAt { body, .. } | Op::SpawnFor { body, .. } => {
            *op = Op::SpawnLocal(std::mem::take(body));
        }
        _ => {}
    }
}

/// Replaces a repeat by the repeated operations.
fn unroll(ops: &mut Vec<Op>, at: usize) {
    if let Op::Repeat { ops: inner, .. } = &mut ops[at] {
        let inner = std::mem::take(inner);
        ops.splice(at..=at, inner);
    }
}

/// Removes a worker from the case; later workers are renumbered.
fn remove_worker(case: &mut Case, gone: usize) {
    if case.config.workers == 1 {
        return;
    }
    let renumber = |worker: usize| (worker != gone).then(|| worker - usize::from(worker > gone));
    case.config.workers -= 1;
    case.config.absent = case
        .config
        .absent
        .iter()
        .filter_map(|&w| renumber(w))
        .collect();
    case.program
        .outside
        .retain_mut(|outside| match &mut outside.act {
            Act::Enter(worker) | Act::Leave(worker) => {
                renumber(*worker).map(|w| *worker = w).is_some()
            }
            Act::Inject { worker, .. } => {
                *worker = worker.map(|w| renumber(w).unwrap_or(0));
                true
            }
            _ => true,
        });
    for body in &mut case.program.bodies {
        renumber_ops(&mut body.ops, &|worker| renumber(worker).unwrap_or(0));
    }
    case.faults.retain_mut(|fault| match fault {
        Fault::Stall { worker, .. } | Fault::Spurious { worker, .. } => {
            renumber(*worker).map(|w| *worker = w).is_some()
        }
        _ => true,
    });
    if let Scheduler::Replay(moves) = &mut case.scheduler {
        moves.retain_mut(|step| match &mut step.worker {
            Some(worker) => renumber(*worker).map(|w| *worker = w).is_some(),
            None => true,
        });
    }
}

/// Renumbers the workers of affinities.
fn renumber_ops(ops: &mut [Op], renumber: &impl Fn(usize) -> usize) {
    for op in ops {
        match op {
            Op::SpawnFor { worker, .. } => *worker = renumber(*worker),
            Op::Repeat { ops, .. } => renumber_ops(ops, renumber),
            _ => {}
        }
    }
}
