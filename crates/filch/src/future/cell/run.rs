//! The life of a future as a job: it is queued, polled, and ended.
#![expect(unsafe_code, reason = "turns cells into jobs and back")]

use super::{FutureHeader, FutureRef, Resident};
use crate::{
    base::{error::Refused, unwind::Payload},
    engine::{Placement, Priority},
    pool::{
        Inner,
        context::WorkerContext,
        current_task,
        job::Job,
        residents::{EndingGuard, Eviction, ResidentLink},
    },
    task::{
        AfterPoll, Cause, Polled, Schedule, StartAction, TaskStatus, borrow_waker, waker_functions,
    },
    threads::timer::Timer,
};
use std::{
    cell::Cell,
    mem,
    ptr::{self, NonNull},
    task::{Context, RawWakerVTable},
};

/// The status of a future that is dropped before it is ready.
const CANCELLED: TaskStatus = TaskStatus::Cancelled(Cause::Requested);

/// How many futures that are pending again a worker polls in a row before it takes the oldest task
/// that it has queued. 3 is tokio's number for its LIFO slot, which serves the same purpose.
const MAX_PENDING_IN_A_ROW: u32 = 3;

/// As [`MAX_PENDING_IN_A_ROW`], but for all polls. A worker takes its newest future first, which is
/// depth first: futures that spawn others and await them are done before the next ones begin, so
/// few are alive at a time, and those are in the caches. Futures that wake each other would keep
/// the older tasks waiting, but they are pending again and again. A first or last poll is
/// different: each is that of another future, and a recursion ends. So they count little, and a
/// recursion of up to half as many futures as this number, each of which is polled twice, is not
/// interrupted. (If polls are long, the time decides: `threads/maintenance.rs`.)
const MAX_POLLS_IN_A_ROW: u32 = 1200;

thread_local! {
    /// In a pool with dedicated workers, and at a checkpoint: the future that is polled on this
    /// thread, as long as it has not woken itself; null otherwise.
    static POLLED: Cell<*const FutureHeader> = const { Cell::new(ptr::null()) };
}

/// A future that is scheduled, and owned by the holder of this value, which must queue its only
/// job.
#[must_use = "a future without a job is never polled"]
pub(in crate::future) struct ScheduledFuture {
    pub(super) cell: NonNull<FutureHeader>,
}

impl ScheduledFuture {
    #[inline]
    fn into_job(self) -> Job {
        // SAFETY: `run` takes over the future, which is scheduled; a future that is not done keeps
        // its cell. The caller of `make` guarantees that any worker may run it.
        unsafe { Job::new(self.cell.as_ptr().cast_const(), run) }
    }

    /// Queues it on the worker that has spawned it.
    #[inline]
    pub(in crate::future) fn queue_on(self, context: &WorkerContext<'_, '_>, level: Priority) {
        match context.pool().dedicated() {
            None if level != Priority::Normal => {
                context.push(self.into_job(), Placement::Lane(level));
            }
            None if context.is_serving() => {
                context.push(self.into_job(), Placement::Lane(Priority::High));
            }
            None => context.push(self.into_job(), Placement::Local),
            Some(dedicated) => context.push_for_dedicated(dedicated, self.into_job()),
        }
    }

    /// Queues it from a thread that is not a worker of the pool. If the pool is closed, the future
    /// is ended.
    pub(in crate::future) fn queue_outside(self, pool: &Inner, level: Priority) {
        match pool.dedicated() {
            None if level != Priority::Normal => self.inject_woken(pool, level),
            None => self.inject(pool, |job| pool.enqueue(job, Placement::FutureInjector)),
            Some(_) => self.inject_woken(pool, level),
        }
    }

    /// Queues a future that was woken from outside, has a level, or is for dedicated workers.
    fn inject_woken(self, pool: &Inner, level: Priority) {
        let lane = match level {
            Priority::Normal => Priority::High,
            _ if pool.dedicated().is_some() => Priority::High,
            level => level,
        };
        self.inject(pool, |job| pool.enqueue(job, Placement::Lane(lane)));
    }

    fn inject(self, pool: &Inner, inject: impl FnOnce(Job) -> Result<(), Refused<Job>>) {
        if let Err(refused) = inject(self.into_job()) {
            let (job, share) = (refused.into_inner(), pool.share());
            let end = move || {
                // SAFETY: it is the job that was made above and was refused, so this thread owns
                // it.
                unsafe { end_refused(cell_of(job.into_data()), &share) };
            };
            // This drops the user's future, which must not happen in the middle of an unrelated
            // task.
            if !Timer::is_waking_due() {
                end();
            } else if let Err(end) = Timer::global().call_soon(end) {
                end();
            }
        } else if let Some(dedicated) = pool.dedicated() {
            dedicated.notify();
        }
    }
}

fn cell_of(data: *const ()) -> NonNull<FutureHeader> {
    NonNull::new(data.cast_mut().cast()).expect("cells are not at zero")
}

/// Ends a future whose job the pool has refused.
///
/// # Safety
/// The caller owns its job.
#[cold]
unsafe fn end_refused(cell: NonNull<FutureHeader>, pool: &Inner) {
    // SAFETY: a future that is not done keeps its cell.
    let state = unsafe { &(*cell.as_ptr()).state };
    state.close();
    let _drop = state.start();
    // SAFETY: `start` has just made this thread the one that started it.
    unsafe { end(cell, pool) };
}

/// The functions of the wakers.
static WAKER: RawWakerVTable = waker_functions::<Resident>();

impl Schedule for Resident {
    const WAKER: &'static RawWakerVTable = &WAKER;

    unsafe fn schedule(cell: NonNull<FutureHeader>) {
        // SAFETY: a future that is not done keeps its cell.
        let header = unsafe { cell.as_ref() };
        // SAFETY: this thread owns the future, which was idle, so the field is set.
        let shard = header.kind.shard.with(|shard| unsafe { *shard });
        // SAFETY: the future is linked in that shard, and stays so as long as this thread owns it.
        let shard = unsafe { &*shard };
        // SAFETY: the shard keeps its pool as long as a future is linked in it.
        let pool = unsafe { shard.pool() };
        let scheduled = ScheduledFuture { cell };
        let level = header.state.load().level();
        WorkerContext::with(|context| match context {
            Some(context) if ptr::eq(context.pool(), pool) => {
                if let Some(dedicated) = context.pool().dedicated() {
                    // Dedicated workers are free to poll it.
                    context.push_for_dedicated(dedicated, scheduled.into_job());
                } else if level != Priority::Normal {
                    context.push(scheduled.into_job(), Placement::Lane(level));
                } else if context.is_waking_events() {
                    context.push(scheduled.into_job(), Placement::LocalUnnotified);
                } else if context.is_serving() {
                    // This poll is nested in a task that continues after it.
                    context.push(scheduled.into_job(), Placement::Lane(Priority::High));
                } else if context.is_in_poll() {
                    // This worker runs it next.
                    context.push(scheduled.into_job(), Placement::Next);
                } else if context.has_sleepers() {
                    // A sleeping worker is woken for it.
                    context.push(scheduled.into_job(), Placement::Local);
                } else {
                    // No worker sleeps, and this task may be long.
                    context.push(scheduled.into_job(), Placement::Lane(Priority::High));
                }
            }
            _ => {
                // A strong reference to the pool: once the future is queued it may end, and its
                // shard may release the pool.
                // SAFETY: the shard keeps the pool as long as the future is linked.
                let pool = unsafe { &*pool }.share();
                scheduled.inject_woken(&pool, level);
            }
        });
    }

    /// Records that the future has woken itself, if it has.
    #[inline]
    fn on_redundant_wake(cell: NonNull<FutureHeader>) {
        // A timer that fires at a checkpoint within the poll runs on this thread too, but is not
        // the future itself.
        if ptr::eq(POLLED.get(), cell.as_ptr()) && !Timer::is_waking_due() {
            POLLED.set(ptr::null());
        }
    }
}

/// Runs the job of a future: polls it, or ends it.
///
/// # Safety
/// `data` is a cell whose future is scheduled, and the caller owns its job.
unsafe fn run(data: *const (), context: &WorkerContext<'_, '_>) {
    let cell = cell_of(data);
    let pool = context.pool();
    // SAFETY: a future that is not done keeps its cell, and this thread owns it until its poll
    // ends.
    let header = unsafe { &*cell.as_ptr() };
    if pool.residents().is_closed() {
        header.state.close();
    }
    if header.state.start() == StartAction::Drop {
        // SAFETY: `start` has just made this thread the one that started it.
        return unsafe { end(cell, pool) };
    }
    context.prefetch_upcoming();
    let before =
        (pool.dedicated().is_some() || context.is_serving()).then(|| POLLED.replace(cell.as_ptr()));
    let polled = {
        // The poll may be nested in a task, and is not part of it.
        let _aside = current_task::enter_poll(data);
        // SAFETY: the future is not done before this function finishes it.
        let waker = unsafe { borrow_waker(cell) };
        // SAFETY: this thread has started the future, and it is in the cell.
        context.in_poll(|| unsafe { (header.vtable.run)(cell, &mut Context::from_waker(&waker)) })
    };
    let woke_itself = before.is_some_and(|before| POLLED.replace(before).is_null());
    // SAFETY: the field belongs to the thread that has started the future, which is this one.
    let is_first = header.kind.shard.with(|shard| unsafe { *shard }).is_null();
    context.count_towards_oldest(
        match polled {
            Polled::Pending if !is_first => MAX_POLLS_IN_A_ROW / MAX_PENDING_IN_A_ROW,
            _ => 1,
        },
        MAX_POLLS_IN_A_ROW,
    );
    match polled {
        // SAFETY: this thread has started the future, and has polled it.
        Polled::Pending => unsafe { handle_pending(cell, context, woke_itself) },
        // This job ends now, so the future that awaits this one is the next of this worker.
        Polled::Done(status, payload) => context.in_poll(|| {
            // SAFETY: this thread has started the future, which has been dropped.
            unsafe { finish(cell, pool, status, payload) };
        }),
    }
}

/// Ends a poll that has returned `Pending`. `woke_itself`: whether it has woken itself; used only
/// at a checkpoint and in a pool with dedicated workers.
///
/// # Safety
/// The caller has started it.
#[inline]
unsafe fn handle_pending(
    cell: NonNull<FutureHeader>,
    context: &WorkerContext<'_, '_>,
    woke_itself: bool,
) {
    let pool = context.pool();
    // SAFETY: the caller has started the future, and one that is not done keeps its cell.
    let header = unsafe { &*cell.as_ptr() };
    // SAFETY: the field belongs to the thread that has started the future, which is the caller.
    let shard = header.kind.shard.with(|shard| unsafe { *shard });
    if shard.is_null() {
        Timer::global().allow_inline_wakes(&WAKER);
        let shard = pool.residents().shard(context.worker());
        // SAFETY: the cell stays until the future is done, and it is unlinked before that. Any
        // thread may claim it.
        if !unsafe { shard.link(link_of(cell), &EVICTION, || pool.share()) } {
            // SAFETY: the caller has started the future, and it is in the cell.
            return unsafe { end(cell, pool) };
        }
        // SAFETY: the caller has started the future, so the field belongs to it.
        header
            .kind
            .shard
            .with_mut(|field| unsafe { *field = shard });
    }
    match header.state.end_poll() {
        AfterPoll::Idle => {}
        AfterPoll::Requeue => {
            let level = header.state.load().level();
            requeue(ScheduledFuture { cell }, context, level, woke_itself);
        }
        AfterPoll::Drop => {
            let _drop = header.state.start();
            // SAFETY: `end_poll` has left the future to this thread, which has started it again.
            unsafe { end(cell, pool) };
        }
    }
}

/// Queues a future that was woken while it was polled. Most likely it has woken itself, so it is
/// queued behind all ready tasks of its level. At a checkpoint it must not wait for the end of the
/// task if something else has woken it.
#[inline]
fn requeue(
    scheduled: ScheduledFuture,
    context: &WorkerContext<'_, '_>,
    level: Priority,
    woke_itself: bool,
) {
    let again = match context.is_serving() {
        true if woke_itself => context.end_serving(),
        true => Placement::Lane(Priority::High),
        false => Placement::LocalLast,
    };
    match context.pool().dedicated() {
        None if level != Priority::Normal => {
            context.push(scheduled.into_job(), Placement::Lane(level));
        }
        None => context.push(scheduled.into_job(), again),
        // A dedicated worker polls it, also if this is an ordinary worker: the tasks that it takes
        // next may be long.
        Some(dedicated) if !woke_itself || !context.has_restricted_waits() => {
            context.push_for_dedicated(dedicated, scheduled.into_job());
        }
        Some(_) => context.push(scheduled.into_job(), Placement::LocalLast),
    }
}

/// Drops a future that must end.
///
/// # Safety
/// The caller has started it.
#[cold]
unsafe fn end(cell: NonNull<FutureHeader>, pool: &Inner) {
    let _ending = EndingGuard::new();
    // SAFETY: the caller has started the future, and it is in the cell.
    let status = unsafe { drop_future(cell) };
    // SAFETY: the caller has started the future, which has been dropped.
    unsafe { finish(cell, pool, status, None) };
}

/// Drops a future that is not ready, and returns its status: a panic of its destructor is its
/// outcome.
///
/// # Safety
/// The caller has started it, and it is in the cell.
unsafe fn drop_future(cell: NonNull<FutureHeader>) -> TaskStatus {
    // SAFETY: the caller has started the future, and one that is not done keeps its cell.
    let actions = unsafe { (*cell.as_ptr()).vtable };
    // SAFETY: the caller has started the future, and it is in the cell.
    match unsafe { (actions.drop_body)(cell) } {
        None => CANCELLED,
        // SAFETY: the caller has started the future, which has just been dropped.
        Some(payload) => unsafe { (actions.put_panic)(cell, payload) },
    }
}

/// Unlinks a future that has been dropped, and hands its outcome over.
///
/// # Safety
/// The caller has started it, and the outcome is in the slot.
#[inline]
unsafe fn finish(
    cell: NonNull<FutureHeader>,
    pool: &Inner,
    status: TaskStatus,
    payload: Option<Payload>,
) {
    // SAFETY: the caller has started the future, and one that is not done keeps its cell.
    let shard = unsafe { &(*cell.as_ptr()).kind.shard };
    // SAFETY: the field belongs to the thread that has started the future, which is the caller.
    let shard = shard.with(|shard| unsafe { *shard });
    // SAFETY: it is null, or the shard that the future is linked in, which `pool` keeps.
    if let Some(shard) = unsafe { shard.as_ref() } {
        // SAFETY: the future is linked in this shard.
        unsafe { shard.unlink(link_of(cell)) };
    }
    // SAFETY: the caller has started the future, and it is not linked any more.
    unsafe { hand_over(cell, pool, status, payload) };
}

/// Hands over the outcome of a future that has been dropped, and reports the panics that reach no
/// waiter to the pool.
///
/// # Safety
/// As for [`finish`]; and the future is not linked.
#[inline(always)]
unsafe fn hand_over(
    cell: NonNull<FutureHeader>,
    pool: &Inner,
    status: TaskStatus,
    payload: Option<Payload>,
) {
    if let Some(payload) = payload {
        pool.panicked(payload);
    }
    // SAFETY: the reference of the future itself, which is released here, once.
    let task = unsafe { FutureRef::from_counted(cell) };
    // SAFETY: the caller has started the future, and its outcome is in the slot. It has no
    // followers: only submitted tasks have.
    if let Some(payload) = unsafe { task.finish(status, |_| ()) } {
        pool.panicked(payload);
    }
}

/// How a pool that ends drops its idle futures.
static EVICTION: Eviction = Eviction {
    claim: evict,
    end: end_evicted,
};

/// The offset of the link of a future in its header.
const LINK: usize = mem::offset_of!(FutureHeader, kind) + mem::offset_of!(Resident, link);

/// Returns the link of a future. The pointer is to all of the cell, as `cell` is.
#[inline]
fn link_of(cell: NonNull<FutureHeader>) -> NonNull<ResidentLink> {
    // SAFETY: the link is in the header, so the address is inside the cell.
    unsafe { cell.byte_add(LINK).cast() }
}

/// Returns the future of a link.
///
/// # Safety
/// `link` is a result of [`link_of`].
unsafe fn cell_of_link(link: NonNull<ResidentLink>) -> NonNull<FutureHeader> {
    // SAFETY: the caller guarantees that the link is in a header, at this distance from its start.
    unsafe { link.byte_sub(LINK).cast() }
}

/// # Safety
/// As for the field of `Eviction`.
unsafe fn evict(link: NonNull<ResidentLink>) -> bool {
    // SAFETY: the caller passes a link of the list, and only results of `link_of` are in it.
    let cell = unsafe { cell_of_link(link) };
    // SAFETY: a cell is valid as long as it is linked.
    let state = unsafe { &(*cell.as_ptr()).state };
    state.evict()
}

/// # Safety
/// As for the field of `Eviction`.
unsafe fn end_evicted(link: NonNull<ResidentLink>) {
    // SAFETY: the caller passes a link of the list, and only results of `link_of` are in it.
    let cell = unsafe { cell_of_link(link) };
    // SAFETY: `evict` has claimed the future, and a future that is not done keeps its cell.
    let header = unsafe { &*cell.as_ptr() };
    // SAFETY: this thread owns the future, and it was linked, so the field is set.
    let shard = header.kind.shard.with(|shard| unsafe { *shard });
    // SAFETY: the evicting thread keeps the pool, and the pool its shards.
    let shard = unsafe { &*shard };
    // SAFETY: the evicting thread keeps the pool that the shard names.
    let pool = unsafe { shard.pool() };
    // SAFETY: the evicting thread keeps the pool, so the pointer is valid.
    let pool = unsafe { &*pool };
    let _ending = EndingGuard::new();
    // SAFETY: `evict` has started the future, and it is in the cell.
    let status = unsafe { drop_future(cell) };
    // SAFETY: `evict` has started the future, which has been dropped and is not linked any more.
    unsafe { hand_over(cell, pool, status, None) };
}
