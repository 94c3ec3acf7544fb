//! Who waits at which level or for which worker, and how often each worker has passed them over: the books behind
//! the rules of `engine::lanes`.

use super::oracle::{Oracle, Violation};
use crate::engine::{Ageing, Level};
use std::collections::BTreeSet;

/// Turns that come due at the same time are given one after the other, with an urgent task in between: so many tasks
/// more than its own number a level may have to wait. One because a turn has just been given, and two for each other
/// kind of turn: High, normal or Low, and a box whose worker is stuck.
const SLACK: u64 = 1 + 2 * 3;

/// A task that is queued, by the number of moves that had begun when it was.
type Waiter = (u64, u32);

/// How often a worker has come or gone, and whether it has left: what is for such a worker is for anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stay {
    changes: u64,
    gone: bool,
}

/// A task, and where it was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) task: u32,
    pub(super) level: Level,
    /// The worker that should run it.
    pub(super) owner: Option<usize>,
    /// How many moves had begun when it was queued.
    pub(super) since: u64,
}

/// How a worker came to start a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) worker: usize,
    /// The number of the move.
    pub(super) began: u64,
    /// Moves that were interrupted and may have taken a task that they have not started.
    pub(super) suspended: usize,
    /// The worker whose box it came from.
    pub(super) from_box: Option<usize>,
    /// Since which move that worker sleeps, if it does.
    pub(super) owner_asleep: Option<u64>,
}

/// How often a worker has passed others over, in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    /// The move in which it last started something while a Critical task waited.
    critical: Option<u64>,
    high: u64,
    normal: u64,
    low: u64,
    own_box: u64,
}

#[derive(Debug)]
pub(super) struct Waiting {
    ageing: Ageing,
    lanes: [BTreeSet<Waiter>; 4],
    boxes: Vec<BTreeSet<Waiter>>,
    /// Where each worker stands.
    stays: Vec<Stay>,
    passes: Vec<Passes>,
}

impl Waiting {
    pub(super) fn new(workers: usize, ageing: Ageing) -> Self {
        Self {
            ageing,
            lanes: Default::default(),
            boxes: vec![BTreeSet::new(); workers],
            stays: vec![Stay::default(); workers],
            passes: vec![Passes::default(); workers],
        }
    }

    fn is_single(&self) -> bool {
        self.boxes.len() == 1
    }

    fn lane(&mut self, level: Level) -> &mut BTreeSet<Waiter> {
        &mut self.lanes[level as usize]
    }

    /// The task is queued.
    pub(super) fn add(&mut self, label: Label) {
        let waiter = (label.since, label.task);
        match label.owner.filter(|&owner| !self.stays[owner].gone) {
            Some(owner) => self.boxes[owner].insert(waiter),
            // Where there are several workers, normal tasks may be out of a worker's reach.
            None if label.level == Level::Normal && !self.is_single() => false,
            None => self.lane(label.level).insert(waiter),
        };
    }

    /// The task is about to run.
    pub(super) fn remove(&mut self, label: Label) {
        let waiter = (label.since, label.task);
        let boxed = label
            .owner
            .is_some_and(|owner| self.boxes[owner].remove(&waiter));
        if !boxed {
            self.lane(label.level).remove(&waiter);
        }
    }

    /// Where `worker` stands. Who queues a task for it asks before and after: if the worker comes or goes in
    /// between, nobody knows where the task is.
    pub(super) fn stay(&self, worker: usize) -> Stay {
        self.stays[worker]
    }

    /// How many tasks are in the box of `worker`.
    pub(super) fn boxed(&self, worker: usize) -> u64 {
        self.boxes[worker].len() as u64
    }

    pub(super) fn entered(&mut self, worker: usize) {
        self.stays[worker].gone = false;
        self.stays[worker].changes += 1;
    }

    /// The worker has left: what waited for it is for anybody.
    pub(super) fn left(&mut self, worker: usize) {
        self.stays[worker].gone = true;
        self.stays[worker].changes += 1;
        let mut boxed = std::mem::take(&mut self.boxes[worker]);
        if self.is_single() {
            self.lane(Level::Normal).append(&mut boxed);
        }
        self.passes[worker] = Passes::default();
    }

    /// A worker has chosen the task of `label`, which was removed before.
    pub(super) fn start(&mut self, start: Start, label: Label) -> Result<(), Violation> {
        let Ageing { high, normal, low } = self.ageing;
        let level = label.level;
        let oldest = |of: &BTreeSet<Waiter>| {
            // What an interrupted move has in its hands counts as waiting, but cannot be found.
            let waiter = of.iter().nth(start.suspended).copied();
            waiter.filter(|&(since, _)| since <= start.began)
        };
        let waits = |level: Level| oldest(&self.lanes[level as usize]);
        let own_box = oldest(&self.boxes[start.worker]);
        let passes = &mut self.passes[start.worker];
        let worker = start.worker;

        match waits(Level::Critical) {
            Some((since, task)) if level < Level::Critical => {
                if passes.critical.is_some_and(|before| since <= before) {
                    let message = format!(
                        "worker {worker} began task {}, which is {level:?}, and another one before, while \
                         task {task} waited, which is Critical",
                        label.task
                    );
                    return Err(Violation::new(Oracle::Priority, message));
                }
                passes.critical = Some(start.began);
            }
            _ => passes.critical = None,
        }
        let urgent = level > Level::Normal;
        count(
            &mut passes.high,
            level == Level::Critical,
            level == Level::High,
            waits(Level::High),
        );
        count(
            &mut passes.normal,
            urgent,
            level == Level::Normal,
            waits(Level::Normal),
        );
        count(
            &mut passes.low,
            level > Level::Low,
            level == Level::Low,
            waits(Level::Low),
        );
        let by_owner = start.from_box == Some(worker);
        let normal_one = level == Level::Normal && start.from_box.is_none();
        count(&mut passes.own_box, normal_one, by_owner, own_box);
        let counts = [
            ("High", passes.high, high, SLACK),
            ("normal", passes.normal, normal, SLACK),
            // One counts as two.
            ("Low", passes.low, if low == 1 { 2 } else { low }, SLACK),
            // Its box and everything else that is normal, in turns.
            ("boxed", passes.own_box, 1, 0),
        ];
        for (name, passed, every, slack) in counts {
            if every != 0 && passed > u64::from(every) + slack {
                let message = format!(
                    "worker {worker} began {passed} others in a row while a {name} task waited"
                );
                return Err(Violation::new(Oracle::Starvation, message));
            }
        }
        check_box(start, label)
    }
}

/// Counts a start that passed somebody over; one that did not, or with nobody there, starts from zero.
fn count(passes: &mut u64, passed: bool, served: bool, waiter: Option<Waiter>) {
    if served || waiter.is_none() {
        *passes = 0;
    } else if passed {
        *passes += 1;
    }
}

/// A task comes from the box that it was put into, and from the box of another only if that one did not sleep.
fn check_box(start: Start, label: Label) -> Result<(), Violation> {
    let Some(owner) = start.from_box else {
        return Ok(());
    };
    let broken = |message| Err(Violation::new(Oracle::Affinity, message));
    if label.owner != Some(owner) {
        return broken(format!(
            "task {} was in the box of worker {owner}, but was put there for nobody",
            label.task
        ));
    }
    if owner != start.worker && start.owner_asleep.is_some_and(|since| since <= start.began) {
        return broken(format!(
            "worker {} took task {} from the box of worker {owner}, which slept",
            start.worker, label.task
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
