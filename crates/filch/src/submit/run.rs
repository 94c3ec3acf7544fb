//! Running, cancelling and moving tasks.

use super::{
    Priority,
    cell::{self, Cancel, Cause, Claim, Extras, Hold, ISOLATED, Lifecycle, Ref, TaskMeta, Ticket},
    end, place, queue,
};
use crate::{
    cancel::{CancelReason, OnCancel},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::{ptr, sync::Arc};

impl Lifecycle for TaskMeta {
    #[inline]
    fn run(ticket: Ticket, context: &WorkerContext<'_, '_>) {
        match ticket.claim() {
            Some(claim) => execute(claim, context.pool(), context, false),
            None => queue::met_stale(context.pool(), Some(context)),
        }
    }

    fn abandon(claim: Claim) {
        let pool = claim.cell().about().pool;
        let (ended, payload) = claim.refuse(Cause::Asked);
        place::report_panics(pool, [payload, ended.finish()]);
    }
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
        return end::refuse(claim, Some(pool), place, cause, end::settle);
    }
    end::leave_queue(claim.cell(), Some(pool));
    let (level, isolated) = (claim.cell().snapshot().level(), about.is(ISOLATED));
    if here {
        counters.count(place, level, TaskEvent::Inlined);
    }
    let started = counters.now();
    let ended = context.isolate_if(isolated, || claim.call());
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

/// Cancels a task. Returns true when it had not started, and never will; a running one is requested
/// to stop.
pub(super) fn cancel(cell: &Ref, cause: Cause) -> bool {
    match cell.cancel() {
        Cancel::Claimed { claim, held } => {
            place::with_pool(cell.about().pool, |pool, context| {
                let place = context.map(|context| context.worker());
                end::refuse(claim, pool, place, cause, end::settle);
                if held {
                    return;
                }
                if let Some(pool) = pool {
                    queue::staled(pool, place);
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

/// Moves a task to another level. Returns false when it does not wait any more.
pub(super) fn move_to<T>(hold: &Hold<T>, level: Priority) -> bool {
    place::with_pool(hold.task().about().pool, |pool, context| match pool {
        Some(pool) if context.is_some() || pool.core().is_open() => {
            hold.move_to(level, |ticket| requeue(pool, context, ticket))
        }
        _ => false,
    })
}

fn requeue(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, ticket: Ticket) {
    queue::staled(pool, context.map(|context| context.worker()));
    if let Some(context) = context {
        // The older ticket may be the newest entry here: stale ones would accumulate.
        context.sweep(cell::is_stale);
    }
    if let Err(ticket) = queue::queue(pool, context, ticket) {
        // The pool was closed meanwhile; the older ticket may have been dropped already.
        pool.enter_worker(|context| TaskMeta::run(ticket, context));
    }
}
