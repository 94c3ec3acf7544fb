//! The simulator's own record of every task: its state, and the worker that ran it.

use crate::{
    oracle::{Oracle, Violation},
    waiting::Label,
};
use filch::engine::Priority;

/// The task type of the simulated engine: the index of a task in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStatus {
    Queued,
    Running,
    Done,
    Refused,
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    body: u32,
    /// The operation of the body at which the task begins.
    begin: u32,
    fate: TaskStatus,
    level: Priority,
    /// The worker to which it has an affinity.
    owner: Option<usize>,
    /// The number of moves that had begun when it was queued; `u64::MAX` until then.
    since: u64,
}

/// The actions of one worker, as counted by the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerTally {
    pub(crate) executed: u64,
    pub(crate) spawned_local: u64,
    pub(crate) spawned_global: u64,
    pub(crate) spawned_lane: u64,
    pub(crate) spawned_affine: u64,
    /// Executed tasks of these levels.
    pub(crate) critical: u64,
    pub(crate) high: u64,
    pub(crate) low: u64,
    pub(crate) parks: u64,
    /// Ticks spent on tasks.
    pub(crate) busy: u64,
}

/// All tasks, and the actions of all workers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tasks: Vec<Record>,
    pub(crate) tallies: Vec<WorkerTally>,
    /// The number of tasks that are accepted and neither done nor abandoned.
    pub(crate) live: u64,
    /// The number of live tasks that have not started.
    pub(crate) unstarted: u64,
    pub(crate) executed: u64,
    pub(crate) panicked: u64,
    pub(crate) refused: u64,
    pub(crate) abandoned: u64,
    /// Spawns into workers' own queues so far, including refused ones.
    pub(crate) pushes: u64,
}

impl Ledger {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            tallies: vec![WorkerTally::default(); workers],
            ..Self::default()
        }
    }

    /// Creates a task that is about to be queued. It counts as queued at once, because a worker may
    /// run it before the call that queues it returns.
    pub(crate) fn create(&mut self, body: u32, begin: u32) -> Task {
        self.create_for(body, begin, Priority::Normal, None)
    }

    /// As `create`, with a level and an optional affinity.
    pub(crate) fn create_for(
        &mut self,
        body: u32,
        begin: u32,
        level: Priority,
        owner: Option<usize>,
    ) -> Task {
        let task = Task(self.tasks.len() as u32);
        self.tasks.push(Record {
            body,
            begin,
            fate: TaskStatus::Queued,
            level,
            owner,
            since: u64::MAX,
        });
        self.live += 1;
        self.unstarted += 1;
        task
    }

    /// Whether the task was ever created.
    pub(crate) fn knows(&self, task: Task) -> bool {
        (task.0 as usize) < self.tasks.len()
    }

    /// Records that the call that queued the task has returned, after `moves` moves have begun.
    /// Returns `None` if the task has already started.
    pub(crate) fn queued(&mut self, task: Task, moves: u64) -> Option<Label> {
        let record = &mut self.tasks[task.0 as usize];
        if record.fate != TaskStatus::Queued {
            return None;
        }
        record.since = moves;
        Some(self.label(task))
    }

    /// Returns where the task was queued.
    pub(crate) fn label(&self, task: Task) -> Label {
        let record = self.tasks.get(task.0 as usize);
        Label {
            task: task.0,
            level: record.map_or(Priority::Normal, |r| r.level),
            owner: record.and_then(|r| r.owner),
            since: record.map_or(u64::MAX, |r| r.since),
        }
    }

    /// Records that the engine, or the overflow policy, refused the task.
    pub(crate) fn refuse(&mut self, task: Task) -> Result<(), Violation> {
        self.change(task, TaskStatus::Queued, TaskStatus::Refused, "refused")?;
        self.live -= 1;
        self.refused += 1;
        Ok(())
    }

    /// Records that `worker` starts the task. Returns its body, and the operation at which it
    /// begins.
    pub(crate) fn start(&mut self, task: Task, worker: usize) -> Result<(u32, u32), Violation> {
        self.change(task, TaskStatus::Queued, TaskStatus::Running, "run")?;
        let record = self.tasks[task.0 as usize];
        let tally = &mut self.tallies[worker];
        tally.executed += 1;
        match record.level {
            Priority::Critical => tally.critical += 1,
            Priority::High => tally.high += 1,
            Priority::Low => tally.low += 1,
            Priority::Normal => {}
        }
        self.executed += 1;
        Ok((record.body, record.begin))
    }

    pub(crate) fn finish(&mut self, task: Task, panicked: bool) -> Result<(), Violation> {
        self.change(task, TaskStatus::Running, TaskStatus::Done, "finished")?;
        self.live -= 1;
        self.panicked += u64::from(panicked);
        Ok(())
    }

    pub(crate) fn abandon(&mut self, task: Task) -> Result<(), Violation> {
        self.change(task, TaskStatus::Queued, TaskStatus::Abandoned, "abandoned")?;
        self.live -= 1;
        self.abandoned += 1;
        Ok(())
    }

    /// Lists the tasks that are accepted and not done, at most eight of them.
    pub(crate) fn unfinished(&self) -> String {
        const SHOWN: usize = 8;
        let open = |r: &Record| matches!(r.fate, TaskStatus::Queued | TaskStatus::Running);
        let numbers: Vec<_> = (0..self.tasks.len())
            .filter(|&i| open(&self.tasks[i]))
            .take(SHOWN)
            .map(|i| i.to_string())
            .collect();
        let more = if self.live as usize > SHOWN {
            ", .."
        } else {
            ""
        };
        format!("{}{more}", numbers.join(", "))
    }

    fn change(
        &mut self,
        task: Task,
        from: TaskStatus,
        to: TaskStatus,
        verb: &str,
    ) -> Result<(), Violation> {
        let Some(record) = self.tasks.get_mut(task.0 as usize) else {
            return Err(Violation::new(
                Oracle::TaskTwice,
                format!("task {} was {verb}, but was never spawned", task.0),
            ));
        };
        if record.fate != from {
            return Err(Violation::new(
                Oracle::TaskTwice,
                format!(
                    "task {} was {verb} when it was {:?} and not {from:?}",
                    task.0, record.fate
                ),
            ));
        }
        record.fate = to;
        self.unstarted -= u64::from(from == TaskStatus::Queued);
        Ok(())
    }
}
