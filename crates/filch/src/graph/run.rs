#![doc = include_str!("run.md")]
#![expect(unsafe_code, reason = "runs that jobs of other workers share")]

use super::{
    block::SourceBlocks,
    control::{LazyControl, RunControl, SendOrder},
    counter_bias::CounterBias,
    cursor::Cursor,
    edges::Edge,
    error::{RunOutcome, TaskFault},
    join_counter::JoinCounter,
    node::TaskNode,
    plan::{InnerPlans, Plan, Shape},
    ready::ReadyTasks,
    task_failure::BoxError,
};
use crate::{
    base::{
        padded::Padded,
        sync::{AtomicBool, AtomicU64, Ordering},
        thread,
        unwind::Payload,
    },
    engine::{Placement, Priority},
    pool::{
        Inner,
        active_jobs::JobGroup,
        context::WorkerContext,
        job::Job,
        pending::Pending,
        pending_group::{NO_OWNER, PendingGroup},
        waits::{EventId, EventKind},
    },
    semaphore::Wants,
};
use std::{
    cell::Cell,
    ptr,
    sync::{Arc, Mutex},
};

/// The state that the strands of a run share. It outlives them.
pub(super) struct GraphRun<'p> {
    pub(super) pool: *const Inner,
    /// The worker that waits, or [`NO_OWNER`].
    pub(super) owner: usize,
    pub(super) nodes: &'p [TaskNode],
    pub(super) join_counters: &'p [JoinCounter],
    pub(super) successor_list: &'p [Edge],
    /// The semaphores of the tasks that have some, sorted by the tasks' numbers.
    pub(super) needs: &'p [(u32, Wants)],
    /// Where subflows that are retained are stored.
    pub(super) inner_plans: &'p InnerPlans,
    pub(super) sources: &'p [u32],
    pub(super) blocks: &'p SourceBlocks,
    /// Whether the plan has anything but closures; see the module docs.
    pub(super) is_special: bool,
    /// Whether the control has settings for which a plan is run as a special one.
    has_settings: bool,
    /// Whether strands of the special plan need the checks that few need: it has semaphores, a
    /// recorder or an order of its tasks, or the run reports its progress or is Low.
    pub(super) has_rare_parts: bool,
    pub(super) shape: &'p Shape,
    /// Whether a worker may continue with strands of this run where a run inside it has ended, and
    /// the other way round; see `walk`.
    pub(super) is_walkable: bool,
    /// Whether the tasks run isolated, on all workers.
    pub(super) isolated: bool,
    /// Whether the owner's wait is isolated: it runs only what was queued on its own worker. Then
    /// it also has to take the jobs that were sent from elsewhere.
    pub(super) isolated_wait: bool,
    /// Whether the owner alone updates the counters of the tasks; used by plans that are not
    /// special.
    pub(super) bias: CounterBias,
    pub(super) cursor: Padded<Cursor>,
    pub(super) pending: Pending,
    /// The worker that counts tasks in plain cells: the owner, or the worker that has started a run
    /// on the heap, unless it may leave before the end. [`NO_OWNER`] if there is none.
    pub(super) counting_worker: usize,
    /// What the owner of the outermost run waits for, only for comparison; null if it has none.
    pub(super) waiter: *const (),
    /// The number of tasks that the counting worker has run, of this run and of runs inside its
    /// tasks.
    ran_by_counting_worker: Cell<u64>,
    ran_inside_by_counting_worker: Cell<u64>,
    ran_by_others: Padded<RanByOthers>,
    pub(super) stop: &'p AtomicBool,
    /// `None` while there is no panic, overlap or other thing to report.
    pub(super) failures: Mutex<Option<Box<RunFailures>>>,
    /// Set in special plans and in runs on the heap: the control of the run, or of the outermost
    /// one around it.
    pub(super) control: Option<&'p Arc<RunControl>>,
    /// The same for plain plans, where guest workers need it.
    guest_control: LazyControl,
    /// The identity of the shared plan whose run this is or is nested in; zero if there is none.
    pub(super) plan_id: usize,
    /// Whether the control's settings want to know which tasks are done.
    pub(super) reports_progress: bool,
    /// The ready tasks, if the plan has an order.
    pub(super) ready: Option<Box<ReadyTasks>>,
    /// The `HeapRun` that the run is in, as `Box::into_raw` returned it; null if the run is not on
    /// the heap. The jobs reach the run through shared references, and memory must not be freed
    /// through a pointer that is derived from one.
    pub(super) heap: *mut (),
}

/// The failures of a run.
#[derive(Default)]
pub(super) struct RunFailures {
    pub(super) panics: Vec<(u32, Payload)>,
    /// The errors that tasks have returned.
    pub(super) errors: Vec<(u32, BoxError)>,
    pub(super) faults: Vec<(u32, TaskFault)>,
    /// The tasks that were ready, or suspended, and were not finished because the run was stopped
    /// or the graph inside them has failed.
    pub(super) skipped: Vec<u32>,
    /// Whether a part of a task was dropped because the run was stopped.
    pub(super) incomplete: bool,
    /// The outcomes of the runs inside tasks that have not succeeded.
    pub(super) inner: Vec<(u32, RunOutcome)>,
}

/// How many tasks have run on other workers than the counting worker.
struct RanByOthers {
    own: AtomicU64,
    inside: AtomicU64,
}

impl RanByOthers {
    fn none() -> Self {
        Self {
            own: AtomicU64::new(0),
            inside: AtomicU64::new(0),
        }
    }
}

/// A run on the heap that has not begun. It is opaque: `heap_run` knows what it is, and starts it.
#[must_use = "the task that it is for waits for it"]
pub(super) struct PreparedRun(pub(super) *mut ());

impl PreparedRun {
    /// # Safety
    /// `heap` is a `HeapRun`, as `Box::into_raw` returned it, that has a run, and no other pointer
    /// to it is used.
    pub(super) unsafe fn new(heap: *mut ()) -> Self {
        Self(heap)
    }

    pub(super) fn into_raw(self) -> *mut () {
        self.0
    }
}

/// Returns the sources of a plan that has an order of its tasks.
fn ready_tasks(plan: &Plan<'_>) -> Option<Box<ReadyTasks>> {
    let ranks = plan.shape.ranks.as_ref()?;
    Some(Box::new(ReadyTasks::new(ranks, &plan.shape.sources)))
}

// SAFETY: the cells are used only by the thread that is worker `owner` or `counting_worker` of the
// pool, which `is_owner` and `is_home` check, and by the worker that ends the run when all jobs are
// done, which `pending` orders. `pool` points to a pool that lives as long as its worker waits, or
// that `control` holds a share of. The closures in the nodes are `Send`, and used by one thread at
// a time, as `TaskNode::storage` says. `heap` is used only by the worker that finishes the run.
unsafe impl Sync for GraphRun<'_> {}

impl<'p> GraphRun<'p> {
    #[inline(always)]
    pub(super) fn new(
        pool: *const Inner,
        owner: usize,
        plan: &'p Plan<'_>,
        stop: &'p AtomicBool,
    ) -> Self {
        if let Some(to) = &plan.shape.recorder {
            to.run();
        }
        Self {
            pool,
            owner,
            nodes: plan.nodes(),
            join_counters: &plan.join_counters,
            successor_list: &plan.shape.successor_list,
            needs: &plan.shape.needs,
            inner_plans: &plan.parts.inner_plans,
            sources: &plan.shape.sources,
            blocks: &plan.blocks,
            is_special: plan.shape.is_special,
            has_settings: false,
            has_rare_parts: plan.has_rare_parts(),
            shape: &plan.shape,
            is_walkable: false,
            isolated: false,
            isolated_wait: false,
            bias: CounterBias::new(owner != NO_OWNER),
            cursor: Padded::new(Cursor::new()),
            pending: Pending::new(),
            counting_worker: owner,
            waiter: ptr::null(),
            ran_by_counting_worker: Cell::new(0),
            ran_inside_by_counting_worker: Cell::new(0),
            ran_by_others: Padded::new(RanByOthers::none()),
            stop,
            failures: Mutex::default(),
            control: None,
            guest_control: LazyControl::default(),
            plan_id: 0,
            reports_progress: false,
            ready: ready_tasks(plan),
            heap: ptr::null_mut(),
        }
    }

    /// Makes it a run of another plan, when the last one is over, has succeeded and
    /// [`is_renewable`](Self::is_renewable). The run has no owner, before and after, so the bias
    /// stays. What depends on where the run is is set by [`set_inside`](Self::set_inside) or
    /// [`set_launched`](Self::set_launched), and `pending` and `counting_worker` when it begins.
    #[inline(always)]
    pub(super) fn renew_without_owner(
        &mut self,
        pool: *const Inner,
        plan: &'p Plan<'_>,
        stop: &'p AtomicBool,
    ) {
        if let Some(to) = &plan.shape.recorder {
            to.run();
        }
        debug_assert_eq!(self.owner, NO_OWNER);
        self.pool = pool;
        self.set_plan(plan);
        *self.cursor = Cursor::new();
        (
            self.ran_by_counting_worker,
            self.ran_inside_by_counting_worker,
        ) = (Cell::new(0), Cell::new(0));
        *self.ran_by_others = RanByOthers::none();
        self.stop = stop;
        self.reports_progress = false;
    }

    /// Sets what is known from the plan.
    #[inline(always)]
    fn set_plan(&mut self, plan: &'p Plan<'_>) {
        self.nodes = plan.nodes();
        self.join_counters = &plan.join_counters;
        self.successor_list = &plan.shape.successor_list;
        self.needs = &plan.shape.needs;
        self.inner_plans = &plan.parts.inner_plans;
        self.sources = &plan.shape.sources;
        self.blocks = &plan.blocks;
        self.is_special = plan.shape.is_special;
        self.has_rare_parts = plan.has_rare_parts();
        self.shape = &plan.shape;
        self.ready = ready_tasks(plan);
    }

    /// Whether a run that has succeeded may become another one: few runs have anything to drop.
    #[inline(always)]
    pub(super) fn is_renewable(&self) -> bool {
        self.owner == NO_OWNER && self.guest_control.get().is_none() && self.ready.is_none()
    }

    /// Prepares for the next run of the same plan, when the last one is over and has succeeded. The
    /// length of the blocks stays as it was found to be good.
    #[inline(always)]
    pub(super) fn rearm(&mut self) {
        self.bias = CounterBias::new(self.owner != NO_OWNER);
        self.cursor.restart();
        self.pending = Pending::new();
        (
            self.ran_by_counting_worker,
            self.ran_inside_by_counting_worker,
        ) = (Cell::new(0), Cell::new(0));
        *self.ran_by_others = RanByOthers::none();
    }

    /// Returns the tasks without predecessors.
    pub(super) fn sources(&self) -> &'p [u32] {
        self.sources
    }

    /// Sets the control of the run, which is not inside a task.
    pub(super) fn set_control(&mut self, control: &'p Arc<RunControl>) {
        let settings = control.settings();
        self.has_settings = settings.are_special();
        self.is_special |= self.has_settings;
        if let Some(progress) = settings.progress.as_ref() {
            progress.reset();
            self.reports_progress = true;
        }
        self.plan_id = control.plan_id();
        self.control = Some(control);
        self.has_rare_parts |= self.reports_progress || self.is_low();
        self.is_walkable = settings.level == Priority::Normal && settings.job_limit.is_none();
    }

    /// Makes it a launched run.
    pub(super) fn set_launched(&mut self, control: &'p Arc<RunControl>) {
        self.set_control(control);
        (self.isolated, self.waiter) = (false, ptr::null());
    }

    /// Makes it a run inside a task of `enclosing`, which has a control.
    #[inline(always)]
    pub(super) fn set_inside(&mut self, enclosing: &GraphRun<'p>) {
        debug_assert!(enclosing.control.is_some());
        self.control = enclosing.control;
        self.plan_id = enclosing.plan_id;
        self.has_settings = enclosing.has_settings;
        self.is_walkable = enclosing.is_walkable;
        self.isolated = enclosing.isolated;
        self.waiter = enclosing.waiter;
        if self.has_settings {
            self.is_special = true;
            self.has_rare_parts |= self.is_low();
        }
    }
}

impl GraphRun<'_> {
    /// Returns the state that special plans and runs on the heap have.
    pub(super) fn control(&self) -> &Arc<RunControl> {
        self.control
            .expect("a special plan or a run on the heap has it")
    }

    /// Returns the control that holds the jobs that were sent from elsewhere, if there is one.
    fn sent_jobs(&self) -> Option<&RunControl> {
        self.control
            .map(|control| &**control)
            .or_else(|| self.guest_control.get())
    }

    #[inline(always)]
    pub(super) fn stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Marks a job or a suspended task as done. It is the worker's last access to the run. If it
    /// returns true, the caller has to finish the run with `heap_run::finish`.
    ///
    /// # Safety
    /// It was counted as pending, so that `this` lives; see `as_job`.
    #[inline(always)]
    #[must_use]
    pub(super) unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) -> bool {
        // SAFETY: the caller's job or suspended task is counted as pending.
        unsafe { Self::done_many(this, context, 1) }
    }

    /// The same for several jobs or suspended tasks, at least one.
    ///
    /// # Safety
    /// As [`done`](Self::done), for each of them.
    #[inline(always)]
    #[must_use]
    pub(super) unsafe fn done_many(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        jobs: u32,
    ) -> bool {
        thread::point();
        // SAFETY: the caller's jobs are counted as pending.
        let run = unsafe { &*this };
        if run.owner == NO_OWNER && run.pending.are_last_without_owner(jobs) {
            return true;
        }
        run.done_with_more(context, jobs - 1);
        // SAFETY: the last of the caller's jobs is counted as pending.
        unsafe { Self::end_job(this, context) }
    }

    /// Marks jobs as done, while the caller has one more that is pending.
    #[inline(always)]
    pub(super) fn done_with_more(&self, context: &WorkerContext<'_, '_>, jobs: u32) {
        match jobs {
            0 => {}
            jobs if self.is_owner(context) => self.pending.done_many_by_owner(jobs),
            jobs => self.pending.done_many_by_other(jobs),
        }
    }

    /// Counts one more pending job or suspended task. The caller's strand is pending meanwhile, so
    /// the count is not zero.
    #[inline(always)]
    pub(super) fn add_pending(&self, context: &WorkerContext<'_, '_>) {
        self.add_job(context);
    }

    /// Reverts `add_pending`, while the caller's strand is pending.
    pub(super) fn remove_pending(&self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller's strand is pending, so the run lives.
        let last = unsafe { Self::done(ptr::from_ref(self), context) };
        debug_assert!(!last, "the strand is pending");
    }

    /// Whether this worker, if it is a guest, stays until the run is over.
    #[cold]
    pub(super) fn stays_until_end(&self, context: &WorkerContext<'_, '_>) -> bool {
        let owner = self.outermost_owner();
        owner == NO_OWNER || owner == context.worker() && ptr::eq(context.pool(), self.pool)
    }

    /// Queues a job where other workers find it.
    #[inline(always)]
    pub(super) fn push(&self, context: &WorkerContext<'_, '_>, job: Job) {
        self.push_to(context, job, Placement::Local);
    }

    #[inline(always)]
    pub(super) fn push_to(&self, context: &WorkerContext<'_, '_>, job: Job, placement: Placement) {
        if self.is_owner(context) {
            self.pending.add_by_owner();
        } else {
            self.pending.add_by_other();
            if context.is_temporary() && self.must_send_jobs(context) {
                return self.send(job);
            }
        }
        if self.is_served(context) {
            return self.push_from_checkpoint(context, job, placement);
        }
        context.push(job, placement);
    }

    /// Whether the job here is served at a checkpoint of an unrelated task. Then it runs one task,
    /// and what follows goes to the shared queues: the task must not wait for all of the run, and
    /// its next join not find jobs of the run above its parts.
    #[inline(always)]
    pub(super) fn is_served(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.is_serving_other(&raw const self.pending)
    }

    /// Queues a job, which is counted, for all workers, and for the owner if there is one: that may
    /// wait isolated.
    #[cold]
    fn push_from_checkpoint(&self, context: &WorkerContext<'_, '_>, job: Job, to: Placement) {
        if self.outermost_owner() != NO_OWNER && (self.isolated_wait || self.control.is_some()) {
            self.send(job);
        } else {
            context.push_detached(job, to);
        }
    }

    /// Returns the worker that waits for the outermost run, or [`NO_OWNER`].
    fn outermost_owner(&self) -> usize {
        self.control.map_or(self.owner, |control| control.owner())
    }

    /// Returns where the jobs of the run are queued.
    pub(super) fn placement(&self) -> Placement {
        match &self.control {
            Some(control) if self.is_special => control.settings().placement(),
            _ => Placement::Local,
        }
    }

    /// Whether all other work comes before each task of the run.
    pub(super) fn is_low(&self) -> bool {
        self.placement() == Placement::Lane(Priority::Low)
    }

    /// Whether this guest has to send its jobs through the control. When a guest leaves, its queue
    /// moves to the injector, which an owner with an isolated wait does not check.
    #[cold]
    fn must_send_jobs(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.stays_until_end(context) && (self.isolated_wait || self.control.is_some())
    }

    /// Queues a job for all workers and for the owner, wherever the owner waits.
    #[cold]
    fn send(&self, job: Job) {
        match self.control {
            Some(control) => control.send(job, SendOrder::Released),
            // SAFETY: the job is pending, so the run is not over, and the worker that waits for it
            // keeps the pool alive.
            None => self
                .guest_control
                .send(unsafe { &*self.pool }, self.owner, job),
        }
    }

    /// Whether the turn of a strand here may end after any of its tasks.
    #[inline(always)]
    pub(super) fn has_time_slice(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.is_served(context) || !self.is_owner(context) && context.has_time_slice()
    }

    /// Whether strands should queue their next task and return to the pool, because other work
    /// waits for this worker. That work does not run in the middle of a strand, since it may wait
    /// for the run.
    #[cold]
    pub(super) fn should_yield(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.is_served(context) || context.poll_yield_request()
    }

    /// Queues a task.
    pub(super) fn queue(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.push_to(context, self.ready_job(index), self.placement());
    }

    /// Whether this worker counts tasks in plain cells.
    #[inline(always)]
    fn is_home(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.worker() == self.counting_worker && ptr::eq(context.pool(), self.pool)
    }

    /// Counts tasks that have run.
    #[inline(always)]
    pub(super) fn count(&self, context: &WorkerContext<'_, '_>, ran: u64) {
        if self.is_home(context) {
            self.ran_by_counting_worker
                .set(self.ran_by_counting_worker.get() + ran);
        } else if ran > 0 {
            // Relaxed: read after all jobs of the run are done.
            self.ran_by_others.own.fetch_add(ran, Ordering::Relaxed);
        }
    }

    /// Counts the tasks of a run inside a task.
    pub(super) fn count_inside(&self, context: &WorkerContext<'_, '_>, ran: u64) {
        if self.is_home(context) {
            self.ran_inside_by_counting_worker
                .set(self.ran_inside_by_counting_worker.get() + ran);
        } else {
            // Relaxed: read after all jobs of the run are done.
            self.ran_by_others.inside.fetch_add(ran, Ordering::Relaxed);
        }
    }

    /// Returns how many tasks have run, when all jobs are done: of this run, and of runs inside its
    /// tasks that have succeeded.
    pub(super) fn ran(&self) -> (u64, u64) {
        let by_others = &self.ran_by_others;
        // Relaxed, twice: all jobs are done, which the caller has observed.
        let own = by_others.own.load(Ordering::Relaxed);
        let inside = by_others.inside.load(Ordering::Relaxed);
        (
            self.ran_by_counting_worker.get() + own,
            self.ran_inside_by_counting_worker.get() + inside,
        )
    }

    /// Whether the sources are so few that they are not taken in blocks.
    pub(super) fn has_few_sources(&self) -> bool {
        self.blocks.is_none()
    }

    /// Whether this worker queues jobs of the run where it finds them again.
    pub(super) fn keeps_jobs(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.is_served(context) && (!context.is_temporary() || self.stays_until_end(context))
    }

    /// Queues tasks so that the first one is the newest.
    #[cold]
    pub(super) fn queue_all(&self, context: &WorkerContext<'_, '_>, tasks: &[u32]) {
        tasks
            .iter()
            .rev()
            .for_each(|&task| self.queue(context, task));
    }
}

impl PendingGroup for GraphRun<'_> {
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

    #[inline(always)]
    fn group(&self) -> JobGroup {
        // The runs inside the tasks of a run have its control.
        let end = match self.control {
            Some(control) => control.end(),
            None => EventId::end_of(&raw const self.pending, EventKind::Run),
        };
        let plan_id = self.plan_id;
        JobGroup { end, plan_id }
    }

    fn take_job(&self) -> Option<Job> {
        // An owner whose wait is not isolated runs the relays, in order with all other queued work.
        self.isolated_wait.then(|| self.sent_jobs())??.take_job()
    }

    fn has_job(&self) -> bool {
        self.isolated_wait && self.sent_jobs().is_some_and(RunControl::has_job)
    }
}
