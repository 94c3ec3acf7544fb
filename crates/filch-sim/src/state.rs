//! The state of all workers in virtual time, and the choice of the next move.

use crate::{
    Config, Plan,
    fault::Fault,
    ledger::{Ledger, Task},
    oracle::{Facts, Oracle, Violation},
    outcome::{Trace, What},
    probes::Visits,
    schedule::{Candidate, Move, Picker, Preempt},
    waiting::{Presence, Start, Waiting},
};
use filch::engine::{IdleAction, ParkToken, Source};

/// The state of a worker between two of its moves.
#[derive(Debug)]
pub(crate) enum WorkerStatus {
    /// It is absent.
    Out,
    /// It is awake, between two steps.
    Awake,
    /// It sleeps, until `until` if that is set.
    Asleep {
        token: ParkToken,
        until: Option<u64>,
    },
    /// It is in the middle of a move.
    Moving,
    /// It has exited.
    Gone,
}

/// The simulator's view of a worker.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) status: WorkerStatus,
    /// Whether the program wants it to be present.
    pub(crate) wanted: bool,
    /// The earliest time of its next move, unless it sleeps.
    pub(crate) ready: u64,
    /// The time at which it wakes, if it has been unparked.
    pub(crate) called: Option<u64>,
    /// The joins at which it arrives when the work of its last task has ended.
    arrivals: Vec<u32>,
    /// Whether its last step announced its sleep and the final check is still to come.
    pub(crate) has_final_check: bool,
    /// The number of moves that had begun when it fell asleep.
    pub(crate) asleep_since: u64,
    /// The number of consecutive failed searches while work was queued, and the value of
    /// `State::changes` since which they are counted.
    failed_searches: (u64, u64),
}

impl Slot {
    fn is_asleep(&self) -> bool {
        matches!(self.status, WorkerStatus::Asleep { .. })
    }
}

/// A move in progress. There are several when a move is interrupted.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// `None` is an external event.
    pub(crate) worker: Option<usize>,
    /// Its ordinal number.
    pub(crate) number: u64,
    /// The pending interruption, if any; `after` counts down.
    pub(crate) preempt: Option<Preempt>,
    /// Its cost so far, in ticks.
    pub(crate) cost: u64,
    /// The number of workers that it unparked.
    pub(crate) unparks: u64,
    /// The number of tasks that it moved to its own queue.
    pub(crate) moved: u64,
    /// The task that it ran, and the queue that it came from.
    pub(crate) task: Option<u32>,
    pub(crate) source: Option<Source>,
    /// Whether the engine had been stopped when it began.
    pub(crate) after_stop: bool,
}

/// The kind of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Enter,
    Step,
    Resume,
    Leave,
    /// The next external event, by its index.
    Outside(usize),
    /// The gate is closed because no further external event follows.
    LastClose,
}

/// The mutable state of a run, except for the engine itself.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: u64,
    /// When the last task ended.
    pub(crate) makespan: u64,
    pub(crate) slots: Vec<Slot>,
    pub(crate) ledger: Ledger,
    /// The number of arrivals at each join of the program.
    pub(crate) arrivals: Vec<u64>,
    /// The number of workers that have yet to arrive at joins.
    arriving: usize,
    pub(crate) frames: Vec<Frame>,
    pub(crate) recorded: Vec<Move>,
    pub(crate) trace: Vec<Trace>,
    pub(crate) violation: Option<Violation>,
    pub(crate) present: usize,
    pub(crate) most_present: usize,
    pub(crate) searching_before: usize,
    /// The number of workers that were woken for a task in their mailbox since the last check.
    pub(crate) called_for_mailboxes: usize,
    pub(crate) waiting: Waiting,
    pub(crate) close_asked: bool,
    pub(crate) stop_asked: bool,
    /// The number of unparks so far.
    pub(crate) wakes: u64,
    /// Steals and failed probes, by distance.
    pub(crate) steals: Vec<u64>,
    pub(crate) failed_probes: Vec<u64>,
    /// When the last take from each worker's queue, and from the shared ones in the last entry, has
    /// ended. Only if takes [exclude each other](crate::Costs::exclusive).
    pub(crate) free_at: Vec<u64>,
    picker: Picker,
    /// The number of external events that have happened.
    outside_done: usize,
    /// Whether each fault that happens once has happened.
    spent: Vec<bool>,
    /// The number of moves since the last task, tick or external event.
    moves_without_progress: u64,
    /// The number of moves so far that can change what is queued: executed tasks, external events,
    /// and workers that entered or left.
    changes: u64,
    candidates: Vec<Candidate>,
}

impl State {
    pub(crate) fn new(plan: &Plan) -> Self {
        let workers = plan.case.config.workers;
        let slot = |worker: usize| Slot {
            status: WorkerStatus::Out,
            wanted: !plan.case.config.absent.contains(&worker),
            ready: 0,
            called: None,
            arrivals: Vec::new(),
            has_final_check: false,
            asleep_since: 0,
            failed_searches: (0, 0),
        };
        Self {
            now: 0,
            makespan: 0,
            slots: (0..workers).map(slot).collect(),
            ledger: Ledger::new(workers),
            arrivals: vec![0; plan.program.joins.len()],
            arriving: 0,
            frames: Vec::new(),
            recorded: Vec::new(),
            trace: Vec::new(),
            violation: None,
            present: 0,
            most_present: 0,
            searching_before: 0,
            called_for_mailboxes: 0,
            waiting: Waiting::new(
                workers,
                plan.case.config.affinity_nodes(),
                plan.case.config.ageing,
            ),
            close_asked: false,
            stop_asked: false,
            wakes: 0,
            steals: vec![0; plan.case.config.groups.len() + 1],
            failed_probes: vec![0; plan.case.config.groups.len() + 1],
            free_at: vec![0; workers + 1],
            picker: Picker::new(&plan.case.scheduler, workers),
            outside_done: 0,
            spent: vec![false; plan.case.faults.len()],
            moves_without_progress: 0,
            changes: 0,
            candidates: Vec::new(),
        }
    }

    /// Records the first violation, which ends the run.
    pub(crate) fn fail(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub(crate) fn note(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.fail(violation);
        }
    }

    /// Records that the call that queued the task has returned.
    pub(crate) fn queued(&mut self, task: Task) {
        let moves = self.recorded.len() as u64;
        if let Some(label) = self.ledger.queued(task, moves) {
            self.waiting.add(label);
        }
    }

    /// As `queued`, for a task with an affinity to `worker`; `before` is the worker's presence when
    /// the call began.
    pub(crate) fn queued_for(&mut self, worker: usize, before: Presence, task: Task) {
        if self.waiting.presence(worker) == before {
            self.queued(task);
        }
    }

    /// Checks whether `worker` was allowed to choose this task in the current move.
    pub(crate) fn chosen(&mut self, config: &Config, task: Task, worker: usize) {
        let label = self.ledger.label(task);
        self.waiting.remove(label);
        let Some((top, below)) = self.frames.split_last() else {
            return;
        };
        let holds = |frame: &&Frame| frame.worker.is_some() && frame.task.is_none();
        let from_mailbox = match top.source {
            Some(Source::Affine { worker }) => Some(worker),
            Some(Source::AffineNode { node, .. }) => Some(config.workers + node),
            _ => None,
        };
        let owners = from_mailbox.map_or(0..0, |mailbox| config.mailbox_workers(mailbox));
        let start = Start {
            worker,
            began: top.number,
            suspended: below.iter().filter(holds).count(),
            from_mailbox,
            kept: owners.contains(&worker),
            owner_asleep: { self.slots[owners].iter() }
                .filter(|slot| slot.is_asleep())
                .map(|slot| slot.asleep_since)
                .min(),
        };
        let result = self.waiting.start(start, label);
        self.note(result);
    }

    /// Chooses the next move and begins it; returns `None` if no move is possible.
    pub(crate) fn begin(&mut self, plan: &Plan, stopped: bool) -> Option<(Option<usize>, Kind)> {
        if self.violation.is_some() {
            return None;
        }
        let number = self.recorded.len() as u64;
        let max_moves_without_progress = plan.case.config.max_moves_without_progress();
        if number >= plan.max_moves || self.moves_without_progress > max_moves_without_progress {
            let message = format!(
                "after {number} moves, {} of them since the last task, tick or thing from outside",
                self.moves_without_progress
            );
            self.fail(Violation::new(Oracle::Livelock, message));
            return None;
        }
        let (chosen, kind, preempt) = self.choose(plan, stopped, number)?;
        if chosen.at > self.now {
            self.now = chosen.at;
            self.moves_without_progress = 0;
        }
        self.moves_without_progress += 1;
        if let Some(worker) = chosen.worker {
            if kind == Kind::Resume {
                self.spend_spurious(plan, worker);
            }
        } else {
            self.moves_without_progress = 0;
        }
        if let Kind::Outside(index) = kind {
            self.outside_done = index + 1;
        }
        self.recorded.push(Move {
            worker: chosen.worker,
            preempt,
        });
        self.frames.push(Frame {
            worker: chosen.worker,
            number,
            preempt,
            after_stop: stopped,
            ..Frame::default()
        });
        Some((chosen.worker, kind))
    }

    fn choose(
        &mut self,
        plan: &Plan,
        stopped: bool,
        number: u64,
    ) -> Option<(Candidate, Kind, Option<Preempt>)> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for worker in 0..self.slots.len() {
            if let Some((at, _)) = self.due(plan, worker, stopped) {
                let worker = Some(worker);
                candidates.push(Candidate { worker, at });
            }
        }
        self.stall(plan, number, &mut candidates);
        if let Some(at) = self.outside_due(plan) {
            candidates.push(Candidate { worker: None, at });
        }
        let picked = (!candidates.is_empty()).then(|| {
            let depth = self.frames.len();
            let (index, preempt) = self.picker.pick(&candidates, self.now, number, depth);
            let chosen = candidates[index];
            let kind = match chosen.worker {
                Some(worker) => self.due(plan, worker, stopped).map(|(_, kind)| kind),
                None if self.outside_done == plan.case.program.outside.len() => {
                    Some(Kind::LastClose)
                }
                None => Some(Kind::Outside(self.outside_done)),
            };
            (chosen, kind.expect("a candidate can move"), preempt)
        });
        self.candidates = candidates;
        picked
    }

    /// Returns the time of the next external event. After the last one, the gate is closed as soon
    /// as no task is left, if the program has not closed it itself.
    fn outside_due(&self, plan: &Plan) -> Option<u64> {
        match plan.case.program.outside.get(self.outside_done) {
            Some(outside) => Some(outside.at),
            None => {
                let closed = self.close_asked || self.stop_asked;
                let idle = self.ledger.live == 0 && self.arriving == 0 && self.frames.is_empty();
                (!closed && idle).then_some(self.now)
            }
        }
    }

    /// Returns the time and the kind of the next move of `worker`, if it can move.
    fn due(&self, plan: &Plan, worker: usize, stopped: bool) -> Option<(u64, Kind)> {
        let slot = &self.slots[worker];
        match &slot.status {
            WorkerStatus::Moving | WorkerStatus::Gone => None,
            WorkerStatus::Out => (slot.wanted && !stopped).then_some((slot.ready, Kind::Enter)),
            WorkerStatus::Awake if slot.wanted || !slot.arrivals.is_empty() => {
                Some((slot.ready, Kind::Step))
            }
            WorkerStatus::Awake => Some((slot.ready, Kind::Leave)),
            WorkerStatus::Asleep { .. } if !slot.wanted => Some((self.now, Kind::Leave)),
            WorkerStatus::Asleep { until, .. } => {
                let spurious = self
                    .spurious(plan, worker)
                    .map(|(_, at)| at.max(slot.ready));
                let at = [slot.called, *until, spurious]
                    .into_iter()
                    .flatten()
                    .min()?;
                Some((at, Kind::Resume))
            }
        }
    }

    /// Records that `worker` arrives at a join when the work of its task has ended.
    pub(crate) fn arrive_later(&mut self, worker: usize, join: u32) {
        let arrivals = &mut self.slots[worker].arrivals;
        self.arriving += usize::from(arrivals.is_empty());
        arrivals.push(join);
    }

    /// Takes the joins at which `worker` arrives.
    pub(crate) fn take_arrivals(&mut self, worker: usize) -> Vec<u32> {
        let arrivals = std::mem::take(&mut self.slots[worker].arrivals);
        self.arriving -= usize::from(!arrivals.is_empty());
        arrivals
    }

    /// Returns the next fault that wakes `worker` spuriously, and its time.
    fn spurious(&self, plan: &Plan, worker: usize) -> Option<(usize, u64)> {
        let faults = plan.case.faults.iter().enumerate();
        faults
            .filter(|&(index, _)| !self.spent[index])
            .filter_map(|(index, fault)| match *fault {
                Fault::Spurious { worker: w, at } if w == worker => Some((index, at)),
                _ => None,
            })
            .min_by_key(|&(_, at)| at)
    }

    fn spend_spurious(&mut self, plan: &Plan, worker: usize) {
        if let Some((index, at)) = self.spurious(plan, worker)
            && at <= self.now
        {
            self.spent[index] = true;
        }
    }

    /// Removes stalled workers, unless no candidate would be left.
    fn stall(&self, plan: &Plan, number: u64, candidates: &mut Vec<Candidate>) {
        let stalled = |worker: Option<usize>| {
            plan.case.faults.iter().any(|fault| match *fault {
                Fault::Stall {
                    worker: w,
                    from,
                    moves,
                } => worker == Some(w) && (from..from.saturating_add(moves)).contains(&number),
                _ => false,
            })
        };
        if !plan.has_stalls || candidates.iter().all(|c| stalled(c.worker)) {
            return;
        }
        candidates.retain(|c| !stalled(c.worker));
    }

    /// Handles the unpark of `worker`, which wakes after the wake latency.
    pub(crate) fn call(&mut self, plan: &Plan, worker: usize) {
        self.wakes += 1;
        let costs = &plan.case.config.costs;
        let mut latency = costs.wake;
        if let Some(frame) = self.frames.last_mut() {
            // One after the other.
            latency = latency.saturating_add(frame.unparks.saturating_mul(costs.unpark));
            frame.unparks += 1;
        }
        for fault in &plan.case.faults {
            match *fault {
                Fault::LateWake { wake, ticks } if wake == self.wakes => {
                    latency = latency.saturating_add(ticks);
                }
                Fault::LoseWake { wake } if wake == self.wakes => return,
                _ => {}
            }
        }
        let at = self.now.saturating_add(latency);
        let called = &mut self.slots[worker].called;
        *called = Some(called.map_or(at, |earlier| earlier.min(at)));
    }

    /// Whether all unstarted tasks are in the mailboxes of sleeping workers, or of nodes with one.
    /// These workers have been unparked, and other workers do not take the tasks, however long the
    /// wake takes.
    fn is_left_to_sleepers(&self, config: &Config) -> bool {
        let has_sleeper = |mailbox: &usize| {
            let mut owners = self.slots[config.mailbox_workers(*mailbox)].iter();
            owners.any(Slot::is_asleep)
        };
        let in_mailboxes: u64 = (0..self.waiting.mailboxes())
            .filter(has_sleeper)
            .map(|mailbox| self.waiting.mailbox_len(mailbox))
            .sum();
        in_mailboxes == self.ledger.unstarted
    }

    /// Counts a failed search of `worker`; `there` says whether work is queued. Too many failed
    /// searches while work is queued are a violation.
    pub(crate) fn count_failed_search(&mut self, plan: &Plan, worker: usize, there: bool) {
        let there = there && !self.is_left_to_sleepers(&plan.case.config);
        let (searches, since) = &mut self.slots[worker].failed_searches;
        if !there || *since != self.changes {
            (*searches, *since) = (0, self.changes);
            return;
        }
        *searches += 1;
        if *searches > plan.case.config.max_failed_searches() {
            let message = format!(
                "worker {worker} has searched {searches} times while a task was queued and no other worker \
                 moved"
            );
            self.fail(Violation::new(Oracle::Visible, message));
        }
    }

    /// Ends the current move, whose searches made the `visits`; `then` is the new state of its
    /// worker.
    pub(crate) fn end(
        &mut self,
        plan: &Plan,
        what: What,
        then: Option<WorkerStatus>,
        visits: &Visits,
    ) {
        let frame = self.frames.pop().expect("a move that ends has begun");
        let cost = self.cost(plan, what, &frame, visits);
        let idle = matches!(what, What::Idle(_) | What::Parked | What::Resumed);
        self.changes += u64::from(!idle);
        if let Some(worker) = frame.worker {
            let ready = self.now.saturating_add(cost);
            let slot = &mut self.slots[worker];
            slot.ready = ready;
            slot.has_final_check = what == What::Idle(IdleAction::Spin(0));
            if let Some(status) = then {
                slot.status = status;
                slot.asleep_since = self.recorded.len() as u64;
            }
            if matches!(what, What::Ran { .. }) {
                self.moves_without_progress = 0;
                self.ledger.tallies[worker].busy += cost;
                self.makespan = self.makespan.max(ready);
            }
        }
        self.trace.push(Trace {
            at: self.now,
            worker: frame.worker,
            depth: self.frames.len(),
            what,
            queued: self.ledger.unstarted,
        });
    }

    /// Returns the facts that this state contains.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts {
            live: self.ledger.live,
            close_asked: self.close_asked,
            stop_asked: self.stop_asked,
            searching_before: self.searching_before,
            called: self.called_for_mailboxes,
            present: self.present,
            most_present: self.most_present,
            ..Facts::default()
        };
        for (worker, slot) in self.slots.iter().enumerate() {
            match slot.status {
                WorkerStatus::Asleep { .. } => {
                    facts.asleep += 1;
                    if slot.called.is_none() {
                        facts.unwoken.get_or_insert(worker);
                    }
                }
                WorkerStatus::Awake => facts.has_final_check |= slot.has_final_check,
                _ => {}
            }
        }
        facts
    }
}
