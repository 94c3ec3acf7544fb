//! The types of a pool that need one another: a [`Job`] is a function of the [`WorkerContext`] of
//! the thread that runs it, which refers to the [`Inner`] of its pool, whose queues hold jobs.
//!
//! This file defines them, with what protects their fields. The files beside it extend them:
//! `job.rs`, `context.rs`, and one for each subject of a pool, such as guests and waits.
#![expect(
    unsafe_code,
    reason = "a job erases the type of what it points to, and a context has a cell of its own"
)]

use super::{
    dedicated_workers::DedicatedWorkers,
    guest_slots::GuestSlots,
    residents::Residents,
    slab::{Slab, SlabReserve},
    substitutes::Substitutes,
    tasks::SubmittedTasks,
};
use crate::{
    base::{
        padded::Padded,
        unwind::{self, Payload},
    },
    clock::Clock,
    engine::{Core, Mark, PerWorker, RunningWorker, Unpark, Worker},
    observe::Counters,
    threads::{Parkers, ThreadGroup, WorkerStates, is_thread_of},
};
use std::{
    cell::Cell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    sync::{Arc, Mutex, OnceLock, Weak},
};

/// A pointer to something that can be run once, and the function that knows its type.
///
/// Two words, so that the queues move it in two stores. The creator of a job argues, at `Job::new`,
/// why what it points to is alive when the job runs; everything else about jobs is safe.
pub(crate) struct Job {
    data: *const (),
    run: unsafe fn(*const (), &WorkerContext<'_, '_>),
}

// SAFETY: `Job::new` requires data that may be used from the thread that runs the job.
unsafe impl Send for Job {}

impl Job {
    /// # Safety
    /// `run(data, _)` must be sound to call once, from any worker of the pool, at any time until
    /// the job is run or taken back.
    #[inline(always)]
    pub(super) unsafe fn erased(
        data: *const (),
        run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    ) -> Self {
        Self { data, run }
    }

    /// The address that the job points to, with its tag bits.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const () {
        self.data
    }

    /// # Safety
    /// The function of the job ignores the bits of the address that are set.
    #[inline(always)]
    pub(super) unsafe fn with_bits(self, bits: usize) -> Self {
        let data = self.data.map_addr(|at| at | bits);
        Self { data, ..self }
    }

    /// Runs the job, once: a job cannot be cloned.
    #[inline(always)]
    pub(crate) fn run(self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller of `Job::new` guarantees one sound call; this is the only `Job` for
        // the data, and it is consumed.
        unsafe { (self.run)(self.data, context) };
    }
}

/// A worker of a pool.
pub(super) type PoolWorker<'c> = Worker<'c, Job, PerWorker, Counters>;

/// A worker of a pool that runs a task.
pub(super) type PoolRunning<'w, 'c> = RunningWorker<'w, 'c, Job, PerWorker, Counters>;

/// A context of this thread, or null. The lifetimes are erased.
pub(super) type ContextPointer = *const WorkerContext<'static, 'static>;

/// Whether a job runs nested in another task, at a checkpoint of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Serving {
    /// It does not.
    No,
    /// At a checkpoint that serves urgent tasks and futures.
    Urgent,
    /// At a checkpoint that serves urgent tasks and futures, and tasks from outside when they are
    /// due.
    All,
    /// At a checkpoint that ends with this job.
    Last,
}

/// A worker of a pool that runs a task on this thread.
///
/// A task that a worker takes between two others has its own context, on the stack of the thread,
/// and so has one that a wait finds by a search. Jobs that a wait pops from its own queue run in
/// the context of the wait. The innermost context is found through a thread-local pointer. The
/// outer ones may be used meanwhile, too: a program that [carries](crate::fork::CurrentWorker) its
/// worker may have kept one.
pub(crate) struct WorkerContext<'w, 'c> {
    /// The worker, which all contexts of this thread in this pool share. It is borrowed by
    /// `running` alone, for the duration of a call that runs no job and no code of the user, so it
    /// is never borrowed twice. It outlives the context: who made it holds a `RunningWorker`.
    worker: NonNull<PoolWorker<'c>>,
    /// What `worker` stands for.
    borrow: PhantomData<&'w mut PoolWorker<'c>>,
    pub(super) pool: &'w Inner,
    /// Of the contexts that were current before, the innermost one of another pool. Waits may be
    /// nested thousands deep, pools rarely more than two.
    pub(super) other: ContextPointer,
    /// Set while waits here run no jobs from elsewhere, and of the worker's own queue only those
    /// above the mark.
    pub(super) isolated: Cell<Option<Mark>>,
    /// The part of `isolated` that is due to calls of `isolate`, and not to guards that the thread
    /// holds.
    pub(super) isolated_by_call: Cell<Option<Mark>>,
    /// The number of this context, which no other of this thread has; zero until the first guard of
    /// a lock is made here.
    pub(super) guard_number: Cell<u64>,
    /// The end of the worker's queue when the current job began: what is above it was enqueued by
    /// the job, or by jobs that ran nested in it.
    pub(super) job_mark: Cell<Mark>,
    /// A wait of the current job has searched for work, and has set `job_mark` above what the
    /// search has left in the queue.
    pub(super) searched: Cell<bool>,
    /// Set while tasks of a batch from outside may be in the worker's queue below the mark, which
    /// no job on this stack has enqueued.
    pub(super) batch_below: Cell<Option<Mark>>,
    /// No job runs here: the worker wakes the futures whose events the driver has found.
    pub(super) wakes: Cell<bool>,
    /// The job polls a future, and has not marked this poll as long-running.
    pub(super) in_poll: Cell<bool>,
    /// What the task here waits for, or works on before it waits for it; null if nothing. Only to
    /// be compared.
    pub(super) wait_target: Cell<*const ()>,
    /// There is no other context on this thread.
    pub(super) outermost: bool,
    /// An unrelated job runs here nested in the task, at a checkpoint.
    pub(super) serving: Cell<Serving>,
    /// The thread has [retired](Self::retire) from the pool.
    pub(super) retired: Cell<bool>,
}

impl<'w, 'c> WorkerContext<'w, 'c> {
    /// Creates the context of a worker. `running` must not be used before the context is gone.
    #[inline(always)]
    pub(super) fn new(
        running: &'w mut PoolRunning<'_, 'c>,
        pool: &'w Inner,
        other: ContextPointer,
        outermost: bool,
    ) -> Self {
        let job_mark = running.queue().owner().mark();
        let batch = running.watch_batch(false).then_some(job_mark);
        let worker = running.worker().into();
        Self::of_worker(worker, (job_mark, batch), pool, other, outermost)
    }

    /// Creates the context of a task that runs nested in the one here, for the same worker.
    #[inline(always)]
    pub(super) fn nested(&self, other: ContextPointer, outermost: bool) -> Self {
        let job_mark = self.running().queue().owner().mark();
        let marks = (job_mark, self.batch_below_nested(job_mark));
        Self::of_worker(self.worker, marks, self.pool, other, outermost)
    }

    #[inline(always)]
    fn of_worker(
        worker: NonNull<PoolWorker<'c>>,
        (job_mark, batch_below): (Mark, Option<Mark>),
        pool: &'w Inner,
        other: ContextPointer,
        outermost: bool,
    ) -> Self {
        WorkerContext {
            worker,
            borrow: PhantomData,
            pool,
            other,
            isolated: Cell::new(None),
            isolated_by_call: Cell::new(None),
            guard_number: Cell::new(0),
            job_mark: Cell::new(job_mark),
            searched: Cell::new(false),
            batch_below: Cell::new(batch_below),
            wakes: Cell::new(false),
            in_poll: Cell::new(false),
            wait_target: Cell::new(ptr::null()),
            outermost,
            serving: Cell::new(Serving::No),
            retired: Cell::new(false),
        }
    }

    #[inline(always)]
    pub(super) fn running(&self) -> ManuallyDrop<PoolRunning<'_, 'c>> {
        let mut worker = self.worker;
        // SAFETY: the worker belongs to this thread, as the context does (it is not `Sync`), and
        // outlives it. It is not borrowed twice, as the field `worker` says: every use in `pool`
        // ends before anything else runs.
        unsafe { worker.as_mut() }.running()
    }

    #[inline(always)]
    pub(crate) fn pool(&self) -> &'w Inner {
        self.pool
    }
}

/// The state that the threads, the guests and the handles of a pool share.
pub(crate) struct Inner {
    pub(super) core: Arc<Core<Job, PerWorker, Counters>>,
    pub(super) parkers: Arc<Parkers>,
    /// Whether the parkers have a driver.
    pub(super) has_driver: bool,
    pub(super) guests: GuestSlots,
    /// One for each worker, guests included.
    /// On separate lines: a worker writes its own at every spawn.
    pub(super) slabs: Box<[Padded<Slab>]>,
    pub(super) reserve: SlabReserve,
    /// Which workers take part. Guests have the numbers from its capacity on.
    pub(super) members: WorkerStates,
    /// If the threads are not started by the pool: the number of workers that have lost theirs.
    pub(super) absent: Option<Mutex<usize>>,
    pub(super) tasks: SubmittedTasks<Job>,
    /// No other living pool has this number.
    pub(super) number: u32,
    /// Futures that wait.
    pub(super) residents: Residents<Inner>,
    /// The dedicated workers, if there are any.
    pub(super) dedicated: Option<DedicatedWorkers>,
    /// The threads for blocking calls and tasks that are handed off, if it starts its own threads.
    pub(super) substitutes: Option<Substitutes<Job>>,
    pub(super) on_panic: Option<PanicHandler>,
    /// Called when a pool without threads has work.
    pub(super) on_work: Option<WorkHook>,
    pub(super) clock: Clock,
    /// If this pool was built for one caller that found no free guest slot: the pool that the
    /// caller belongs to.
    pub(super) stands_for: Option<Arc<Inner>>,
    /// The handles, for `Pool::current`.
    pub(super) handle: OnceLock<Weak<PoolOwner>>,
    /// The address of the permanent context of a thread that stays.
    pub(super) base: OnceLock<usize>,
    /// A reference to itself, for callers that have only a reference.
    pub(super) this: Weak<Inner>,
}

/// Called when a pool without threads has work.
pub(super) type WorkHook = Arc<dyn Fn() + Send + Sync>;

/// Called with the payload of a panic that no waiter receives.
pub(super) type PanicHandler = Arc<dyn Fn(&Payload) + Send + Sync>;

/// The part that the last handle drops.
pub(super) struct PoolOwner {
    pub(super) inner: Arc<Inner>,
    pub(super) thread_group: Mutex<Option<ThreadGroup<()>>>,
}

impl Inner {
    /// Returns a shared pointer to this pool.
    pub(crate) fn share(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("it is alive while it is borrowed")
    }

    /// Closes the pool to new work. Futures are dropped; other queued jobs will run.
    pub(super) fn close(&self) {
        self.residents.close();
        self.core.close();
    }

    pub(crate) fn residents(&self) -> &Residents<Self> {
        &self.residents
    }

    pub(crate) fn core(&self) -> &Core<Job, PerWorker, Counters> {
        &self.core
    }

    /// The pool that receives futures spawned here, if it is another one: they may outlive this
    /// pool. A pool without threads does not receive them, since it may have no caller that polls
    /// them.
    #[inline(always)]
    pub(crate) fn other_future_pool(&self) -> Option<&Self> {
        match &self.stands_for {
            Some(pool) if pool.live_workers() > 0 => Some(pool),
            _ => None,
        }
    }

    /// Whether the current thread is one of the pool, a worker or not.
    pub(super) fn is_own_thread(&self) -> bool {
        is_thread_of(Arc::as_ptr(&self.core) as usize)
    }

    /// The number of the pool's own threads, not counting those that are leaving. A resize changes
    /// it, but not whether it is zero.
    #[inline(always)]
    pub(crate) fn live_workers(&self) -> usize {
        self.members.live()
    }

    /// The most threads that the pool may have: guests and dedicated workers have the numbers from
    /// here on.
    #[inline(always)]
    pub(crate) fn max_threads(&self) -> usize {
        self.members.capacity()
    }

    /// The most threads that the pool has had at a time.
    pub(crate) fn peak_threads(&self) -> usize {
        self.members.peak()
    }

    /// Returns the worker that does what `worker` did, if that one has left.
    #[inline]
    pub(crate) fn affinity_target(&self, worker: usize) -> usize {
        match self.live_workers() {
            threads if worker < threads => worker,
            threads => worker % threads.max(1),
        }
    }

    /// Whether a worker of this node is to stay in the pool.
    pub(crate) fn has_worker_in(&self, node: usize) -> bool {
        let workers = self.live_workers();
        // If the pool has all its workers, every node has one.
        workers == self.max_threads()
            || (0..workers).any(|worker| self.core.is_in_node(worker, node))
    }

    /// The clock that its futures use.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Advances an auto-advancing clock, because the only worker has nothing to run. Returns
    /// whether it did, and the worker should search again. A worker whose wait is `isolated` may
    /// run nothing of what is queued, and no other thread will: so queued jobs do not stop the
    /// clock then.
    pub(crate) fn skip_time(&self, isolated: bool) -> bool {
        self.live_workers() == 0 && self.clock.skip(|| isolated || !self.core.has_work())
    }

    pub(crate) fn unpark(&self, worker: usize) {
        self.parkers.unpark(worker);
    }

    #[inline(always)]
    pub(crate) fn reserve(&self) -> &SlabReserve {
        &self.reserve
    }

    /// Reports the panic of a task that has no waiter.
    pub(crate) fn panicked(&self, payload: Payload) {
        report_panic(self.on_panic.as_ref(), payload);
    }

    /// The state for the tasks that are submitted to it.
    #[inline(always)]
    pub(crate) fn tasks(&self) -> &SubmittedTasks<Job> {
        &self.tasks
    }

    /// The dedicated workers, if there are any.
    #[inline(always)]
    pub(crate) fn dedicated(&self) -> Option<&DedicatedWorkers> {
        self.dedicated.as_ref()
    }
}

/// Passes a panic to `handler`, if there is one.
pub(super) fn report_panic(handler: Option<&PanicHandler>, payload: Payload) {
    // Both the handler and the payloads' destructors are user code.
    if let Some(handler) = handler
        && let Err(another) = unwind::contain(|| handler(&payload))
    {
        unwind::discard(another);
    }
    unwind::discard(payload);
}
