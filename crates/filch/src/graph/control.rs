//! The part of a run that outlives it: it takes jobs from any thread, and stops the run.
#![expect(unsafe_code, reason = "makes a job of a closure that owns its data")]

use super::settings::RunSettings;
use crate::{
    base::{
        id_queue::IdQueue,
        sync::{AtomicBool, Ordering},
        thread,
    },
    cancel::{CancelReason, OnCancel, TaskBatch},
    engine::{Placement, Priority},
    pool::{
        Inner,
        active_jobs::JobGroup,
        context::WorkerContext,
        heap,
        job::Job,
        list::JobList,
        pending_group::NO_OWNER,
        waits::{EventId, EventKind},
    },
    semaphore::{self, Wants},
};
use std::{
    cell::Cell,
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

thread_local! {
    /// The run whose task gives units back on this thread, or null; only for comparison.
    static RELEASING_RUN: Cell<*const RunControl> = const { Cell::new(ptr::null()) };
}

/// A suspended task of a run, such as a future, which has to be resumed when the run is stopped. Or
/// a run that a task waits for, which has to be stopped too.
pub(super) trait OnStop: Send + Sync {
    fn on_stop(self: Arc<Self>);
}

/// A task that waits for units of semaphores. It is in a list of its run, under a key that is known
/// to the semaphores, so that it needs no memory of its own.
pub(super) struct ParkedTask {
    pub(super) needs: Wants,
    /// The number of its request in the queues of its semaphores, once it is known.
    request: Option<u64>,
    /// The jobs that continue the task: with its units, and without them when it was refused or
    /// when the run has been stopped.
    pub(super) admitted: Job,
    pub(super) stopped: Job,
}

impl ParkedTask {
    pub(super) fn new(needs: Wants, admitted: Job, stopped: Job) -> Self {
        Self {
            needs,
            request: None,
            admitted,
            stopped,
        }
    }
}

/// Shared with wakers, semaphores and cancel tokens, which may keep it longer than the run lives.
pub(super) struct RunControl {
    pool: Arc<Inner>,
    /// The worker that waits for the run, or [`NO_OWNER`].
    owner: usize,
    /// The identity of the shared plan that the run belongs to: the address of its queue of runs,
    /// only for comparison. Zero if there is none.
    plan_id: usize,
    settings: RunSettings,
    /// Whether the run is stopped: no more tasks are released.
    pub(super) stop: AtomicBool,
    sent: SentJobs,
    /// The jobs of [`SendOrder::Woken`]. Not in one list with the others: their relay is urgent.
    woken: SentJobs,
    suspended: Mutex<SuspendedTasks>,
    /// Workers that sleep until the run is over, when it has no owner.
    joiners: Mutex<Vec<Joiner>>,
}

/// Jobs that were sent from any thread. A *relay* in the pool's queues runs them: a job that takes
/// the oldest entry of this list and runs it. It finds none if the worker that waits for the run
/// has taken it, which it does where its wait runs only what was queued on that worker. There is at
/// most one relay, so that relays do not accumulate where no worker takes them.
#[derive(Default)]
struct SentJobs {
    jobs: JobList,
    /// Whether a relay is queued.
    relay_queued: Mutex<bool>,
}

/// When a job that is sent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOrder {
    /// As a strand that a task of the run has released.
    Released,
    /// After all other work that is queued on this worker: a future that wakes itself, or two that
    /// wake each other, must not starve that work.
    Last,
    /// With urgent work, at a checkpoint too: a future that has been woken.
    Woken,
}

/// A worker that sleeps until a run is over.
#[derive(Clone)]
pub(super) struct Joiner {
    /// The worker's pool. It differs from the run's pool if that had no index left for a guest.
    pub(super) pool: Arc<Inner>,
    pub(super) worker: usize,
    /// Whether the worker runs no jobs from elsewhere, so that it has to check the run's jobs
    /// itself.
    pub(super) isolated_wait: bool,
}

/// The suspended tasks of a run, by keys that are not used again.
#[derive(Default)]
struct SuspendedTasks {
    next_key: u64,
    /// In the order of their keys, so that a rehearsal can be replayed.
    all: IdQueue<SuspendedTask>,
}

enum SuspendedTask {
    Callback(Arc<dyn OnStop>),
    Parked(ParkedTask),
}

/// Called when the token that can cancel the run has been cancelled.
impl OnCancel for RunControl {
    fn on_cancel(self: Arc<Self>, _: CancelReason, _: &mut TaskBatch) {
        self.stop();
    }
}

/// Called when the run that encloses this one has been stopped.
impl OnStop for RunControl {
    fn on_stop(self: Arc<Self>) {
        self.stop();
    }
}

/// The [`RunControl`] of a run that rarely needs one. It is created when a guest has a job for a
/// run whose owner, while it waits, runs only what was queued on its own worker.
#[derive(Default)]
pub(super) struct LazyControl(OnceLock<Arc<RunControl>>);

impl LazyControl {
    /// Queues a job of a run on `pool`, for all workers and for `owner`.
    pub(super) fn send(&self, pool: &Inner, owner: usize, job: Job) {
        let control = self.0.get_or_init(|| RunControl::new(pool, owner));
        control.send(job, SendOrder::Released);
    }

    pub(super) fn get(&self) -> Option<&RunControl> {
        self.0.get().map(|control| &**control)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f` on `pool`: with the context that this thread has in it, or as a guest.
pub(super) fn on_pool<R>(pool: &Inner, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(context) if ptr::eq(context.pool(), pool) => f(context),
        Some(context) => context.on_enclosing(pool, f),
        None => pool.as_guest(f),
    })
}

impl RunControl {
    pub(super) fn new(pool: &Inner, owner: usize) -> Arc<Self> {
        Self::with_settings(pool, owner, 0, RunSettings::default())
    }

    /// Creates the control of a run with settings; of a shared plan, if `plan_id` is not zero.
    pub(super) fn with_settings(
        pool: &Inner,
        owner: usize,
        plan_id: usize,
        settings: RunSettings,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.share(),
            owner,
            plan_id,
            settings,
            stop: AtomicBool::new(false),
            sent: SentJobs::default(),
            woken: SentJobs::default(),
            suspended: Mutex::default(),
            joiners: Mutex::default(),
        })
    }

    pub(super) fn pool(&self) -> &Inner {
        &self.pool
    }

    pub(super) fn owner(&self) -> usize {
        self.owner
    }

    pub(super) fn plan_id(&self) -> usize {
        self.plan_id
    }

    /// The end of the run, for the list of waits. The launched runs of a plan have one event, that
    /// of the current run: each of them ends after the current one.
    #[inline(always)]
    pub(super) fn end(&self) -> EventId {
        match self.owner == NO_OWNER && self.plan_id != 0 {
            true => EventId::end_of(ptr::without_provenance::<()>(self.plan_id), EventKind::Run),
            // A run that a task of a plan calls has the identity of that plan, but its own end.
            false => EventId::end_of(self, EventKind::Run),
        }
    }

    /// The group of the jobs of the run.
    pub(super) fn group(&self) -> JobGroup {
        let (end, plan_id) = (self.end(), self.plan_id);
        JobGroup { end, plan_id }
    }

    #[inline(always)]
    pub(super) fn settings(&self) -> &RunSettings {
        &self.settings
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops the run, and resumes its suspended tasks.
    pub(super) fn stop(self: &Arc<Self>) {
        // Relaxed: as in `is_stopped`; `suspend` checks it under the lock that is taken next.
        self.stop.store(true, Ordering::Relaxed);
        thread::point();
        let mut callbacks = Vec::new();
        let mut parked = Vec::new();
        for (key, task) in lock(&self.suspended).all.iter() {
            match task {
                SuspendedTask::Callback(callback) => callbacks.push((key, callback.clone())),
                // Without a number it is not queued yet: `park` sees that the run is stopped.
                SuspendedTask::Parked(task) => {
                    parked.extend(
                        task.request
                            .map(|request| (key, task.needs.clone(), request)),
                    );
                }
            }
        }
        for (key, callback) in callbacks {
            // Another thread that stops the run calls it, or it is not suspended any more.
            if self.unregister(key) {
                callback.on_stop();
            }
        }
        for (key, needs, request) in parked {
            thread::point();
            // If it is not queued any more, it has been resumed, and sees that the run is stopped.
            if semaphore::cancel(&needs, request)
                && let Some(task) = self.unpark_task(key)
            {
                self.queue_resumed(task.stopped);
            }
        }
    }

    /// Adds a suspended task, and returns its key; `None` if the run has been stopped already.
    fn suspend(&self, task: SuspendedTask) -> Option<u64> {
        let mut suspended = lock(&self.suspended);
        if self.is_stopped() {
            return None;
        }
        let key = suspended.next_key;
        suspended.next_key += 1;
        suspended.all.push(key, task);
        Some(key)
    }

    /// Registers a suspended task, and returns its key; `None` if the run has been stopped already.
    pub(super) fn register_on_stop(&self, callback: Arc<dyn OnStop>) -> Option<u64> {
        self.suspend(SuspendedTask::Callback(callback))
    }

    /// Removes a suspended task.
    pub(super) fn unregister_on_stop(&self, key: u64) {
        self.unregister(key);
    }

    fn unregister(&self, key: u64) -> bool {
        let task = lock(&self.suspended).all.remove(key);
        task.is_some()
    }

    /// Adds a task that is about to wait for units, and returns its key; `None` if the run has been
    /// stopped already.
    pub(super) fn park_task(&self, task: ParkedTask) -> Option<u64> {
        self.suspend(SuspendedTask::Parked(task))
    }

    /// Records the number of the request of a parked task, which may have been resumed already.
    /// Returns false if the run has been stopped, so that the caller has to cancel the request.
    pub(super) fn set_request(&self, key: u64, request: u64) -> bool {
        let mut suspended = lock(&self.suspended);
        if let Some(SuspendedTask::Parked(task)) = suspended.all.get_mut(key) {
            task.request = Some(request);
        }
        !self.is_stopped()
    }

    /// Removes a parked task, if it is there.
    pub(super) fn unpark_task(&self, key: u64) -> Option<ParkedTask> {
        match lock(&self.suspended).all.remove(key) {
            Some(SuspendedTask::Parked(task)) => Some(task),
            _ => None,
        }
    }

    /// Queues the job of a task that was parked, on any thread.
    pub(super) fn queue_resumed(self: &Arc<Self>, job: Job) {
        let is_own_run = RELEASING_RUN.get() == Arc::as_ptr(self);
        WorkerContext::with(|context| match context {
            // As a strand that queues a successor. A guest may leave before the job is taken, and a
            // strand that is served at a checkpoint leaves the queue to the task there.
            Some(context)
                if is_own_run
                    && !context.is_temporary()
                    && !context.is_serving()
                    && ptr::eq(context.pool(), self.pool()) =>
            {
                context.push(job, Placement::Local);
            }
            _ => self.send(job, SendOrder::Released),
        });
    }

    /// Calls `f`, in which a task of this run gives units back: tasks of the run that are resumed
    /// are queued on this worker.
    pub(super) fn releasing(self: &Arc<Self>, f: impl FnOnce()) {
        let before = RELEASING_RUN.replace(Arc::as_ptr(self));
        f();
        RELEASING_RUN.set(before);
    }

    /// Queues a job of the run, which counts it as pending, on any thread.
    pub(super) fn send(self: &Arc<Self>, job: Job, order: SendOrder) {
        // Once the job is on the list the run may be over at any time.
        let this = self.clone();
        thread::point();
        let list = this.list_of(order);
        let mut queued = lock(&list.relay_queued);
        list.jobs.push(job);
        let is_queued = mem::replace(&mut *queued, true);
        drop(queued);
        if !is_queued {
            this.queue_relay(order);
        }
        thread::point();
        // The worker that waits for the run may be asleep, and its wait may be isolated.
        match this.owner {
            NO_OWNER => this.wake_joiners(|joiner| joiner.isolated_wait),
            owner => this.pool.unpark(owner),
        }
    }

    fn list_of(&self, order: SendOrder) -> &SentJobs {
        match order {
            SendOrder::Released | SendOrder::Last => &self.sent,
            SendOrder::Woken => &self.woken,
        }
    }

    fn queue_relay(self: &Arc<Self>, order: SendOrder) {
        let control = self.clone();
        let relay = move |context: &WorkerContext<'_, '_>| control.run_relay(context, order);
        // SAFETY: the closure owns its share of the control and borrows nothing.
        self.inject(unsafe { heap::alloc_shared_job(relay) }, order);
    }

    /// Runs the oldest job, after it has queued another relay if there are more.
    fn run_relay(self: &Arc<Self>, context: &WorkerContext<'_, '_>, order: SendOrder) {
        thread::point();
        let list = self.list_of(order);
        let mut queued = lock(&list.relay_queued);
        let job = list.jobs.pop();
        let more = !list.jobs.is_empty();
        *queued = more;
        drop(queued);
        if more {
            self.queue_relay(match order {
                // The jobs behind it may be of either kind.
                SendOrder::Last => SendOrder::Released,
                order => order,
            });
        }
        if let Some(job) = job {
            job.run(context);
        }
    }

    /// Wakes the selected workers of those that sleep until the run is over.
    pub(super) fn wake_joiners(&self, select: impl Fn(&Joiner) -> bool) {
        // Not under the lock, which a worker that wakes up takes.
        let joiners = lock(&self.joiners);
        let selected: Vec<_> = joiners
            .iter()
            .filter(|joiner| select(joiner))
            .cloned()
            .collect();
        drop(joiners);
        for joiner in selected {
            joiner.pool.unpark(joiner.worker);
        }
    }

    /// Registers a worker that is about to sleep until the run is over. Returns false if `is_over`.
    pub(super) fn add_joiner(&self, joiner: Joiner, is_over: impl FnOnce() -> bool) -> bool {
        thread::point();
        let mut joiners = lock(&self.joiners);
        // A worker that ends the run, or sends a job, does so before it reads the list of joiners.
        // So either it finds this joiner, or this joiner sees the end or the job.
        if is_over() {
            return false;
        }
        joiners.push(joiner);
        true
    }

    /// Removes a worker that does not sleep any more.
    pub(super) fn remove_joiner(&self, pool: &Inner, worker: usize) {
        let same =
            |joiner: &Joiner| joiner.worker == worker && ptr::eq(&raw const *joiner.pool, pool);
        lock(&self.joiners).retain(|joiner| !same(joiner));
    }

    fn inject(&self, job: Job, order: SendOrder) {
        let shared = self.shared_placement(order);
        WorkerContext::with(|context| match context {
            // A guest may leave before the job is taken. But when the pool is closed, the queue of
            // this guest is better than a guest inside a guest.
            Some(context)
                if ptr::eq(context.pool(), &raw const *self.pool)
                    && (!context.is_temporary() || !self.pool.core().is_open()) =>
            {
                match order {
                    SendOrder::Released => context.push_detached(job, self.settings.placement()),
                    SendOrder::Last | SendOrder::Woken => context.push(job, shared),
                }
            }
            _ => self.pool.inject_to(job, shared),
        });
    }

    /// Returns the shared queue of the run's priority.
    fn shared_placement(&self, order: SendOrder) -> Placement {
        match self.settings.level {
            Priority::Normal if order == SendOrder::Woken => Placement::Lane(Priority::High),
            Priority::Normal => Placement::Injector,
            level => Placement::Lane(level),
        }
    }

    pub(super) fn take_job(&self) -> Option<Job> {
        self.woken.jobs.pop().or_else(|| self.sent.jobs.pop())
    }

    pub(super) fn has_job(&self) -> bool {
        !self.woken.jobs.is_empty() || !self.sent.jobs.is_empty()
    }
}
