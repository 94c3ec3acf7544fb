//! Joining a task: a joiner runs the task and its predecessors, or waits for it.

use super::{
    TaskId,
    cell::{self, Cause, Claim, JoinerInbox, SubmitRef, TaskJoin},
    end, pool_context, queue, run, subject,
    wait::{EitherReady, RegisteredWait, WaitCondition, has_passed, wait_until, wait_until_done},
};
use crate::{
    base::{Instant, sync::hint, sys::stack, thread},
    engine::Placement,
    pool::{
        Inner,
        context::WorkerContext,
        current_task,
        waits::{Cycle, Subject},
    },
};
use std::{collections::HashSet, sync::Arc, task::Waker, time::Duration};

/// How many spin-loop hints a thread from outside executes while it waits for a worker to start the
/// task that it joins: about a microsecond, the time of entering the pool as a guest a few times.
const SPINS_FOR_WORKERS: u32 = 32;

/// How long a thread from outside whose stack is half full leaves a task to workers that run
/// nothing.
const MAX_WAIT_FOR_WORKERS: Duration = Duration::from_millis(10);

/// Runs the task on this thread, if it has not started and may run here; if it is held, its
/// predecessors first. Returns true when it cannot run before the caller returns, because a
/// predecessor runs in a lower frame of this stack.
pub(super) fn run_here<T>(join: &mut TaskJoin<T>) -> bool {
    let now = join.task().snapshot();
    if now.has_started() {
        return false;
    }
    if now.is_held() && run_predecessors(join.task()) {
        return true;
    }
    pool_context::with_pool(join.task().meta().pool, |pool, context| {
        let Some(pool) = pool else {
            // No pool is left to run it.
            run::cancel(join.task(), Cause::Closed);
            return;
        };
        if join.task().snapshot().is_queued()
            && may_run(join.task().meta().place(), pool, context)
            && !wait_for_worker_to_start(pool, context, join)
            && let Some(claim) = claim_after_urgent(join.task(), context)
        {
            run_claimed(claim, pool, context);
        }
    });
    false
}

/// Runs a predecessor of the joined task, if it has not started and may run here.
fn run_predecessor(cell: &SubmitRef) {
    pool_context::with_pool(cell.meta().pool, |pool, context| {
        let Some(pool) = pool else {
            run::cancel(cell, Cause::Closed);
            return;
        };
        if may_run(cell.meta().place(), pool, context)
            && !wait_for_worker_to_start_predecessor(pool, context, cell)
            && let Some(claim) = claim_after_urgent(cell, context)
        {
            run_claimed(claim, pool, context);
        }
    });
}

/// Claims a task, after other work that this worker is requested to serve: a task that joins many
/// others would keep that waiting. Not the other way round, because what is served may join the
/// task. Nor inside the poll of a future: what is served may join that future, and this poll is not
/// listed as waiting yet, so that the cycle would not be found.
#[inline]
fn claim_after_urgent(cell: &SubmitRef, context: Option<&WorkerContext<'_, '_>>) -> Option<Claim> {
    if let Some(context) = context
        && current_task::polled().is_none()
    {
        context.preempt();
    }
    cell.claim()
}

/// Runs a task that was claimed without its ticket.
#[inline]
fn run_claimed(claim: Claim, pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    // The check for cyclic waits sees that a wait in the task is nested in a poll only if the poll
    // is registered as waiting for the task.
    let registered = current_task::polled().map(|_| RegisteredWait::new());
    if let Some(registered) = &registered {
        registered.register_end_of(claim.cell());
    }
    queue::ticket_became_stale(pool, context.map(|context| context.worker()));
    match context {
        Some(context) => {
            run::execute(claim, pool, context, true);
            // Its ticket is stale now, as are those of the tasks that were joined in it.
            context.sweep(cell::is_stale);
        }
        None => pool.enter_worker(|context| run::execute(claim, pool, context, true)),
    }
}

/// On a thread from outside: waits a limited time for a worker of `pool` to start the task, and
/// returns whether one has. On a worker it returns false at once.
#[inline]
fn wait_for_worker_to_start<T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    join: &mut TaskJoin<T>,
) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        return wait_with_little_stack(pool, |limit| {
            wait_until_done(join, Instant::now().checked_add(limit));
            join.task().snapshot().has_started()
        });
    }
    WorkerContext::with(|any| any.is_none()) && spin_until_started(join.task())
}

/// [`wait_for_worker_to_start`] for a predecessor.
fn wait_for_worker_to_start_predecessor(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    cell: &SubmitRef,
) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        return wait_with_little_stack(pool, |limit| {
            let start = Instant::now();
            while !cell.snapshot().has_started() && start.elapsed() < limit {
                thread::sleep(limit / 10);
            }
            cell.snapshot().has_started()
        });
    }
    WorkerContext::with(|any| any.is_none()) && spin_until_started(cell)
}

/// Whether this thread is not one of the workers of `pool`.
fn is_outside(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) -> bool {
    pool.live_workers() > 0 && context.is_none_or(|context| context.is_temporary())
}

/// Waits for a worker to start the task, on a stack that is half full, and returns whether one has.
/// A chain of tasks that join each other would overflow any stack; the workers, which take tasks
/// from the injector in their order, need no deep stack for it. The wait ends when they have run
/// nothing for a while, because they may be waiting for this thread. `has_started` waits until the
/// task has started, or for the time that it is called with.
#[cold]
fn wait_with_little_stack(pool: &Inner, mut has_started: impl FnMut(Duration) -> bool) -> bool {
    let executed = || pool.core().observer().metrics().total().executed;
    loop {
        let before = executed();
        if has_started(MAX_WAIT_FOR_WORKERS) {
            return true;
        }
        if executed() == before {
            return false;
        }
    }
}

/// Spins for about a microsecond until a worker starts the task, and returns whether one has. A
/// thread from outside that joins many tasks in order soon catches up with the workers. To run the
/// tasks itself it would have to enter the pool as a guest for each of them, which takes several
/// times as long (`filch-bench submit`, case `results_1`).
fn spin_until_started(cell: &SubmitRef) -> bool {
    for _ in 0..SPINS_FOR_WORKERS {
        hint::spin_loop();
        if cell.snapshot().has_started() {
            return true;
        }
    }
    false
}

/// Whether a task for `place` may run on a thread with this context in its pool, or with none.
/// With isolated waits a task is queued on the submitting worker and is for no other one
/// (`WorkerContext::push`).
fn may_run(
    place: Option<Placement>,
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
) -> bool {
    let here = |context: &WorkerContext<'_, '_>, place| {
        let is_placed = match place {
            Placement::AffineNode(node) => pool.core().is_in_node(context.worker(), node),
            place => place == Placement::Affine(context.worker()),
        };
        is_placed || context.has_restricted_waits()
    };
    place.is_none_or(|place| context.is_some_and(|context| here(context, place)))
        || pool.live_workers() == 0
}

/// Whether a wait on this thread would not run the task, although it may be queued on this worker
/// and only there: see [`WorkerContext::has_restricted_waits`].
pub(super) fn has_restricted_waits<T>(join: &TaskJoin<T>) -> bool {
    let number = join.task().meta().pool;
    pool_context::with_pool(number, |_, context| {
        context.is_some_and(|context| context.has_restricted_waits())
    })
}

/// Runs the direct and indirect predecessors of `target` that have not started and may run here.
/// Those that become ready later are put into the inbox of `target`. Returns true when one of them
/// runs in a lower frame of this very stack, so that it cannot end before the caller returns.
fn run_predecessors(target: &SubmitRef) -> bool {
    let inbox = target.open_inbox();
    let mut seen = HashSet::<TaskId>::new();
    let mut path = vec![target.clone()];
    while let Some(top) = path.last() {
        thread::point();
        if top.snapshot().is_held()
            && seen.insert(top.meta().id)
            && let Some(unfinished) = top.register_inbox(&inbox)
        {
            path.extend(unfinished);
            continue;
        }
        let Some(top) = path.pop() else { break };
        if top.snapshot().is_held() {
            // The thread that has to notify it of the last end may be this one, in a lower frame,
            // which cannot do so before the caller returns.
            end::apply_update(top.check_predecessors());
        }
        let now = top.snapshot();
        if !now.is_done() && top.meta().is_on_this_thread() {
            return true;
        }
        if now.is_queued() && !top.ptr_eq(target) {
            run_predecessor(&top);
        }
    }
    false
}

/// Runs the tasks in the inbox.
fn run_ready(inbox: &JoinerInbox, target: &SubmitRef) {
    while let Some(cell) = inbox.take() {
        if !cell.ptr_eq(target) {
            run_predecessor(&cell);
        }
    }
}

/// Waits until the task is done, `or` is ready, or the deadline has passed. If the task is held, it
/// and its predecessors are run here when they become ready and no other thread has started them.
/// Returns the cycle of a wait that can never end.
pub(super) fn drive_until_done<T>(
    join: &mut TaskJoin<T>,
    mut or: impl WaitCondition + Copy,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    thread::point();
    while let Some(inbox) = inbox_of(join) {
        let join = &mut *join;
        let inbox = &*inbox;
        let cycle = wait_until(EitherReady(HeldOrInbox { join, inbox }, or), deadline);
        if cycle.is_some() || or.is_ready() || has_passed(deadline) {
            return cycle;
        }
        run_ready(inbox, join.task());
    }
    thread::point();
    // It is not held any more, and there may be no other thread to run it.
    run_if_ready(join);
    if join.task().snapshot().is_done() {
        return None;
    }
    wait_until(EitherReady(join, or), deadline)
}

/// Returns the inbox in which a joiner of the task is notified of ready predecessors, as long as it
/// is held.
fn inbox_of<T>(join: &TaskJoin<T>) -> Option<Arc<JoinerInbox>> {
    let predecessors = join.task().meta().predecessors()?;
    predecessors
        .own_inbox()
        .filter(|_| join.task().snapshot().is_held())
}

/// Runs the task here, if it is queued.
fn run_if_ready<T>(join: &mut TaskJoin<T>) {
    if join.task().snapshot().is_queued() {
        run_here(join);
    }
}

/// Ready when a held task is not held any more, or the inbox has a predecessor to run.
struct HeldOrInbox<'a, T> {
    join: &'a mut TaskJoin<T>,
    inbox: &'a JoinerInbox,
}

impl<T> WaitCondition for HeldOrInbox<'_, T> {
    fn is_ready(&mut self) -> bool {
        !self.join.task().snapshot().is_held() || !self.inbox.is_empty()
    }

    fn register_waker(&mut self, waker: &Waker) -> bool {
        self.join.register_waker(waker) && self.inbox.register_waker(waker)
    }

    // The join continues after the tasks in the inbox have run, so only the end of the task counts.
    fn collect_subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        list.push(subject::end_of(self.join.task()));
        true
    }
}

/// In a pool without threads: the polling thread runs the task and its predecessors.
pub(super) fn poll_without_threads<T>(join: &mut TaskJoin<T>, waker: &Waker) {
    if inbox_of(join).is_none() {
        run_here(join);
    }
    while let Some(inbox) = inbox_of(join) {
        run_ready(&inbox, join.task());
        if inbox.register_waker(waker) {
            break;
        }
    }
    run_if_ready(join);
}
