//! Where everybody stands in virtual time, and who can move.

use super::{
    Plan,
    fault::Fault,
    ledger::{Ledger, Task},
    oracle::{Facts, Oracle, Violation},
    outcome::{Trace, What},
    schedule::{Candidate, Move, Picker, Preempt},
    waiting::{Start, Stay, Waiting},
};
use crate::engine::{IdleAction, Source, Ticket};

/// Where a worker stands between two of its moves.
#[derive(Debug)]
pub(super) enum Stand {
    /// It takes no part.
    Out,
    /// It is awake, between two steps.
    Awake,
    /// It sleeps, until the time if there is one.
    Asleep { ticket: Ticket, until: Option<u64> },
    /// It is in the middle of a move.
    Moving,
    /// It was sent home.
    Gone,
}

/// A worker as the simulator sees it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) stand: Stand,
    /// Whether the program wants it to take part.
    pub(super) wanted: bool,
    /// Not before this time, unless it sleeps.
    pub(super) ready: u64,
    /// It has been called awake, and hears it at this time.
    pub(super) called: Option<u64>,
    /// Its last step announced its sleep, and it has not looked once more yet.
    pub(super) about_to_look: bool,
    /// How many moves had begun when it fell asleep.
    pub(super) asleep_since: u64,
    /// How often in a row it has looked in vain while there was work, and after which change.
    in_vain: (u64, u64),
}

/// A move that is under way. There are several when a move is interrupted.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// `None` is the outside.
    pub(super) worker: Option<usize>,
    /// Its number among the moves.
    pub(super) number: u64,
    /// Whether it will be interrupted; `after` counts down.
    pub(super) preempt: Option<Preempt>,
    /// Ticks that it has cost so far.
    pub(super) cost: u64,
    /// The task that it ran, and where that came from.
    pub(super) task: Option<u32>,
    pub(super) source: Option<Source>,
    /// Whether everybody had been sent home when it began.
    pub(super) after_stop: bool,
}

/// What the next move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Enter,
    Step,
    Resume,
    Leave,
    /// The next thing from outside, by its number.
    Outside(usize),
    /// The gate is closed because nothing else is to come.
    LastClose,
}

/// Everything that changes in a run but the engine itself.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: u64,
    /// When the last task ended.
    pub(super) makespan: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) ledger: Ledger,
    pub(super) frames: Vec<Frame>,
    pub(super) recorded: Vec<Move>,
    pub(super) trace: Vec<Trace>,
    pub(super) violation: Option<Violation>,
    pub(super) present: usize,
    pub(super) most_present: usize,
    pub(super) searching_before: usize,
    /// Workers called for a task in their box since the last check.
    pub(super) called_for_boxes: usize,
    pub(super) waiting: Waiting,
    pub(super) close_asked: bool,
    pub(super) stop_asked: bool,
    /// Calls that wake somebody, so far.
    pub(super) wakes: u64,
    picker: Picker,
    /// How many of the things from outside have happened.
    outside_done: usize,
    /// Faults that happen once and have happened.
    spent: Vec<bool>,
    /// Moves since the last task, tick or thing from outside.
    fruitless: u64,
    /// Tasks run, things from outside, comings and goings so far: all that can change what is queued.
    changes: u64,
    candidates: Vec<Candidate>,
}

impl State {
    pub(super) fn new(plan: &Plan) -> Self {
        let workers = plan.case.config.workers;
        let slot = |worker: usize| Slot {
            stand: Stand::Out,
            wanted: !plan.case.config.absent.contains(&worker),
            ready: 0,
            called: None,
            about_to_look: false,
            asleep_since: 0,
            in_vain: (0, 0),
        };
        Self {
            now: 0,
            makespan: 0,
            slots: (0..workers).map(slot).collect(),
            ledger: Ledger::new(workers),
            frames: Vec::new(),
            recorded: Vec::new(),
            trace: Vec::new(),
            violation: None,
            present: 0,
            most_present: 0,
            searching_before: 0,
            called_for_boxes: 0,
            waiting: Waiting::new(workers, plan.case.config.ageing),
            close_asked: false,
            stop_asked: false,
            wakes: 0,
            picker: Picker::new(&plan.case.scheduler, workers),
            outside_done: 0,
            spent: vec![false; plan.case.faults.len()],
            fruitless: 0,
            changes: 0,
            candidates: Vec::new(),
        }
    }

    /// Keeps the first broken rule; the run ends with it.
    pub(super) fn fail(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn note(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.fail(violation);
        }
    }

    /// The call that queued the task is over.
    pub(super) fn queued(&mut self, task: Task) {
        let moves = self.recorded.len() as u64;
        if let Some(label) = self.ledger.queued(task, moves) {
            self.waiting.add(label);
        }
    }

    /// The call that queued the task for `worker` is over; when it began, the worker stood like this.
    pub(super) fn queued_for(&mut self, worker: usize, before: Stay, task: Task) {
        if self.waiting.stay(worker) == before {
            self.queued(task);
        }
    }

    /// `worker` has chosen this task, in the move at the top: looks whether it might.
    pub(super) fn chosen(&mut self, task: Task, worker: usize) {
        let label = self.ledger.label(task);
        self.waiting.remove(label);
        let Some((top, below)) = self.frames.split_last() else {
            return;
        };
        let holds = |frame: &&Frame| frame.worker.is_some() && frame.task.is_none();
        let from_box = match top.source {
            Some(Source::Affine { worker }) => Some(worker),
            _ => None,
        };
        let start = Start {
            worker,
            began: top.number,
            suspended: below.iter().filter(holds).count(),
            from_box,
            owner_asleep: from_box.and_then(|owner| {
                let slot = &self.slots[owner];
                matches!(slot.stand, Stand::Asleep { .. }).then_some(slot.asleep_since)
            }),
        };
        let result = self.waiting.start(start, label);
        self.note(result);
    }

    /// Chooses the next move and begins it; `None` when nobody can move any more.
    pub(super) fn begin(&mut self, plan: &Plan, stopped: bool) -> Option<(Option<usize>, Kind)> {
        if self.violation.is_some() {
            return None;
        }
        let number = self.recorded.len() as u64;
        let patience = plan.case.config.patience();
        if number >= plan.max_moves || self.fruitless > patience {
            let message = format!(
                "after {number} moves, {} of them since the last task, tick or thing from outside",
                self.fruitless
            );
            self.fail(Violation::new(Oracle::Livelock, message));
            return None;
        }
        let (chosen, kind, preempt) = self.choose(plan, stopped, number)?;
        if chosen.at > self.now {
            self.now = chosen.at;
            self.fruitless = 0;
        }
        self.fruitless += 1;
        if let Some(worker) = chosen.worker {
            if kind == Kind::Resume {
                self.spend_spurious(plan, worker);
            }
        } else {
            self.fruitless = 0;
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

    /// When the next thing from outside happens. After the last one, the gate is closed as soon as
    /// there is nothing to do, if the program has not done so itself.
    fn outside_due(&self, plan: &Plan) -> Option<u64> {
        match plan.case.program.outside.get(self.outside_done) {
            Some(outside) => Some(outside.at),
            None => {
                let closed = self.close_asked || self.stop_asked;
                (!closed && self.ledger.live == 0 && self.frames.is_empty()).then_some(self.now)
            }
        }
    }

    /// When `worker` can move, and what it does then.
    fn due(&self, plan: &Plan, worker: usize, stopped: bool) -> Option<(u64, Kind)> {
        let slot = &self.slots[worker];
        match &slot.stand {
            Stand::Moving | Stand::Gone => None,
            Stand::Out => (slot.wanted && !stopped).then_some((slot.ready, Kind::Enter)),
            Stand::Awake if slot.wanted => Some((slot.ready, Kind::Step)),
            Stand::Awake => Some((slot.ready, Kind::Leave)),
            Stand::Asleep { .. } if !slot.wanted => Some((self.now, Kind::Leave)),
            Stand::Asleep { until, .. } => {
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

    /// The next time that `worker` wakes by itself because of a fault.
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

    /// Takes out those who are stalled, unless nobody would be left.
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

    /// Somebody has called `worker` awake: it hears it after the wake latency.
    pub(super) fn call(&mut self, plan: &Plan, worker: usize) {
        self.wakes += 1;
        let mut latency = plan.case.config.costs.wake;
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

    /// Whether everything that has not started waits for workers that sleep: they are on the way, however long
    /// that takes, and the others leave it to them.
    fn is_left_to_sleepers(&self) -> bool {
        let asleep = |slot: &Slot| matches!(slot.stand, Stand::Asleep { .. });
        let sleepers = (0..self.slots.len()).filter(|&worker| asleep(&self.slots[worker]));
        let boxed: u64 = sleepers.map(|worker| self.waiting.boxed(worker)).sum();
        boxed == self.ledger.unstarted
    }

    /// `worker` has looked for work; `there` says whether there is some. It must find it in the end.
    pub(super) fn looked(&mut self, plan: &Plan, worker: usize, there: bool) {
        let there = there && !self.is_left_to_sleepers();
        let (looks, since) = &mut self.slots[worker].in_vain;
        if !there || *since != self.changes {
            (*looks, *since) = (0, self.changes);
            return;
        }
        *looks += 1;
        if *looks > plan.case.config.blindness() {
            let message = format!(
                "worker {worker} has looked {looks} times while a task was there and nobody else did \
                 anything"
            );
            self.fail(Violation::new(Oracle::Visible, message));
        }
    }

    /// The move at the top is over; its worker stands like this `then`.
    pub(super) fn end(&mut self, plan: &Plan, what: What, then: Option<Stand>) {
        let frame = self.frames.pop().expect("a move that ends has begun");
        let costs = &plan.case.config.costs;
        let mut cost = frame.cost;
        match &what {
            What::Ran { .. } => {
                cost = cost.saturating_add(costs.step);
                cost = cost.saturating_add(match frame.source {
                    Some(Source::Injector | Source::Lane(_) | Source::Affine { .. }) => {
                        costs.inject
                    }
                    Some(Source::Steal { victim }) => {
                        let thief = frame.worker.unwrap_or(0);
                        costs.steal(plan.topology.distance(thief, victim))
                    }
                    Some(Source::Local) | None => 0,
                });
                self.fruitless = 0;
            }
            What::Idle(IdleAction::Spin(pauses)) => {
                cost = costs.step.saturating_add(u64::from(*pauses) * costs.pause);
            }
            What::Idle(IdleAction::Yield) => cost = costs.step.saturating_add(costs.yield_now),
            _ => {}
        }
        let idle = matches!(what, What::Idle(_) | What::Parked | What::Resumed);
        self.changes += u64::from(!idle);
        if let Some(worker) = frame.worker {
            let ready = self.now.saturating_add(cost);
            let slot = &mut self.slots[worker];
            slot.ready = ready;
            slot.about_to_look = what == What::Idle(IdleAction::Spin(0));
            if let Some(stand) = then {
                slot.stand = stand;
                slot.asleep_since = self.recorded.len() as u64;
            }
            if matches!(what, What::Ran { .. }) {
                self.ledger.deeds[worker].busy += cost;
                self.makespan = self.makespan.max(ready);
            }
        }
        self.trace.push(Trace {
            at: self.now,
            worker: frame.worker,
            depth: self.frames.len(),
            what,
        });
    }

    /// What the state itself knows of the facts.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts {
            live: self.ledger.live,
            close_asked: self.close_asked,
            stop_asked: self.stop_asked,
            searching_before: self.searching_before,
            called: self.called_for_boxes,
            present: self.present,
            most_present: self.most_present,
            ..Facts::default()
        };
        for (worker, slot) in self.slots.iter().enumerate() {
            match slot.stand {
                Stand::Asleep { .. } => {
                    facts.asleep += 1;
                    if slot.called.is_none() {
                        facts.unwoken.get_or_insert(worker);
                    }
                }
                Stand::Awake => facts.about_to_look |= slot.about_to_look,
                _ => {}
            }
        }
        facts
    }
}
