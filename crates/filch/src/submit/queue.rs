//! The queues of a pool: tickets on their way in, and stale ones.

use super::{
    cell::{self, Claim, Ticket},
    place,
};
use crate::{
    engine::{Level, Placement},
    pool::{Inner, context::WorkerContext},
};

/// Puts a ticket into a queue of the pool. Returns it when the pool is closed, and this thread is
/// not one of its workers.
#[inline]
pub(super) fn queue(
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
    place::with_pool(ticket.cell().about().pool, |pool, context| {
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

/// Counts a stale ticket that was not queued, or was taken from a queue.
pub(super) fn met_stale(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    let place = context.map(|context| context.worker());
    pool.tasks().counters.met_stale(place, 1);
}

/// Records that a ticket of a task of `pool` has become stale.
pub(super) fn staled(pool: &Inner, place: Option<usize>) {
    pool.count_stale(place, cell::is_stale, |job| drop(Ticket::from_job(job)));
}
