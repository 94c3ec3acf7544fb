//! Tasks that a worker takes in the middle of another task, and that run on another thread.
//!
//! A worker that waits runs other jobs meanwhile, and one in a long computation serves other jobs
//! between two *leaves*: the code between a push and a pop of a join, a block of a loop, a run of a
//! sort, a task of a graph, a stage of a pipeline, or the nodes between two checks of a fold. Most
//! jobs may run on top of its stack: a part of a join, a loop or a fold waits for parts of its own,
//! and a poll of a future returns. A submitted task or a detached closure may wait for anything,
//! also for the task beneath it, which cannot continue before the task on top of it has returned.
//! With *a* and `b = submit(|| a.join())`, a worker that runs *b* inside *a* is stuck, although the
//! program has no cycle.
//!
//! So such a task is *handed off* to a substitute (`substitutes.rs`), which runs it at the bottom
//! of its own stack.
//!
//! **Roles.** The *giver* queues the job with a [`Handoff`] and waits until a substitute has
//! *taken* it. From then on the substitute is a worker that the gate counts as busy; before, the
//! giver is one. So the pool cannot end in between.
//!
//! **At a leaf**, or in a wait with jobs of its own to run, the giver waits until the task is over,
//! or sleeps in a wait itself, but at most [`MAX_PAUSE`]. So the two do not compete for a core, and
//! a task that waits for the giver's computation does not stop it.
//!
//! **In a wait without jobs of its own**, the giver continues its wait, and runs nothing unrelated
//! until the substitute returns. That one runs other jobs too, as long as the wait lasts. A wait
//! has one substitute at a time: it replaces the worker that waits. If what the wait needs may be
//! queued (`block_on`, a scope), it uses another one when the task has not returned for
//! [`OVERDUE`].
//!
//! **When no substitute is free**, the job is queued again. A wait leaves unrelated work alone
//! then, and a checkpoint serves futures only. What a join waits for is running or done, because a
//! task that is queued is run by the thread that joins it. Other waits, such as `block_on`, may
//! need a task that is queued: if all other threads sleep in waits too, they run tasks on their own
//! stacks, as they do in pools that have no substitutes (`blocking.rs` has the list) and in
//! rehearsals.

use crate::base::{
    Instant,
    canary::{Canary, broken},
    sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering},
};
use std::{
    cell::RefCell,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// How long a computation pauses for a task that was handed off at one of its leaves. Longer tasks
/// compete with it for a core.
const MAX_PAUSE: Duration = Duration::from_millis(1);

/// How long a giver waits for a substitute to take its job, before it tries to take it back. One
/// that was idle takes it within microseconds, and a new thread starts in less than a millisecond.
const MAX_TAKE: Duration = Duration::from_millis(20);

/// After this time a wait whose target may be queued uses another substitute.
pub(super) const OVERDUE: Duration = Duration::from_millis(10);

thread_local! {
    /// The handoff whose task this thread runs, if it is a substitute.
    static TAKEN: RefCell<Option<Arc<Handoff>>> = const { RefCell::new(None) };
}

/// How far a task that was handed off has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandoffStage {
    /// No substitute has taken it yet.
    Queued,
    Running,
    /// It sleeps in a wait, or has done so.
    Paused,
    Over,
}

/// The state that a giver and a substitute share.
#[derive(Debug)]
struct Handoff {
    stage: Mutex<HandoffStage>,
    changed: Condvar,
    /// The worker that gave the job.
    giver: usize,
    /// The giver needs no substitute any more.
    released: AtomicBool,
    /// The substitute works for the giver no more.
    returned: AtomicBool,
}

/// A job in the queue of the substitutes, and the guest slot to run it in.
pub(super) struct HandedJob<J> {
    job: J,
    slot: usize,
    handoff: Arc<Handoff>,
}

/// The giver's side. Dropped when it needs no substitute any more.
#[derive(Debug)]
pub(super) struct GivenJob(Arc<Handoff>, Instant);

/// The side of a substitute that has taken the job.
#[must_use = "the giver waits for it to be finished"]
pub(super) struct TakenJob(Arc<Handoff>);

impl Handoff {
    fn lock(&self) -> MutexGuard<'_, HandoffStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the task is at `stage`, but at most for `time`. Returns whether it no longer is.
    fn wait_while(&self, stage: HandoffStage, time: Duration) -> bool {
        let begin = Instant::now();
        let mut now = self.lock();
        while *now == stage {
            let Some(left) = time.checked_sub(begin.elapsed()) else {
                return false;
            };
            let waited = self.changed.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn set(&self, stage: HandoffStage) {
        *self.lock() = stage;
        if !broken(Canary::HandoffNotify) {
            self.changed.notify_all();
        }
    }
}

impl<J> HandedJob<J> {
    /// Makes a job that the worker `giver` hands off, and the giver's side of it. If the giver
    /// `waits`, the substitute works in its place until it is released.
    pub(super) fn new(job: J, slot: usize, giver: usize, waits: bool) -> (Self, GivenJob) {
        let handoff = Arc::new(Handoff {
            stage: Mutex::new(HandoffStage::Queued),
            changed: Condvar::new(),
            giver,
            released: AtomicBool::new(!waits),
            returned: AtomicBool::new(false),
        });
        let given = GivenJob(handoff.clone(), Instant::now());
        (Self { job, slot, handoff }, given)
    }

    /// Whether this is the other side of `given`.
    pub(super) fn is_of(&self, given: &GivenJob) -> bool {
        Arc::ptr_eq(&self.handoff, &given.0)
    }

    /// The slot to run it in.
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the job, which no substitute will run, and its slot.
    pub(super) fn into_parts(self) -> (J, usize) {
        (self.job, self.slot)
    }

    /// Takes the job. Called by a substitute that has become a worker, so that the giver may end.
    pub(super) fn take(self) -> (J, TakenJob) {
        self.handoff.set(HandoffStage::Running);
        TAKEN.set(Some(self.handoff.clone()));
        (self.job, TakenJob(self.handoff))
    }
}

impl GivenJob {
    /// Waits until a substitute has taken the job, but at most [`MAX_TAKE`]. Returns whether one
    /// has.
    pub(super) fn wait_until_taken(&self) -> bool {
        self.0.wait_while(HandoffStage::Queued, MAX_TAKE)
    }

    /// Waits until the task is over or sleeps, but at most [`MAX_PAUSE`].
    pub(super) fn pause(&self) {
        self.0.wait_while(HandoffStage::Running, MAX_PAUSE);
    }

    /// Whether the substitute may be needed elsewhere for long: its task has run for some time, or
    /// blocks in a way that the pool does not see.
    pub(super) fn is_overdue(&self) -> bool {
        self.1.elapsed() >= OVERDUE
    }

    /// Whether the substitute has returned.
    pub(super) fn has_returned(&self) -> bool {
        // Acquire: pairs with the release in `TakenJob::finish`.
        self.0.returned.load(Ordering::Acquire)
    }
}

impl Drop for GivenJob {
    fn drop(&mut self) {
        // Relaxed: as in `is_released`.
        self.0.released.store(true, Ordering::Relaxed);
    }
}

impl TakenJob {
    /// Records that the job is over. The substitute may run others until the giver
    /// [needs it no more](Self::is_released).
    pub(super) fn end_job(&self) {
        TAKEN.set(None);
        self.0.set(HandoffStage::Over);
    }

    /// Whether the giver needs no substitute any more.
    pub(super) fn is_released(&self) -> bool {
        // Relaxed: a hint, which guards no data.
        self.0.released.load(Ordering::Relaxed)
    }

    /// Records that the substitute has returned. The result is the worker to wake.
    #[must_use]
    pub(super) fn finish(self) -> usize {
        // Release: what the substitute has run happens before what the giver does next; pairs with
        // `has_returned`.
        self.0.returned.store(true, Ordering::Release);
        self.0.giver
    }
}

/// Records that this thread is about to sleep: the giver of its task need not pause for it.
pub(super) fn before_sleep() {
    // A thread may wait in the destructor of a thread-local, when this one is gone. Then it runs no
    // task of a giver.
    let _ = TAKEN.try_with(|taken| {
        if let Some(handoff) = &*taken.borrow() {
            let mut stage = handoff.lock();
            if *stage == HandoffStage::Running {
                *stage = HandoffStage::Paused;
                handoff.changed.notify_all();
            }
        }
    });
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
