//! Waits of threads: for a task, and for other conditions at the same time.

use super::{
    cell::{SubmitRef, TaskJoin},
    subject,
};
use crate::{
    base::{
        Instant,
        sync::hint,
        thread::{self, Parker},
    },
    pool::{
        context::WorkerContext,
        latch::WaitTarget,
        waits::{Cycle, Party, Subject, WaitList, Waiting},
    },
    threads::timer::Timer,
};
use std::{
    cell::RefCell,
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

/// How often a thread from outside checks its condition, with eight spin-loop hints in between,
/// before it parks: some 10 µs, about the cost of parking and being woken.
const SPINS_BEFORE_PARK: u32 = 64;

/// Wakes a thread.
struct UnparkWaker(Arc<Parker>);

impl Wake for UnparkWaker {
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
        Waker::from(Arc::new(UnparkWaker(thread::parker())))
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
pub(super) fn wait_until_done<T>(join: &mut TaskJoin<T>, deadline: Option<Instant>) -> bool {
    if !join.task().snapshot().is_done() {
        wait_until(&mut *join, deadline);
    }
    join.task().snapshot().is_done()
}

/// Whether the deadline has passed.
pub(super) fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// Waits until `condition` is ready, or the deadline has passed. Returns the cycle of a wait that
/// can never end.
pub(super) fn wait_until(
    condition: impl WaitCondition,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    WorkerContext::with(|context| match context {
        Some(context) => help_until(context, condition, deadline),
        None => sleep_until(condition, deadline),
    })
}

/// What a thread waits for.
pub(super) trait WaitCondition {
    /// Whether it is ready.
    fn is_ready(&mut self) -> bool;

    /// Registers `waker`, which is called when it becomes ready. Returns false when it is ready
    /// already.
    fn register_waker(&mut self, waker: &Waker) -> bool;

    /// Adds to `list` the subjects each of which would make it ready, for the check for cyclic
    /// waits. Returns false when something else would make it ready too.
    fn collect_subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool;

    /// Whether a task runs whose end makes it ready, so that nothing in a queue is needed for it.
    fn has_begun(&self) -> bool {
        false
    }
}

impl<T> WaitCondition for &mut TaskJoin<T> {
    fn is_ready(&mut self) -> bool {
        self.task().snapshot().is_done()
    }

    fn register_waker(&mut self, waker: &Waker) -> bool {
        TaskJoin::register_waker(self, waker)
    }

    fn collect_subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        list.push(subject::end_of(self.task()));
        true
    }

    fn has_begun(&self) -> bool {
        self.task().snapshot().has_started()
    }
}

/// Ready when one of the two is.
pub(super) struct EitherReady<A, B>(pub(super) A, pub(super) B);

impl<A: WaitCondition, B: WaitCondition> WaitCondition for EitherReady<A, B> {
    fn is_ready(&mut self) -> bool {
        self.0.is_ready() || self.1.is_ready()
    }

    fn register_waker(&mut self, waker: &Waker) -> bool {
        self.0.register_waker(waker) && self.1.register_waker(waker)
    }

    fn collect_subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        self.0.collect_subjects(list) & self.1.collect_subjects(list)
    }

    fn has_begun(&self) -> bool {
        self.0.has_begun() || self.1.has_begun()
    }
}

/// Never ready.
#[derive(Clone, Copy)]
pub(super) struct NeverReady;

impl WaitCondition for NeverReady {
    fn is_ready(&mut self) -> bool {
        false
    }

    fn register_waker(&mut self, _waker: &Waker) -> bool {
        true
    }

    fn collect_subjects(&self, _list: &mut Vec<Box<dyn Subject>>) -> bool {
        true
    }
}

/// A wait that may be registered in the list of waits.
pub(super) struct RegisteredWait {
    waiting: Waiting<'static>,
    waiter: Option<Party>,
}

impl RegisteredWait {
    pub(super) fn new() -> Self {
        Self {
            waiting: Waiting::new(WaitList::global()),
            waiter: subject::current_party(),
        }
    }

    /// Registers the wait for a task that the waiter itself runs.
    pub(super) fn register_end_of(&self, cell: &SubmitRef) {
        self.waiting.list_call(subject::end_of(cell));
    }

    /// Registers the wait for `condition`, which is about to sleep. Returns false when it can never
    /// end.
    fn register(&self, condition: &impl WaitCondition, deadline: Option<Instant>) -> bool {
        self.waiting.list(
            |list| condition.collect_subjects(list) && deadline.is_none(),
            || self.waiter.clone(),
        )
    }
}

/// A condition and a deadline as a wait target of a worker.
struct ConditionTarget<S> {
    /// Never borrowed twice: a condition does not wait itself.
    condition: RefCell<S>,
    deadline: Option<Instant>,
    registered: RegisteredWait,
}

impl<S: WaitCondition> WaitTarget for ConditionTarget<S> {
    fn has_happened(&self) -> bool {
        self.condition.borrow_mut().is_ready()
            || has_passed(self.deadline)
            || self.registered.waiting.is_cyclic()
    }

    fn register_sleeper(&self, _worker: usize) -> bool {
        let mut condition = self.condition.borrow_mut();
        self.registered.register(&*condition, self.deadline)
            && with_waker(|waker| condition.register_waker(waker))
            && !has_passed(self.deadline)
    }

    fn unregister_sleeper(&self) {
        // A later wake unparks this thread spuriously, which is harmless.
    }

    fn may_be_queued(&self) -> bool {
        !self.condition.borrow().has_begun()
    }
}

/// Runs other jobs on `context` until `condition` is ready, or the deadline has passed. Returns the
/// cycle of a wait that can never end.
pub(super) fn help_until(
    context: &WorkerContext<'_, '_>,
    condition: impl WaitCondition,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    let target = ConditionTarget {
        condition: RefCell::new(condition),
        deadline,
        registered: RegisteredWait::new(),
    };
    let thread = thread::parker();
    // A worker that sleeps must be woken at the deadline.
    let alarm = deadline.map(|deadline| Timer::global().at(deadline, move || thread.unpark()));
    if let Some(Err(_)) = alarm {
        // The timer has no thread: poll instead of parking.
        while !target.has_happened() {
            if !context.help_once() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        return None;
    }
    context.wait(&target, context.mark());
    target.registered.waiting.finish()
}

/// Sleeps until `condition` is ready, or the deadline has passed. Returns the cycle of a wait that
/// can never end.
pub(super) fn sleep_until(
    mut condition: impl WaitCondition,
    deadline: Option<Instant>,
) -> Option<Cycle> {
    for round in 1..=thread::spin_limit(SPINS_BEFORE_PARK) {
        if condition.is_ready() {
            return None;
        }
        if round % 16 == 0 {
            thread::yield_now();
        }
        (0..8).for_each(|_| hint::spin_loop());
    }
    let registered = RegisteredWait::new();
    if !registered.register(&condition, deadline) {
        return registered.waiting.finish();
    }
    if !with_waker(|waker| condition.register_waker(waker)) {
        return None;
    }
    while !condition.is_ready() && !registered.waiting.is_cyclic() {
        let Some(deadline) = deadline else {
            thread::park();
            continue;
        };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => return None,
        }
    }
    registered.waiting.finish()
}
