//! The stage: the engine and its virtual workers, driven one move at a time.
//!
//! # How a move is interrupted
//!
//! The engine notifies its observer of events in the middle of its operations. At each event a real
//! thread could lose its core. The observer simulates that when the schedule requests it: it makes
//! moves of other workers before it returns. All of this happens on one thread and needs no support
//! by the engine. Moves nest as calls do, so the first interrupted move is the last to continue.
//!
//! # Ownership
//!
//! The observer is part of the engine, the workers borrow the engine, and the observer needs the
//! workers: a cycle. The stage is created first, the engine gets a reference to it, and the stage
//! gets a reference to the engine afterwards. Both stay in place until the run is over. The workers
//! are in a [`ManuallyDrop`], since the drop checker could not prove that their `Drop` runs before
//! the engine's. [`Stage::clear`] drops them in time; if a panic prevents it, they leak.
//!
//! No lock is held during a call to the engine.

use crate::{
    Plan,
    ledger::Task,
    oracle::{Facts, Violation, check_counters},
    outcome::What,
    probes::{ProbeLog, Visits},
    program::Act,
    state::{Kind, State, WorkerStatus},
    unwind,
};
use filch::{
    engine::{
        Core, Event, OUTSIDE, Observer, Placement, Priority, Source, Step, Strategy, Unpark,
        WakePolicy, Worker,
    },
    observe::Counters,
};
use std::{
    mem::ManuallyDrop,
    panic,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

/// The engine's observer in a simulation: its counters, and the stage.
pub(crate) type SimulationObserver<'c> = (Counters, EventForwarder<'c>);

pub(crate) type VirtualWorker<'c, Q> = Worker<'c, Task, Q, SimulationObserver<'c>>;

/// Forwards every event to the stage.
pub(crate) struct EventForwarder<'c>(pub(crate) &'c (dyn EventSink + 'c));

pub(crate) trait EventSink: Sync {
    fn on_event(&self, worker: usize, event: Event);
}

impl Observer for EventForwarder<'_> {
    fn event(&self, worker: usize, event: Event) {
        self.0.on_event(worker, event);
    }
}

/// Records the engine's unparks, in their order. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnparkLog(Arc<Mutex<Vec<usize>>>);

impl UnparkLog {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Unpark for UnparkLog {
    fn unpark(&self, worker: usize) {
        lock(&self.0).push(worker);
    }
}

/// The core of the moving worker.
#[derive(Debug, Default)]
pub(crate) struct Moving(Mutex<Option<u32>>);

impl Moving {
    pub(crate) fn core(&self) -> Option<u32> {
        *lock(&self.0)
    }

    /// Calls `f` while a worker on this core moves.
    fn on<R>(&self, core: Option<u32>, f: impl FnOnce() -> R) -> R {
        let before = std::mem::replace(&mut *lock(&self.0), core);
        let result = f();
        *lock(&self.0) = before;
        result
    }
}

/// The engine, its virtual workers, and their states.
pub(crate) struct Stage<'c, Q: Strategy> {
    pub(crate) plan: &'c Plan,
    pub(crate) core: OnceLock<&'c Core<Task, Q, SimulationObserver<'c>>>,
    pub(crate) calls: UnparkLog,
    pub(crate) moving: Arc<Moving>,
    probes: ProbeLog,
    state: Mutex<State>,
    workers: Mutex<ManuallyDrop<Vec<Option<VirtualWorker<'c, Q>>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only a panic of the engine can poison the mutex, and that ends the run.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'c, Q: Strategy> Stage<'c, Q>
where
    Q::Handle<'c, Task>: Send,
{
    pub(crate) fn new(plan: &'c Plan, probes: ProbeLog) -> Self {
        let absent = (0..plan.case.config.workers).map(|_| None).collect();
        Self {
            plan,
            core: OnceLock::new(),
            calls: UnparkLog::default(),
            moving: Arc::default(),
            probes,
            state: Mutex::new(State::new(plan)),
            workers: Mutex::new(ManuallyDrop::new(absent)),
        }
    }

    pub(crate) fn core(&self) -> &'c Core<Task, Q, SimulationObserver<'c>> {
        self.core.get().expect("the engine is there from the start")
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Drops all remaining workers.
    pub(crate) fn clear(&self) {
        let workers = std::mem::take(&mut **lock(&self.workers));
        drop(workers);
    }

    fn take(&self, worker: usize) -> VirtualWorker<'c, Q> {
        let taken = lock(&self.workers)[worker].take();
        taken.expect("a worker that moves is there")
    }

    fn put_back(&self, id: usize, worker: VirtualWorker<'c, Q>) {
        lock(&self.workers)[id] = Some(worker);
    }

    /// Makes one move; returns false if no move is possible.
    pub(crate) fn one_move(&self) -> bool {
        let stopped = self.core().is_stopped();
        let chosen = {
            let mut state = self.state();
            self.process_unparks(&mut state);
            state.begin(self.plan, stopped)
        };
        let Some((worker, kind)) = chosen else {
            return false;
        };
        let core = worker.and_then(|id| self.plan.case.config.core_of(id));
        let (what, then) = self.moving.on(core, || match (worker, kind) {
            (Some(id), Kind::Enter) => self.enter(id),
            (Some(id), Kind::Step) => self.step(id),
            (Some(id), Kind::Resume) => self.resume(id),
            (Some(id), Kind::Leave) => self.leave(id),
            (_, Kind::Outside(index)) => self.outside(index),
            (_, _) => self.close(What::Closed),
        });
        let mut state = self.state();
        self.process_unparks(&mut state);
        let visits = worker.map_or_else(Visits::default, |worker| self.probes.take(worker));
        state.end(self.plan, what, then, &visits);
        if let (Some(worker), What::Idle(_)) = (worker, what) {
            state.count_failed_search(self.plan, worker, self.core().has_work());
        }
        if state.frames.is_empty() {
            self.check(&mut state, worker);
        }
        true
    }

    fn process_unparks(&self, state: &mut State) {
        for worker in self.calls.take() {
            state.call(self.plan, worker);
        }
    }

    fn enter(&self, id: usize) -> (What, Option<WorkerStatus>) {
        self.state().slots[id].status = WorkerStatus::Moving;
        let worker = self.core().enter(id);
        self.put_back(id, worker);
        (What::Entered, Some(WorkerStatus::Awake))
    }

    fn step(&self, id: usize) -> (What, Option<WorkerStatus>) {
        self.state().slots[id].status = WorkerStatus::Moving;
        let mut worker = self.take(id);
        let arrivals = self.state().take_arrivals(id);
        if !arrivals.is_empty() {
            // The work of the task before has ended.
            worker.run_as_worker(
                || (),
                |mut running| {
                    for join in arrivals {
                        self.arrive(join, &mut running);
                    }
                },
            );
        }
        // The panic of a task unwinds through the step, which must count the task as done.
        let step = unwind::contain(|| worker.step(|task, running| self.run(task, running)));
        let step = match step {
            Ok(step) => step,
            Err(payload) if payload.is::<crate::run::TaskPanic>() => Step::Ran,
            Err(payload) => panic::resume_unwind(payload),
        };
        match step {
            Step::Ran => {
                self.put_back(id, worker);
                let state = self.state();
                let frame = state.frames.last().expect("a move is under way");
                let what = What::Ran {
                    task: frame.task.unwrap_or(u32::MAX),
                    source: frame.source.unwrap_or(Source::Local),
                };
                (what, Some(WorkerStatus::Awake))
            }
            Step::Idle(action) => {
                self.put_back(id, worker);
                (What::Idle(action), Some(WorkerStatus::Awake))
            }
            Step::Park(token) => {
                self.put_back(id, worker);
                let mut state = self.state();
                state.ledger.tallies[id].parks += 1;
                let ticks = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
                let until = token.timeout().map(|d| state.now.saturating_add(ticks(d)));
                (What::Parked, Some(WorkerStatus::Asleep { token, until }))
            }
            Step::Exit => {
                drop(worker);
                self.gone(id);
                (What::Exited, Some(WorkerStatus::Gone))
            }
        }
    }

    fn resume(&self, id: usize) -> (What, Option<WorkerStatus>) {
        let (status, slept) = {
            let mut state = self.state();
            let now = state.now;
            let slot = &mut state.slots[id];
            slot.called = None;
            let status = std::mem::replace(&mut slot.status, WorkerStatus::Moving);
            (status, Duration::from_nanos(now.saturating_sub(slot.ready)))
        };
        let WorkerStatus::Asleep { token, .. } = status else {
            unreachable!("only a sleeper is resumed");
        };
        let mut worker = self.take(id);
        worker.resume_after(token, slept);
        self.put_back(id, worker);
        (What::Resumed, Some(WorkerStatus::Awake))
    }

    fn leave(&self, id: usize) -> (What, Option<WorkerStatus>) {
        {
            let slot = &mut self.state().slots[id];
            slot.called = None;
            slot.status = WorkerStatus::Moving;
        }
        drop(self.take(id));
        self.gone(id);
        (What::Left, Some(WorkerStatus::Out))
    }

    fn gone(&self, id: usize) {
        let mut state = self.state();
        state.present -= 1;
        state.slots[id].called = None;
        state.waiting.left(id);
    }

    fn outside(&self, index: usize) -> (What, Option<WorkerStatus>) {
        let what = What::Outside(index);
        match self.plan.case.program.outside[index].act {
            Act::Inject {
                count,
                level,
                worker,
                ..
            } => {
                let body = self.plan.program.outside[index];
                if level == Priority::Normal && worker.is_none() {
                    self.inject(body, count);
                } else {
                    (0..count).for_each(|_| self.inject_one(body, level, worker));
                }
                (what, None)
            }
            Act::Close => self.close(what),
            Act::Stop => {
                self.state().stop_asked = true;
                self.core().stop();
                (what, None)
            }
            Act::Enter(worker) => {
                self.state().slots[worker].wanted = true;
                (what, None)
            }
            Act::Leave(worker) => {
                self.state().slots[worker].wanted = false;
                (what, None)
            }
        }
    }

    fn close(&self, what: What) -> (What, Option<WorkerStatus>) {
        self.state().close_asked = true;
        self.core().close();
        (what, None)
    }

    fn inject(&self, body: u32, count: usize) {
        let mut tasks: Vec<Task> = {
            let mut state = self.state();
            (0..count).map(|_| state.ledger.create(body, 0)).collect()
        };
        let all = tasks.clone();
        let refused = if count == 1 {
            let result = self.core().inject(tasks.remove(0), Placement::Injector);
            result.map_err(|refused| (refused.is_closed(), vec![refused.into_inner()]))
        } else {
            let result = self.core().inject_batch(tasks);
            result.map_err(|refused| (refused.is_closed(), refused.into_inner()))
        };
        self.injected(&all, refused);
    }

    /// Injects a task that is not Normal, or that has an affinity.
    fn inject_one(&self, body: u32, level: Priority, worker: Option<usize>) {
        let config = &self.plan.case.config;
        let mailbox = worker.map(|worker| config.mailbox(worker));
        let task = self.state().ledger.create_for(body, 0, level, mailbox);
        let presence = mailbox.map(|mailbox| self.state().waiting.presence(mailbox));
        let placement = mailbox.map(|mailbox| config.placement(mailbox));
        let placement = placement.unwrap_or(Placement::Lane(level));
        let result = self.core().inject(task, placement);
        let refused = result.map_err(|refused| (refused.is_closed(), vec![refused.into_inner()]));
        match (mailbox.zip(presence), &refused) {
            (Some((mailbox, presence)), Ok(())) => self.state().queued_for(mailbox, presence, task),
            _ => self.injected(&[task], refused),
        }
    }

    /// Records the result of injecting the tasks `all`. The flag of `refused` says whether the
    /// reason was a closed gate.
    fn injected(&self, all: &[Task], refused: Result<(), (bool, Vec<Task>)>) {
        if refused.is_ok() {
            let mut state = self.state();
            all.iter().for_each(|&task| state.queued(task));
        }
        if let Err((closed, tasks)) = refused {
            let mut state = self.state();
            if closed && !(state.close_asked || state.stop_asked) {
                state.fail(Violation::new(
                    crate::Oracle::Gate,
                    "a task was refused because the gate is closed, but it is open",
                ));
            }
            for task in tasks {
                let result = state.ledger.refuse(task);
                state.note(result);
            }
        }
    }

    /// Whether a worker stands by.
    fn stands_by(&self) -> bool {
        let workers = lock(&self.workers);
        workers.iter().flatten().any(Worker::stands_by)
    }

    /// Checks all rules; every worker is between two moves.
    fn check(&self, state: &mut State, moved: Option<usize>) {
        let core = self.core();
        let (gate, sleep) = (core.gate_state(), core.sleep_state());
        let facts = Facts {
            strict: self.plan.case.config.wake == WakePolicy::EveryPush,
            has_work: core.has_work(),
            gate_open: gate.is_open(),
            gate_busy: gate.busy_workers(),
            gate_in_flight: gate.in_flight(),
            stopped: sleep.is_stopped(),
            searching: sleep.searching(),
            standby: sleep.has_standby() && self.stands_by(),
            uncalled: self.uncalled(state),
            ..state.facts()
        };
        if let Err(mut violation) = facts.check() {
            if violation.oracle == crate::Oracle::TaskLost {
                let tasks = state.ledger.unfinished();
                violation.message.push_str(&format!(": {tasks}"));
            }
            state.fail(violation);
        }
        if let Some(worker) = moved {
            let reported = core.observer().0.worker(worker);
            let result = check_counters(worker, &reported, &state.ledger.tallies[worker]);
            state.note(result);
        }
        state.searching_before = facts.searching;
        state.called_for_mailboxes = 0;
        state.most_present = state.present;
    }

    /// Returns a sleeper that is marked as woken and has not been unparked.
    fn uncalled(&self, state: &State) -> Option<usize> {
        let workers = lock(&self.workers);
        state
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| {
                matches!(slot.status, WorkerStatus::Asleep { .. }) && slot.called.is_none()
            })
            .map(|(id, _)| id)
            .find(|&id| workers[id].as_ref().is_some_and(Worker::is_woken))
    }
}

impl<'c, Q: Strategy> EventSink for Stage<'c, Q>
where
    Q::Handle<'c, Task>: Send,
{
    fn on_event(&self, worker: usize, event: Event) {
        let burst = {
            let mut state = self.state();
            if event == Event::Entered {
                state.waiting.entered(worker);
                state.present += 1;
                state.most_present = state.most_present.max(state.present);
            }
            if matches!(event, Event::Called { .. }) {
                state.called_for_mailboxes += 1;
            }
            let Some(frame) = state.frames.last_mut() else {
                return; // the end of the run: the stage is being cleared
            };
            debug_assert!(worker == OUTSIDE || frame.worker == Some(worker));
            if let Event::Started { source } = event {
                frame.source.get_or_insert(source);
            }
            if let Event::Moved { tasks } = event {
                frame.moved += tasks as u64;
            }
            match &mut frame.preempt {
                Some(preempt) if preempt.after == 0 && !thread::panicking() => {
                    let moves = preempt.moves;
                    frame.preempt = None;
                    moves
                }
                Some(preempt) => {
                    preempt.after = preempt.after.saturating_sub(1);
                    0
                }
                None => 0,
            }
        };
        for _ in 0..burst {
            if !self.one_move() {
                break;
            }
        }
    }
}
