//! Those who work on one fold, and the one who waits for them.
#![expect(
    unsafe_code,
    reason = "jobs that point into the frame of the one who waits"
)]

use crate::{
    base::{
        sync::{AtomicBool, AtomicU32, Ordering},
        unwind::{self, Payload},
    },
    engine::{Mark, WakePolicy},
    pool::{
        Inner,
        context::WorkerContext,
        heap,
        job::Job,
        latch::Awaited,
        list::List,
        pending::{self, Pending},
        scoped::{Waiter, scoped},
    },
};
use std::{
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

/// What all parts of one fold share, in the frame of the call.
///
/// A fold consists of *parts*: the whole, and what was split off it. Each is counted from the moment it comes into
/// being until it is done, and the call returns when none is left.
pub(super) struct Team {
    pool: *const Inner,
    /// The worker that waits.
    owner: usize,
    /// The one queue for all, where that is the strategy. Also what others than the owner have split off, if they are guests,
    /// who may leave before their queue is empty, or if the owner takes nothing from their queues.
    list: Arc<Commons>,
    /// The parts run isolated, wherever they run.
    isolated: bool,
    /// The owner's wait takes nothing from other workers.
    alone: bool,
    pending: Pending,
    panic: Mutex<Option<Payload>>,
    /// There was a panic: whatever is left need not be done.
    failed: AtomicBool,
    /// What was queued, for a policy that wakes somebody every so many times.
    pushes: AtomicU32,
}

// SAFETY: the owner's side of `pending` is only used by the thread that is worker `owner` of the pool, which `is_owner`
// checks; `pool` points to a pool that lives as long as its worker is in `gather`; the rest may be shared.
unsafe impl Sync for Team {}

impl Team {
    /// Calls `start` with what the parts share, which `make` makes of a team that consists of the caller, counted as
    /// one part; and returns it when no part is left.
    ///
    /// # Panics
    /// With the first panic that a part has told of.
    pub(super) fn gather<S: Common>(
        context: &WorkerContext<'_, '_>,
        make: impl FnOnce(Self) -> S,
        start: impl FnOnce(&S),
    ) -> S {
        let shared = make(Self {
            pool: context.pool(),
            owner: context.worker(),
            list: Arc::default(),
            isolated: context.is_isolated(),
            alone: context.has_isolated_waits(),
            pending: Pending::new(),
            panic: Mutex::new(None),
            failed: AtomicBool::new(false),
            pushes: AtomicU32::new(0),
        });
        let team = shared.team();
        let began = context.mark();
        team.add(context);
        // Whatever happens, the parts point into this frame.
        unwind::or_abort(|| start(&shared));
        unwind::or_abort(|| context.wait(team, began));
        let panic = team
            .panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(payload) = panic {
            unwind::discard(shared);
            unwind::resume(payload)
        }
        shared
    }

    #[inline(always)]
    fn is_owner(&self, context: &WorkerContext<'_, '_>) -> bool {
        ptr::eq(context.pool(), self.pool) && context.worker() == self.owner
    }

    /// One more part.
    pub(super) fn add(&self, context: &WorkerContext<'_, '_>) {
        if self.is_owner(context) {
            self.pending.add_here();
        } else {
            self.pending.add_elsewhere();
        }
    }

    /// Keeps the first panic; others are told to the pool.
    pub(super) fn fail(&self, context: &WorkerContext<'_, '_>, payload: Payload) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            drop(first);
        } else {
            drop(first);
            context.pool().panicked(payload);
        }
        // Relaxed: a hint to stop. What matters is under the lock above, and read when no part is left.
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self) -> bool {
        // Relaxed: as in `fail`.
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether somebody should be woken for what is queued next; `first` says that it is the first of its batch.
    #[inline]
    pub(super) fn is_due(&self, policy: WakePolicy, first: bool) -> bool {
        match policy {
            WakePolicy::EveryPush => true,
            WakePolicy::OncePerBatch => first,
            WakePolicy::EveryKth(k) | WakePolicy::OnHoard(k) => {
                // Relaxed: a count, and nothing else.
                let pushes = self.pushes.fetch_add(1, Ordering::Relaxed);
                pushes.is_multiple_of(k.max(1))
            }
        }
    }

    /// Whether the parts are to [run](enter) isolated.
    pub(super) fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// Queues `part`, which is counted already. Says where it is if it can be taken back.
    pub(super) fn queue<P: Part>(
        &self,
        context: &WorkerContext<'_, '_>,
        part: Arc<P>,
        announce: bool,
    ) -> Option<Mark> {
        // SAFETY: `run_part` is called once, with what `into_raw` gave. What the part borrows lives until it has been
        // counted as done, which is the duty of those who implement `Part`. `P` is `Send` and `Sync`.
        let job = unsafe { Job::new(Arc::into_raw(part), run_part::<P>) };
        if self.is_passing(context) {
            self.list.push(job);
            self.invite(context);
            return None;
        }
        context.push_marked(job, announce)
    }

    /// Whether what this worker splits off goes to the list: it is a guest that may leave before its queue is empty, or
    /// the owner, who may be the only one with nothing to do, would not get it from there.
    fn is_passing(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.is_owner(context) && (self.alone || context.is_guest())
    }

    /// Queues a task of the team in `link`, and counts it: on this worker, or in the one queue for
    /// all, which [`invite`](Self::invite) is to follow. When the task returns it is counted as
    /// done. It must not panic.
    pub(super) fn spawn<S: Common>(
        link: &Link<S>,
        context: &WorkerContext<'_, '_>,
        task: impl FnOnce(&Link<S>, &WorkerContext<'_, '_>) + Send,
        shared: bool,
        announce: bool,
    ) {
        let team = link.get().team();
        team.add(context);
        let call = move |shared: &S, context: &WorkerContext<'_, '_>| {
            let run = || task(&Link::new(shared), context);
            enter(shared.team().is_isolated(), context, run);
        };
        // SAFETY: the task has just been counted; `gather` does not return before it is done, so
        // what is shared, and what the task borrows, live until then. The pool, or the owner, runs
        // every job.
        let call = unsafe { scoped(link.0, call) };
        // SAFETY: as above.
        let job = unsafe { heap::job_on(context, call) };
        if shared {
            team.list.push(job);
        } else if team.is_passing(context) {
            team.list.push(job);
            team.invite(context);
        } else {
            context.push_marked(job, announce);
        }
    }

    /// Asks for help with what is in the list. Only for whoever has a part that is counted.
    pub(super) fn invite(&self, context: &WorkerContext<'_, '_>) {
        Commons::invite(&self.list, context);
        if !self.is_owner(context) {
            // It looks at the list before it sleeps and when it is woken; but it may take no invitation. It is there, as
            // the caller's part is counted.
            context.pool().unpark(self.owner);
        }
    }
}

/// Parts that lie in no worker's queue.
#[derive(Default)]
struct Commons {
    jobs: List,
    /// There is an invitation in some queue.
    invited: AtomicBool,
}

impl Commons {
    fn push(&self, job: Job) {
        self.jobs.push(job);
    }

    /// Queues an invitation: whoever takes it works on what is in the list until that is empty. There is one at a
    /// time, and as long as there are jobs whoever takes one sees to it that there is one for the rest.
    fn invite(list: &Arc<Self>, context: &WorkerContext<'_, '_>) {
        // AcqRel: pairs with that in the invitation, which looks at the list after it has said that it is gone. So what
        // was put there before this is seen by it, or by the next one.
        if list.invited.swap(true, Ordering::AcqRel) {
            return;
        }
        let list = list.clone();
        let turn = move |context: &WorkerContext<'_, '_>| {
            // AcqRel: as above.
            list.invited.swap(false, Ordering::AcqRel);
            while let Some(oldest) = list.jobs.pop() {
                // Relaxed: a hint that saves a swap.
                if !list.jobs.is_empty() && !list.invited.load(Ordering::Relaxed) {
                    Self::invite(&list, context);
                }
                oldest.run(context);
            }
        };
        // SAFETY: an invitation borrows nothing.
        context.push(unsafe { heap::job_on(context, turn) });
    }
}

impl Awaited for Team {
    fn happened(&self) -> bool {
        self.pending.happened()
    }

    fn sleep(&self, worker: usize) -> bool {
        self.pending.sleep(worker)
    }

    fn awake(&self) {
        self.pending.awake();
    }

    fn take_job(&self) -> Option<Job> {
        self.list.jobs.pop()
    }

    fn has_job(&self) -> bool {
        !self.list.jobs.is_empty()
    }
}

/// Runs `f` as a part is to be run, in a team that is `isolated` or not.
pub(super) fn enter<R>(
    isolated: bool,
    context: &WorkerContext<'_, '_>,
    f: impl FnOnce() -> R,
) -> R {
    if isolated { context.isolate(f) } else { f() }
}

/// A part of a fold that can lie in a queue.
///
/// A part may lie there longer than the fold takes, when its splitter has revoked it: then `start` must find that out
/// without a look at what it borrows.
pub(super) trait Part: Send + Sync {
    fn start(self: Arc<Self>, context: &WorkerContext<'_, '_>);
}

/// # Safety
/// `data` came from `Arc::into_raw` for a `P`, and its share is given up with this call.
unsafe fn run_part<P: Part>(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty.
    let part = unsafe { Arc::from_raw(data.cast::<P>()) };
    part.start(context);
}

/// Takes `part`, which has just been revoked, back from the queue where `mark` says it is. If somebody was faster, they will
/// find that it is revoked. No code of the user's may run between the two.
pub(super) fn take_back<P: Part>(context: &WorkerContext<'_, '_>, part: &Arc<P>, mark: Mark) {
    if context.retract_task(mark, Arc::as_ptr(part)) {
        // SAFETY: the job that was retracted is the one that `queue` made of a share of `part`: the splitter has revoked
        // the part, or the first piece of it, which whoever runs it begins with, just now, and nothing else has run since; so
        // this worker has not run it, and has queued nothing in its place. `retract_task` wins its index from thieves. So
        // that share is nobody's now.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(part)) };
    }
}

/// What leads from a part to what all parts share: `S` in the frame that `Team::gather` was called in.
pub(super) struct Link<S>(*const S);

// SAFETY: leads to an `S`, which is shared.
unsafe impl<S: Sync> Send for Link<S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Sync for Link<S> {}

impl<S> Clone for Link<S> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

/// What the parts of a fold share.
pub(super) trait Common: Sync {
    fn team(&self) -> &Team;
}

impl<S: Common> Waiter for S {
    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the part is counted, by the caller's duty.
        let shared = unsafe { &*this };
        let team: *const Team = shared.team();
        // SAFETY: as above.
        let state = unsafe { &*team };
        if state.is_owner(context) {
            state.pending.done_here();
            return;
        }
        let (owner, word) = (state.owner, state.pending.elsewhere());
        pending::done_elsewhere(word, || context.pool().unpark(owner));
    }
}

impl<S: Common> Link<S> {
    pub(super) fn new(shared: &S) -> Self {
        Self(shared)
    }

    /// What it leads to. Only for whoever has a part that is counted.
    pub(super) fn get<'a>(&self) -> &'a S {
        // SAFETY: used between `Team::add` and `done` of a part, so `gather` has not returned, and the frame that it was
        // called in is there.
        unsafe { &*self.0 }
    }

    /// A part is done: the last touch of what it shares. No argument of the caller may borrow from
    /// the fold, unless another part of the caller's is counted: when this returns, what the fold
    /// borrows may be gone.
    pub(super) fn done(&self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the part is counted.
        unsafe { S::done(self.0, context) };
    }
}
