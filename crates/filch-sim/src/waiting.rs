//! Records the waiting tasks of each level and mailbox, and how often each worker has passed them
//! over, to check the rules of `engine::lanes`.

use crate::oracle::{Oracle, Violation};
use filch::engine::{Ageing, Priority};
use std::collections::BTreeSet;

/// The number of tasks that a level may have to wait beyond its own ageing limit. Turns that are
/// due at the same time are given one after the other, with an urgent task in between: one because
/// a turn has just been given, and two for each other kind of turn (High, Normal or Low, and the
/// mailbox of a worker that is stuck).
const SLACK: u64 = 1 + 2 * 3;

/// A queued task: the number of moves that had begun when it was queued, and its index.
type Waiter = (u64, u32);

/// The number of times that a worker has entered or left, and whether it is gone. Tasks with an
/// affinity to a worker that is gone are for any worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    changes: u64,
    gone: bool,
}

/// A task, and where it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) task: u32,
    pub(crate) level: Priority,
    /// The mailbox of the worker or node to which it has an affinity.
    pub(crate) owner: Option<usize>,
    /// The number of moves that had begun when it was queued.
    pub(crate) since: u64,
}

/// The circumstances in which a worker started a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) worker: usize,
    /// The number of the move.
    pub(crate) began: u64,
    /// The number of interrupted moves that may have taken a task without having started it.
    pub(crate) suspended: usize,
    /// The mailbox that it came from: that of a worker, or after those the one of a node.
    pub(crate) from_mailbox: Option<usize>,
    /// Whether the worker is the one, or one of the node, that the mailbox belongs to.
    pub(crate) kept: bool,
    /// The move since which that worker, or one of that node, has been asleep, if one is.
    pub(crate) owner_asleep: Option<u64>,
}

/// How often in a row a worker has passed waiting tasks over.
#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    /// The move in which it last started a less urgent task while a Critical task waited.
    critical: Option<u64>,
    high: u64,
    normal: u64,
    low: u64,
    own_mailbox: u64,
}

/// All waiting tasks, and how often each worker has passed them over.
#[derive(Debug)]
pub(crate) struct Waiting {
    ageing: Ageing,
    lanes: [BTreeSet<Waiter>; 4],
    workers: usize,
    /// Those of the workers, then those of the nodes.
    mailboxes: Vec<BTreeSet<Waiter>>,
    /// The presence of the owner of each mailbox. Nodes do not leave.
    presences: Vec<Presence>,
    passes: Vec<Passes>,
}

impl Waiting {
    pub(crate) fn new(workers: usize, nodes: usize, ageing: Ageing) -> Self {
        Self {
            workers,
            ageing,
            lanes: Default::default(),
            mailboxes: vec![BTreeSet::new(); workers + nodes],
            presences: vec![Presence::default(); workers + nodes],
            passes: vec![Passes::default(); workers],
        }
    }

    fn is_single(&self) -> bool {
        self.workers == 1
    }

    fn lane(&mut self, level: Priority) -> &mut BTreeSet<Waiter> {
        &mut self.lanes[level as usize]
    }

    /// Records that the task is queued.
    pub(crate) fn add(&mut self, label: Label) {
        let waiter = (label.since, label.task);
        match label.owner.filter(|&owner| !self.presences[owner].gone) {
            Some(owner) => self.mailboxes[owner].insert(waiter),
            // With several workers a Normal task may be in a queue that a worker cannot reach.
            None if label.level == Priority::Normal && !self.is_single() => false,
            None => self.lane(label.level).insert(waiter),
        };
    }

    /// Records that the task is about to run.
    pub(crate) fn remove(&mut self, label: Label) {
        let waiter = (label.since, label.task);
        let was_in_mailbox = label
            .owner
            .is_some_and(|owner| self.mailboxes[owner].remove(&waiter));
        if !was_in_mailbox {
            self.lane(label.level).remove(&waiter);
        }
    }

    /// Returns the presence of the owner of `mailbox`. The caller compares it before and after it
    /// queues a task there: if the owner entered or left meanwhile, the queue of the task is
    /// unknown.
    pub(crate) fn presence(&self, mailbox: usize) -> Presence {
        self.presences[mailbox]
    }

    /// Returns the number of mailboxes.
    pub(crate) fn mailboxes(&self) -> usize {
        self.mailboxes.len()
    }

    /// Returns the number of tasks in a mailbox.
    pub(crate) fn mailbox_len(&self, mailbox: usize) -> u64 {
        self.mailboxes[mailbox].len() as u64
    }

    pub(crate) fn entered(&mut self, worker: usize) {
        self.presences[worker].gone = false;
        self.presences[worker].changes += 1;
    }

    /// Records that the worker has left: the tasks of its mailbox are for any worker.
    pub(crate) fn left(&mut self, worker: usize) {
        self.presences[worker].gone = true;
        self.presences[worker].changes += 1;
        let mut orphaned = std::mem::take(&mut self.mailboxes[worker]);
        if self.is_single() {
            self.lane(Priority::Normal).append(&mut orphaned);
        }
        self.passes[worker] = Passes::default();
    }

    /// Checks the start of the task of `label`, which was removed before.
    pub(crate) fn start(&mut self, start: Start, label: Label) -> Result<(), Violation> {
        let Ageing { high, normal, low } = self.ageing;
        let level = label.level;
        let oldest = |of: &BTreeSet<Waiter>| {
            // A task that an interrupted move has taken counts as waiting, but cannot be found.
            let waiter = of.iter().nth(start.suspended).copied();
            waiter.filter(|&(since, _)| since <= start.began)
        };
        let waits = |level: Priority| oldest(&self.lanes[level as usize]);
        let own_mailbox = oldest(&self.mailboxes[start.worker]);
        let passes = &mut self.passes[start.worker];
        let worker = start.worker;

        match waits(Priority::Critical) {
            Some((since, task)) if level < Priority::Critical => {
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
        let urgent = level > Priority::Normal;
        count(
            &mut passes.high,
            level == Priority::Critical,
            level == Priority::High,
            waits(Priority::High),
        );
        count(
            &mut passes.normal,
            urgent,
            level == Priority::Normal,
            waits(Priority::Normal),
        );
        count(
            &mut passes.low,
            level > Priority::Low,
            level == Priority::Low,
            waits(Priority::Low),
        );
        let from_own_mailbox = start.from_mailbox == Some(worker);
        let normal_one = level == Priority::Normal && start.from_mailbox.is_none();
        count(
            &mut passes.own_mailbox,
            normal_one,
            from_own_mailbox,
            own_mailbox,
        );
        let counts = [
            ("High", passes.high, high, SLACK),
            ("normal", passes.normal, normal, SLACK),
            // The engine treats an interval of one as two.
            ("Low", passes.low, if low == 1 { 2 } else { low }, SLACK),
            // The mailbox and the other Normal tasks take turns.
            ("boxed", passes.own_mailbox, 1, 0),
        ];
        for (name, passed, every, slack) in counts {
            if every != 0 && passed > u64::from(every) + slack {
                let message = format!(
                    "worker {worker} began {passed} others in a row while a {name} task waited"
                );
                return Err(Violation::new(Oracle::Starvation, message));
            }
        }
        check_mailbox(start, label)
    }
}

/// Counts a start that passed a waiting task over. Serving that level, or no waiting task, resets
/// the count.
fn count(passes: &mut u64, passed: bool, served: bool, waiter: Option<Waiter>) {
    if served || waiter.is_none() {
        *passes = 0;
    } else if passed {
        *passes += 1;
    }
}

/// Checks that a task comes from the mailbox that it was put into, and from the mailbox of another
/// worker or node only if no worker of that slept.
fn check_mailbox(start: Start, label: Label) -> Result<(), Violation> {
    let Some(owner) = start.from_mailbox else {
        return Ok(());
    };
    let broken = |message| Err(Violation::new(Oracle::Affinity, message));
    if label.owner != Some(owner) {
        return broken(format!(
            "task {} was in mailbox {owner}, but has no affinity to its owner",
            label.task
        ));
    }
    if !start.kept && start.owner_asleep.is_some_and(|since| since <= start.began) {
        return broken(format!(
            "worker {} took task {} from mailbox {owner}, whose worker slept",
            start.worker, label.task
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
