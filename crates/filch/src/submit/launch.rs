//! Submission: from a closure to a task in a queue.

use super::{
    TaskHandle,
    admission::{self, Admission, Entry},
    cell::{self, Body, COUNTED, Cause, Fresh, Hold, ISOLATED, NO_THREADS, TaskMeta, Ticket},
    end, join,
    options::Options,
    queue, run,
};
use crate::{
    base::error::Refused,
    engine::Level,
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
    options: Options,
    room: Admission,
) -> Result<TaskHandle<T>, Refused<F>>
where
    F: Body<T>,
    T: Send + 'static,
{
    let level = options.level;
    let (worker, entry) = match admit(pool, context, &options, room) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            count(pool, context, level, TaskEvent::Refused);
            return Err(refusal.map(|()| func));
        }
    };
    let flags = [
        (
            ISOLATED,
            context.is_some_and(|context| context.is_isolated()),
        ),
        (NO_THREADS, pool.threads() == 0),
        (COUNTED, entry == Entry::Queue { counted: true }),
    ];
    let now = pool.tasks().counters.now();
    let about = TaskMeta::new(pool.number(), now.nanos()).for_worker(worker, flags);
    let (fresh, ticket) = cell::make(func, level, about);
    if options.has_extras() {
        let waits = options.waits();
        if waits && context.is_none() && !pool.core().is_open() {
            return take_back(pool, context, fresh, ticket, Refused::closed);
        }
        if let Err(refusal) = options.attach(ticket.cell()) {
            return take_back(pool, context, fresh, ticket, |func| refusal.map(|()| func));
        }
        if waits {
            count(pool, context, level, TaskEvent::Submitted);
            return Ok(launch_held(fresh.hold, ticket, entry));
        }
    } else {
        // All fields are empty, so the compiler need not emit their destructors.
        mem::forget(options);
    }
    let queued = match entry {
        Entry::RunHere => run_here(pool, context, ticket),
        _ => queue::queue(pool, context, ticket),
    };
    match queued {
        Ok(()) => {
            count(pool, context, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(fresh.hold))
        }
        Err(ticket) => take_back(pool, context, fresh, ticket, Refused::closed),
    }
}

/// Submits `func`; a refusal is an error that its handle returns.
#[inline]
pub(super) fn submit_at<F, T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    options: Options,
    func: F,
) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    launch(pool, context, func, options, Admission::ByPolicy)
        .unwrap_or_else(|refusal| refused(pool, refusal))
}

fn count(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, level: Level, event: TaskEvent) {
    let place = context.map(|context| context.worker());
    pool.tasks().counters.count(place, level, event);
}

/// Returns the worker that should run the task, and the result of its admission.
#[inline]
fn admit(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    options: &Options,
    room: Admission,
) -> Result<(Option<u16>, Entry), Refused<()>> {
    match (options.worker(pool), &pool.tasks().capacity) {
        (Ok(worker), None) => Ok((worker, Entry::Queue { counted: false })),
        (Ok(worker), Some(_)) => match admission::enter(pool, context, room) {
            Entry::Full => Err(Refused::full(())),
            entry => Ok((worker, entry)),
        },
        (Err(refusal), capacity) => {
            if let (Some(capacity), Admission::Taken) = (capacity, room) {
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
    fresh: Fresh<F, T>,
    ticket: Ticket,
    refusal: impl FnOnce(F) -> Refused<F>,
) -> Result<TaskHandle<T>, Refused<F>>
where
    F: Body<T>,
    T: Send + 'static,
{
    let level = ticket.level();
    match ticket.claim() {
        Some(claim) => {
            count(pool, context, level, TaskEvent::Refused);
            end::leave_queue(claim.cell(), Some(pool));
            Err(refusal(fresh.take_back(claim)))
        }
        None => {
            queue::met_stale(pool, context);
            count(pool, context, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(fresh.hold))
        }
    }
}

/// Returns the handle of a task that was refused.
#[cold]
pub(super) fn refused<F, T>(pool: &Inner, refusal: Refused<F>) -> TaskHandle<T>
where
    F: Body<T>,
    T: Send + 'static,
{
    let cause = match refusal.is_full() {
        true => Cause::Full,
        false => Cause::Closed,
    };
    let about = TaskMeta::new(pool.number(), 0);
    let (fresh, ticket) = cell::make(refusal.into_inner(), Level::Normal, about);
    if let Some(claim) = ticket.claim() {
        let (ended, payload) = claim.refuse(cause);
        for payload in [payload, ended.finish()].into_iter().flatten() {
            pool.panicked(payload);
        }
    }
    TaskHandle::new(fresh.hold)
}

/// Adds a held task to the follower lists of its predecessors.
#[cold]
fn launch_held<T>(mut hold: Hold<T>, ticket: Ticket, entry: Entry) -> TaskHandle<T> {
    end::advance(ticket.cell().enlist());
    // Another ticket is made when the task is ready.
    drop(ticket);
    if entry == Entry::RunHere {
        // There is no capacity. Run what can be run here; if that is not enough, the task is
        // accepted nevertheless, because tasks elsewhere may depend on a caller that waits here for
        // them.
        join::run_here(&mut hold);
    }
    TaskHandle::new(hold)
}

/// Runs a task instead of queueing it.
#[cold]
fn run_here(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    ticket: Ticket,
) -> Result<(), Ticket> {
    if context.is_none() && !pool.core().is_open() {
        return Err(ticket);
    }
    match (ticket.claim(), context) {
        (Some(claim), Some(context)) => run::execute(claim, pool, context, true),
        (Some(claim), None) => {
            pool.enter_worker(|context| run::execute(claim, pool, context, true));
        }
        (None, context) => queue::met_stale(pool, context),
    }
    Ok(())
}
