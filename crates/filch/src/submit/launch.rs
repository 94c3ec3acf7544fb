//! Submission: from a closure to a task in a queue.

pub(super) use super::admission::Admission;

use super::{
    Priority, TaskHandle,
    admission::{self, Entry},
    after,
    cell::{self, Body, Cause, Claim, Fresh, Hold, Ticket},
    info::{COUNTED, ISOLATED, NO_THREADS, TaskMeta},
    options::Options,
    run,
};
use crate::{
    base::error::Refused,
    engine::{Level, Placement},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::mem;

/// Calls `f` with the context that this thread has in `pool`, if it has one.
#[inline(always)]
pub(super) fn at_place<R>(pool: &Inner, f: impl FnOnce(Option<&WorkerContext<'_, '_>>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(here) if std::ptr::eq(here.pool(), pool) => f(context),
        Some(here) if here.is_inside(pool) => here.on_outer(pool, |context| f(Some(context))),
        _ => f(None),
    })
}

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
            return Ok(after::launch(fresh.hold, ticket, entry));
        }
    } else {
        // All fields are empty, so the compiler need not emit their destructors.
        mem::forget(options);
    }
    let queued = match entry {
        Entry::RunHere => run_here(pool, context, ticket),
        _ => queue(pool, context, ticket),
    };
    match queued {
        Ok(()) => {
            count(pool, context, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(fresh.hold))
        }
        Err(ticket) => take_back(pool, context, fresh, ticket, Refused::closed),
    }
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
            run::leave_queue(claim.cell(), Some(pool));
            Err(refusal(fresh.take_back(claim)))
        }
        None => {
            met_stale(pool, context);
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

/// Puts a ticket into a queue of the pool. Returns it when the pool is closed, and this thread is
/// not one of its workers.
#[inline]
fn queue(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    ticket: Ticket,
) -> Result<(), Ticket> {
    let (worker, level) = (ticket.cell().about().worker(), ticket.level());
    if !ticket.cell().snapshot().is_queued() {
        // It was cancelled before it was queued.
        met_stale(pool, context);
        return Ok(());
    }
    let job = ticket.into_job();
    let Some(context) = context else {
        let placement = worker.map_or(Placement::Lane(level), Placement::Affine);
        return pool.core().inject(job, placement).map_err(|refused| {
            let ticket = Ticket::from_job(refused.into_inner());
            ticket.expect("it was made of one above")
        });
    };
    match (worker, level) {
        (Some(worker), _) => context.push(job, Placement::Affine(worker)),
        (None, Level::Normal) => context.push_detached(job, Placement::Local),
        (None, level) => context.push(job, Placement::Lane(level)),
    }
    Ok(())
}

/// Queues a task whose predecessors have ended. Returns it, claimed, if it cannot run any more.
pub(super) fn queue_ready(ticket: Ticket) -> Option<Claim> {
    run::with_pool(ticket.cell().about().pool, |pool, context| {
        let Some(pool) = pool else {
            return ticket.claim();
        };
        let queued = match context {
            // Waits in an `isolate` run only what was queued within it; this task was not,
            // whichever thread makes it ready.
            Some(context) if context.is_isolated() => {
                queue_elsewhere(context, ticket);
                Ok(())
            }
            _ => queue(pool, context, ticket),
        };
        let ticket = queued.err()?;
        let claim = ticket.claim();
        if claim.is_none() {
            met_stale(pool, context);
        }
        claim
    })
}

/// Queues a ticket where the isolated waits of this worker do not find it.
#[cold]
fn queue_elsewhere(context: &WorkerContext<'_, '_>, ticket: Ticket) {
    let (worker, level) = (ticket.cell().about().worker(), ticket.level());
    let placement = match (worker, level) {
        (Some(worker), _) => Placement::Affine(worker),
        (None, Level::Normal) => Placement::Injector,
        (None, level) => Placement::Lane(level),
    };
    context.push_detached(ticket.into_job(), placement);
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
        (None, context) => met_stale(pool, context),
    }
    Ok(())
}

/// Counts a ticket that was stale before it was queued.
fn met_stale(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    let place = context.map(|context| context.worker());
    pool.tasks().counters.met_stale(place, 1);
}

/// Moves a task to another level. Returns false when it does not wait any more.
pub(super) fn move_to<T>(hold: &Hold<T>, level: Priority) -> bool {
    run::with_pool(hold.task().about().pool, |pool, context| match pool {
        Some(pool) if context.is_some() || pool.core().is_open() => {
            hold.move_to(level, |ticket| requeue(pool, context, ticket))
        }
        _ => false,
    })
}

fn requeue(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, ticket: Ticket) {
    run::staled(pool, context.map(|context| context.worker()));
    if let Some(context) = context {
        // The older ticket may be the newest entry here: stale ones would accumulate.
        context.sweep(cell::is_stale);
    }
    if let Err(ticket) = queue(pool, context, ticket) {
        // The pool was closed meanwhile; the older ticket may have been dropped already.
        pool.enter_worker(|context| run::ticket(ticket, context));
    }
}
