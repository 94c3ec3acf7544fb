//! Runs on the heap: those inside tasks, and launched ones. They end themselves.
#![expect(unsafe_code, reason = "runs on the heap, that end themselves")]

use super::{
    control::SendOrder,
    error::RunOutcome,
    launched::Launched,
    plan::{Plan, StoredPlan},
    run::{GraphRun, PreparedRun},
    spare_parts,
    start::forget_values,
};
use crate::{
    base::{sync::AtomicBool, unwind},
    engine::{Placement, Priority},
    pool::{Inner, context::WorkerContext, pending_group::NO_OWNER},
};
use std::{
    cell::RefCell,
    mem,
    ptr::{self, NonNull},
    sync::Arc,
};

/// A run on the heap, with what it needs to end itself.
#[derive(Default)]
pub(super) struct HeapRun {
    /// The run. When it is over and has succeeded it stays, so that the next one need not be made
    /// from scratch. Then its references dangle, and `renew_without_owner` replaces them before any
    /// is used.
    run: Option<GraphRun<'static>>,
    /// The plan, as `Box::into_raw` returned it; `None` when there is no run.
    plan: Option<NonNull<Plan<'static>>>,
    on_end: OnEnd,
}

/// What happens when the run is over.
#[derive(Default)]
enum OnEnd {
    /// There is no run.
    #[default]
    Nothing,
    /// It is a run inside a task, or was one and is over.
    Inner(InnerRun),
    /// It was launched. The share of the state keeps the control of the run.
    Launched(Arc<Launched>, LaunchedEnd),
}

/// Called with the plan of a launched run, ready to be run again.
type LaunchedEnd = Box<dyn FnOnce(Plan<'static>, RunOutcome) + Send>;

/// A run inside a task of another run.
#[derive(Clone, Copy)]
struct InnerRun {
    /// It counts this run as pending, so it is alive.
    enclosing: *const GraphRun<'static>,
    /// The task.
    index: u32,
    /// How many jobs the enclosing run counts as pending for this run.
    jobs: u32,
    inside: Inside,
    /// Where the plan is stored afterwards, if it is not dropped. The closure of the task has a
    /// share of it, which is dropped with the enclosing plan.
    slot: Option<NonNull<StoredPlan>>,
}

/// How a task and the run inside it belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// The task is suspended until the run is over.
    Joined,
    /// Only the enclosing run waits for it.
    Detached,
    /// As joined. The tasks of the run are parts of the task: they are not counted, and their
    /// panics are panics of the task.
    Parts,
}

thread_local! {
    /// The blocks of runs that have ended on this thread, for the next ones.
    #[expect(clippy::vec_box, reason = "jobs point to the runs, and the boxes are reused")]
    static SPARE: RefCell<Vec<Box<HeapRun>>> = const { RefCell::new(Vec::new()) };
}

fn take_spare() -> Box<HeapRun> {
    // A thread that is ending keeps nothing.
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_default()
}

fn put_spare(block: Box<HeapRun>) {
    let left = SPARE.try_with(|spare| spare_parts::keep(&mut spare.borrow_mut(), block));
    drop(left);
}

/// Prepares a run of `plan`. `set_up` changes the new run where it stays, so that it need not be
/// moved.
///
/// # Safety
/// What the plan borrows, and what the run points to, lives until the run is over.
#[inline(always)]
unsafe fn prepare(
    plan: Box<Plan<'static>>,
    on_end: OnEnd,
    pool: *const Inner,
    stop: &'static AtomicBool,
    set_up: impl FnOnce(&mut GraphRun<'static>),
) -> PreparedRun {
    let mut block = take_spare();
    let plan = Box::into_raw(plan);
    block.plan = NonNull::new(plan);
    // SAFETY: the box is freed by `finish_one`, after the run.
    let plan = unsafe { &*plan };
    let run = match &mut block.run {
        Some(run) => {
            run.renew_without_owner(pool, plan, stop);
            run
        }
        none => none.insert(GraphRun::new(pool, NO_OWNER, plan, stop)),
    };
    set_up(run);
    block.on_end = on_end;
    // SAFETY: it is such a pointer, and the only one to the block.
    unsafe { PreparedRun::new(Box::into_raw(block).cast()) }
}

/// Prepares a run inside the task of `enclosing` with this number. Unless it is detached, it
/// completes the task, which is suspended. Afterwards the plan is stored in `slot`, which the
/// closure of the task has a share of, or dropped. Before it begins the caller counts it as pending
/// in the enclosing run.
pub(super) fn prepare_inside(
    enclosing: &GraphRun<'_>,
    index: u32,
    plan: Box<Plan<'static>>,
    inside: Inside,
    slot: Option<&StoredPlan>,
) -> PreparedRun {
    let enclosing: *const GraphRun<'static> = ptr::from_ref(enclosing).cast();
    // SAFETY: the enclosing run does not end before this one, which it counts as pending.
    let enclosing_run = unsafe { &*enclosing };
    let on_end = OnEnd::Inner(InnerRun {
        enclosing,
        index,
        jobs: 1,
        inside,
        slot: slot.map(NonNull::from),
    });
    let (pool, stop) = (enclosing_run.pool, enclosing_run.stop);
    let set_up = |run: &mut GraphRun<'static>| run.set_inside(enclosing_run);
    // SAFETY: what the plan borrows outlives the enclosing plan. The enclosing run does not end
    // before this one, and neither does its control.
    unsafe { prepare(plan, on_end, pool, stop, set_up) }
}

/// Begins a run. `context` is the calling worker, or `None` if the caller is not a worker.
pub(super) fn start(prepared: PreparedRun, context: Option<&WorkerContext<'_, '_>>) {
    let block = prepared.into_raw().cast::<HeapRun>();
    // SAFETY: no job of the run is queued yet, so this is the only pointer to the block.
    let run = unsafe { (*block).run.as_mut() };
    let run = run.expect("`prepare` has made it");
    run.heap = block.cast();
    let context = context.filter(|context| run.keeps_jobs(context));
    // Not a guest that may leave: its number might become that of another thread.
    let stays = |context: &&WorkerContext<'_, '_>| {
        !context.is_temporary() || run.control().owner() == context.worker()
    };
    run.counting_worker = context
        .filter(stays)
        .map_or(NO_OWNER, WorkerContext::worker);
    let level = run.control().settings().level;
    // An isolated wait runs only what is in its own queue.
    let placement = match context {
        Some(context) if context.has_restricted_waits() => Placement::Local,
        _ => run.placement(),
    };
    // A few sources are queued at once, without a feeder. The queues of other priorities are in
    // the order in which tasks were added.
    let queued = context.filter(|_| run.has_few_sources() && level == Priority::Normal);
    let jobs = queued.map_or(1, |_| run.sources().len());
    run.pending.reset_without_owner(jobs);
    let run = &*run;
    run.nodes[0].set_run(ptr::from_ref(run).cast());
    match context {
        Some(context) if queued.is_some() => {
            // From the last to the first, so that the first is the newest. The run is not over
            // before the last of them has been queued. Tasks of normal priority have no lane.
            for &source in run.sources().iter().rev() {
                context.push_detached(run.source_job(source), Placement::Local);
            }
        }
        Some(context) => context.push_detached(run.feeder_job(), placement),
        None => {
            // A clone, because the run and what holds its control may be gone before `send`
            // returns.
            let control = run.control().clone();
            control.send(run.feeder_job(), SendOrder::Released);
        }
    }
}

/// Begins a run inside a task on this worker, which passes on this number of pending jobs of the
/// enclosing run. Returns the run and its first source if the worker continues with that; the
/// others are queued. (To take them from the cursor instead saved a third of the instructions, and
/// took longer: a source cost a locked addition.) The worker keeps jobs, and its waits are not
/// isolated.
#[inline(always)]
pub(super) fn start_here(
    prepared: PreparedRun,
    jobs: u32,
    context: &WorkerContext<'_, '_>,
) -> Option<(*const GraphRun<'static>, u32)> {
    let block = prepared.0.cast::<HeapRun>();
    // SAFETY: no job of the run is queued yet, so this is the only pointer to the block.
    let held = unsafe { &mut *block };
    if let OnEnd::Inner(inner) = &mut held.on_end {
        inner.jobs = jobs;
    }
    let run = held.run.as_mut()?;
    // A few sources are queued at once, without a feeder; see `start`.
    if !run.has_few_sources() || run.has_rare_parts {
        start(prepared, Some(context));
        return None;
    }
    run.heap = block.cast();
    let stays = !context.is_temporary() || run.control().owner() == context.worker();
    run.counting_worker = if stays { context.worker() } else { NO_OWNER };
    let jobs = run.sources().len();
    run.pending.reset_without_owner(jobs);
    let run = &*run;
    run.nodes[0].set_run(ptr::from_ref(run).cast());
    let (&first, others) = run.sources().split_first()?;
    // The run is not over before the strand has ended that this worker continues with, or queues
    // last.
    for &source in others.iter().rev() {
        context.push(run.strand_job(source), Placement::Local);
    }
    if context.continue_with_new() {
        return Some((ptr::from_ref(run), first));
    }
    context.push(run.strand_job(first), Placement::Local);
    None
}

/// Starts a run of a plan on the heap. `on_end` is called with the plan when it is over.
pub(super) fn launch(
    plan: Plan<'static>,
    launched: Arc<Launched>,
    on_end: impl FnOnce(Plan<'static>, RunOutcome) + Send + 'static,
) {
    forget_values(&plan, launched.control.pool());
    let control = &raw const launched.control;
    // SAFETY: the run has a share of `launched`, which is dropped after it.
    let control = unsafe { &*control };
    let on_end = OnEnd::Launched(launched, Box::new(on_end));
    let pool = ptr::from_ref(control.pool());
    let set_up = |run: &mut GraphRun<'static>| run.set_launched(control);
    // SAFETY: the plan borrows nothing, and `on_end` keeps the control.
    let run = unsafe { prepare(Box::new(plan), on_end, pool, &control.stop, set_up) };
    start(run, None);
}

/// Ends a run on the heap, then the enclosing run if this was the last job of it, and so on. It is
/// a loop and not a recursion, since runs may be nested thousands deep.
///
/// # Safety
/// The run was made by `prepare`, and `GraphRun::done` has returned true to the caller,
/// which happens once.
pub(super) unsafe fn finish(run: *const GraphRun<'static>, context: &WorkerContext<'_, '_>) {
    unwind::or_abort(|| {
        let mut over = Some(run);
        while let Some(run) = over {
            // SAFETY: the caller's run is over; so are those that this loop gets from `end_inside`.
            over = match unsafe { finish_one(run, context) } {
                // SAFETY: the enclosing run counts what has ended as pending.
                Some(ended) => unsafe { end_inside(ended, context) },
                None => None,
            };
        }
    });
}

/// Whether a run on the heap is inside a task.
///
/// # Safety
/// As [`finish`].
#[inline(always)]
pub(super) unsafe fn is_inside(run: *const GraphRun<'static>) -> bool {
    // SAFETY: no other worker uses the run any more.
    let block = unsafe { (*run).heap }.cast::<HeapRun>();
    // SAFETY: `heap` points to the block of the run, which is not freed before `finish_one`.
    let on_end = unsafe { &(*block).on_end };
    matches!(on_end, OnEnd::Inner(_))
}

/// Ends a run on the heap. Returns what follows in the enclosing run, if there is one.
///
/// # Safety
/// As [`finish`].
#[inline(always)]
pub(super) unsafe fn finish_one(
    run: *const GraphRun<'static>,
    context: &WorkerContext<'_, '_>,
) -> Option<EndedInside> {
    // SAFETY: no other worker uses the run any more.
    let block = unsafe { (*run).heap }.cast::<HeapRun>();
    // SAFETY: `heap` is the pointer that `start` got, from the box, and `run` is not used below.
    let mut block = unsafe { Box::from_raw(block) };
    let plan = block.plan.take().expect("a run has a plan");
    let inner = match &block.on_end {
        OnEnd::Inner(inner) => Ok(*inner),
        _ => Err(mem::take(&mut block.on_end)),
    };
    let run = block.run.as_mut().expect("the run is over now");
    let mut result = match run.success() {
        Some(ran) => Ok(ran),
        // SAFETY: the box of the plan was leaked by `prepare`; the run only reads it.
        None => Err(Box::new(run.outcome(unsafe { plan.as_ref() }))),
    };
    // Before the plan, which it borrows, is changed.
    if result.is_err() || !run.is_renewable() {
        block.run = None;
    }
    put_spare(block);
    // SAFETY: `prepare` leaked the box, and no job of the run is left.
    let mut plan = unsafe { Box::from_raw(plan.as_ptr()) };
    match &mut result {
        Ok(_) => plan.reset_after_success(),
        Err(outcome) => plan.reset_after_run(outcome),
    }
    match inner {
        Ok(inner) => return Some(inner.end(plan, result, context)),
        Err(OnEnd::Launched(launched, on_end)) => {
            let outcome = result.map_or_else(|outcome| *outcome, RunOutcome::of_success);
            on_end(*plan, outcome);
            // It may be the last share, with closures of the user.
            unwind::discard(launched);
        }
        Err(_) => unreachable!("a run has an end"),
    }
    None
}

impl InnerRun {
    /// Stores or drops the plan, and adds the result to the enclosing run.
    fn end(
        self,
        plan: Box<Plan<'static>>,
        result: Result<u64, Box<RunOutcome>>,
        context: &WorkerContext<'_, '_>,
    ) -> EndedInside {
        // SAFETY: the closure of the task has a share of the slot. It lives as long as the
        // enclosing run, which counts this run as pending.
        let slot = self.slot.map(|slot| unsafe { slot.as_ref() });
        store(slot, plan, context);
        // SAFETY: the enclosing run counts this run as pending, so it is alive.
        let enclosing = unsafe { &*self.enclosing };
        let finished = match self.inside {
            Inside::Parts => enclosing.add_parts(self.index, result),
            Inside::Joined | Inside::Detached => enclosing.add_inner(context, self.index, result),
        };
        EndedInside {
            run: self.enclosing,
            index: self.index,
            jobs: self.jobs,
            finished: (self.inside != Inside::Detached).then_some(finished),
        }
    }
}

/// What has run inside a task and has ended. The run of the task counts it as pending still.
#[must_use = "the run waits for it"]
pub(super) struct EndedInside {
    /// The run of the task.
    pub(super) run: *const GraphRun<'static>,
    /// The task.
    pub(super) index: u32,
    /// How many jobs the run counts as pending for it.
    pub(super) jobs: u32,
    /// If the task is suspended until then, whether it is done; otherwise it has to be given up.
    pub(super) finished: Option<bool>,
}

impl EndedInside {
    /// Completes the task or gives it up. Returns a successor that is ready, if there is one.
    ///
    /// # Safety
    /// The run counts what has ended as pending.
    pub(super) unsafe fn settle(&self, context: &WorkerContext<'_, '_>) -> Option<u32> {
        // SAFETY: the caller guarantees that the run counts it as pending, so the run is alive.
        let run = unsafe { &*self.run };
        match self.finished {
            Some(true) => return run.complete_task(context, self.index),
            Some(false) => run.give_up(self.index),
            None => {}
        }
        None
    }
}

/// Ends what has run inside a task. Returns the run of the task if it is over as well.
///
/// # Safety
/// The run counts what has ended as pending until this call.
pub(super) unsafe fn end_inside(
    ended: EndedInside,
    context: &WorkerContext<'_, '_>,
) -> Option<*const GraphRun<'static>> {
    let mut jobs = ended.jobs;
    // SAFETY: the caller guarantees that the run counts it as pending.
    if let Some(next) = unsafe { ended.settle(context) } {
        // SAFETY: the run counts it as pending until `done_many`.
        let run = unsafe { &*ended.run };
        if run.keeps_jobs(context) {
            // The strand of the successor is counted in the place of what has ended. It may end the
            // run, which no argument borrows any more.
            run.done_with_more(context, mem::replace(&mut jobs, 1) - 1);
            let (job, placement) = (run.ready_job(next), run.placement());
            context.push(job, placement);
            return None;
        }
        run.queue(context, next);
    }
    // SAFETY: the caller guarantees that the run counts it as pending until this call.
    let over = unsafe { GraphRun::done_many(ended.run, context, jobs) };
    over.then_some(ended.run)
}

/// Stores a plan in its slot, or drops its tasks, which runs the user's code.
pub(super) fn store(
    slot: Option<&StoredPlan>,
    plan: Box<Plan<'static>>,
    context: &WorkerContext<'_, '_>,
) {
    let stored = unwind::contain(|| match slot {
        Some(slot) => drop(slot.put(plan)),
        None => spare_parts::put_plan(plan),
    });
    if let Err(payload) = stored {
        context.pool().panicked(payload);
    }
}
