//! Joining a task: a joiner runs the task and its predecessors, or waits for it.

use super::{
    TaskId,
    cell::{self, Cause, Claim, Hold, Inbox, Ref},
    end, place, queue, run, subject,
    wait::{Either, Source, Visible, is_late, until, until_done},
};
use crate::{
    base::{sync::hint, sys::stack, thread},
    pool::{
        Inner,
        context::WorkerContext,
        current_task,
        waits::{Cycle, Subject},
    },
};
use std::{
    collections::HashSet,
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

/// How many spin-loop hints a thread from outside gives the workers to start the task that it
/// joins: about a microsecond, the time of entering the pool as a guest a few times.
const SPINS_FOR_WORKERS: u32 = 32;

/// How long a thread from outside whose stack is half full leaves a task to the workers.
const MAX_WAIT_FOR_WORKERS: Duration = Duration::from_millis(10);

/// Runs the task on this thread, if it has not started and may run here; if it is held, its
/// predecessors first. Returns true when it cannot run before the caller returns, because a
/// predecessor runs in a lower frame of this stack.
pub(super) fn run_here<T>(hold: &mut Hold<T>) -> bool {
    let now = hold.task().snapshot();
    if now.is_begun() {
        return false;
    }
    if now.is_idle() && help(hold.task()) {
        return true;
    }
    place::with_pool(hold.task().about().pool, |pool, context| {
        let Some(pool) = pool else {
            // No pool is left to run it.
            run::cancel(hold.task(), Cause::Closed);
            return;
        };
        if hold.task().snapshot().is_queued()
            && may_run(hold.task().about().worker(), pool, context)
            && !worker_starts_it(pool, context, hold)
            && let Some(claim) = hold.task().claim()
        {
            run_claimed(claim, pool, context);
        }
    });
    false
}

/// Runs a predecessor of the joined task, if it has not started and may run here.
fn run_other(cell: &Ref) {
    place::with_pool(cell.about().pool, |pool, context| {
        let Some(pool) = pool else {
            run::cancel(cell, Cause::Closed);
            return;
        };
        if may_run(cell.about().worker(), pool, context)
            && !worker_starts_other(pool, context, cell)
            && let Some(claim) = cell.claim()
        {
            run_claimed(claim, pool, context);
        }
    });
}

/// Runs a task that was claimed without its ticket.
#[inline]
fn run_claimed(claim: Claim, pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    // A wait in the task does not know that it is nested in a poll, unless the poll is listed as
    // waiting for the task.
    let visible = current_task::polled().map(|_| Visible::new());
    if let Some(visible) = &visible {
        visible.list_end_of(claim.cell());
    }
    queue::staled(pool, context.map(|context| context.worker()));
    match context {
        Some(context) => {
            run::execute(claim, pool, context, true);
            // Its ticket is stale now, as are those of the tasks that were joined in it.
            context.sweep(cell::is_stale);
        }
        None => pool.enter_worker(|context| run::execute(claim, pool, context, true)),
    }
}

/// Whether the workers of `pool` start the task, so that a thread from outside need not.
#[inline]
fn worker_starts_it<T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    hold: &mut Hold<T>,
) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        return is_started_by_worker(hold);
    }
    WorkerContext::with(|any| any.is_none()) && starts_soon(hold.task())
}

/// The same for a predecessor.
fn worker_starts_other(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, cell: &Ref) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        let start = Instant::now();
        while !cell.snapshot().is_begun() && start.elapsed() < MAX_WAIT_FOR_WORKERS {
            thread::sleep(MAX_WAIT_FOR_WORKERS / 10);
        }
        return cell.snapshot().is_begun();
    }
    WorkerContext::with(|any| any.is_none()) && starts_soon(cell)
}

/// Whether this thread is not one of the workers of `pool`.
fn is_outside(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) -> bool {
    pool.threads() > 0 && context.is_none_or(|context| context.is_guest())
}

/// Whether a worker starts the task within a limited time, on a stack that is half full. A chain of
/// tasks that join each other would overflow any stack; the workers, which take the oldest task
/// first, need no deep stack for it. But they may be waiting for this thread, so it must not wait
/// for them for ever.
#[cold]
fn is_started_by_worker<T>(hold: &mut Hold<T>) -> bool {
    until_done(hold, Instant::now().checked_add(MAX_WAIT_FOR_WORKERS));
    hold.task().snapshot().is_begun()
}

/// Whether a worker starts the task within about a microsecond. A thread from outside that joins
/// many tasks in order soon catches up with the workers. To run the tasks itself it would have to
/// enter the pool as a guest for each of them, which takes several times as long (`filch-bench
/// submit`, case `results_1`).
fn starts_soon(cell: &Ref) -> bool {
    for _ in 0..SPINS_FOR_WORKERS {
        hint::spin_loop();
        if cell.snapshot().is_begun() {
            return true;
        }
    }
    false
}

/// Whether a task for `worker` may run at `context`, or outside. With isolated waits a task is
/// queued on the submitting worker and is for no other one (`WorkerContext::push`).
fn may_run(worker: Option<usize>, pool: &Inner, context: Option<&WorkerContext<'_, '_>>) -> bool {
    let here = |context: &WorkerContext<'_, '_>, worker| {
        context.worker() == worker || context.has_isolated_waits()
    };
    worker.is_none_or(|worker| context.is_some_and(|context| here(context, worker)))
        || pool.threads() == 0
}

/// Whether a wait on this thread would not run the task, although it may be queued on this worker
/// and only there: see [`WorkerContext::has_isolated_waits`].
pub(super) fn has_isolated_waits<T>(hold: &Hold<T>) -> bool {
    let number = hold.task().about().pool;
    place::with_pool(number, |_, context| {
        context.is_some_and(|context| context.has_isolated_waits())
    })
}

/// Runs the direct and indirect predecessors of `target` that have not started and may run here.
/// Those that become ready later are put into the inbox of `target`. Returns true when one of them
/// runs in a lower frame of this very stack, so that it cannot end before the caller returns.
fn help(target: &Ref) -> bool {
    let inbox = target.open_inbox();
    let mut seen = HashSet::<TaskId>::new();
    let mut path = vec![target.clone()];
    while let Some(top) = path.last() {
        thread::point();
        if top.snapshot().is_idle()
            && seen.insert(top.about().id)
            && let Some(unfinished) = top.want(&inbox)
        {
            path.extend(unfinished);
            continue;
        }
        let Some(top) = path.pop() else { break };
        if top.snapshot().is_idle() {
            // The thread that has to notify it of the last end may be this one, in a lower frame,
            // which cannot do so before the caller returns.
            end::advance(top.check_predecessors());
        }
        let now = top.snapshot();
        if !now.is_done() && top.about().is_here() {
            return true;
        }
        if now.is_queued() && !top.is(target) {
            run_other(&top);
        }
    }
    false
}

/// Runs the tasks in the inbox.
fn run_ready(inbox: &Inbox, target: &Ref) {
    while let Some(cell) = inbox.take() {
        if !cell.is(target) {
            run_other(&cell);
        }
    }
}

/// Waits until the task is done, `or` is ready, or the deadline has passed. If the task is held, it
/// and its predecessors are run here when they become ready and no other thread has started them.
/// Returns the cycle of a wait that can never end.
pub(super) fn drive_until_done<T>(
    hold: &mut Hold<T>,
    mut or: impl Source + Copy,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    thread::point();
    while let Some(inbox) = inbox_of(hold) {
        let hold = &mut *hold;
        let inbox = &*inbox;
        let cycle = until(Either(Turn { hold, inbox }, or), deadline);
        if cycle.is_some() || or.ready() || is_late(deadline) {
            return cycle;
        }
        run_ready(inbox, hold.task());
    }
    thread::point();
    // It is not held any more, and there may be no other thread to run it.
    run_if_ready(hold);
    if hold.task().snapshot().is_done() {
        return None;
    }
    until(Either(hold, or), deadline)
}

/// Returns the inbox in which a joiner of the task is notified of ready predecessors, as long as it
/// is held.
fn inbox_of<T>(hold: &Hold<T>) -> Option<Arc<Inbox>> {
    let after = hold.task().about().after()?;
    after.inbox().filter(|_| hold.task().snapshot().is_idle())
}

/// Runs the task here, if it is queued.
fn run_if_ready<T>(hold: &mut Hold<T>) {
    if hold.task().snapshot().is_queued() {
        run_here(hold);
    }
}

/// Ready when a held task is not held any more, or when one of its predecessors can be run.
struct Turn<'a, T> {
    hold: &'a mut Hold<T>,
    inbox: &'a Inbox,
}

impl<T> Source for Turn<'_, T> {
    fn ready(&mut self) -> bool {
        !self.hold.task().snapshot().is_idle() || !self.inbox.is_empty()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.hold.watch(waker) && self.inbox.arm(waker)
    }

    // The join continues after the tasks in the inbox have run, so only the end of the task counts.
    fn subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        list.push(subject::end_of(self.hold.task()));
        true
    }
}

/// In a pool without threads: the polling thread runs the task and its predecessors.
pub(super) fn poll_without_threads<T>(hold: &mut Hold<T>, waker: &Waker) {
    if inbox_of(hold).is_none() {
        run_here(hold);
    }
    while let Some(inbox) = inbox_of(hold) {
        run_ready(&inbox, hold.task());
        if inbox.arm(waker) {
            break;
        }
    }
    run_if_ready(hold);
}
