//! Admission of tasks to a pool with a capacity limit.

use crate::{
    base::Instant,
    pool::{Inner, TaskOverflow, context::WorkerContext},
    semaphore::Semaphore,
};

/// How a submission gets capacity for its task, which depends on the call that made it.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdmissionMode {
    /// According to the pool's policy for a full pool.
    ByPolicy,
    /// Only if there is capacity now.
    Now,
    /// Waits for capacity, until that time if there is one.
    Until(Option<Instant>),
    /// The caller has acquired the capacity already.
    Taken,
}

/// The result of an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionResult {
    /// The task may be queued.
    Queue {
        /// Whether it has taken a unit: the pool has a limit.
        counted: bool,
    },
    /// The task must be run on this thread now.
    RunHere,
    /// The task must be refused.
    Full,
}

/// The task may be queued, and its unit is taken.
const ADMITTED: AdmissionResult = AdmissionResult::Queue { counted: true };

/// The most other tasks that a worker without a time limit runs to free capacity, before it runs
/// the new one itself. One is enough to free a unit, unless other threads take it first.
const MAX_HELPED_TASKS: usize = 4;

/// Acquires capacity for one more task.
///
/// A worker must not wait in the queue for capacity while it runs other tasks. Those may need
/// capacity too, and would queue up behind it; the unit that is granted to it then belongs to a
/// task that cannot continue before the others are done, which is a deadlock. So it tries without
/// waiting, runs other tasks, and in the end runs the task itself, or, if there is a time limit,
/// waits in the queue without running anything.
#[cold]
pub(super) fn acquire_capacity(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    mode: AdmissionMode,
) -> AdmissionResult {
    let Some(capacity) = &pool.tasks().capacity else {
        return AdmissionResult::Queue { counted: false };
    };
    if matches!(mode, AdmissionMode::Taken) || capacity.try_take(1).is_ok() {
        return ADMITTED;
    }
    let deadline = match (mode, pool.tasks().overflow) {
        (AdmissionMode::Now, _) | (AdmissionMode::ByPolicy, TaskOverflow::Refuse) => {
            return AdmissionResult::Full;
        }
        (AdmissionMode::ByPolicy, TaskOverflow::RunInCaller) => return AdmissionResult::RunHere,
        (AdmissionMode::Until(deadline), _) => deadline,
        (AdmissionMode::ByPolicy | AdmissionMode::Taken, _) => None,
    };
    let has_unit = match context {
        Some(context) => run_tasks_for_capacity(context, capacity, deadline),
        // No other thread will free capacity.
        None if pool.live_workers() == 0 => {
            pool.enter_worker(|context| run_tasks_for_capacity(context, capacity, deadline))
        }
        None => false,
    };
    let is_worker = context.is_some() || pool.live_workers() == 0;
    match deadline {
        _ if has_unit => ADMITTED,
        None if is_worker => AdmissionResult::RunHere,
        _ => wait_for_capacity(capacity, deadline),
    }
}

/// Runs other tasks until one of them frees a unit, and takes it. Returns false when none does.
fn run_tasks_for_capacity(
    context: &WorkerContext<'_, '_>,
    capacity: &Semaphore,
    deadline: Option<Instant>,
) -> bool {
    for round in 0.. {
        let enough = match deadline {
            Some(deadline) => deadline <= Instant::now(),
            None => round >= MAX_HELPED_TASKS,
        };
        if enough || context.help_in_wait(1) == 0 {
            break;
        }
        if capacity.try_take(1).is_ok() {
            return true;
        }
    }
    false
}

/// Waits in the queue for a unit.
fn wait_for_capacity(capacity: &Semaphore, deadline: Option<Instant>) -> AdmissionResult {
    let permit = match deadline {
        None => capacity.acquire(),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            capacity.acquire_timeout(left)
        }
    };
    match permit {
        Ok(permit) => {
            permit.into_units();
            ADMITTED
        }
        Err(_) => AdmissionResult::Full,
    }
}
