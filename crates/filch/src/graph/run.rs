#![doc = include_str!("run.md")]
#![expect(unsafe_code, reason = "runs that jobs of other workers share")]

use super::{
    block::{BlockTasks, SourceBlocks},
    control::{LazyControl, RunControl},
    counter_bias::CounterBias,
    edges::Edge,
    error::{RunOutcome, TaskFault},
    join_counter::JoinCounter,
    node::TaskNode,
    plan::{Plan, Shape},
};
use crate::{
    base::{
        canary::{Canary, broken},
        padded::Padded,
        sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
        unwind::Payload,
    },
    engine::Placement,
    pool::{
        Inner,
        context::WorkerContext,
        job::Job,
        pending::Pending,
        pending_group::{NO_OWNER, PendingGroup},
    },
};
use std::{
    cell::Cell,
    ptr,
    sync::{Arc, Mutex},
};

/// Maximum length of a block of sources. 1,024 empty tasks take six microseconds, so that the cost
/// of a block is negligible.
const MAX_BLOCK_LEN: usize = 1024;

/// Number of blocks of the maximum length for each one that is timed: reading the clock takes as
/// long as a few tasks.
const TIMED_BLOCK_INTERVAL: usize = 8;

/// Target duration of a block of sources, in nanoseconds: a few times as long as a thief needs to
/// steal a part of it.
const TARGET_BLOCK_NANOS: u64 = 8_000;

/// The state that the strands of a run share. It outlives them.
pub(super) struct GraphRun<'p> {
    pub(super) pool: *const Inner,
    /// The worker that waits, or [`NO_OWNER`].
    pub(super) owner: usize,
    pub(super) nodes: &'p [TaskNode],
    pub(super) join_counters: &'p [JoinCounter],
    pub(super) successor_list: &'p [Edge],
    sources: &'p [u32],
    blocks: &'p SourceBlocks,
    /// Whether the plan has anything but closures; see the module docs.
    pub(super) is_special: bool,
    pub(super) shape: &'p Shape,
    /// Whether the tasks run isolated, on all workers.
    pub(super) isolated: bool,
    /// Whether the owner's wait is isolated: it runs only what was queued on its own worker. Then
    /// it also has to take the jobs that were sent from elsewhere.
    pub(super) isolated_wait: bool,
    /// Whether the owner alone updates the counters of the tasks; used by plans that are not
    /// special.
    pub(super) bias: CounterBias,
    cursor: Padded<Cursor>,
    pub(super) pending: Pending,
    /// The number of tasks that the owner has run, and the number that other workers have run.
    pub(super) ran_here: Cell<u64>,
    pub(super) ran_elsewhere: Padded<AtomicU64>,
    pub(super) stop: &'p AtomicBool,
    /// `None` while there is no panic, overlap or other thing to report.
    pub(super) failures: Mutex<Option<Box<RunFailures>>>,
    /// Set in special plans: the control of the outermost run.
    pub(super) control: Option<Arc<RunControl>>,
    /// The same for plain plans, where guest workers need it.
    guest_control: LazyControl,
    /// Set if the run is on the heap.
    pub(super) heap: Option<HeapRun>,
}

/// The failures of a run.
#[derive(Default)]
pub(super) struct RunFailures {
    pub(super) panics: Vec<(u32, Payload)>,
    pub(super) faults: Vec<(u32, TaskFault)>,
    /// Whether tasks were skipped because the run was stopped.
    pub(super) incomplete: bool,
    /// The failures of the runs inside tasks.
    pub(super) inner: RunOutcome,
}

/// What a run on the heap needs to free itself.
pub(super) struct HeapRun {
    /// The run itself, as `Box::into_raw` returned it. The jobs reach the run through shared
    /// references, and memory must not be freed through a pointer that is derived from one.
    pub(super) run: *mut GraphRun<'static>,
    pub(super) plan: *mut Plan<'static>,
    pub(super) on_end: EndCallback,
}

/// Called when a run on the heap is over, with the plan, ready to be run again. Returns the outer
/// run, if that is over too.
type EndCallback =
    Box<dyn FnOnce(Plan<'static>, RunOutcome, &WorkerContext<'_, '_>) -> Option<OuterRun> + Send>;

/// A run, as seen by a run inside one of its tasks.
pub(super) struct OuterRun(pub(super) *const GraphRun<'static>);

// SAFETY: it is a pointer to a `GraphRun`, which is `Sync`, so other threads may use it through it.
unsafe impl Send for OuterRun {}

impl OuterRun {
    pub(super) fn get(&self) -> *const GraphRun<'static> {
        self.0
    }
}

/// Where feeders take sources from.
struct Cursor {
    /// The position of the next source.
    next: AtomicUsize,
    /// How many sources a feeder takes at once, unless few are left.
    block_len: AtomicUsize,
}

// SAFETY: the cells are used only by the thread that is worker `owner` of the pool, which
// `is_owner` checks. `pool` points to a pool that lives as long as its worker waits, or that
// `control` holds a share of. The closures in the nodes are `Send`, and used by one thread at a
// time, as `TaskNode::storage` says. `heap` is used only by the worker that finishes the run.
unsafe impl Sync for GraphRun<'_> {}

impl<'p> GraphRun<'p> {
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
            sources: &plan.shape.sources,
            blocks: &plan.blocks,
            is_special: plan.shape.is_special,
            shape: &plan.shape,
            isolated: false,
            isolated_wait: false,
            bias: CounterBias::new(owner != NO_OWNER),
            cursor: Padded::new(Cursor {
                next: AtomicUsize::new(0),
                block_len: AtomicUsize::new(1),
            }),
            pending: Pending::new(),
            ran_here: Cell::new(0),
            ran_elsewhere: Padded::new(AtomicU64::new(0)),
            stop,
            failures: Mutex::default(),
            control: None,
            guest_control: LazyControl::default(),
            heap: None,
        }
    }
}

impl GraphRun<'_> {
    /// Returns the state that special plans have.
    pub(super) fn control(&self) -> &Arc<RunControl> {
        self.control.as_ref().expect("a special plan has it")
    }

    /// Returns the identity of the shared plan whose run this is or is nested in; otherwise zero.
    pub(super) fn plan_id(&self) -> usize {
        self.control.as_ref().map_or(0, |control| control.plan_id())
    }

    /// Returns the control that holds the jobs that were sent from elsewhere, if there is one.
    fn sent_jobs(&self) -> Option<&RunControl> {
        self.control.as_deref().or_else(|| self.guest_control.get())
    }

    #[inline(always)]
    pub(super) fn stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Marks a job or a suspended task as done. It is the worker's last access to the run. If it
    /// returns true, the caller has to finish the run with `jobs::finish`.
    ///
    /// # Safety
    /// It was counted as pending, so that `this` lives; see `as_job`.
    #[inline(always)]
    #[must_use]
    pub(super) unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) -> bool {
        thread::point();
        // SAFETY: the caller's job or suspended task is counted as pending.
        unsafe { Self::end_job(this, context) }
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
        let home = self
            .control
            .as_ref()
            .map_or(self.owner, |control| control.owner());
        home == NO_OWNER || home == context.worker() && ptr::eq(context.pool(), self.pool)
    }

    /// Queues a job where other workers find it.
    #[inline(always)]
    pub(super) fn push(&self, context: &WorkerContext<'_, '_>, job: Job) {
        if self.is_owner(context) {
            self.pending.add_here();
        } else {
            self.pending.add_elsewhere();
            if context.is_guest() && self.must_send_jobs(context) {
                return self.send(job);
            }
        }
        context.push(job, Placement::Local);
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
        match &self.control {
            Some(control) => control.send(job, false),
            // SAFETY: the job is pending, so the run is not over, and the worker that waits for it
            // keeps the pool alive.
            None => self
                .guest_control
                .send(unsafe { &*self.pool }, self.owner, job),
        }
    }

    /// Whether strands should queue their next task and return to the pool, because urgent work
    /// waits for this worker. The urgent work does not run in the middle of a strand, since it may
    /// wait for the run.
    #[cold]
    pub(super) fn should_yield(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.should_give_way()
    }

    /// Queues a task.
    pub(super) fn queue(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.push(context, self.strand_job(index));
    }

    /// Takes some sources and runs their strands.
    pub(super) fn feed(&self, context: &WorkerContext<'_, '_>) {
        // A single source needs no cursor.
        if let &[only] = self.sources {
            return self.strand(context, only, false);
        }
        thread::point();
        let (all, workers) = (self.sources.len(), context.pool().threads().max(1));
        // Relaxed, twice: estimates.
        let left = all.saturating_sub(self.cursor.next.load(Ordering::Relaxed));
        let usual = self.cursor.block_len.load(Ordering::Relaxed);
        // Blocks get shorter towards the end: the last tasks may be long, and stealing one from a
        // block costs more than taking it from the cursor.
        let block_len = if left < 16 * workers {
            1
        } else {
            usual.min(left / (8 * workers))
        };
        // A worker that has no block takes one source at a time.
        let holder = if block_len > 1 || left == 0 {
            self.blocks.acquire(context.worker())
        } else {
            None
        };
        let block_len = if holder.is_some() { block_len } else { 1 };
        // Relaxed: the sources were written before the first feeder was queued.
        let begin = match left {
            0 => all,
            _ => self.cursor.next.fetch_add(block_len, Ordering::Relaxed),
        };
        let positions = if begin < all {
            begin as u32..(begin + block_len).min(all) as u32
        } else if let Some(stolen) = self.blocks.steal(context.worker(), holder.is_none()) {
            stolen
        } else {
            return;
        };
        let block = holder.as_ref().filter(|_| positions.len() > 1);
        let claims = block.map(|block| block.open(positions.clone()));
        // After the block was opened, so that the worker that runs the feeder sees it. Before the
        // strands queue anything, so that the feeder is the oldest job, which thieves take first.
        let is_last = positions.end as usize == all && self.blocks.is_none();
        if !(is_last || broken(Canary::GraphFeeder) && begin + block_len >= all) {
            self.push(context, self.feeder_job());
        }
        let usual = block_len == usual && begin < all && !self.blocks.is_none();
        let timed = usual
            && (block_len < MAX_BLOCK_LEN
                || (begin / MAX_BLOCK_LEN).is_multiple_of(TIMED_BLOCK_INTERVAL));
        let began = timed.then(thread::nanos);
        match claims {
            Some(claims) if self.is_special => {
                self.strands_special(context, &BlockTasks::new(claims, self.sources));
            }
            Some(claims) => self.strands(context, &BlockTasks::new(claims, self.sources)),
            None => self.strand(context, self.sources[positions.start as usize], false),
        }
        if let Some(began) = began {
            self.adjust_block_len(block_len, thread::nanos().saturating_sub(began));
        }
    }

    /// Adapts the block length after `block_len` sources have taken `nanos`: the next block should
    /// take [`TARGET_BLOCK_NANOS`], and is at most twice as long as the last one.
    fn adjust_block_len(&self, block_len: usize, nanos: u64) {
        let next = block_len as u64 * TARGET_BLOCK_NANOS / nanos.max(1);
        let next = next
            .clamp(1, 2 * block_len as u64)
            .min(MAX_BLOCK_LEN as u64) as usize;
        if next != block_len {
            // Relaxed: an estimate.
            self.cursor.block_len.store(next, Ordering::Relaxed);
        }
    }

    /// Counts tasks that have run.
    #[inline(always)]
    pub(super) fn count(&self, context: &WorkerContext<'_, '_>, ran: u64) {
        if self.is_owner(context) {
            self.ran_here.set(self.ran_here.get() + ran);
        } else {
            // Relaxed: read after all jobs of the run are done.
            self.ran_elsewhere.fetch_add(ran, Ordering::Relaxed);
        }
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

    fn take_job(&self) -> Option<Job> {
        // An owner whose wait is not isolated runs the relays, in order with all other queued work.
        self.isolated_wait.then(|| self.sent_jobs())??.take_job()
    }

    fn has_job(&self) -> bool {
        self.isolated_wait && self.sent_jobs().is_some_and(RunControl::has_job)
    }
}
