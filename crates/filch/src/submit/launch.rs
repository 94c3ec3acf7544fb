//! Submission: from a closure to a task in a queue.

use super::{
    TaskHandle,
    admission::{self, AdmissionMode, AdmissionResult},
    cell::{
        self, Body, COUNTED, Cause, ISOLATED, NO_THREADS, NewTask, TaskJoin, TaskMeta, TaskTicket,
    },
    end, join,
    options::Options,
    queue, run,
};
use crate::{
    base::error::Refused,
    engine::{Placement, Priority},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::mem;

/// Submits `func` to `pool`, in which this thread has the context `context`, if any.
#[inline]
pub(super) fn launch<F, T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    func: F,
    mut options: Options,
    mode: AdmissionMode,
) -> Result<TaskHandle<T>, Refused<F>>
where
    F: Body<T>,
    T: Send + 'static,
{
    let level = options.level;
    let (place, admitted) = match admit(pool, context, &options, mode) {
        Ok(result) => result,
        Err(refusal) => {
            count_event(pool, context, level, TaskEvent::Refused);
            return Err(refusal.map(|()| func));
        }
    };
    let meta = new_meta(pool, context, place, admitted);
    if let Some(held) = options.take_only_held() {
        mem::forget(options);
        let (new_task, ticket) = cell::make(func, level, meta.with(held));
        if context.is_none() && !pool.core().is_open() {
            return take_back(pool, context, new_task, ticket, Refused::closed);
        }
        ticket.cell().mark_held();
        count_event(pool, context, level, TaskEvent::Submitted);
        return Ok(launch_held(new_task.join, ticket, admitted));
    }
    let (new_task, ticket) = cell::make(func, level, meta);
    if options.has_extras() {
        let is_held = options.has_predecessors();
        if is_held && context.is_none() && !pool.core().is_open() {
            return take_back(pool, context, new_task, ticket, Refused::closed);
        }
        if let Err(refusal) = options.attach(ticket.cell()) {
            return take_back(pool, context, new_task, ticket, |func| {
                refusal.map(|()| func)
            });
        }
        if is_held {
            count_event(pool, context, level, TaskEvent::Submitted);
            return Ok(launch_held(new_task.join, ticket, admitted));
        }
    } else {
        // All fields are empty, so the compiler need not emit their destructors.
        mem::forget(options);
    }
    let queued = match admitted {
        AdmissionResult::RunHere => run_here(pool, context, ticket),
        _ => queue::enqueue(pool, context, ticket),
    };
    match queued {
        Ok(()) => {
            count_event(pool, context, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(new_task.join))
        }
        Err(ticket) => take_back(pool, context, new_task, ticket, Refused::closed),
    }
}

/// Returns the metadata of a task that is admitted.
#[inline(always)]
fn new_meta(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    place: Option<Placement>,
    admitted: AdmissionResult,
) -> TaskMeta {
    let flags = [
        (
            ISOLATED,
            context.is_some_and(|context| context.is_isolated()),
        ),
        (NO_THREADS, pool.live_workers() == 0),
        (
            COUNTED,
            admitted == AdmissionResult::Queue { counted: true },
        ),
    ];
    let now = pool.tasks().counters.now();
    TaskMeta::new(pool.number(), now.nanos()).placed(place, flags)
}

/// Submits `func`; a refusal is an error that its handle returns.
#[inline]
pub(super) fn submit_with<F, T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    options: Options,
    func: F,
) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    launch(pool, context, func, options, AdmissionMode::ByPolicy)
        .unwrap_or_else(|refusal| refused_handle(pool, refusal))
}

fn count_event(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    level: Priority,
    event: TaskEvent,
) {
    let worker = context.map(|context| context.worker());
    pool.tasks().counters.count(worker, level, event);
}

/// Returns where the task should run, and the result of its admission.
#[inline]
fn admit(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    options: &Options,
    mode: AdmissionMode,
) -> Result<(Option<Placement>, AdmissionResult), Refused<()>> {
    match (options.place(pool), &pool.tasks().capacity) {
        (Ok(place), None) => Ok((place, AdmissionResult::Queue { counted: false })),
        (Ok(place), Some(_)) => match admission::acquire_capacity(pool, context, mode) {
            AdmissionResult::Full => Err(Refused::full(())),
            admitted => Ok((place, admitted)),
        },
        (Err(refusal), capacity) => {
            if let (Some(capacity), AdmissionMode::Taken) = (capacity, mode) {
                capacity.give(1);
            }
            Err(refusal)
        }
    }
}

/// Returns the closure of a task that is not accepted after all, unless the task was cancelled
/// meanwhile.
#[cold]
fn take_back<F, T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    new_task: NewTask<F, T>,
    ticket: TaskTicket,
    refusal: impl FnOnce(F) -> Refused<F>,
) -> Result<TaskHandle<T>, Refused<F>>
where
    F: Body<T>,
    T: Send + 'static,
{
    let level = ticket.level();
    match ticket.claim() {
        Some(claim) => {
            count_event(pool, context, level, TaskEvent::Refused);
            end::release_capacity_and_token(claim.cell(), Some(pool));
            Err(refusal(new_task.take_back(claim)))
        }
        None => {
            queue::count_stale_ticket(pool, context);
            count_event(pool, context, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(new_task.join))
        }
    }
}

/// Returns the handle of a task that was refused.
#[cold]
pub(super) fn refused_handle<F, T>(pool: &Inner, refusal: Refused<F>) -> TaskHandle<T>
where
    F: Body<T>,
    T: Send + 'static,
{
    let cause = match refusal.is_full() {
        true => Cause::Full,
        false => Cause::Closed,
    };
    let meta = TaskMeta::new(pool.number(), 0);
    let (new_task, ticket) = cell::make(refusal.into_inner(), Priority::Normal, meta);
    if let Some(claim) = ticket.claim() {
        let (ended, payload) = claim.discard(cause);
        for payload in [payload, ended.finish()].into_iter().flatten() {
            pool.panicked(payload);
        }
    }
    TaskHandle::new(new_task.join)
}

/// Adds a held task to the follower lists of its predecessors.
#[cold]
fn launch_held<T>(
    mut join: TaskJoin<T>,
    ticket: TaskTicket,
    admitted: AdmissionResult,
) -> TaskHandle<T> {
    // Another ticket is made when the task is ready.
    end::apply_update(ticket.into_cell().register_as_follower());
    if admitted == AdmissionResult::RunHere {
        // There is no capacity. Run what can be run here; if that is not enough, the task is
        // accepted nevertheless, because tasks elsewhere may depend on a caller that waits here for
        // them.
        join::run_here(&mut join);
    }
    TaskHandle::new(join)
}

/// Runs a task instead of queueing it.
#[cold]
fn run_here(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    ticket: TaskTicket,
) -> Result<(), TaskTicket> {
    if context.is_none() && !pool.core().is_open() {
        return Err(ticket);
    }
    match (ticket.claim(), context) {
        (Some(claim), Some(context)) => run::execute(claim, pool, context, true),
        (Some(claim), None) => {
            pool.enter_worker(|context| run::execute(claim, pool, context, true));
        }
        (None, context) => queue::count_stale_ticket(pool, context),
    }
    Ok(())
}
