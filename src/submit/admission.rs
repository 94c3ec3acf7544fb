//! Room for one more task in a pool that has a limit.

use crate::{
    limit::Budget,
    pool::{Inner, TaskOverflow, context::WorkerContext},
};
use std::time::Instant;

/// How a submission gets room for its task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Admission {
    /// As the pool does when it is full.
    ByPolicy,
    /// Only if there is some.
    Now,
    /// Waits for it, but not for longer than until then.
    Until(Option<Instant>),
    /// It has it already.
    Taken,
}

/// What came of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It may be queued; it takes one unit, if the pool has a limit.
    Queue {
        counted: bool,
    },
    /// It must be run here and now.
    RunHere,
    Full,
}

const COUNTED: Entry = Entry::Queue { counted: true };

/// How many other tasks a worker runs that wants room and has no time limit, before it runs the new one itself. One
/// makes room, unless others are faster.
const ROUNDS: usize = 4;

/// Gets room for one more task.
///
/// A worker that waits for room must not stand in line for it while it runs other tasks. Those may want room
/// too, and stand in line behind it; what is given to it then is held by somebody who cannot go on before the others
/// are done, and they wait for ever. So it tries, runs others, and in the end runs the task itself, or, if there is a
/// time limit, stands in line without running anything.
#[cold]
pub(super) fn enter(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    room: Admission,
) -> Entry {
    let Some(capacity) = &pool.tasks().capacity else {
        return Entry::Queue { counted: false };
    };
    if matches!(room, Admission::Taken) || capacity.try_take(1).is_ok() {
        return COUNTED;
    }
    let deadline = match (room, pool.tasks().overflow) {
        (Admission::Now, _) | (Admission::ByPolicy, TaskOverflow::Refuse) => return Entry::Full,
        (Admission::ByPolicy, TaskOverflow::RunInCaller) => return Entry::RunHere,
        (Admission::Until(deadline), _) => deadline,
        (Admission::ByPolicy | Admission::Taken, _) => None,
    };
    let made = match context {
        Some(context) => make_room(context, capacity, deadline),
        // Nobody else will make room.
        None if pool.threads() == 0 => {
            pool.enter_worker(|context| make_room(context, capacity, deadline))
        }
        None => false,
    };
    let inside = context.is_some() || pool.threads() == 0;
    match deadline {
        _ if made => COUNTED,
        None if inside => Entry::RunHere,
        None => stand_in_line(capacity, None),
        Some(deadline) => stand_in_line(capacity, Some(deadline)),
    }
}

/// Runs other tasks until there is room. False when that does not help.
fn make_room(
    context: &WorkerContext<'_, '_>,
    capacity: &Budget,
    deadline: Option<Instant>,
) -> bool {
    for round in 0.. {
        let enough = match deadline {
            Some(deadline) => deadline <= Instant::now(),
            None => round >= ROUNDS,
        };
        if enough || !context.help_once() {
            break;
        }
        if capacity.try_take(1).is_ok() {
            return true;
        }
    }
    false
}

fn stand_in_line(capacity: &Budget, deadline: Option<Instant>) -> Entry {
    let permit = match deadline {
        None => capacity.acquire(1),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            capacity.acquire_timeout(1, left)
        }
    };
    match permit {
        Ok(permit) => {
            permit.keep();
            COUNTED
        }
        Err(_) => Entry::Full,
    }
}
