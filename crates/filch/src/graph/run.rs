#![doc = include_str!("run.md")]
#![expect(
    unsafe_code,
    reason = "jobs that point to the records of a graph, and to runs in frames and in the heap"
)]

use super::{
    biased_count::BiasedCount,
    block::{Blocks, Firsts, Single, Taken},
    context::{Context, Left},
    edges::Edge,
    error::Broken,
    node::{Node, Then},
    plan::{Plan, Shape},
    predecessor_count::PredecessorCount,
    remote::{LazyRemote, NO_OWNER, Remote},
    start::{self, End},
    tally::Tally,
    within,
};
use crate::{
    base::{
        canary::{Canary, broken},
        padded::Padded,
        sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread, unwind,
    },
    engine::Placement,
    pool::{
        Inner,
        context::WorkerContext,
        job::Job,
        latch::Awaited,
        pending::{self, Pending},
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

/// Of blocks of the maximum length, one in this number is timed: reading the clock takes as long as
/// a few tasks.
const TIMED_BLOCK_INTERVAL: usize = 8;

/// Target duration of a block of sources, in nanoseconds: a few times as long as a thief needs to
/// steal a part of it.
const TARGET_BLOCK_NANOS: u64 = 8_000;

/// The state that the strands of a run share. It outlives them.
pub(super) struct Run<'p> {
    pub(super) pool: *const Inner,
    /// The worker that waits, or [`NO_OWNER`].
    pub(super) owner: usize,
    pub(super) nodes: &'p [Node],
    pub(super) missing: &'p [PredecessorCount],
    pub(super) successors: &'p [Edge],
    sources: &'p [u32],
    blocks: &'p Blocks,
    /// Whether the plan has anything but closures; see the module docs.
    special: bool,
    pub(super) shape: &'p Shape,
    /// Whether the tasks run isolated, on all workers.
    pub(super) isolated: bool,
    /// Whether the owner, while it waits, runs only what was queued on its own worker. Then it also
    /// has to take the jobs that were sent from elsewhere.
    pub(super) alone: bool,
    /// Whether the owner alone updates the counters of the tasks; used by plans that are not
    /// special.
    pub(super) biased: BiasedCount,
    cursor: Padded<Cursor>,
    pub(super) pending: Pending,
    /// The number of tasks that the owner has run, and the number that other workers have run.
    pub(super) ran_here: Cell<u64>,
    pub(super) ran_elsewhere: Padded<AtomicU64>,
    pub(super) stop: &'p AtomicBool,
    /// `None` while there is no panic, overlap or other thing to report.
    pub(super) tally: Mutex<Option<Box<Tally>>>,
    /// The state of special plans; that of the outermost run.
    pub(super) remote: Option<Arc<Remote>>,
    /// The same for plain plans, where guest workers need it.
    guest_remote: LazyRemote,
    /// What to do when the run is over, if it is on the heap.
    pub(super) end: Option<End>,
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
// `remote` holds a share of. The closures in the nodes are `Send`, and used by one thread at a
// time, as `Node::storage` says. `end` is used only by the worker that finishes the run.
unsafe impl Sync for Run<'_> {}

/// Runs a strand that begins with a task.
///
/// # Safety
/// `data` points to a node of a run that is not over.
unsafe fn run_strand(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes a node of a run that is not over.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: the strand is pending, so the run is alive.
    let over = unsafe {
        Run::as_job(run, context, |run, context| {
            run.strand(context, index, false);
        })
    };
    if over {
        // SAFETY: `as_job` returned true: this was the last pending job.
        unsafe { start::finish(run, context) };
    }
}

/// Runs a strand that begins with a task whose semaphores have been acquired.
///
/// # Safety
/// As [`run_strand`].
unsafe fn run_admitted(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes a node of a run that is not over.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: the strand is pending, so the run is alive.
    let over = unsafe {
        Run::as_job(run, context, |run, context| {
            run.strand(context, index, true);
        })
    };
    if over {
        // SAFETY: `as_job` returned true: this was the last pending job.
        unsafe { start::finish(run, context) };
    }
}

/// Returns the run that a node belongs to, and the node's number.
///
/// # Safety
/// As [`run_strand`].
unsafe fn run_of(data: *const ()) -> (*const Run<'static>, u32) {
    let node = data.cast::<Node>();
    // SAFETY: the caller passes a node of a run that is not over.
    let index = unsafe { (*node).index() };
    // SAFETY: the nodes of a run are one array, and this is number `index` of it.
    let first = unsafe { node.sub(index as usize) };
    // SAFETY: it is the first record of the array, which points to the run.
    let first = unsafe { &*first };
    (first.leads_to().cast(), index)
}

/// Runs a feeder.
///
/// # Safety
/// `data` points to a run that is not over.
unsafe fn run_feeder(data: *const (), context: &WorkerContext<'_, '_>) {
    let run = data.cast::<Run<'static>>();
    // SAFETY: the caller passes a run that is not over; the feeder is pending.
    let over = unsafe { Run::as_job(run, context, Run::feed) };
    if over {
        // SAFETY: `as_job` returned true: this was the last pending job.
        unsafe { start::finish(run, context) };
    }
}

impl<'p> Run<'p> {
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
            missing: &plan.missing,
            successors: &plan.shape.successors,
            sources: &plan.shape.sources,
            blocks: &plan.blocks,
            special: plan.shape.special,
            shape: &plan.shape,
            isolated: false,
            alone: false,
            biased: BiasedCount::new(owner != NO_OWNER),
            cursor: Padded::new(Cursor {
                next: AtomicUsize::new(0),
                block_len: AtomicUsize::new(1),
            }),
            pending: Pending::new(),
            ran_here: Cell::new(0),
            ran_elsewhere: Padded::new(AtomicU64::new(0)),
            stop,
            tally: Mutex::default(),
            remote: None,
            guest_remote: LazyRemote::default(),
            end: None,
        }
    }
}

impl Run<'_> {
    #[inline(always)]
    pub(super) fn is_owner(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.worker() == self.owner && ptr::eq(context.pool(), self.pool)
    }

    /// Returns the state that special plans have.
    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.remote.as_ref().expect("a special plan has it")
    }

    /// Returns the line (the queue of runs) of the shared plan whose run this is or is nested in;
    /// otherwise zero.
    pub(super) fn line(&self) -> usize {
        self.remote.as_ref().map_or(0, |remote| remote.line())
    }

    /// Returns where the jobs are that were sent from elsewhere.
    fn sent(&self) -> Option<&Remote> {
        self.remote.as_deref().or_else(|| self.guest_remote.get())
    }

    #[inline(always)]
    pub(super) fn stopped(&self) -> bool {
        // Relaxed: the flag only makes strands end early; no other memory is read because of it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs `f` as a job of the pool. Returns true if the run is on the heap and this was its last
    /// job.
    #[inline(always)]
    ///
    /// # Safety
    /// The job is pending, so that `this` lives. The run may be freed once the job is done, so
    /// `this` is a pointer.
    unsafe fn as_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        f: impl FnOnce(&Self, &WorkerContext<'_, '_>),
    ) -> bool {
        // SAFETY: the caller's job is pending, so `this` lives.
        let run = unsafe { &*this };
        if !run.is_owner(context) {
            run.pending.begin_elsewhere(context.worker());
            if run.shape.joins && !run.special {
                run.biased.join();
            }
        }
        let call = || {
            if run.isolated {
                context.isolate(|| f(run, context));
            } else {
                f(run, context);
            }
        };
        if run.owner == NO_OWNER {
            within::enter(run.line(), call);
        } else {
            call();
        }
        // SAFETY: the caller's job is still pending, and `run` is not used below.
        unsafe { Self::done(this, context) }
    }

    /// Marks a job or a held task as done. It is the worker's last access to the run. If it returns
    /// true, the caller has to finish the run with `start::finish`.
    #[inline(always)]
    #[must_use]
    ///
    /// # Safety
    /// It was counted as pending, so that `this` lives; see `as_job`.
    pub(super) unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) -> bool {
        thread::point();
        // SAFETY: the caller's job or held task is pending, so `this` lives.
        let run = unsafe { &*this };
        if run.is_owner(context) {
            run.pending.done_here();
            return false;
        }
        let (owner, mut last, word) = (run.owner, false, run.pending.elsewhere());
        pending::done_elsewhere(word, || {
            if owner == NO_OWNER {
                last = true;
            } else {
                context.pool().unpark(owner);
            }
        });
        last
    }

    /// Counts one more pending job or held task. The caller's strand is pending meanwhile, so the
    /// count is not zero.
    #[inline(always)]
    pub(super) fn hold(&self, context: &WorkerContext<'_, '_>) {
        if self.is_owner(context) {
            self.pending.add_here();
        } else {
            self.pending.add_elsewhere();
        }
    }

    /// Reverts a `hold`, while the caller's strand is pending.
    pub(super) fn unhold(&self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller's strand is pending, so the run lives.
        let last = unsafe { Self::done(ptr::from_ref(self), context) };
        debug_assert!(!last, "the strand is pending");
    }

    /// Whether this worker, if it is a guest, stays until the run is over.
    #[cold]
    pub(super) fn keeps(&self, context: &WorkerContext<'_, '_>) -> bool {
        let home = self
            .remote
            .as_ref()
            .map_or(self.owner, |remote| remote.owner());
        home == NO_OWNER || home == context.worker() && ptr::eq(context.pool(), self.pool)
    }

    /// Queues a job where other workers find it.
    #[inline(always)]
    pub(super) fn push(&self, context: &WorkerContext<'_, '_>, job: Job) {
        if self.is_owner(context) {
            self.pending.add_here();
        } else {
            self.pending.add_elsewhere();
            if context.is_guest() && self.is_left_behind(context) {
                return self.send(job);
            }
        }
        context.push(job, Placement::Local);
    }

    /// Whether the owner would not run the jobs that this guest leaves in its queue: those move to
    /// the injector when the guest leaves.
    #[cold]
    fn is_left_behind(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.keeps(context) && (self.alone || self.remote.is_some())
    }

    /// Queues a job for all workers and for the owner, wherever the owner waits.
    #[cold]
    fn send(&self, job: Job) {
        match &self.remote {
            Some(remote) => remote.send(job, false),
            // SAFETY: the job is pending, so the run is not over, and the worker that waits for it
            // keeps the pool alive.
            None => self
                .guest_remote
                .send(unsafe { &*self.pool }, self.owner, job),
        }
    }

    /// Whether strands should queue their next task because urgent work waits for this worker. The
    /// urgent work does not run in the middle of a strand, since it may wait for the run.
    #[cold]
    pub(super) fn should_put_off(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.should_give_way()
    }

    /// Queues a task.
    pub(super) fn queue(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.push(context, self.strand_job(index));
    }

    pub(super) fn feeder_job(&self) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(ptr::from_ref(self), run_feeder) }
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
        let held = if block_len > 1 || left == 0 {
            self.blocks.hold(context.worker())
        } else {
            None
        };
        let block_len = if held.is_some() { block_len } else { 1 };
        // Relaxed: the sources were written before the first feeder was queued.
        let begin = match left {
            0 => all,
            _ => self.cursor.next.fetch_add(block_len, Ordering::Relaxed),
        };
        let positions = if begin < all {
            begin as u32..(begin + block_len).min(all) as u32
        } else if let Some(stolen) = self.blocks.steal(context.worker(), held.is_none()) {
            stolen
        } else {
            return;
        };
        let block = held.as_ref().filter(|_| positions.len() > 1);
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
            Some(claims) if self.special => {
                self.strands_special(context, &Taken::new(claims, self.sources));
            }
            Some(claims) => self.strands(context, &Taken::new(claims, self.sources)),
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

    /// Runs a task and the tasks that it releases. `admitted`: the task has acquired its
    /// semaphores.
    #[inline(always)]
    fn strand(&self, context: &WorkerContext<'_, '_>, first: u32, admitted: bool) {
        if self.special {
            self.strand_special(context, first, admitted);
        } else {
            self.strands(context, &Single::new(first));
        }
    }

    #[inline(always)]
    pub(super) fn context<'a, 'w, 'c>(
        &'a self,
        context: &'a WorkerContext<'w, 'c>,
        left: Option<&'a Left>,
    ) -> Context<'a, 'w, 'c> {
        let is_owner = self.is_owner(context);
        Context {
            run: self,
            context,
            at: Cell::new(0),
            ran: Cell::new(0),
            is_owner,
            goes_on: Cell::new(false),
            spare: Cell::new(0),
            left,
        }
    }

    #[inline(always)]
    pub(super) fn count(&self, context: &WorkerContext<'_, '_>, ran: u64) {
        if self.is_owner(context) {
            self.ran_here.set(self.ran_here.get() + ran);
        } else {
            // Relaxed: read after all jobs of the run are done.
            self.ran_elsewhere.fetch_add(ran, Ordering::Relaxed);
        }
    }

    /// Returns the job that runs the strand of a task.
    #[inline(always)]
    pub(super) fn strand_job(&self, index: u32) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run is `Sync`.
        unsafe { Job::new(self.node_at(index), run_strand) }
    }

    /// Returns the same for a task that has acquired its semaphores.
    pub(super) fn admitted_job(&self, index: u32) -> Job {
        // SAFETY: as in `strand_job`: the job is pending, so the run is not over before it has run.
        unsafe { Job::new(self.node_at(index), run_admitted) }
    }

    #[inline(always)]
    fn node_at(&self, index: u32) -> *const Node {
        debug_assert!((index as usize) < self.nodes.len());
        // SAFETY: the plan contains only numbers of its own tasks. The pointer is derived from the
        // whole array, in which `run_of` moves back to the first record.
        unsafe { self.nodes.as_ptr().add(index as usize) }
    }

    /// Runs strands of a special plan that begin with these tasks.
    fn strands_special(&self, context: &WorkerContext<'_, '_>, firsts: &impl Firsts) {
        let urgency = context.urgency();
        while let Some(first) = firsts.take() {
            self.strand_special(context, first, false);
            if urgency.is_raised() && !firsts.is_last() && self.should_put_off(context) {
                return self.queue_all(context, firsts.rest());
            }
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

    /// Runs a strand of a special plan.
    #[inline(never)]
    fn strand_special(&self, context: &WorkerContext<'_, '_>, first: u32, admitted: bool) {
        let left = Left::default();
        let cx = self.context(context, Some(&left));
        cx.at.set(first);
        // A copy without these checks makes loops of conditions faster.
        let followed = if self.shape.needs.is_empty() && self.shape.recorder.is_none() {
            unwind::contain(|| self.follow_special::<false>(&cx, admitted))
        } else {
            unwind::contain(|| self.follow_special::<true>(&cx, admitted))
        };
        if let Err(payload) = followed {
            if !broken(Canary::GraphPermits) {
                self.leave(cx.index());
            }
            self.panicked(cx.index(), payload);
        }
        self.count(context, cx.ran.get());
    }

    /// `ALL`: the plan has semaphores, or a recorder.
    fn follow_special<const ALL: bool>(&self, cx: &Context<'_, '_, '_>, mut admitted: bool) {
        let (context, urgency, conditions) =
            (cx.context, cx.context.urgency(), self.shape.conditions);
        let needs = ALL && !self.shape.needs.is_empty();
        let recorder = self.shape.recorder.as_ref().filter(|_| ALL);
        let mut next = Some(cx.at.get());
        while let Some(index) = next {
            let has_permits = std::mem::take(&mut admitted);
            cx.at.set(index);
            if self.stopped() {
                if has_permits {
                    self.give_back(index);
                }
                return self.cut();
            }
            if needs && !has_permits && !self.acquire(context, index) {
                return;
            }
            let node = &self.nodes[index as usize];
            if node.waits_for() > 1 {
                self.missing[index as usize].rearm(node.waits_for());
            }
            if conditions && !node.claim() {
                self.give_back(index);
                return self.broke(index, Broken::Overlap);
            }
            let running = recorder.map(|to| to.begin(context, index));
            // SAFETY: this strand alone runs the task: the last of its predecessors has released
            // it, once; where there are conditions it has just been claimed.
            let then = unsafe { node.call(cx) };
            drop(running);
            if then == Then::Later {
                if let Some(later) = cx.left.and_then(|left| left.later.take()) {
                    later(cx);
                }
                return;
            }
            if conditions {
                node.unclaim();
            }
            if needs {
                self.give_back(index);
            }
            cx.ran.set(cx.ran.get() + 1);
            next = match then {
                Then::All => self.release_special(context, node.leads),
                Then::One(number) => node.leads.get(self.successors, number),
                Then::Many => self.lead(cx, node.leads),
                Then::Later => None,
            };
            if let Some(index) = next
                && urgency.is_raised()
                && self.should_put_off(context)
            {
                return self.queue(context, index);
            }
        }
    }
}

impl Awaited for Run<'_> {
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
        // An owner that is not alone runs the turns, in order with all other queued work.
        self.alone.then(|| self.sent())??.take_job()
    }

    fn has_job(&self) -> bool {
        self.alone && self.sent().is_some_and(Remote::has_job)
    }

    fn runner(&self) -> Option<usize> {
        self.pending.runner()
    }
}
