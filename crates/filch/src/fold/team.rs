//! The workers of one fold, and the caller that waits for them.
#![expect(
    unsafe_code,
    reason = "jobs that point into the frame of the waiting caller"
)]

use super::help::HelpRequest;
use crate::{
    base::{
        sync::{AtomicBool, AtomicU32, Ordering},
        unwind::{self, Payload},
    },
    engine::{Mark, Placement},
    pool::{
        Inner,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap,
        job::Job,
        list::JobList,
        pending::Pending,
        pending_group::{FirstPanic, PendingGroup},
        scoped::{ScopedWaiter, scoped},
    },
};
use std::sync::Arc;

/// The state that all parts of one fold share, in the frame of the call.
///
/// A fold consists of *parts*: the whole, and what was split off it. Each is counted from its
/// creation until it is done, and the call returns when none is left.
pub(super) struct Team {
    pool: *const Inner,
    /// The worker that waits.
    owner: usize,
    /// The parts that workers other than the owner have split off, if they are guests, which may
    /// leave before their queue is empty, or if the owner takes nothing from their queues.
    list: Arc<TeamQueue>,
    /// The parts run isolated, on any worker.
    isolated: bool,
    /// The owner's wait is isolated: it takes nothing from other workers.
    isolated_wait: bool,
    pending: Pending,
    panic: FirstPanic,
    /// A part has panicked: the remaining work need not be done.
    failed: AtomicBool,
    /// The number of pushes, for a policy that wakes a worker at every k-th.
    pushes: AtomicU32,
}

// SAFETY: the owner's side of `pending` is only used by the thread that is worker `owner` of the
// pool, which `is_owner` checks; `pool` points to a pool that lives as long as its worker is in
// `scope`; the rest may be shared.
unsafe impl Sync for Team {}

impl Team {
    /// Creates the shared state with `make` from a team that consists of the caller, counted as one
    /// part. Calls `start` with it, and returns it when no part is left.
    ///
    /// # Panics
    /// With the first panic of a part.
    pub(super) fn scope<S: HasTeam>(
        context: &WorkerContext<'_, '_>,
        make: impl FnOnce(Self) -> S,
        start: impl FnOnce(&S),
    ) -> S {
        let shared = make(Self {
            pool: context.pool(),
            owner: context.worker(),
            list: Arc::default(),
            isolated: context.is_isolated(),
            isolated_wait: context.has_restricted_waits(),
            pending: Pending::new(),
            panic: FirstPanic::default(),
            failed: AtomicBool::new(false),
            pushes: AtomicU32::new(0),
        });
        let team = shared.team();
        let began = context.mark();
        team.add_job(context);
        // In every case the parts point into this frame.
        unwind::or_abort(|| start(&shared));
        unwind::or_abort(|| context.wait(team, began));
        if let Some(payload) = team.panic.take() {
            unwind::discard(shared);
            unwind::resume(payload)
        }
        shared
    }

    /// Stores the first panic; others are passed to the pool.
    pub(super) fn fail(&self, context: &WorkerContext<'_, '_>, payload: Payload) {
        self.panic.keep(context.pool(), payload);
        // Relaxed: a hint to stop. The payload is under a lock, and read when no part is left.
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self) -> bool {
        // Relaxed: as in `fail`.
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts the next push. Returns its placement: one that wakes a sleeper at every `every`-th
    /// push, or with 0 for the `first` of a batch.
    #[inline]
    pub(super) fn placement(&self, every: u32, first: bool) -> Placement {
        let notify = match every {
            0 => first,
            1 => true,
            _ => {
                // Relaxed: only a count.
                let pushes = self.pushes.fetch_add(1, Ordering::Relaxed);
                pushes.is_multiple_of(every)
            }
        };
        match notify {
            true => Placement::Local,
            false => Placement::LocalUnnotified,
        }
    }

    /// Whether the parts run isolated.
    pub(super) fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// Queues `part`, which is counted already. Returns its position if it can be taken back.
    pub(super) fn queue<P: TeamPart>(
        &self,
        context: &WorkerContext<'_, '_>,
        part: Arc<P>,
        placement: Placement,
    ) -> Option<Mark> {
        // SAFETY: `run_part` is called once, with the pointer from `into_raw`. What the part
        // borrows lives until it has been counted as done, which implementations of `TeamPart`
        // guarantee. `P` is `Send` and `Sync`.
        let job = unsafe { Job::new(Arc::into_raw(part), run_part::<P>) };
        if self.queues_to_team(context) {
            self.list.push(job);
            self.request_help(context);
            return None;
        }
        context.push_marked(job, placement)
    }

    /// Whether the parts that this worker splits off go to the team's queue: it is a guest that may
    /// leave before its own queue is empty, or the owner, which may be the only idle worker, would
    /// take nothing from there.
    fn queues_to_team(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.is_owner(context) && (self.isolated_wait || context.is_temporary())
    }

    /// Queues a task of the team in `state_ref`, and counts it. When the task returns it is counted
    /// as done. It must not panic.
    pub(super) fn spawn<S: HasTeam>(
        state_ref: &StateRef<S>,
        context: &WorkerContext<'_, '_>,
        task: impl FnOnce(&StateRef<S>, &WorkerContext<'_, '_>) + Send,
        placement: Placement,
    ) {
        let team = state_ref.get().team();
        team.add_job(context);
        let call = move |shared: &S, context: &WorkerContext<'_, '_>| {
            let run = || task(&StateRef::new(shared), context);
            context.isolate_if(shared.team().isolated, run);
        };
        // SAFETY: the task has just been counted; `scope` does not return before it is done, so
        // the shared state, and what the task borrows, live until then. The pool, or the owner,
        // runs every job.
        let call = unsafe { scoped(state_ref.0, call) };
        // SAFETY: `call` borrows only what lives until the task is counted as done, as said above.
        let job = unsafe { heap::alloc_job(context, call) };
        if team.queues_to_team(context) {
            team.list.push(job);
            team.request_help(context);
        } else {
            context.push_marked(job, placement);
        }
    }

    /// Asks a worker to run the jobs in the team's queue. The caller must have a part that is
    /// counted.
    fn request_help(&self, context: &WorkerContext<'_, '_>) {
        TeamQueue::request_help(&self.list, context);
        if !self.is_owner(context) {
            // The owner checks the queue before it sleeps and when it is woken; but its wait may
            // not take the help job. It has not returned from its wait, since the caller's part is
            // counted.
            context.pool().unpark(self.owner);
        }
    }
}

/// The parts that are in no worker's queue.
#[derive(Default)]
struct TeamQueue {
    jobs: JobList,
    help: HelpRequest,
}

impl TeamQueue {
    fn push(&self, job: Job) {
        self.jobs.push(job);
    }

    /// Queues a help job: the worker that takes it runs the jobs of the team's queue until that is
    /// empty. There is one help job at a time. As long as there are jobs, a worker that takes one
    /// queues another help job for the remaining ones.
    fn request_help(list: &Arc<Self>, context: &WorkerContext<'_, '_>) {
        if !list.help.make() {
            return;
        }
        let list = list.clone();
        let help = move |context: &WorkerContext<'_, '_>| {
            list.help.take();
            while let Some(oldest) = list.jobs.pop() {
                if !list.jobs.is_empty() && !list.help.is_made() {
                    Self::request_help(&list, context);
                }
                oldest.run(context);
            }
        };
        // SAFETY: a help job borrows nothing: it shares the list, and the pool runs every job.
        let job = unsafe { heap::alloc_job(context, help) };
        context.push(job, Placement::Local);
    }
}

impl PendingGroup for Team {
    #[inline]
    fn pending(&self) -> &Pending {
        &self.pending
    }

    #[inline]
    fn pool(&self) -> *const Inner {
        self.pool
    }

    #[inline]
    fn owner(&self) -> usize {
        self.owner
    }

    fn take_job(&self) -> Option<Job> {
        self.list.jobs.pop()
    }

    fn has_job(&self) -> bool {
        !self.list.jobs.is_empty()
    }
}

/// A part of a fold that can be queued.
///
/// A revoked part may stay in a queue longer than the fold takes: then `start` must detect that
/// without accessing what it borrows.
pub(super) trait TeamPart: Send + Sync {
    fn start(self: Arc<Self>, context: &WorkerContext<'_, '_>);
}

/// # Safety
/// `data` came from `Arc::into_raw` for a `P`, and its reference is consumed by this call.
unsafe fn run_part<P: TeamPart>(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes a pointer from `Arc::into_raw` for a `P`, with its reference count.
    let part = unsafe { Arc::from_raw(data.cast::<P>()) };
    part.start(context);
}

/// Takes `part`, which has just been revoked, back from the queue at `mark`. If a thief was faster,
/// it will find that the part is revoked. No user code may run between the revocation and this
/// call.
pub(super) fn take_back<P: TeamPart>(context: &WorkerContext<'_, '_>, part: &Arc<P>, mark: Mark) {
    if context.retract_task(mark, Arc::as_ptr(part)) {
        // SAFETY: the job that was retracted is the one that `queue` made of a reference to `part`:
        // the splitter has just revoked the part, or its first piece, with which any worker that
        // runs it begins, and nothing else has run since; so this worker has not run it, and has
        // queued nothing in its place. `retract_task` wins its index from thieves. So that
        // reference has no owner now.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(part)) };
    }
}

/// A reference from a part to the shared state: `S` in the frame that called `Team::scope`.
pub(super) struct StateRef<S>(*const S);

// SAFETY: it points to an `S`, which is `Sync`, so any thread may use it.
unsafe impl<S: Sync> Send for StateRef<S> {}
// SAFETY: it points to an `S`, which is `Sync`, and has no state of its own.
unsafe impl<S: Sync> Sync for StateRef<S> {}

impl<S> Clone for StateRef<S> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

/// The shared state of a fold.
pub(super) trait HasTeam: Sync {
    fn team(&self) -> &Team;
}

impl<S: HasTeam> ScopedWaiter for S {
    fn begin(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.team().begin_job(context)
    }

    fn group(&self) -> JobGroup {
        self.team().group()
    }

    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>, is_elsewhere: bool) {
        // SAFETY: the caller guarantees that the part is counted, so `scope` has not returned and
        // the state lives.
        let team: *const Team = unsafe { &*this }.team();
        // SAFETY: the caller guarantees that the part is counted in the team.
        let ownerless = unsafe { Team::end_begun_job(team, context, is_elsewhere) };
        debug_assert!(!ownerless, "the worker of `scope` waits");
    }
}

impl<S: HasTeam> StateRef<S> {
    pub(super) fn new(shared: &S) -> Self {
        Self(shared)
    }

    /// The shared state. The caller must have a part that is counted.
    pub(super) fn get<'a>(&self) -> &'a S {
        // SAFETY: used between `add_job` and `done` of a part, so `scope` has not returned, and
        // the frame that called it exists.
        unsafe { &*self.0 }
    }

    /// Counts a part as done; its last access to the shared state. No argument of the caller may
    /// borrow from the fold, unless another part of the caller's is counted: when this returns,
    /// what the fold borrows may be gone.
    pub(super) fn done(&self, context: &WorkerContext<'_, '_>) {
        let is_elsewhere = !self.get().team().is_owner(context);
        // SAFETY: the part is counted until this call, so the shared state lives.
        unsafe { S::done(self.0, context, is_elsewhere) };
    }
}
