//! What happens to a claimed task: it runs, or it is told that it will not.

use super::{
    after,
    cell::{self, Cancel, Cause, Claim, Ref, Ticket},
    info::{COUNTED, ISOLATED},
    launch,
};
use crate::{
    base::unwind::{self, Payload},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::ptr;

/// A worker has got a ticket.
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

/// A ticket of a task of `pool` has become stale.
pub(super) fn staled(pool: &Inner, place: Option<usize>) {
    pool.staled(place, cell::is_stale, |job| drop(Ticket::from_job(job)));
}

/// Runs a claimed task of `pool` on this thread, which stands at `context`: in the same pool, or, if all places for
/// guests are taken, in one of its own. `here`: whoever wants the result or has submitted it runs it.
pub(super) fn execute(claim: Claim, pool: &Inner, context: &WorkerContext<'_, '_>, here: bool) {
    let place = ptr::eq(context.pool(), pool).then(|| context.worker());
    let counters = &pool.tasks().counters;
    let about = claim.cell().about();
    let since = about.start_here();
    if let Some(cause) = not_wanted(claim.cell(), pool) {
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
    // Before the task is finished, so that whoever has joined it finds it counted.
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

/// Why a task that is about to start should not.
#[inline]
fn not_wanted(cell: &Ref, pool: &Inner) -> Option<Cause> {
    if pool.tasks().are_abandoned() {
        return Some(Cause::Closed);
    }
    let reason = cell.about().token()?.reason()?;
    Some(reason.into())
}

/// A claimed task does not wait any more: there is room for another one, and no token need call it.
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

/// A claimed task will not run. If others follow it, `settle` has to tell them.
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
        tell(pool, payload);
    }
}

/// A task is not wanted any more. True when it had not started, and never will; one that runs is asked to stop.
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
                    // Most often the newest one here, and others may follow.
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

/// Calls `f` with the pool of that number, if it lives, and the place that this thread has in it, if it has one.
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

/// Tells the pool of that number about panics that nobody waits for.
pub(super) fn tell_all<const N: usize>(pool: u32, payloads: [Option<Payload>; N]) {
    for payload in payloads.into_iter().flatten() {
        with_pool(pool, |pool, _| tell(pool, payload));
    }
}

fn tell(pool: Option<&Inner>, payload: Payload) {
    match pool {
        Some(pool) => pool.panicked(payload),
        None => unwind::discard(payload),
    }
}
