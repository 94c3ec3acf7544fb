//! Waits of threads: for a task, and for what a join waits for beside it.

use super::{
    cell::{Hold, Ref},
    subject,
};
use crate::{
    base::{
        sync::hint,
        thread::{self, Parker},
    },
    pool::{
        context::WorkerContext,
        latch::Awaited,
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

/// Waits until the task is done, or the deadline has passed: a worker runs other tasks meanwhile.
/// Returns whether the task is done.
pub(super) fn until_done<T>(hold: &mut Hold<T>, deadline: Option<Instant>) -> bool {
    if !hold.task().snapshot().is_done() {
        until(&mut *hold, deadline);
    }
    hold.task().snapshot().is_done()
}

/// Whether the deadline has passed.
pub(super) fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
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
pub(super) struct Visible {
    waiting: Waiting<'static>,
    waiter: Option<Party>,
}

impl Visible {
    pub(super) fn new() -> Self {
        Self {
            waiting: Waiting::new(WaitList::global()),
            waiter: subject::current_party(),
        }
    }

    /// Registers the wait that runs the task it waits for.
    pub(super) fn list_end_of(&self, cell: &Ref) {
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

    fn register_sleeper(&self, _worker: usize) -> bool {
        let mut source = self.source.borrow_mut();
        self.visible.list(&*source, self.deadline)
            && with_waker(|waker| source.arm(waker))
            && !self.is_late()
    }

    fn unregister_sleeper(&self) {
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
    for round in 1..=thread::spin_limit(SPINS_BEFORE_PARK) {
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
