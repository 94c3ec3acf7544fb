//! Who has a future: it is queued, polled, and ended.
#![expect(unsafe_code, reason = "turns cells into jobs and back")]

use super::{
    End, Header, Polled, release,
    state::{Finished, Rest, Start},
    waker,
};
use crate::{
    base::{
        canary::{Canary, broken},
        error::Refused,
        unwind::{self, Payload},
    },
    engine::Level,
    pool::{
        Inner,
        context::WorkerContext,
        job::Job,
        residents::{Ending, Eviction, Link},
        task,
    },
    threads::timer::Timer,
};
use std::{
    cell::Cell,
    ptr::{self, NonNull},
    task::Context,
};

/// How many futures a worker polls in a row as they come, the newest first, before the oldest task that it has queued
/// gets its turn: tokio's number for the slot that serves the same purpose.
const IN_A_ROW: u32 = 3;

thread_local! {
    /// Futures in a row.
    static ROW: Cell<u32> = const { Cell::new(0) };

    /// In a pool with workers that are kept for futures: the one that is polled here, as long as it has not woken itself.
    static POLLED: Cell<*const Header> = const { Cell::new(ptr::null()) };
}

/// Somebody has woken a future that was woken already, or is being polled.
#[inline]
pub(super) fn note_own_wake(cell: NonNull<Header>) {
    // One whose time has come is woken here in passing, and not by itself.
    if ptr::eq(POLLED.get(), cell.as_ptr()) && !Timer::is_in_passing() {
        POLLED.set(ptr::null());
    }
}

/// A future that is scheduled, and nobody else's: the one job that there is for it.
#[must_use = "a future without a job is never polled"]
pub(in crate::future) struct Ticket {
    pub(super) cell: NonNull<Header>,
}

impl Ticket {
    #[inline]
    fn into_job(self) -> Job {
        // SAFETY: `run` takes over the future, which is scheduled; a future that is not done keeps its cell. Whoever made
        // the cell sees to it that any worker may run it.
        unsafe { Job::new(self.cell.as_ptr().cast_const(), run) }
    }

    /// Queues it where it was spawned: on a worker.
    #[inline]
    pub(in crate::future) fn queue_on(self, context: &WorkerContext<'_, '_>) {
        match context.pool().dedicated() {
            None if context.is_serving() => context.push_at(Level::High, self.into_job()),
            None => context.push(self.into_job()),
            Some(dedicated) => context.push_for_kept(dedicated, self.into_job()),
        }
    }

    /// Queues it from outside. If the pool takes nothing any more it is ended.
    pub(in crate::future) fn queue_outside(self, pool: &Inner) {
        let core = pool.core();
        match pool.dedicated() {
            None => self.inject(pool, |job| core.inject_future(job)),
            Some(_) => self.inject_woken(pool),
        }
    }

    /// Queues a future that was woken from outside, or is for dedicated workers.
    fn inject_woken(self, pool: &Inner) {
        self.inject(pool, |job| pool.core().inject_at(Level::High, job));
    }

    fn inject(self, pool: &Inner, inject: impl FnOnce(Job) -> Result<(), Refused<Job>>) {
        if let Err(refused) = inject(self.into_job()) {
            let (job, share) = (refused.into_inner(), pool.share());
            let end = move || {
                // SAFETY: it is the job that was made above, and has come back.
                unsafe { refuse(cell_of(job.into_data()), &share) };
            };
            // What it drops is anybody's, and not for the middle of a task.
            if !Timer::is_in_passing() {
                end();
            } else if let Err(end) = Timer::global().soon(end) {
                end();
            }
        } else if let Some(dedicated) = pool.dedicated() {
            dedicated.ring();
        }
    }
}

fn cell_of(data: *const ()) -> NonNull<Header> {
    NonNull::new(data.cast_mut().cast()).expect("cells are not at zero")
}

/// The pool takes nothing any more: the future ends here.
///
/// # Safety
/// The caller has its job.
#[cold]
unsafe fn refuse(cell: NonNull<Header>, pool: &Inner) {
    // SAFETY: a future that is not done keeps its cell.
    let state = unsafe { &(*cell.as_ptr()).state };
    state.close();
    let _drop = state.start();
    // SAFETY: it is started.
    unsafe { end(cell, pool) };
}

/// Queues a future that has been woken.
///
/// # Safety
/// A wake, or an abort, has given it to the caller.
pub(super) unsafe fn schedule(cell: NonNull<Header>) {
    // SAFETY: a future that is not done keeps its cell.
    let header = unsafe { cell.as_ref() };
    // SAFETY: it is ours, and was idle, so it is linked.
    let home = header.home.with(|home| unsafe { *home });
    // SAFETY: as above; and it stays linked as long as it is ours.
    let shard = unsafe { &*home };
    // SAFETY: as above.
    let pool = unsafe { shard.pool() };
    let ticket = Ticket { cell };
    WorkerContext::with(|context| match context {
        Some(context) if ptr::eq(context.pool(), pool) => {
            if let Some(dedicated) = context.pool().dedicated() {
                // They are free for it.
                context.push_for_kept(dedicated, ticket.into_job());
            } else if context.wakes_events() {
                context.push_woken(ticket.into_job());
            } else if context.is_serving() {
                // In the middle of a task that goes on after this poll.
                context.push_at(Level::High, ticket.into_job());
            } else if context.is_in_poll() {
                // It is next on this worker.
                context.push_next(ticket.into_job());
            } else if !context.is_crowded() {
                // Somebody else comes for it.
                context.push(ticket.into_job());
            } else {
                // Who knows how long this task is.
                context.push_at(Level::High, ticket.into_job());
            }
        }
        _ => {
            // A share of the pool: when the future is queued it may end, and its shard let go of the pool.
            // SAFETY: the shard keeps the pool as long as the future is linked.
            let pool = unsafe { &*pool }.share();
            ticket.inject_woken(&pool);
        }
    });
}

/// What a job of a future does.
///
/// # Safety
/// `data` is a cell whose future is scheduled, and the caller has its job.
unsafe fn run(data: *const (), context: &WorkerContext<'_, '_>) {
    let cell = cell_of(data);
    let pool = context.pool();
    // SAFETY: a future that is not done keeps its cell; and ours it is until it rests.
    let header = unsafe { &*cell.as_ptr() };
    if pool.residents().is_closed() {
        header.state.close();
    }
    if header.state.start() == Start::Drop {
        // SAFETY: it is started.
        return unsafe { end(cell, pool) };
    }
    context.fetch_soon();
    let before = pool.dedicated().map(|_| POLLED.replace(cell.as_ptr()));
    let polled = {
        // It may run in the middle of a task, and is no part of it.
        let _aside = task::enter_poll(data);
        // SAFETY: it is not done before this frame says so.
        let waker = unsafe { waker::borrow(cell) };
        // SAFETY: it is started.
        context.in_poll(|| unsafe { (header.actions.poll)(cell, &mut Context::from_waker(&waker)) })
    };
    let by_itself = before.is_some_and(|before| POLLED.replace(before).is_null());
    if !context.is_taking_older_first() {
        let row = ROW.get() + 1;
        ROW.set(if row < IN_A_ROW { row } else { 0 });
        if row >= IN_A_ROW {
            context.take_oldest_next();
        }
    }
    match polled {
        // SAFETY: it is started, and was polled.
        Polled::Pending => unsafe { pause(cell, context, by_itself) },
        Polled::Done(outcome, payload) => {
            // SAFETY: it is started, and gone.
            unsafe { finish(cell, pool, outcome, payload) };
        }
    }
}

/// A future is pending. In a pool with workers that are kept for futures: whether it has woken itself.
///
/// # Safety
/// The caller has started it.
#[inline]
unsafe fn pause(cell: NonNull<Header>, context: &WorkerContext<'_, '_>, by_itself: bool) {
    let pool = context.pool();
    // SAFETY: as in `run`.
    let header = unsafe { &*cell.as_ptr() };
    // SAFETY: whoever has started it has the field.
    let home = header.home.with(|home| unsafe { *home });
    if home.is_null() {
        Timer::global().trust(&waker::WAKER);
        let shard = pool.residents().shard(context.worker());
        // SAFETY: the cell stays until the future is done, and it is unlinked before that. Any thread may claim it.
        if !unsafe { shard.link(cell.cast(), &EVICTION, || pool.share()) } {
            // SAFETY: the caller's duty.
            return unsafe { end(cell, pool) };
        }
        // SAFETY: as above.
        header.home.with_mut(|home| unsafe { *home = shard });
    }
    match header.state.rest() {
        Rest::Idle => {}
        Rest::Again => again(Ticket { cell }, context, by_itself),
        Rest::Drop => {
            let _drop = header.state.start();
            // SAFETY: it is started.
            unsafe { end(cell, pool) };
        }
    }
}

/// Queues a future that was woken while it was polled: as it has woken itself, most likely, behind all that are ready.
#[inline]
fn again(ticket: Ticket, context: &WorkerContext<'_, '_>, by_itself: bool) {
    match context.pool().dedicated() {
        None if context.is_serving() => context.push_last(ticket.into_job()),
        None => context.push_behind(ticket.into_job()),
        Some(dedicated) if !by_itself => context.push_for_kept(dedicated, ticket.into_job()),
        // A worker that is kept for futures has none but the urgent ones, and takes the next of them after this, unless it is
        // in the middle of another; a guest has none that stay. If another worker takes this one, it will be behind all of
        // that worker.
        Some(dedicated)
            if (context.is_dedicated() || context.is_guest()) && !context.has_isolated_waits() =>
        {
            context.push_for_kept(dedicated, ticket.into_job());
        }
        Some(_) => context.push_behind(ticket.into_job()),
    }
}

/// Drops a future that must end.
///
/// # Safety
/// The caller has started it.
#[cold]
unsafe fn end(cell: NonNull<Header>, pool: &Inner) {
    let _ending = Ending::new();
    // SAFETY: as in `run`.
    let actions = unsafe { (*cell.as_ptr()).actions };
    // SAFETY: the caller has started it.
    let payload = unsafe { (actions.drop_future)(cell) };
    // SAFETY: it is gone.
    unsafe { finish(cell, pool, End::Cancelled, payload) };
}

/// Takes a future that is gone out of its list, hands its outcome over, and tells the pool of panics that nobody
/// waits for: `payload`, and the one in the outcome.
///
/// # Safety
/// The caller has started it, and the outcome is in its place.
#[inline]
unsafe fn finish(cell: NonNull<Header>, pool: &Inner, end: End, payload: Option<Payload>) {
    // SAFETY: as in `run`.
    let home = unsafe { &(*cell.as_ptr()).home };
    // SAFETY: as in `pause`.
    let home = home.with(|home| unsafe { *home });
    // SAFETY: it is null, or the shard it is linked in, and `pool` keeps that.
    if let Some(shard) = unsafe { home.as_ref() } {
        // SAFETY: it is linked there.
        unsafe { shard.unlink(cell.cast()) };
    }
    // SAFETY: it is not linked any more.
    unsafe { hand_over(cell, |payload| pool.panicked(payload), end, payload) };
}

/// Hands over the outcome of a future that is gone, and `tell`s of panics that nobody waits for.
///
/// # Safety
/// As [`finish`]; and it is not linked.
#[inline]
pub(super) unsafe fn hand_over(
    cell: NonNull<Header>,
    tell: impl Fn(Payload),
    end: End,
    payload: Option<Payload>,
) {
    if let Some(payload) = payload {
        tell(payload);
    }
    // SAFETY: the reference of the future itself keeps the memory; only the word is borrowed, since with
    // `Finished::Handed` somebody else may free the cell at once.
    let state = unsafe { &(*cell.as_ptr()).state };
    match state.finish(end) {
        Finished::Handed => {}
        Finished::Wake => {
            // SAFETY: the cell is there until the reference is given up.
            let header = unsafe { cell.as_ref() };
            // SAFETY: the waker is ours now, as the field says.
            let waker = header.waker.with_mut(|waker| unsafe { (*waker).take() });
            if let Some(waker) = waker
                && !broken(Canary::FutureTell)
                && let Err(payload) = unwind::contain(|| waker.wake())
            {
                unwind::discard(payload);
            }
            // SAFETY: the reference is ours to give up.
            unsafe { release(cell) };
        }
        Finished::Orphaned => {
            // SAFETY: as above.
            let actions = unsafe { cell.as_ref() }.actions;
            // SAFETY: the outcome is ours.
            if let Some(payload) = unsafe { (actions.drop_outcome)(cell, end) } {
                tell(payload);
            }
            // SAFETY: as above.
            unsafe { release(cell) };
        }
    }
}

/// How a pool that ends drops the futures that wait.
static EVICTION: Eviction = Eviction {
    claim: evict,
    end: end_evicted,
};

/// # Safety
/// As the field of `Eviction` says.
unsafe fn evict(link: NonNull<Link>) -> bool {
    // SAFETY: only cells are linked, at whose beginning the link is; they are there as long as they are linked.
    let state = unsafe { &(*link.cast::<Header>().as_ptr()).state };
    state.evict()
}

/// # Safety
/// As the field of `Eviction` says.
unsafe fn end_evicted(link: NonNull<Link>) {
    let cell = link.cast::<Header>();
    // SAFETY: it is ours.
    let header = unsafe { &*cell.as_ptr() };
    // SAFETY: as above; it was linked.
    let home = header.home.with(|home| unsafe { *home });
    // SAFETY: who evicts has the pool.
    let shard = unsafe { &*home };
    // SAFETY: who evicts has the pool, so it is there.
    let pool = unsafe { shard.pool() };
    // SAFETY: as above.
    let pool = unsafe { &*pool };
    let _ending = Ending::new();
    // SAFETY: `evict` has started it.
    let payload = unsafe { (header.actions.drop_future)(cell) };
    // SAFETY: it is gone, and not linked.
    unsafe {
        hand_over(
            cell,
            |payload| pool.panicked(payload),
            End::Cancelled,
            payload,
        );
    };
}
