//! Executes simulated tasks, as the library's interfaces do with the engine's `RunningWorker`.

use crate::{
    compile::Instruction,
    config::Overflow,
    fault::Fault,
    ledger::Task,
    oracle::{Oracle, Violation},
    stage::{SimulationObserver, Stage},
};
use filch::engine::{Placement, Priority, RunningWorker, Strategy};
use std::panic;

/// The maximum depth of tasks that run inside of each other when their queue is full; deeper ones
/// go to the injector, as in the library's interfaces.
const INLINE_DEPTH: u32 = 8;

/// The panic payload of a simulated task.
pub(crate) struct TaskPanic;

type TaskContext<'w, 'c, Q> = RunningWorker<'w, 'c, Task, Q, SimulationObserver<'c>>;

impl<'c, Q: Strategy> Stage<'c, Q>
where
    Q::Handle<'c, Task>: Send,
{
    /// Runs `task`; panics with [`TaskPanic`] if the task panics.
    pub(crate) fn run(&self, task: Task, mut running: TaskContext<'_, 'c, Q>) {
        {
            let mut state = self.state();
            state.chosen(&self.plan.case.config, task, running.id());
            // A broken queue may return any number, but traces must be reproducible.
            let number = if state.ledger.knows(task) {
                task.0
            } else {
                u32::MAX
            };
            let frame = state.frames.last_mut().expect("a move is under way");
            frame.task = Some(number);
            if frame.after_stop {
                let message = format!(
                    "worker {} began task {} after the workers had been requested to exit",
                    running.id(),
                    task.0
                );
                state.fail(Violation::new(Oracle::Termination, message));
            }
        }
        if self.execute(task, &mut running, 0) {
            // The unwinding drops `running`.
            panic::resume_unwind(Box::new(TaskPanic));
        }
    }

    /// Executes the operations of the task, up to its panic. Returns whether it panics.
    fn execute(&self, task: Task, running: &mut TaskContext<'_, 'c, Q>, depth: u32) -> bool {
        let (body, begin, mut panics) = {
            let mut state = self.state();
            match state.ledger.start(task, running.id()) {
                Ok((body, begin)) => {
                    let number = state.ledger.executed;
                    (
                        body,
                        begin,
                        self.plan
                            .case
                            .faults
                            .contains(&Fault::Panic { task: number }),
                    )
                }
                Err(violation) => {
                    state.fail(violation);
                    return false;
                }
            }
        };
        let steps = &self.plan.program.bodies[body as usize];
        for (at, instruction) in steps.iter().enumerate().skip(begin as usize) {
            match *instruction {
                Instruction::Work(ticks) => self.pay(ticks),
                Instruction::SpawnLocal(child) => {
                    let child = self.state().ledger.create(child, 0);
                    self.spawn_local(child, running, depth);
                }
                Instruction::SpawnGlobal(child) => {
                    let child = self.state().ledger.create(child, 0);
                    self.spawn_global(child, running);
                }
                Instruction::SpawnAt(Priority::Normal, child) => {
                    let child = self.state().ledger.create(child, 0);
                    self.spawn_local(child, running, depth);
                }
                Instruction::SpawnAt(level, child) => self.spawn_at(level, child, running),
                Instruction::SpawnFor(worker, child) => self.spawn_for(worker, child, running),
                Instruction::Arrive(join) => self.state().arrive_later(running.id(), join),
                Instruction::Yield => {
                    let rest = self.state().ledger.create(body, at as u32 + 1);
                    self.spawn_local(rest, running, depth);
                    running.yield_to_older();
                    break;
                }
                Instruction::Panic => {
                    panics = true;
                    break;
                }
            }
        }
        let mut state = self.state();
        let result = state.ledger.finish(task, panics);
        state.note(result);
        panics
    }

    /// Adds `ticks` to the cost of the current move.
    fn pay(&self, ticks: u64) {
        if let Some(frame) = self.state().frames.last_mut() {
            frame.cost = frame.cost.saturating_add(ticks);
        }
    }

    /// Counts an arrival at a join; the last one spawns the join's task.
    pub(crate) fn arrive(&self, join: u32, running: &mut TaskContext<'_, 'c, Q>) {
        let join = join as usize;
        let next = {
            let mut state = self.state();
            state.arrivals[join] += 1;
            let (count, body) = self.plan.program.joins[join];
            (state.arrivals[join] == count).then(|| state.ledger.create(body, 0))
        };
        if let Some(next) = next {
            self.spawn_local(next, running, 0);
        }
    }

    fn spawn_global(&self, task: Task, running: &mut TaskContext<'_, 'c, Q>) {
        self.pay(self.plan.case.config.costs.spawn);
        running.spawn(task, Placement::Injector);
        let mut state = self.state();
        state.ledger.tallies[running.id()].spawned_global += 1;
        state.queued(task);
    }

    fn spawn_at(&self, level: Priority, body: u32, running: &mut TaskContext<'_, 'c, Q>) {
        self.pay(self.plan.case.config.costs.spawn);
        let task = self.state().ledger.create_for(body, 0, level, None);
        running.spawn(task, Placement::Lane(level));
        let mut state = self.state();
        state.ledger.tallies[running.id()].spawned_lane += 1;
        state.queued(task);
    }

    fn spawn_for(&self, worker: usize, body: u32, running: &mut TaskContext<'_, 'c, Q>) {
        let mailbox = self.plan.case.config.mailbox(worker);
        self.pay(self.plan.case.config.costs.spawn);
        let (presence, task) = {
            let mut state = self.state();
            let (ledger, owner) = (&mut state.ledger, Some(mailbox));
            let task = ledger.create_for(body, 0, Priority::Normal, owner);
            (state.waiting.presence(mailbox), task)
        };
        running.spawn(task, self.plan.case.config.placement(mailbox));
        let mut state = self.state();
        state.ledger.tallies[running.id()].spawned_affine += 1;
        state.queued_for(mailbox, presence, task);
    }

    fn spawn_local(&self, task: Task, running: &mut TaskContext<'_, 'c, Q>, depth: u32) {
        self.pay(self.plan.case.config.costs.spawn);
        let refused = {
            let mut state = self.state();
            state.ledger.pushes += 1;
            let push = state.ledger.pushes;
            self.plan.case.faults.contains(&Fault::Refuse { push })
        };
        let pushed = if refused {
            Err(task)
        } else {
            running.try_spawn(task, Placement::Local)
        };
        match pushed {
            Ok(()) => {
                self.spawned(running.id());
                self.state().queued(task);
            }
            Err(task) => self.overflow(task, running, depth),
        }
    }

    fn spawned(&self, worker: usize) {
        self.state().ledger.tallies[worker].spawned_local += 1;
    }

    /// Applies the overflow policy to a task that did not fit into the worker's queue.
    fn overflow(&self, task: Task, running: &mut TaskContext<'_, 'c, Q>, depth: u32) {
        match self.plan.case.config.overflow {
            Overflow::Spill => {
                running.spill();
                match running.try_spawn(task, Placement::Local) {
                    Ok(()) => {
                        self.spawned(running.id());
                        self.state().queued(task);
                    }
                    Err(task) => self.spawn_global(task, running),
                }
            }
            Overflow::Inline if depth < INLINE_DEPTH => {
                running.begin_inline();
                self.spawned(running.id());
                self.execute(task, running, depth + 1);
                running.end_inline();
            }
            Overflow::Inline => self.spawn_global(task, running),
            Overflow::Return => {
                let mut state = self.state();
                let result = state.ledger.refuse(task);
                state.note(result);
            }
        }
    }
}
