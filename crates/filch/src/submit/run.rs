//! Running or refusing a claimed task.

use super::{
    after,
    cell::{self, COUNTED, Cancel, Cause, Claim, Extras, ISOLATED, Ref, Ticket},
    launch,
};
use crate::{
    base::unwind::{self, Payload},
    cancel::{CancelReason, OnCancel},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::{ptr, sync::Arc};

/// Runs the task of a ticket that a worker has taken from a queue.
#[inline]
pub(super) fn ticket(ticket: Ticket, context: &WorkerContext<'_, '_>) {
    match ticket.claim() {
        Some(claim) => execute(claim, context.pool(), context, false),
        None => {
            let counters = &context.pool().tasks().counters;
            counters.met_stale(Some(context.worker()), 1);
        }
    }
}

/// Records that a ticket of a task of `pool` has become stale.
pub(super) fn staled(pool: &Inner, place: Option<usize>) {
    pool.staled(place, cell::is_stale, |job| drop(Ticket::from_job(job)));
}

/// Runs a claimed task of `pool` on this thread, whose context is in the same pool, or, if all
/// guest slots are taken, in the thread's own pool. `here`: whether the thread that joins or
/// submits the task runs it.
pub(super) fn execute(claim: Claim, pool: &Inner, context: &WorkerContext<'_, '_>, here: bool) {
    let place = ptr::eq(context.pool(), pool).then(|| context.worker());
    let counters = &pool.tasks().counters;
    let about = claim.cell().about();
    let since = about.start_here();
    if let Some(cause) = refusal_cause(claim.cell(), pool) {
        return refuse(claim, Some(pool), place, cause, after::settle);
    }
    leave_queue(claim.cell(), Some(pool));
    let (level, isolated) = (claim.cell().snapshot().level(), about.is(ISOLATED));
    if here {
        counters.count(place, level, TaskEvent::Inlined);
    }
    let started = counters.now();
    let ended = if isolated {
        context.isolate(|| claim.call())
    } else {
        claim.call()
    };
    // Before the task is finished, so that a joiner finds it counted.
    counters.ran(place, since, started);
    let event = match ended.panicked() {
        true => TaskEvent::Panicked,
        false => TaskEvent::Finished,
    };
    counters.count(place, level, event);
    if let Some(payload) = ended.finish() {
        pool.panicked(payload);
    }
}

/// Returns why a task that is about to start should not.
#[inline]
fn refusal_cause(cell: &Ref, pool: &Inner) -> Option<Cause> {
    if pool.tasks().are_abandoned() {
        return Some(Cause::Closed);
    }
    let reason = cell.about().token()?.reason()?;
    Some(reason.into())
}

/// Releases the capacity of a claimed task, and unregisters it from its token.
#[inline]
pub(super) fn leave_queue(cell: &Ref, pool: Option<&Inner>) {
    let about = cell.about();
    if let Some(extras) = about.extras() {
        extras.unwatch();
    }
    if about.is(COUNTED)
        && let Some(capacity) = pool.and_then(|pool| pool.tasks().capacity.as_ref())
    {
        capacity.give(1);
    }
}

/// Refuses a claimed task. If it has followers, `settle` has to notify them.
#[cold]
pub(super) fn refuse(
    claim: Claim,
    pool: Option<&Inner>,
    place: Option<usize>,
    cause: Cause,
    settle: impl FnOnce(&Ref),
) {
    leave_queue(claim.cell(), pool);
    if let Some(pool) = pool {
        let event = match cause {
            Cause::Deadline => TaskEvent::Expired,
            _ => TaskEvent::Cancelled,
        };
        let level = claim.cell().snapshot().level();
        pool.tasks().counters.count(place, level, event);
    }
    let (ended, payload) = claim.refuse(cause);
    for payload in [payload, ended.finish_then(settle)].into_iter().flatten() {
        report_panic(pool, payload);
    }
}

/// Cancels a task. Returns true when it had not started, and never will; a running one is requested
/// to stop.
pub(super) fn cancel(cell: &Ref, cause: Cause) -> bool {
    match cell.cancel() {
        Cancel::Claimed { claim, held } => {
            with_pool(cell.about().pool, |pool, context| {
                let place = context.map(|context| context.worker());
                refuse(claim, pool, place, cause, after::settle);
                if held {
                    return;
                }
                if let Some(pool) = pool {
                    staled(pool, place);
                }
                if let Some(context) = context {
                    // Most often it is the newest one here, and other stale ones may lie below it.
                    context.sweep(cell::is_stale);
                }
            });
            true
        }
        Cancel::Asked => {
            if let Some(token) = cell.about().token() {
                token.cancel();
            }
            false
        }
        Cancel::TooLate => false,
    }
}

impl OnCancel for Extras {
    fn on_cancel(self: Arc<Self>, reason: CancelReason) {
        let cell = self.queued().0.clone();
        if let Some(cell) = cell {
            cancel(&cell, reason.into());
        }
    }
}

/// Calls `f` with the pool of that number, if it exists, and the context that this thread has in
/// it, if any.
pub(super) fn with_pool<R>(
    number: u32,
    f: impl FnOnce(Option<&Inner>, Option<&WorkerContext<'_, '_>>) -> R,
) -> R {
    WorkerContext::with(|context| match context {
        Some(here) if here.pool().number() == number => f(Some(here.pool()), context),
        _ => match context.and_then(|context| context.find_pool(number)) {
            Some(pool) => launch::at_place(pool, |context| f(Some(pool), context)),
            None => f(Inner::find(number).as_deref(), None),
        },
    })
}

/// Reports panics that reach no waiter to the pool of that number.
pub(super) fn report_panics<const N: usize>(pool: u32, payloads: [Option<Payload>; N]) {
    for payload in payloads.into_iter().flatten() {
        with_pool(pool, |pool, _| report_panic(pool, payload));
    }
}

fn report_panic(pool: Option<&Inner>, payload: Payload) {
    match pool {
        Some(pool) => pool.panicked(payload),
        None => unwind::discard(payload),
    }
}
