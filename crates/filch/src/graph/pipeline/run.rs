//! One run of a pipeline.
//!
//! # The protocol
//!
//! A *line* holds one token in flight, with a slot for its value. The tokens take the
//! lines in turn, in the order in which they leave the source; so a token's neighbours are always
//! on the neighbouring lines.
//!
//! A *strand* is a job of the pool that moves one token. It starts at the entrance of a serial
//! stage, where the token and its turn have met (see [`Entrance`]). It runs that stage and all that
//! follow, until it reaches an entrance whose turn has not arrived, or the end. Parallel stages
//! have no entrance: the strand continues. When it leaves a serial stage it passes the turn to the
//! next line. If the token of that line is there already, a strand is queued for it. At the end the
//! line is free, which is what the source's entrance of that line waits for. No strand blocks.
//! Between two stages a strand yields to urgent work: then a strand is queued that continues with
//! the token.
//!
//! The strand that has a token owns the slot of its line; the strand that is in a serial stage owns
//! its closure. Both are handed over by [`Entrance::arrive`] and by the pool's queues.
//!
//! The run is over when all strands have ended, which [`Pending`] counts. If a strand queues
//! another one as it ends, that one takes over its count.
//!
//! A worker waits for the run, and the run is in the frame of [`run`]. Or it is the run of a task
//! of a graph (see `task`): then no worker waits, and the last strand ends it.
//!
//! When a stage panics, or when the run is cancelled, every strand ends before its next stage. The
//! values that are left in the slots are dropped when all strands have ended.
#![expect(
    unsafe_code,
    reason = "jobs that point to the entrances of a run in the frame of `run`"
)]

use super::{
    end::{LeftByRun, PipelineFailures, conclude},
    entrance::Entrance,
    erased::{ErasedSource, ErasedStage, LineSlots},
    error::{PipelineError, PipelineErrorKind},
    report::PipelineReport,
    source::SourceOutput,
    stop::StopFlags,
    task::PipelineTask,
};
use crate::{
    base::unwind,
    engine::Placement,
    graph::control::{LazyControl, RunControl, SendOrder},
    pool::{
        Inner,
        active_jobs::{self, JobGroup},
        context::WorkerContext,
        job::Job,
        pending::Pending,
        pending_group::{NO_OWNER, PendingGroup},
        waits::{EventId, EventKind},
    },
};
use std::{
    cell::Cell,
    ptr,
    sync::{Mutex, PoisonError},
};

/// The parts of a pipeline.
pub(super) struct PipelineParts<'p, 'env> {
    pub(super) source: &'p mut Box<dyn ErasedSource + 'env>,
    pub(super) stages: &'p [Box<dyn ErasedStage + 'env>],
    pub(super) names: &'p [Option<String>],
    pub(super) stop: &'p StopFlags,
}

/// The state that the strands of a run share. It lives in the frame of [`run`], which outlives
/// them, or in the block of a task of a graph.
pub(super) struct PipelineRun<'p, 'env> {
    pool: *const Inner,
    /// The worker that waits, or `NO_OWNER`.
    owner: usize,
    /// The task of a graph whose run it is.
    task: Option<PipelineTask>,
    /// Whether the strands run isolated, on all workers.
    isolated: bool,
    source: &'p (dyn ErasedSource + 'env),
    stages: &'p [Box<dyn ErasedStage + 'env>],
    slots: LineSlots,
    lines: Box<[TokenLine]>,
    /// The entrances of the first line, then those of the second, and so on; one for each stage.
    entrances: Box<[Entrance]>,
    stop: &'p StopFlags,
    pending: Pending,
    /// Whether the owner's wait is isolated: it runs only what was queued on its own worker.
    isolated_wait: bool,
    /// The jobs of guests for such an owner. When a guest leaves, its queue moves to the injector,
    /// which the owner does not check.
    guest_control: LazyControl,
    failures: Mutex<PipelineFailures>,
}

/// A line: the state of one token in flight. Used by the strand that has the token.
#[repr(align(64))]
struct TokenLine {
    /// The number of the token.
    token: Cell<u64>,
    /// The stage whose output is in the slot.
    filled_by: Cell<Option<usize>>,
}

// SAFETY: `pending`'s owner side is used only by the thread that is worker `owner` of the pool,
// which `is_owner` checks. `pool` points to a pool that lives as long as its worker is in `run`, or
// the run of the graph. `task` points to that run, which is `Sync`, and to this one. A
// `TokenLine` and its slot are used by the strand that has the token, one at a time. Source and
// stages are `Sync`, and the values that they put into the slots are `Send`.
unsafe impl Sync for PipelineRun<'_, '_> {}

/// Runs a pipeline on `lines` lines as a worker of a pool.
pub(super) fn run(
    parts: PipelineParts<'_, '_>,
    lines: usize,
    context: &WorkerContext<'_, '_>,
) -> Result<PipelineReport, PipelineError> {
    let mut run = PipelineRun::new(&**parts.source, parts.stages, parts.stop, lines)?;
    run.pool = context.pool();
    run.owner = context.worker();
    run.isolated = context.is_isolated();
    run.isolated_wait = context.may_restrict_waits();
    let began = context.mark();
    // An unwind must not leave this frame: the strands point into it.
    unwind::or_abort(|| {
        run.set_entrances();
        run.pending.add_by_owner();
        context.with_wait_target(&run.pending, || {
            // SAFETY: the job was counted above, and the run is in this frame.
            unsafe { PipelineRun::as_job(ptr::from_ref(&run), context, &run.entrances[0]) };
        });
        context.wait(&run, began);
    });
    let left = run.into_left(context);
    conclude(left, parts.source, parts.names, context)
}

/// Runs a strand that begins at an entrance.
///
/// # Safety
/// `data` points to an entrance of a run that is not over, where a token and its turn have met.
unsafe fn run_strand(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller passes an entrance of a run that is not over.
    let entrance = unsafe { &*data.cast::<Entrance>() };
    // SAFETY: the entrance points to its run, which lives until its strands have ended.
    let run = unsafe { &*entrance.run_pointer().cast::<PipelineRun<'_, '_>>() };
    // SAFETY: this strand is pending, so the run is not over.
    unsafe { PipelineRun::as_job(ptr::from_ref(run), context, entrance) };
}

impl<'p, 'env> PipelineRun<'p, 'env> {
    /// Creates a run that has no pool and no owner yet.
    pub(super) fn new(
        source: &'p (dyn ErasedSource + 'env),
        stages: &'p [Box<dyn ErasedStage + 'env>],
        stop: &'p StopFlags,
        lines: usize,
    ) -> Result<Self, PipelineError> {
        let wrong = |kind| PipelineError {
            kind,
            finished: 0,
            dropped: 0,
        };
        let stage_count = stages.len() + 1;
        let number = match u32::try_from(lines) {
            Ok(0) => return Err(wrong(PipelineErrorKind::NoLines)),
            Ok(number) if lines.checked_mul(stage_count).is_some() => number,
            _ => return Err(wrong(PipelineErrorKind::TooManyLines)),
        };
        let outputs = stages.iter().map(|stage| stage.output());
        let outputs = outputs.chain([source.output()]);
        let slots =
            LineSlots::new(lines, outputs).ok_or_else(|| wrong(PipelineErrorKind::TooManyLines))?;
        let entrances = (0..number).flat_map(|line| {
            // The first token begins at once, and finds all its turns there. All other lines are
            // free.
            (0..stage_count as u32)
                .map(move |stage| Entrance::new(line, stage, (line == 0) != (stage == 0)))
        });
        let line = || TokenLine {
            token: Cell::new(0),
            filled_by: Cell::new(None),
        };
        Ok(Self {
            pool: ptr::null(),
            owner: NO_OWNER,
            task: None,
            isolated: false,
            source,
            stages,
            slots,
            lines: (0..lines).map(|_| line()).collect(),
            entrances: entrances.collect(),
            stop,
            pending: Pending::new(),
            isolated_wait: false,
            guest_control: LazyControl::default(),
            failures: Mutex::default(),
        })
    }

    /// Makes it the run of a task of a graph, for which no worker waits. The first strand counts as
    /// pending.
    pub(super) fn set_task(&mut self, task: PipelineTask) {
        let graph_run = task.run();
        self.pool = graph_run.pool;
        self.isolated = graph_run.isolated;
        self.pending = Pending::without_owner(1);
        self.task = Some(task);
    }

    /// Makes the entrances point to this run, which does not move any more.
    pub(super) fn set_entrances(&self) {
        for entrance in &self.entrances {
            entrance.set_run(ptr::from_ref(self).cast());
        }
    }

    /// Returns the job that begins a run.
    pub(super) fn first_job(&self) -> Job {
        self.job(&self.entrances[0])
    }

    /// Drops what is left in the run, which is over.
    pub(super) fn into_left(self, context: &WorkerContext<'_, '_>) -> LeftByRun {
        let in_flight = self.sweep(context);
        let failures = self.failures.into_inner();
        LeftByRun {
            in_flight,
            cancelled: self.stop.is_cancelled(),
            failures: failures.unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn stage_count(&self) -> usize {
        self.stages.len() + 1
    }

    #[inline(always)]
    fn entrance(&self, line: usize, stage: usize) -> &Entrance {
        &self.entrances[line * self.stage_count() + stage]
    }

    /// Runs a strand as a job of the pool.
    ///
    /// # Safety
    /// The job is pending, so that `this` lives, and `entrance` is one of its entrances. The run
    /// may be freed once the job is done, so both are pointers.
    unsafe fn as_job(
        this: *const Self,
        context: &WorkerContext<'_, '_>,
        entrance: *const Entrance,
    ) {
        // SAFETY: the caller's job is pending, so `this` lives.
        let run = unsafe { &*this };
        // SAFETY: the entrance is a part of the run.
        let entrance = unsafe { &*entrance };
        let is_elsewhere = run.begin_job(context);
        let strand = || context.isolate_if(run.isolated, || run.strand(context, entrance));
        let task = run.task;
        let last = active_jobs::enter(|| run.group(), is_elsewhere, strand);
        if let Some(next) = last {
            if !run.must_send_jobs(context) {
                // The new job takes over the count of this one. The run is not accessed after this.
                let (job, placement) = (run.job(next), run.placement());
                context.push(job, placement);
                return;
            }
            run.queue(context, next);
        }
        // SAFETY: the caller's job is still pending, and `run` is not used below.
        let ownerless = unsafe { Self::end_job(this, context) };
        if ownerless && let Some(task) = task {
            // SAFETY: this was the last strand of the run.
            unsafe { task.end(context) };
        }
    }

    /// Returns where strands are queued.
    fn placement(&self) -> Placement {
        let task = self.task.as_ref();
        task.map_or(Placement::Local, |task| task.run().placement())
    }

    fn job(&self, entrance: &Entrance) -> Job {
        debug_assert!(
            self.entrances
                .as_ptr_range()
                .contains(&ptr::from_ref(entrance))
        );
        // SAFETY: the job is counted, so the run is not over before it has run; entrances are
        // `Sync`.
        unsafe { Job::new(ptr::from_ref(entrance), run_strand) }
    }

    /// Queues a strand.
    fn queue(&self, context: &WorkerContext<'_, '_>, entrance: &Entrance) {
        self.add_job(context);
        let job = self.job(entrance);
        match &self.task {
            _ if !self.must_send_jobs(context) => context.push(job, self.placement()),
            Some(task) => task.run().control().send(job, SendOrder::Released),
            None => self.guest_control.send(context.pool(), self.owner, job),
        }
    }

    /// Whether this worker has to send its jobs through a control. When a guest leaves, its queue
    /// moves to the injector, which an owner with an isolated wait does not check; and the queue of
    /// a worker that serves the strand at a checkpoint is left to the task there.
    fn must_send_jobs(&self, context: &WorkerContext<'_, '_>) -> bool {
        if let Some(task) = &self.task {
            return !task.run().keeps_jobs(context);
        }
        self.is_served(context)
            || self.isolated_wait && context.is_temporary() && !self.is_owner(context)
    }

    /// Whether the strand is served at a checkpoint of an unrelated task. Then it ends after one
    /// stage.
    fn is_served(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.is_serving_other(&raw const self.pending)
    }

    /// Moves a token from an entrance to the entrance where it has to wait. Returns the last of the
    /// entrances for which a strand has to be queued.
    fn strand<'a>(
        &'a self,
        context: &WorkerContext<'_, '_>,
        entrance: &Entrance,
    ) -> Option<&'a Entrance> {
        let line = entrance.line as usize;
        let at = Cell::new(entrance.stage as usize);
        match unwind::contain(|| self.advance(context, line, &at)) {
            Ok(last) => last,
            Err(payload) => {
                let stage = at.get();
                let token = match stage {
                    // SAFETY: this strand still has the turn of the source: it has not passed it
                    // on.
                    0 => unsafe { self.source.newest() },
                    _ => self.lines[line].token.get(),
                };
                self.record(|failures| failures.panics.push((stage, token, payload)));
                self.stop.fail();
                None
            }
        }
    }

    fn record(&self, note: impl FnOnce(&mut PipelineFailures)) {
        note(&mut self.failures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Like `strand`; `at` is updated to the stage that the token is in.
    #[inline(always)]
    fn advance(
        &self,
        context: &WorkerContext<'_, '_>,
        number: usize,
        at: &Cell<usize>,
    ) -> Option<&Entrance> {
        let line = &self.lines[number];
        let slot = self.slots.get(number);
        let next_line = if number + 1 == self.lines.len() {
            0
        } else {
            number + 1
        };
        let (last, urgency) = (self.stages.len(), context.urgency());
        let served = self.is_served(context);
        let limited = served || context.has_time_slice();
        loop {
            if self.stop.is_set() {
                return None;
            }
            let stage = at.get();
            let mut serial = true;
            if stage == 0 {
                // SAFETY: the line is free, so its slot is empty and this strand's alone, and this
                // strand has the turn of the source.
                match unsafe { self.source.next(slot) } {
                    SourceOutput::Token(token) => line.token.set(token),
                    SourceOutput::End => return None,
                    SourceOutput::DeferError(defer_error) => {
                        self.record(|failures| failures.defer_error = Some(defer_error));
                        return None;
                    }
                }
            } else {
                let erased = &self.stages[stage - 1];
                serial = erased.is_serial();
                line.filled_by.set(None);
                // SAFETY: this strand has the token, and the turn if the stage is serial. The slot
                // holds the output of the previous stage.
                unsafe { erased.process(slot) };
            }
            line.filled_by.set(Some(stage));
            if stage == last {
                return self.finish(context, number, serial.then_some(next_line));
            }
            if serial {
                let follower = self.entrance(next_line, stage);
                if follower.arrive() {
                    self.queue(context, follower);
                }
            }
            at.set(stage + 1);
            if self.stages[stage].is_serial() && !self.entrance(number, stage + 1).arrive() {
                return None;
            }
            if (limited || urgency.is_raised()) && (served || context.poll_yield_request()) {
                // The token is at the next stage, and has its turn there.
                return Some(self.entrance(number, stage + 1));
            }
        }
    }

    /// Ends the way of a token that has passed the last stage. `next_line` gets the turn of that
    /// stage.
    #[inline(always)]
    fn finish(
        &self,
        context: &WorkerContext<'_, '_>,
        number: usize,
        next_line: Option<usize>,
    ) -> Option<&Entrance> {
        let last = self.stages.len();
        self.lines[number].filled_by.set(None);
        // SAFETY: this strand has the token, and the slot holds the output of the last stage.
        unsafe { self.discard(number, last) };
        // The source is queued first, so that it is the older job, which thieves take: more work
        // follows from it. If the source is the last stage as well, the line is freed before the
        // turn is passed on.
        let source = Some(self.entrance(number, 0)).filter(|source| source.arrive());
        let follower = next_line.map(|line| self.entrance(line, last));
        let follower = follower.filter(|follower| follower.arrive());
        if let (Some(source), Some(_)) = (source, follower) {
            self.queue(context, source);
        }
        follower.or(source)
    }

    /// Drops the value in the slot of a line.
    ///
    /// # Safety
    /// The caller has the line's token, and its slot holds the output of `stage`.
    unsafe fn discard(&self, line: usize, stage: usize) {
        let slot = self.slots.get(line);
        match stage {
            // SAFETY: the caller has the token, and the slot holds the output of the source.
            0 => unsafe { self.source.discard(slot) },
            // SAFETY: the caller has the token, and the slot holds the output of this stage.
            _ => unsafe { self.stages[stage - 1].discard(slot) },
        }
    }

    /// Drops the tokens that a stopped run has left in their slots. Returns how many.
    fn sweep(&self, context: &WorkerContext<'_, '_>) -> u64 {
        let mut swept = 0;
        for (number, line) in self.lines.iter().enumerate() {
            let Some(stage) = line.filled_by.take() else {
                continue;
            };
            swept += 1;
            // SAFETY: all strands have ended, so only this thread uses the lines; `filled_by` says
            // what is in the slot.
            if let Err(payload) = unwind::contain(|| unsafe { self.discard(number, stage) }) {
                context.pool().panicked(payload);
            }
        }
        swept
    }
}

impl PendingGroup for PipelineRun<'_, '_> {
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

    fn group(&self) -> JobGroup {
        match &self.task {
            // The run of the graph waits for the pipeline.
            Some(task) => task.run().group(),
            None => JobGroup {
                end: EventId::end_of(&raw const self.pending, EventKind::Scope),
                plan_id: 0,
            },
        }
    }

    fn take_job(&self) -> Option<Job> {
        self.guest_control.get()?.take_job()
    }

    fn has_job(&self) -> bool {
        self.guest_control.get().is_some_and(RunControl::has_job)
    }
}
