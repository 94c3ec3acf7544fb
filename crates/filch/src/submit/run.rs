//! Running and cancelling tasks, and changing their priorities.

use super::{
    Priority,
    cell::{
        self, CancelEffect, Cause, Claim, Extras, ISOLATED, Lifecycle, SubmitRef, TaskJoin,
        TaskMeta, TaskTicket,
    },
    end, pool_context, queue,
};
use crate::{
    cancel::{CancelReason, OnCancel, TaskBatch},
    observe::TaskEvent,
    pool::{Inner, context::WorkerContext},
};
use std::{ptr, sync::Arc};

impl Lifecycle for TaskMeta {
    #[inline]
    fn run(ticket: TaskTicket, context: &WorkerContext<'_, '_>) {
        match ticket.claim() {
            Some(claim) => execute(claim, context.pool(), context, false),
            None => queue::count_stale_ticket(context.pool(), Some(context)),
        }
    }

    fn on_dropped_claim(claim: Claim) {
        let pool = claim.cell().meta().pool;
        let (ended, payload) = claim.discard(Cause::Requested);
        pool_context::report_panics(pool, [payload, ended.finish()]);
    }
}

/// Runs a claimed task of `pool` on this thread, whose context is in the same pool, or, if all
/// guest slots are taken, in the thread's own pool. `inlined`: whether the thread that joins or
/// submits the task runs it.
pub(super) fn execute(claim: Claim, pool: &Inner, context: &WorkerContext<'_, '_>, inlined: bool) {
    let worker = ptr::eq(context.pool(), pool).then(|| context.worker());
    let counters = &pool.tasks().counters;
    let meta = claim.cell().meta();
    let since = meta.start_here();
    if let Some(cause) = discard_cause(claim.cell(), pool) {
        return end::discard(claim, Some(pool), worker, cause, end::notify_followers);
    }
    end::release_capacity_and_token(claim.cell(), Some(pool));
    let (level, isolated) = (claim.cell().snapshot().level(), meta.has_flag(ISOLATED));
    if inlined {
        counters.count(worker, level, TaskEvent::Inlined);
    }
    let started = counters.now();
    let ended = context.isolate_if(isolated, || claim.call());
    // Before the task is finished, so that a joiner finds it counted.
    counters.ran(worker, since, started);
    let event = match ended.panicked() {
        true => TaskEvent::Panicked,
        false => TaskEvent::Finished,
    };
    counters.count(worker, level, event);
    if ended.was_cancelled() {
        counters.count(worker, level, TaskEvent::Stopped);
    }
    if let Some(payload) = ended.finish() {
        pool.panicked(payload);
    }
}

/// Returns why a task that is about to start should not.
#[inline]
fn discard_cause(cell: &SubmitRef, pool: &Inner) -> Option<Cause> {
    if pool.tasks().are_cancelled() {
        return Some(Cause::Closed);
    }
    let reason = cell.meta().token()?.reason()?;
    Some(reason.into())
}

/// Cancels a task. Returns true when it had not started, and never will; a running one is requested
/// to stop.
pub(super) fn cancel(cell: &SubmitRef, cause: Cause) -> bool {
    match cell.cancel() {
        CancelEffect::Claimed { claim, held } => {
            pool_context::with_pool(cell.meta().pool, |pool, context| {
                let worker = context.map(|context| context.worker());
                end::discard(claim, pool, worker, cause, end::notify_followers);
                count_stale_unless(held, pool, worker);
                sweep(context);
            });
            true
        }
        CancelEffect::Requested => {
            cancel_own_token(cell);
            false
        }
        CancelEffect::TooLate => false,
    }
}

/// Counts the ticket of a task that was cancelled. If it was `held`, it has none in any queue.
fn count_stale_unless(held: bool, pool: Option<&Inner>, worker: Option<usize>) {
    if !held && let Some(pool) = pool {
        queue::ticket_became_stale(pool, worker);
    }
}

/// Removes stale tickets: most often the newest one here is, and others may lie below it.
fn sweep(context: Option<&WorkerContext<'_, '_>>) {
    if let Some(context) = context {
        context.sweep(cell::is_stale);
    }
}

/// Stops a task that is running, if it has a token of its own.
fn cancel_own_token(cell: &SubmitRef) {
    if let Some(token) = cell.meta().own_token() {
        token.cancel();
    }
}

impl OnCancel for Extras {
    /// Tasks of a batch are mostly of one pool, which is found once for all of them.
    fn on_cancel(self: Arc<Self>, reason: CancelReason, rest: &mut TaskBatch) {
        let mut next = self.end_watch().or_else(|| next_watching(rest));
        while let Some(first) = next {
            let number = first.meta().pool;
            next = pool_context::with_pool(number, |pool, context| {
                let worker = context.map(|context| context.worker());
                let mut same_pool = Some(first);
                let other = loop {
                    let Some(cell) = same_pool else {
                        break None;
                    };
                    match cell.cancel() {
                        CancelEffect::Claimed { claim, held } => {
                            end::discard_watched(claim, pool, worker, reason.into());
                            count_stale_unless(held, pool, worker);
                        }
                        CancelEffect::Requested => cancel_own_token(&cell),
                        CancelEffect::TooLate => {}
                    }
                    same_pool = next_watching(rest);
                    if let Some(cell) = same_pool.take_if(|cell| cell.meta().pool != number) {
                        break Some(cell);
                    }
                };
                sweep(context);
                other
            });
        }
    }
}

/// Returns the next task of the batch that is still queued.
fn next_watching(batch: &mut TaskBatch) -> Option<SubmitRef> {
    loop {
        let cell = batch.next_of::<Extras>()?.end_watch();
        if cell.is_some() {
            return cell;
        }
    }
}

/// Changes the priority of a task. Returns false when it does not wait any more.
pub(super) fn set_priority<T>(join: &TaskJoin<T>, level: Priority) -> bool {
    pool_context::with_pool(join.task().meta().pool, |pool, context| match pool {
        Some(pool) if context.is_some() || pool.core().is_open() => {
            join.set_level(level, |ticket| requeue(pool, context, ticket))
        }
        _ => false,
    })
}

fn requeue(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, ticket: TaskTicket) {
    queue::ticket_became_stale(pool, context.map(|context| context.worker()));
    if let Some(context) = context {
        // The older ticket may be the newest entry here: stale ones would accumulate.
        context.sweep(cell::is_stale);
    }
    if let Err(ticket) = queue::enqueue(pool, context, ticket) {
        // The pool was closed meanwhile; the older ticket may have been dropped already.
        pool.enter_worker(|context| TaskMeta::run(ticket, context));
    }
}
