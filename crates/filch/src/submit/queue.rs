//! Tickets in the queues of a pool: how they are queued, and how stale ones are counted.

use super::{
    cell::{self, Claim, TaskTicket},
    pool_context,
};
use crate::{
    engine::{Placement, Priority},
    pool::{Inner, context::WorkerContext},
};

/// Puts a ticket into a queue of the pool. Returns the ticket when the pool is closed and this
/// thread is not one of its workers.
#[inline]
pub(super) fn enqueue(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    ticket: TaskTicket,
) -> Result<(), TaskTicket> {
    let (place, level) = (place_of(pool, &ticket), ticket.level());
    if !ticket.cell().snapshot().is_queued() {
        // It was cancelled before it was queued.
        count_stale_ticket(pool, context);
        return Ok(());
    }
    let job = ticket.into_job();
    let Some(context) = context else {
        let placement = place.unwrap_or(Placement::Lane(level));
        return pool.enqueue(job, placement).map_err(|refused| {
            let ticket = TaskTicket::from_job(refused.into_inner());
            ticket.expect("it was made of one above")
        });
    };
    match (place, level) {
        (Some(place), _) => context.push(job, place),
        (None, Priority::Normal) => context.push_detached(job, Placement::Local),
        (None, level) => context.push(job, Placement::Lane(level)),
    }
    Ok(())
}

/// Returns where a task should run: on another worker, if the one that it has an affinity to has
/// left, and on any if all of its node have.
#[inline]
fn place_of(pool: &Inner, ticket: &TaskTicket) -> Option<Placement> {
    match ticket.cell().meta().place()? {
        Placement::Affine(worker) => Some(Placement::Affine(pool.affinity_target(worker))),
        Placement::AffineNode(node) if !pool.has_worker_in(node) => None,
        place => Some(place),
    }
}

/// Queues a task whose predecessors have ended. Returns it, claimed, if it cannot run any more.
pub(super) fn enqueue_ready(ticket: TaskTicket) -> Option<Claim> {
    pool_context::with_pool(ticket.cell().meta().pool, |pool, context| {
        let Some(pool) = pool else {
            return ticket.claim();
        };
        let queued = match context {
            // Waits in an `isolate` run only what was queued within it; this task was not,
            // whichever thread makes it ready.
            Some(context) if context.is_isolated() => {
                enqueue_outside_isolation(context, ticket);
                Ok(())
            }
            _ => enqueue(pool, context, ticket),
        };
        let ticket = queued.err()?;
        let claim = ticket.claim();
        if claim.is_none() {
            count_stale_ticket(pool, context);
        }
        claim
    })
}

/// Queues a ticket where the isolated waits of this worker do not find it.
#[cold]
fn enqueue_outside_isolation(context: &WorkerContext<'_, '_>, ticket: TaskTicket) {
    let (place, level) = (place_of(context.pool(), &ticket), ticket.level());
    let placement = match (place, level) {
        (Some(place), _) => place,
        (None, Priority::Normal) => Placement::Injector,
        (None, level) => Placement::Lane(level),
    };
    context.push_detached(ticket.into_job(), placement);
}

/// Counts a stale ticket that was not queued, or was taken from a queue.
pub(super) fn count_stale_ticket(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    let worker = context.map(|context| context.worker());
    pool.tasks().counters.count_removed_stale(worker, 1);
}

/// Records that a queued ticket of a task of `pool` has become stale.
pub(super) fn ticket_became_stale(pool: &Inner, worker: Option<usize>) {
    pool.count_stale(worker, cell::is_stale, |job| {
        drop(TaskTicket::from_job(job));
    });
}
