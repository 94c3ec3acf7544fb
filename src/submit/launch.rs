//! From a closure to a task in a queue.

pub(super) use super::room::Room;

use super::{
    Priority, TaskHandle,
    about::{ALONE, About, COUNTED, ISOLATED},
    after,
    cell::{self, Body, Cause, Claim, Fresh, Hold, Ticket},
    options::Options,
    room::{self, Entry},
    run,
};
use crate::{
    engine::Level,
    ground::error::Refused,
    observe::TaskEvent,
    pool::{Inner, site::Site},
};
use std::mem;

/// Calls `f` with the place that this thread has in `pool`, if it has one.
#[inline(always)]
pub(super) fn at_place<R>(pool: &Inner, f: impl FnOnce(Option<&Site<'_, '_>>) -> R) -> R {
    Site::with(|site| match site {
        Some(here) if std::ptr::eq(here.pool(), pool) => f(site),
        Some(here) if here.is_inside(pool) => here.on_outer(pool, |site| f(Some(site))),
        _ => f(None),
    })
}

/// Submits `func` to `pool`, in which this thread stands at `site`, if it does.
#[inline]
pub(super) fn launch<F, T>(
    pool: &Inner,
    site: Option<&Site<'_, '_>>,
    func: F,
    options: Options,
    room: Room,
) -> Result<TaskHandle<T>, Refused<F>>
where
    F: Body<T>,
    T: Send + 'static,
{
    let level = options.level;
    let (worker, entry) = match admit(pool, site, &options, room) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            count(pool, site, level, TaskEvent::Refused);
            return Err(refusal.map(|()| func));
        }
    };
    let flags = [
        (ISOLATED, site.is_some_and(|site| site.is_isolated())),
        (ALONE, pool.threads() == 0),
        (COUNTED, entry == Entry::Queue { counted: true }),
    ];
    let now = pool.tasks().counters.now();
    let about = About::new(pool.number(), now.nanos()).for_worker(worker, flags);
    let (fresh, ticket) = cell::make(func, level, about);
    if options.has_extras() {
        let waits = options.waits();
        if waits && site.is_none() && !pool.core().is_open() {
            return take_back(pool, site, fresh, ticket, Refused::closed);
        }
        if let Err(refusal) = options.attach(ticket.cell()) {
            return take_back(pool, site, fresh, ticket, |func| refusal.map(|()| func));
        }
        if waits {
            count(pool, site, level, TaskEvent::Submitted);
            return Ok(after::launch(fresh.hold, ticket, entry));
        }
    } else {
        // There is nothing in it, and the compiler need not look.
        mem::forget(options);
    }
    let queued = match entry {
        Entry::RunHere => run_here(pool, site, ticket),
        _ => queue(pool, site, ticket),
    };
    match queued {
        Ok(()) => {
            count(pool, site, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(fresh.hold))
        }
        Err(ticket) => take_back(pool, site, fresh, ticket, Refused::closed),
    }
}

fn count(pool: &Inner, site: Option<&Site<'_, '_>>, level: Level, event: TaskEvent) {
    let place = site.map(|site| site.worker());
    pool.tasks().counters.count(place, level, event);
}

/// The worker that should run the task, and the room for it.
#[inline]
fn admit(
    pool: &Inner,
    site: Option<&Site<'_, '_>>,
    options: &Options,
    room: Room,
) -> Result<(Option<u16>, Entry), Refused<()>> {
    match (options.worker(pool), &pool.tasks().capacity) {
        (Ok(worker), None) => Ok((worker, Entry::Queue { counted: false })),
        (Ok(worker), Some(_)) => match room::enter(pool, site, room) {
            Entry::Full => Err(Refused::full(())),
            entry => Ok((worker, entry)),
        },
        (Err(refusal), capacity) => {
            if let (Some(capacity), Room::Taken) = (capacity, room) {
                capacity.give(1);
            }
            Err(refusal)
        }
    }
}

/// The task is not let in after all: its closure goes back, unless it was cancelled meanwhile.
#[cold]
fn take_back<F, T>(
    pool: &Inner,
    site: Option<&Site<'_, '_>>,
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
            count(pool, site, level, TaskEvent::Refused);
            run::leave_queue(claim.cell(), Some(pool));
            Err(refusal(fresh.take_back(claim)))
        }
        None => {
            met_stale(pool, site);
            count(pool, site, level, TaskEvent::Submitted);
            Ok(TaskHandle::new(fresh.hold))
        }
    }
}

/// The handle of a task that was refused.
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
    let about = About::new(pool.number(), 0);
    let (fresh, ticket) = cell::make(refusal.into_inner(), Level::Normal, about);
    if let Some(claim) = ticket.claim() {
        let (ended, payload) = claim.refuse(cause);
        for payload in [payload, ended.finish()].into_iter().flatten() {
            pool.panicked(payload);
        }
    }
    TaskHandle::new(fresh.hold)
}

/// Puts a ticket into a queue of the pool. It comes back when the pool is closed, and this thread none of its
/// workers.
#[inline]
fn queue(pool: &Inner, site: Option<&Site<'_, '_>>, ticket: Ticket) -> Result<(), Ticket> {
    let (worker, level) = (ticket.cell().about().worker(), ticket.level());
    if !ticket.cell().snapshot().is_queued() {
        // Cancelled before it was queued.
        met_stale(pool, site);
        return Ok(());
    }
    let job = ticket.into_job();
    let Some(site) = site else {
        let injected = match (worker, level) {
            (Some(worker), _) => pool.core().inject_for(worker, job),
            (None, Level::Normal) => pool.core().inject(job),
            (None, level) => pool.core().inject_at(level, job),
        };
        return injected.map_err(|refused| {
            let ticket = Ticket::from_job(refused.into_inner());
            ticket.expect("it was made of one above")
        });
    };
    match (worker, level) {
        (Some(worker), _) => site.push_for(worker, job),
        (None, Level::Normal) => site.push_detached(job),
        (None, level) => site.push_at(level, job),
    }
    Ok(())
}

/// Queues a task that has waited for others. It comes back, claimed, if it cannot run any more.
pub(super) fn queue_ready(ticket: Ticket) -> Option<Claim> {
    run::with_pool(ticket.cell().about().pool, |pool, site| {
        let Some(pool) = pool else {
            return ticket.claim();
        };
        let queued = match site {
            // Waits in there run what was queued in there; this one was not, whoever makes it ready.
            Some(site) if site.is_isolated() => {
                queue_elsewhere(site, ticket);
                Ok(())
            }
            _ => queue(pool, site, ticket),
        };
        let ticket = queued.err()?;
        let claim = ticket.claim();
        if claim.is_none() {
            met_stale(pool, site);
        }
        claim
    })
}

/// Queues a ticket where the waits of this worker do not look.
#[cold]
fn queue_elsewhere(site: &Site<'_, '_>, ticket: Ticket) {
    let (worker, level) = (ticket.cell().about().worker(), ticket.level());
    site.push_elsewhere(worker, level, ticket.into_job());
}

/// Runs a task instead of queueing it.
#[cold]
fn run_here(pool: &Inner, site: Option<&Site<'_, '_>>, ticket: Ticket) -> Result<(), Ticket> {
    if site.is_none() && !pool.core().is_open() {
        return Err(ticket);
    }
    match (ticket.claim(), site) {
        (Some(claim), Some(site)) => run::execute(claim, pool, site, true),
        (Some(claim), None) => pool.on_site(|site| run::execute(claim, pool, site, true)),
        (None, site) => met_stale(pool, site),
    }
    Ok(())
}

/// A ticket was stale before it got into a queue.
fn met_stale(pool: &Inner, site: Option<&Site<'_, '_>>) {
    let place = site.map(|site| site.worker());
    pool.tasks().counters.met_stale(place, 1);
}

/// Makes a task wait at another level. False when it does not wait any more.
pub(super) fn move_to<T>(hold: &Hold<T>, level: Priority) -> bool {
    run::with_pool(hold.cell().about().pool, |pool, site| match pool {
        Some(pool) if site.is_some() || pool.core().is_open() => {
            hold.move_to(level, |ticket| requeue(pool, site, ticket))
        }
        _ => false,
    })
}

fn requeue(pool: &Inner, site: Option<&Site<'_, '_>>, ticket: Ticket) {
    run::staled(pool, site.map(|site| site.worker()));
    if let Some(site) = site {
        // The older ticket may be the newest one here: they would pile up.
        site.sweep(cell::is_stale);
    }
    if let Err(ticket) = queue(pool, site, ticket) {
        // Closed in this very moment; the older ticket may be gone already.
        pool.on_site(|site| run::ticket(ticket, site));
    }
}
