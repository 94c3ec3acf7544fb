//! One run of a plan.
//!
//! # The protocol
//!
//! A *strand* is a job of the pool: it runs a task, releases the successors for which that was the last one missing, goes on
//! with one of them and queues the others, a strand each; when there is none it goes on with the newest that it has queued,
//! and ends when that is gone or another's turn has come. A run is over when all of its strands
//! have ended, which [`Pending`] counts: a chain costs nothing to count, and the thread that waits counts its own
//! strands in a plain cell.
//!
//! Sources are handed out from a cursor, a block at a time (`block`): a *feeder* takes the next
//! few, queues another feeder, and runs their strands itself. What it has taken and not started
//! stays in reach: a feeder that finds the cursor at its end takes a part of the blocks of others.
//! A block is as long as its tasks take a few microseconds, by what those of the last one took, so
//! that long tasks start in the order of the list.
//!
//! When a task panics its strand ends, and the others end at their next task: nothing more is released.
//!
//! # Special plans
//!
//! Plans of nothing but closures go through `follow`, all others through `follow_special`. There a task may be *held*: it has
//! been begun, and its strand has ended, but it is not done. The run counts it as pending until somebody calls `complete`
//! for it: the last strand of the run inside of it, or the one that polls its future. They get it when its closure has
//! returned (`Context::later`), since in a loop they may call that again at once. A strand may also be parked in a
//! semaphore; it is pending too.
//!
//! A run lives in the frame of somebody who waits for it, or in the heap (`start`): then whoever ends the last strand
//! finishes it.
#![expect(
    unsafe_code,
    reason = "jobs that point to the records of a graph, and to runs in frames and in the heap"
)]

use super::{
    biased_count::BiasedCount,
    block::{Blocks, Firsts, Single, Taken},
    context::{Context, Left},
    edges::Edge,
    node::{Node, Then},
    plan::{Plan, Shape},
    predecessor_count::PredecessorCount,
    remote::{Aside, NOBODY, Remote},
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

/// The most sources that a feeder takes at once: 1,024 empty tasks take six microseconds, so what a
/// block costs does not show.
const MOST_FED: usize = 1024;

/// Of blocks of that length, one in so many is timed: a look at the clock takes as long as a few
/// tasks.
const TIMED: usize = 8;

/// How long a block of sources should take, in nanoseconds: a few times as long as a thief needs for
/// a part of it.
const BLOCK_NANOS: u64 = 8_000;

/// A run: what its strands share. It outlives them.
pub(super) struct Run<'p> {
    pub(super) pool: *const Inner,
    /// The worker that waits, or [`NOBODY`].
    pub(super) owner: usize,
    pub(super) nodes: &'p [Node],
    pub(super) missing: &'p [PredecessorCount],
    pub(super) successors: &'p [Edge],
    sources: &'p [u32],
    blocks: &'p Blocks,
    /// Whether there is more to it than closures.
    special: bool,
    pub(super) shape: &'p Shape,
    /// The tasks run isolated, wherever they run.
    pub(super) isolated: bool,
    /// The owner runs only what was queued on its own worker while it waits, so it has to take what
    /// was sent from elsewhere.
    pub(super) alone: bool,
    /// Who touches the counters of the tasks; used where nothing is special.
    pub(super) biased: BiasedCount,
    cursor: Padded<Cursor>,
    pub(super) pending: Pending,
    /// How many tasks the owner has run, and the others.
    pub(super) ran_here: Cell<u64>,
    pub(super) ran_elsewhere: Padded<AtomicU64>,
    pub(super) stop: &'p AtomicBool,
    /// None while there is nothing to tell.
    pub(super) tally: Mutex<Option<Box<Tally>>>,
    /// What special plans need; that of the outermost run.
    pub(super) remote: Option<Arc<Remote>>,
    /// The same for plain plans, where guests need it.
    aside: Aside,
    /// What is to be done when it is over, if it is in the heap.
    pub(super) end: Option<End>,
}

/// Where sources are handed out.
struct Cursor {
    /// The next source.
    next: AtomicUsize,
    /// How many a feeder takes at once, unless the end is near.
    few: AtomicUsize,
}

// SAFETY: the cells are used by the thread that is worker `owner` of the pool, which `is_owner` checks; `pool`
// points to a pool that lives as long as its worker waits, or that `remote` has a share of; the closures in the nodes
// are `Send`, and used by one thread at a time, as `Node::room` says; `end` is used by the one who finishes the run.
unsafe impl Sync for Run<'_> {}

/// A strand that begins with a task.
///
/// # Safety
/// `data` points to a node of a run that is not over.
unsafe fn run_strand(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: the strand is pending, so the run is alive.
    let over = unsafe {
        Run::as_job(run, context, |run, context| {
            run.strand(context, index, false)
        })
    };
    if over {
        // SAFETY: it was the last one.
        unsafe { start::finish(run, context) };
    }
}

/// A strand that begins with a task whose semaphores have been acquired.
///
/// # Safety
/// As [`run_strand`].
unsafe fn run_admitted(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty.
    let (run, index) = unsafe { run_of(data) };
    // SAFETY: as in `run_strand`.
    let over = unsafe {
        Run::as_job(run, context, |run, context| {
            run.strand(context, index, true)
        })
    };
    if over {
        // SAFETY: it was the last one.
        unsafe { start::finish(run, context) };
    }
}

/// The run that a node belongs to, and its number.
///
/// # Safety
/// As [`run_strand`].
unsafe fn run_of(data: *const ()) -> (*const Run<'static>, u32) {
    let node = data.cast::<Node>();
    // SAFETY: the caller's duty.
    let index = unsafe { (*node).index() };
    // SAFETY: the nodes of a run are one array, and this is number `index` of it.
    let first = unsafe { node.sub(index as usize) };
    // SAFETY: it is the first one, and leads to the run.
    let first = unsafe { &*first };
    (first.leads_to().cast(), index)
}

/// A feeder.
///
/// # Safety
/// `data` points to a run that is not over.
unsafe fn run_feeder(data: *const (), context: &WorkerContext<'_, '_>) {
    let run = data.cast::<Run<'static>>();
    // SAFETY: the caller's duty.
    let over = unsafe { Run::as_job(run, context, Run::feed) };
    if over {
        // SAFETY: it was the last one.
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
            biased: BiasedCount::new(owner != NOBODY),
            cursor: Padded::new(Cursor {
                next: AtomicUsize::new(0),
                few: AtomicUsize::new(1),
            }),
            pending: Pending::new(),
            ran_here: Cell::new(0),
            ran_elsewhere: Padded::new(AtomicU64::new(0)),
            stop,
            tally: Mutex::default(),
            remote: None,
            aside: Aside::default(),
            end: None,
        }
    }
}

impl Run<'_> {
    #[inline(always)]
    pub(super) fn is_owner(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.worker() == self.owner && ptr::eq(context.pool(), self.pool)
    }

    /// What special plans have.
    pub(super) fn remote(&self) -> &Arc<Remote> {
        self.remote.as_ref().expect("a special plan has it")
    }

    /// The line of the shared plan that it is a run of, or is inside of a run of; else zero.
    pub(super) fn line(&self) -> usize {
        self.remote.as_ref().map_or(0, |remote| remote.line())
    }

    /// Where jobs are that were sent from elsewhere.
    fn sent(&self) -> Option<&Remote> {
        self.remote.as_deref().or_else(|| self.aside.get())
    }

    #[inline(always)]
    pub(super) fn stopped(&self) -> bool {
        // Relaxed: the sooner the better, but nothing depends on it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Does something as a job of the pool. True when the run is in the heap, and this was the last of it.
    #[inline(always)]
    ///
    /// # Safety
    /// The job is pending, so that `this` lives. When it is done the run may be gone, so it comes as a pointer.
    unsafe fn as_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        f: impl FnOnce(&Self, &WorkerContext<'_, '_>),
    ) -> bool {
        // SAFETY: the caller's duty.
        let run = unsafe { &*this };
        if run.shape.joins && !run.special && !run.is_owner(context) {
            run.biased.join();
        }
        let call = || {
            if run.isolated {
                context.isolate(|| f(run, context));
            } else {
                f(run, context);
            }
        };
        if run.owner == NOBODY {
            within::enter(run.line(), call);
        } else {
            call();
        }
        // SAFETY: as above.
        unsafe { Self::done(this, context) }
    }

    /// A job is done, or a task that was held: the last touch of the run by whoever ran it. When true is returned
    /// the caller has to finish it, with `start::finish`.
    #[inline(always)]
    #[must_use]
    ///
    /// # Safety
    /// It was counted, so that `this` lives; see `as_job`.
    pub(super) unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) -> bool {
        thread::point();
        // SAFETY: the caller's duty.
        let run = unsafe { &*this };
        if run.is_owner(context) {
            run.pending.done_here();
            return false;
        }
        let (owner, mut last, word) = (run.owner, false, run.pending.elsewhere());
        pending::done_elsewhere(word, || {
            if owner == NOBODY {
                last = true;
            } else {
                context.pool().unpark(owner);
            }
        });
        last
    }

    /// One more thing is pending, which is counted by the caller's strand being pending too.
    #[inline(always)]
    pub(super) fn hold(&self, context: &WorkerContext<'_, '_>) {
        if self.is_owner(context) {
            self.pending.add_here();
        } else {
            self.pending.add_elsewhere();
        }
    }

    /// Takes a `hold` back, while the caller's strand is pending.
    pub(super) fn unhold(&self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the strand is pending.
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
        home == NOBODY || home == context.worker() && ptr::eq(context.pool(), self.pool)
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
        context.push(job);
    }

    /// Whether the owner would not run what this guest leaves in its queue when it goes: that goes
    /// to the injector.
    #[cold]
    fn is_left_behind(&self, context: &WorkerContext<'_, '_>) -> bool {
        !self.keeps(context) && (self.alone || self.remote.is_some())
    }

    /// Queues a job for all workers and for the owner, wherever that waits.
    #[cold]
    fn send(&self, job: Job) {
        match &self.remote {
            Some(remote) => remote.send(job, false),
            // SAFETY: the job is pending, so the run is not over, and the worker that waits for it
            // keeps the pool.
            None => self.aside.send(unsafe { &*self.pool }, self.owner, job),
        }
    }

    /// Whether strands should queue what they would go on with, since something urgent waits for this worker: that comes first
    /// then. It does not run in the middle of a strand, since it may wait for the run.
    #[cold]
    pub(super) fn should_put_off(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.should_give_way()
    }

    /// Queues a task.
    pub(super) fn queue(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.push(context, self.strand_job(index));
    }

    pub(super) fn feeder_job(&self) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; the run may be shared.
        unsafe { Job::new(ptr::from_ref(self), run_feeder) }
    }

    /// Takes some sources and runs their strands.
    pub(super) fn feed(&self, context: &WorkerContext<'_, '_>) {
        // Nothing to hand out.
        if let &[only] = self.sources {
            return self.strand(context, only, false);
        }
        thread::point();
        let (all, workers) = (self.sources.len(), context.pool().threads().max(1));
        // Relaxed, twice: guesses.
        let left = all.saturating_sub(self.cursor.next.load(Ordering::Relaxed));
        let usual = self.cursor.few.load(Ordering::Relaxed);
        // Less and less: the last tasks may be long, and to take one from a block costs a thief
        // more than from the cursor.
        let few = if left < 16 * workers {
            1
        } else {
            usual.min(left / (8 * workers))
        };
        // A worker that has no block takes one at a time.
        let held = if few > 1 || left == 0 {
            self.blocks.hold(context.worker())
        } else {
            None
        };
        let few = if held.is_some() { few } else { 1 };
        // Relaxed: the sources are there since before the first feeder was queued.
        let begin = match left {
            0 => all,
            _ => self.cursor.next.fetch_add(few, Ordering::Relaxed),
        };
        let positions = if begin < all {
            begin as u32..(begin + few).min(all) as u32
        } else if let Some(stolen) = self.blocks.steal(context.worker(), held.is_none()) {
            stolen
        } else {
            return;
        };
        let block = held.as_ref().filter(|_| positions.len() > 1);
        let claims = block.map(|block| block.open(positions.clone()));
        // After the block was opened, so that the worker that runs the feeder sees it; before the strands
        // queue anything, so that it is the oldest, which thieves take.
        let is_last = positions.end as usize == all && self.blocks.is_none();
        if !(is_last || broken(Canary::GraphFeeder) && begin + few >= all) {
            self.push(context, self.feeder_job());
        }
        let usual = few == usual && begin < all && !self.blocks.is_none();
        let timed = usual && (few < MOST_FED || (begin / MOST_FED).is_multiple_of(TIMED));
        let began = timed.then(thread::nanos);
        match claims {
            Some(claims) if self.special => {
                self.strands_special(context, &Taken::new(claims, self.sources));
            }
            Some(claims) => self.strands(context, &Taken::new(claims, self.sources)),
            None => self.strand(context, self.sources[positions.start as usize], false),
        }
        if let Some(began) = began {
            self.keep_pace(few, thread::nanos().saturating_sub(began));
        }
    }

    /// So many sources took so long: the next block is as long as [`BLOCK_NANOS`], but at most
    /// twice as long as the last one.
    fn keep_pace(&self, few: usize, nanos: u64) {
        let next = few as u64 * BLOCK_NANOS / nanos.max(1);
        let next = next.clamp(1, 2 * few as u64).min(MOST_FED as u64) as usize;
        if next != few {
            // Relaxed: a guess.
            self.cursor.few.store(next, Ordering::Relaxed);
        }
    }

    /// Runs a task and what it leads to. `admitted` says that it has its semaphores already.
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
        let mine = self.is_owner(context);
        Context {
            run: self,
            context,
            at: Cell::new(0),
            ran: Cell::new(0),
            mine,
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
            // Relaxed: read after everybody is done.
            self.ran_elsewhere.fetch_add(ran, Ordering::Relaxed);
        }
    }

    /// The job that runs the strand of a task.
    #[inline(always)]
    pub(super) fn strand_job(&self, index: u32) -> Job {
        // SAFETY: the job is pending, so the run is not over before it has run; it may run anywhere.
        unsafe { Job::new(self.node_at(index), run_strand) }
    }

    /// The same for a task that has got its semaphores.
    pub(super) fn admitted_job(&self, index: u32) -> Job {
        // SAFETY: as in `strand_job`.
        unsafe { Job::new(self.node_at(index), run_admitted) }
    }

    #[inline(always)]
    fn node_at(&self, index: u32) -> *const Node {
        debug_assert!((index as usize) < self.nodes.len());
        // SAFETY: the plan knows only numbers of its own tasks. Derived from the whole array, which `run_of` goes
        // back in.
        unsafe { self.nodes.as_ptr().add(index as usize) }
    }

    /// Strands of a special plan, which begin with these tasks.
    fn strands_special(&self, context: &WorkerContext<'_, '_>, firsts: &impl Firsts) {
        let press = context.urgency();
        while let Some(first) = firsts.take() {
            self.strand_special(context, first, false);
            if press.is_raised() && !firsts.is_last() && self.should_put_off(context) {
                return self.queue_all(context, firsts.rest());
            }
        }
    }

    /// Queues tasks, so that the first is the newest.
    #[cold]
    pub(super) fn queue_all(&self, context: &WorkerContext<'_, '_>, tasks: &[u32]) {
        tasks
            .iter()
            .rev()
            .for_each(|&task| self.queue(context, task));
    }

    /// A strand of a special plan.
    #[inline(never)]
    fn strand_special(&self, context: &WorkerContext<'_, '_>, first: u32, admitted: bool) {
        let left = Left::default();
        let cx = self.context(context, Some(&left));
        cx.at.set(first);
        // Loops of conditions are worth a copy that does not ask for the rest.
        let followed = if self.shape.needs.is_empty() && self.shape.recorder.is_none() {
            unwind::contain(|| self.follow_special::<false>(&cx, admitted))
        } else {
            unwind::contain(|| self.follow_special::<true>(&cx, admitted))
        };
        if let Err(payload) = followed {
            if !broken(Canary::GraphPermits) {
                self.leave(context, cx.index());
            }
            self.panicked(cx.index(), payload);
        }
        self.count(context, cx.ran.get());
    }

    /// `ALL`: there are semaphores, or a record is kept.
    fn follow_special<const ALL: bool>(&self, cx: &Context<'_, '_, '_>, mut admitted: bool) {
        let (context, press, conditions) =
            (cx.context, cx.context.urgency(), self.shape.conditions);
        let needs = ALL && !self.shape.needs.is_empty();
        let recorder = self.shape.recorder.as_ref().filter(|_| ALL);
        let mut next = Some(cx.at.get());
        while let Some(index) = next {
            let has_permits = std::mem::take(&mut admitted);
            cx.at.set(index);
            if self.stopped() {
                if has_permits {
                    self.give_back(context, index);
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
                self.give_back(context, index);
                return self.overlapped(index);
            }
            let running = recorder.map(|to| to.begin(context, index));
            // SAFETY: this task is ours: the last of its predecessors has released it, once; where there are
            // conditions it has just been claimed.
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
                self.give_back(context, index);
            }
            cx.ran.set(cx.ran.get() + 1);
            next = match then {
                Then::All => self.release_special(context, node.leads),
                Then::One(number) => node.leads.get(self.successors, number),
                Then::Many => self.lead(cx, node.leads),
                Then::Later => None,
            };
            if let Some(index) = next
                && press.is_raised()
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
        // Others get the turns, among all else that waits.
        self.alone.then(|| self.sent())??.take_job()
    }

    fn has_job(&self) -> bool {
        self.alone && self.sent().is_some_and(Remote::has_job)
    }
}
