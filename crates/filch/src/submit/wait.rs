//! Waiting for a task.

use super::{
    after,
    cell::{self, Cause, Claim, Hold, Inbox, Ref},
    run, subject,
};
use crate::{
    base::{
        sync::hint,
        sys::stack,
        thread::{self, Parker},
    },
    pool::{
        Inner,
        context::WorkerContext,
        latch::Awaited,
        task,
        waits::{Cycle, Party, Subject, WaitList, Waiting},
    },
    threads::timer::Timer,
};
use std::{
    cell::RefCell,
    sync::Arc,
    task::{Wake, Waker},
    time::{Duration, Instant},
};

/// How often a thread from outside checks its source, with eight spin-loop hints in between, before
/// it parks: some 10 µs, about the cost of parking and being woken.
const SPINS_BEFORE_PARK: u32 = 64;

/// How many spin-loop hints a thread from outside gives the workers to start the task that it
/// joins: about a microsecond, the time of entering the pool as a guest a few times.
const SPINS_FOR_WORKERS: u32 = 32;

/// How long a thread from outside whose stack is half full leaves a task to the workers.
const MAX_WAIT_FOR_WORKERS: Duration = Duration::from_millis(10);

/// Wakes a thread.
struct Unpark(Arc<Parker>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls `f` with a waker that unparks this thread. Callers conclude nothing from being unparked,
/// so a late wake is harmless.
pub(super) fn with_waker<R>(f: impl FnOnce(&Waker) -> R) -> R {
    thread_local! {
        static WAKER: Waker = this_thread();
    }
    fn this_thread() -> Waker {
        Waker::from(Arc::new(Unpark(thread::parker())))
    }
    let mut f = Some(f);
    let mut call = |waker: &Waker| f.take().map(|f| f(waker));
    let called = WAKER.try_with(&mut call).unwrap_or_else(|_| {
        // The thread is exiting, and its thread-local waker has been dropped.
        call(&this_thread())
    });
    called.expect("it is called once")
}

/// Runs the task on this thread, if it has not started and may run here; if it is held, its
/// predecessors first. Returns true when it cannot run before the caller returns, because a
/// predecessor runs in a lower frame of this stack.
pub(super) fn run_here<T>(hold: &mut Hold<T>) -> bool {
    let now = hold.task().snapshot();
    if now.is_begun() {
        return false;
    }
    if now.is_idle() && after::help(hold.task()) {
        return true;
    }
    run::with_pool(hold.task().about().pool, |pool, context| {
        let Some(pool) = pool else {
            // No pool is left to run it.
            run::cancel(hold.task(), Cause::Closed);
            return;
        };
        if hold.task().snapshot().is_queued()
            && may_run(hold.task().about().worker(), pool, context)
            && !worker_starts_it(pool, context, hold)
            && let Some(claim) = hold.task().claim()
        {
            run_claimed(claim, pool, context);
        }
    });
    false
}

/// Runs a predecessor of the joined task, if it has not started and may run here.
pub(super) fn run_other(cell: &Ref) {
    run::with_pool(cell.about().pool, |pool, context| {
        let Some(pool) = pool else {
            run::cancel(cell, Cause::Closed);
            return;
        };
        if may_run(cell.about().worker(), pool, context)
            && !worker_starts_other(pool, context, cell)
            && let Some(claim) = cell.claim()
        {
            run_claimed(claim, pool, context);
        }
    });
}

/// Runs a task that was claimed without its ticket.
#[inline]
fn run_claimed(claim: Claim, pool: &Inner, context: Option<&WorkerContext<'_, '_>>) {
    // A wait in the task does not know that it is nested in a poll, unless the poll is listed as
    // waiting for the task.
    let visible = task::polled().map(|_| Visible::new());
    if let Some(visible) = &visible {
        visible.list_end_of(claim.cell());
    }
    run::staled(pool, context.map(|context| context.worker()));
    match context {
        Some(context) => {
            run::execute(claim, pool, context, true);
            // Its ticket is stale now, as are those of the tasks that were joined in it.
            context.sweep(cell::is_stale);
        }
        None => pool.enter_worker(|context| run::execute(claim, pool, context, true)),
    }
}

/// Whether the workers of `pool` start the task, so that a thread from outside need not.
#[inline]
fn worker_starts_it<T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    hold: &mut Hold<T>,
) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        return is_started_by_worker(hold);
    }
    WorkerContext::with(|any| any.is_none()) && starts_soon(hold.task())
}

/// The same for a predecessor.
fn worker_starts_other(pool: &Inner, context: Option<&WorkerContext<'_, '_>>, cell: &Ref) -> bool {
    if !is_outside(pool, context) {
        return false;
    }
    if !stack::is_ample() && !pool.core().is_stopped() {
        let start = Instant::now();
        while !cell.snapshot().is_begun() && start.elapsed() < MAX_WAIT_FOR_WORKERS {
            thread::sleep(MAX_WAIT_FOR_WORKERS / 10);
        }
        return cell.snapshot().is_begun();
    }
    WorkerContext::with(|any| any.is_none()) && starts_soon(cell)
}

/// Whether this thread is not one of the workers of `pool`.
fn is_outside(pool: &Inner, context: Option<&WorkerContext<'_, '_>>) -> bool {
    pool.threads() > 0 && context.is_none_or(|context| context.is_guest())
}

/// Whether a worker starts the task within a limited time, on a stack that is half full. A chain of
/// tasks that join each other would overflow any stack; the workers, which take the oldest task
/// first, need no deep stack for it. But they may be waiting for this thread, so it must not wait
/// for them for ever.
#[cold]
fn is_started_by_worker<T>(hold: &mut Hold<T>) -> bool {
    until_done(hold, Instant::now().checked_add(MAX_WAIT_FOR_WORKERS));
    hold.task().snapshot().is_begun()
}

/// Whether a worker starts the task within about a microsecond. A thread from outside that joins
/// many tasks in order soon catches up with the workers. To run the tasks itself it would have to
/// enter the pool as a guest for each of them, which takes several times as long (`filch-bench
/// submit`, case `results_1`).
fn starts_soon(cell: &Ref) -> bool {
    for _ in 0..SPINS_FOR_WORKERS {
        hint::spin_loop();
        if cell.snapshot().is_begun() {
            return true;
        }
    }
    false
}

/// Whether a task for `worker` may run at `context`, or outside. With isolated waits a task is
/// queued on the submitting worker and is for no other one (`WorkerContext::push`).
fn may_run(worker: Option<usize>, pool: &Inner, context: Option<&WorkerContext<'_, '_>>) -> bool {
    let here = |context: &WorkerContext<'_, '_>, worker| {
        context.worker() == worker || context.has_isolated_waits()
    };
    worker.is_none_or(|worker| context.is_some_and(|context| here(context, worker)))
        || pool.threads() == 0
}

/// Whether a wait on this thread would not run the task, although it may be queued on this worker
/// and only there: see [`WorkerContext::has_isolated_waits`].
pub(super) fn has_isolated_waits<T>(hold: &Hold<T>) -> bool {
    let number = hold.task().about().pool;
    run::with_pool(number, |_, context| {
        context.is_some_and(|context| context.has_isolated_waits())
    })
}

/// Waits until the task is done, or the deadline has passed: a worker runs other tasks meanwhile.
/// Returns whether the task is done.
pub(super) fn until_done<T>(hold: &mut Hold<T>, deadline: Option<Instant>) -> bool {
    if !hold.task().snapshot().is_done() {
        until(&mut *hold, deadline);
    }
    hold.task().snapshot().is_done()
}

/// Waits until the task is done, `or` is ready, or the deadline has passed. If the task is held, it
/// and its predecessors are run here when they become ready and no other thread has started them.
/// Returns the cycle of a wait that can never end.
pub(super) fn drive_until_done<T>(
    hold: &mut Hold<T>,
    mut or: impl Source + Copy,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    thread::point();
    while let Some(inbox) = inbox_of(hold) {
        let hold = &mut *hold;
        let inbox = &*inbox;
        let cycle = until(Either(Turn { hold, inbox }, or), deadline);
        if cycle.is_some() || or.ready() || is_late(deadline) {
            return cycle;
        }
        after::run_ready(inbox, hold.task());
    }
    thread::point();
    // It is not held any more, and there may be no other thread to run it.
    run_if_ready(hold);
    if hold.task().snapshot().is_done() {
        return None;
    }
    until(Either(hold, or), deadline)
}

/// Returns the inbox in which a joiner of the task is notified of ready predecessors, as long as it
/// is held.
fn inbox_of<T>(hold: &Hold<T>) -> Option<Arc<Inbox>> {
    let after = hold.task().about().after()?;
    after.inbox().filter(|_| hold.task().snapshot().is_idle())
}

/// Runs the task here, if it is queued.
fn run_if_ready<T>(hold: &mut Hold<T>) {
    if hold.task().snapshot().is_queued() {
        run_here(hold);
    }
}

fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// Ready when a held task is not held any more, or when one of its predecessors can be run.
struct Turn<'a, T> {
    hold: &'a mut Hold<T>,
    inbox: &'a Inbox,
}

impl<T> Source for Turn<'_, T> {
    fn ready(&mut self) -> bool {
        !self.hold.task().snapshot().is_idle() || !self.inbox.is_empty()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.hold.watch(waker) && self.inbox.arm(waker)
    }

    // The join continues after the tasks in the inbox have run, so only the end of the task counts.
    fn subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        list.push(subject::end_of(self.hold.task()));
        true
    }
}

/// In a pool without threads: the polling thread runs the task and its predecessors.
pub(super) fn poll_without_threads<T>(hold: &mut Hold<T>, waker: &Waker) {
    if inbox_of(hold).is_none() {
        run_here(hold);
    }
    while let Some(inbox) = inbox_of(hold) {
        after::run_ready(&inbox, hold.task());
        if inbox.arm(waker) {
            break;
        }
    }
    run_if_ready(hold);
}

/// Waits until `source` is ready, or the deadline has passed. Returns the cycle of a wait that can
/// never end.
pub(super) fn until(source: impl Source, deadline: Option<Instant>) -> Option<Cycle> {
    WorkerContext::with(|context| match context {
        Some(context) => help_until(context, source, deadline),
        None => sleep_until(source, deadline),
    })
}

/// Something to wait for.
pub(super) trait Source {
    /// Whether it is ready.
    fn ready(&mut self) -> bool;

    /// Registers `waker`, which is called when it becomes ready. Returns false when it is ready
    /// already.
    fn arm(&mut self, waker: &Waker) -> bool;

    /// Adds the subjects each of which would make it ready. Returns false when something else would
    /// too.
    fn subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool;
}

impl<T> Source for &mut Hold<T> {
    fn ready(&mut self) -> bool {
        self.task().snapshot().is_done()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.watch(waker)
    }

    fn subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        list.push(subject::end_of(self.task()));
        true
    }
}

/// Ready when one of the two is.
pub(super) struct Either<A, B>(pub(super) A, pub(super) B);

impl<A: Source, B: Source> Source for Either<A, B> {
    fn ready(&mut self) -> bool {
        self.0.ready() || self.1.ready()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.0.arm(waker) && self.1.arm(waker)
    }

    fn subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        self.0.subjects(list) & self.1.subjects(list)
    }
}

/// Never ready.
#[derive(Clone, Copy)]
pub(super) struct Never;

impl Source for Never {
    fn ready(&mut self) -> bool {
        false
    }

    fn arm(&mut self, _waker: &Waker) -> bool {
        true
    }

    fn subjects(&self, _list: &mut Vec<Box<dyn Subject>>) -> bool {
        true
    }
}

/// A wait that may be registered in the list of waits.
struct Visible {
    waiting: Waiting<'static>,
    waiter: Option<Party>,
}

impl Visible {
    fn new() -> Self {
        Self {
            waiting: Waiting::new(WaitList::global()),
            waiter: subject::current_party(),
        }
    }

    /// Registers the wait that runs the task it waits for.
    fn list_end_of(&self, cell: &Ref) {
        let describe = |list: &mut Vec<Box<dyn Subject>>| {
            list.push(subject::end_of(cell));
            true
        };
        let _ends = self.waiting.list(describe, || None);
    }

    /// Registers the wait for `source`, which is about to sleep. Returns false when it can never
    /// end.
    fn list(&self, source: &impl Source, deadline: Option<Instant>) -> bool {
        self.waiting.list(
            |list| source.subjects(list) && deadline.is_none(),
            || self.waiter.clone(),
        )
    }
}

/// A source and a deadline as a wait target of a worker.
struct Event<S> {
    /// Never borrowed twice: a source does not wait itself.
    source: RefCell<S>,
    deadline: Option<Instant>,
    visible: Visible,
}

impl<S> Event<S> {
    fn is_late(&self) -> bool {
        is_late(self.deadline)
    }
}

impl<S: Source> Awaited for Event<S> {
    fn happened(&self) -> bool {
        self.source.borrow_mut().ready() || self.is_late() || self.visible.waiting.is_cyclic()
    }

    fn sleep(&self, _worker: usize) -> bool {
        let mut source = self.source.borrow_mut();
        self.visible.list(&*source, self.deadline)
            && with_waker(|waker| source.arm(waker))
            && !self.is_late()
    }

    fn awake(&self) {
        // A later wake unparks this thread spuriously, which is harmless.
    }
}

/// Runs other jobs on `context` until `source` is ready, or the deadline has passed. Returns the
/// cycle of a wait that can never end.
pub(super) fn help_until(
    context: &WorkerContext<'_, '_>,
    source: impl Source,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    let event = Event {
        source: RefCell::new(source),
        deadline,
        visible: Visible::new(),
    };
    let thread = thread::parker();
    // A worker that sleeps must be woken at the deadline.
    let alarm = deadline.map(|deadline| Timer::global().at(deadline, move || thread.unpark()));
    if let Some(Err(_)) = alarm {
        // The timer has no thread: poll instead of parking.
        while !event.happened() {
            if !context.help_once() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        return None;
    }
    context.wait(&event, context.mark());
    event.visible.waiting.finish()
}

/// Sleeps until `source` is ready, or the deadline has passed. Returns the cycle of a wait that can
/// never end.
pub(super) fn sleep_until(mut source: impl Source, deadline: Option<Instant>) -> Option<Cycle> {
    for round in 1..=thread::patience(SPINS_BEFORE_PARK) {
        if source.ready() {
            return None;
        }
        if round % 16 == 0 {
            thread::yield_now();
        }
        (0..8).for_each(|_| hint::spin_loop());
    }
    let visible = Visible::new();
    if !visible.list(&source, deadline) {
        return visible.waiting.finish();
    }
    if !with_waker(|waker| source.arm(waker)) {
        return None;
    }
    while !source.ready() {
        let Some(deadline) = deadline else {
            thread::park();
            continue;
        };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => return None,
        }
    }
    None
}
